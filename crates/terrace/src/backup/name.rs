//! Names of backups: the number, and the seconds since 1970.

/// The name of a backup.
pub fn of(number: u32, created_at: u64) -> String {
    format!("{number:06}-{created_at}")
}

/// What a name says; none if backups are not named so.
pub fn read(name: &str) -> Option<(u32, u64)> {
    let (number, created_at) = name.split_once('-')?;
    let (number, created_at) = (number.parse().ok()?, created_at.parse().ok()?);
    (of(number, created_at) == name).then_some((number, created_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_written_and_no_other_is() {
        assert_eq!(of(7, 1_795_526_400), "000007-1795526400");
        assert_eq!(read("000007-1795526400"), Some((7, 1_795_526_400)));
        assert_eq!(read(&of(u32::MAX, 0)), Some((u32::MAX, 0)));
        for other in ["7-1", "000007", "000007-", "-1", "000007-x", "+00007-1", "000007-1 "] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
