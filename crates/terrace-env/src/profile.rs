//! The text of a profile: how much an emulated device can do at most.

/// Hands over the bounds that a text has, such as `read=445MB/s,iops=80000`, each at most once and
/// at least one; or those of the profile that has the text as its name. `what` is what such a
/// profile is of, and `example` one of bounds.
///
/// Errors: the text is neither; what `take` says of a bound.
pub(crate) fn read_bounds(
    text: &str,
    named: &[(&str, &str)],
    (what, example): (&str, &str),
    mut take: impl FnMut(&str, &str) -> Result<(), String>,
) -> Result<(), String> {
    let bounds = named.iter().find(|(name, _)| *name == text).map_or(text, |(_, bounds)| bounds);
    if !bounds.contains('=') {
        let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        return Err(format!("{text:?} is no {what}: {names}, or bounds such as {example}"));
    }
    let mut seen = Vec::new();
    for bound in bounds.split(',') {
        let (name, value) =
            bound.split_once('=').ok_or_else(|| format!("{bound:?} is no bound name=value"))?;
        take(name, value)?;
        if seen.contains(&name) {
            return Err(format!("{name} is there twice"));
        }
        seen.push(name);
    }
    Ok(())
}

/// Bytes in a second.
pub(crate) fn rate(text: &str) -> Option<u64> {
    let text = text.strip_suffix("/s").unwrap_or(text);
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let factor: u64 = match &text[digits..] {
        "" | "B" => 1,
        "K" | "KB" | "kB" => 1000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(factor)
}

/// A number that is a bound: neither none nor too many.
pub(crate) fn bound(number: Option<u64>) -> Option<u64> {
    number.filter(|number| (1..1 << 50).contains(number))
}
