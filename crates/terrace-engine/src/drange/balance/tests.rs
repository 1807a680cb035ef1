//! Reorganisations, drawn: `a*4 b*2` is a sample with `a` four times and `b` twice.

use super::*;

/// The keys of a drawn sample: `a*4`, or `a..h` for the letters from `a` to `h` once each.
fn sample_of(text: &str) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for word in text.split_whitespace() {
        if let Some((first, last)) = word.split_once("..") {
            let letters = first.as_bytes()[0]..=last.as_bytes()[0];
            keys.extend(letters.map(|letter| vec![letter]));
            continue;
        }
        let (key, times) = word.split_once('*').unwrap_or((word, "1"));
        let times: usize = times.parse().expect("a number");
        keys.extend(std::iter::repeat_n(key.as_bytes().to_vec(), times));
    }
    assert!(keys.is_sorted(), "{text}");
    keys
}

fn boundaries_of(text: &str) -> Boundaries {
    Boundaries::new(text.split_whitespace().map(|key| key.as_bytes().to_vec()).collect())
}

/// The boundaries as text, `\0` as a tilde.
fn drawn(boundaries: &Boundaries) -> String {
    let text = |key: &Vec<u8>| String::from_utf8_lossy(key).replace('\0', "~");
    boundaries.keys().iter().map(text).collect::<Vec<_>>().join(" ")
}

/// What is done with dranges at `current` after writes like `sample`, each thousandfold.
fn judged(current: &str, sample: &str, wanted: usize) -> String {
    let sample = sample_of(sample);
    let mut many: Vec<&[u8]> = Vec::new();
    for key in &sample {
        many.extend(std::iter::repeat_n(key.as_slice(), 32));
    }
    match judge(&boundaries_of(current), &many, 1000 * wanted as u64, wanted) {
        None => "-".into(),
        Some(Reorganisation::Minor(boundaries)) => format!("minor: {}", drawn(&boundaries)),
        Some(Reorganisation::Major(boundaries)) => format!("major: {}", drawn(&boundaries)),
    }
}

#[test]
fn reorganisations_as_drawn() {
    let cases = [
        // Even enough.
        ("e i m", "a..p", 4, "-"),
        ("e i m", "a..p p", 4, "-"),
        // The neighbours of the worst take some of it.
        ("c e g i k m o", "a..h h*2 i..p", 8, "minor: c e h h~ k m o"),
        // Nothing is as it was.
        ("e i m", "a b c d..h h*20", 4, "major: c f h"),
        ("", "a..p", 4, "major: e i m"),
        // Another number of dranges is asked for.
        ("e i m", "a..p", 2, "major: i"),
        // A hot key has a drange of its own, and is not unfair.
        ("d g l p", "a..g h*20 i..p", 5, "major: e h h~ m"),
        ("h h~ l", "a..g h*20 i..p", 4, "-"),
        ("e i m", "a*20 b..p", 4, "major: a~ g l"),
        // Fewer keys than dranges.
        ("", "a*5 b*5", 4, "major: a~ b~"),
        ("a~ b~", "a*5 b*5", 4, "-"),
    ];
    for (current, sample, wanted, expected) in cases {
        let current = current.replace('~', "\0");
        assert_eq!(judged(&current, sample, wanted), expected, "{current} | {sample} | {wanted}");
    }
}

#[test]
fn too_few_writes_say_nothing() {
    let sample = sample_of("a*50 b*50");
    let sample: Vec<&[u8]> = sample.iter().map(Vec::as_slice).collect();
    let uneven = boundaries_of("e");
    assert!(judge(&uneven, &sample, 1000, 2).is_some());
    assert_eq!(judge(&uneven, &sample, 100, 2), None);
    assert_eq!(judge(&uneven, &sample[..5], 1000, 2), None);
    assert_eq!(judge(&Boundaries::default(), &sample, 1000, 1), None);
}

/// Goal: what is divided is fair, stays as it is, and covers what it should. Method: samples of
/// keys with shares of every kind, from a seed.
#[test]
fn whatever_the_writes_a_division_is_about_fair_and_final() {
    for seed in 0..200u64 {
        let mut state = seed + 1;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let wanted = 2 + random(30) as usize;
        let (count, heavy) = (1 + random(5000), 1 + random(400));
        let keys: Vec<Vec<u8>> = (0..count)
            .flat_map(|key| {
                let times = if random(50) == 0 { 1 + random(heavy) } else { 1 };
                std::iter::repeat_n(format!("{key:06}").into_bytes(), times as usize)
            })
            .collect();
        let sample: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let divided = Boundaries::new(divide(&sample, wanted));
        assert!(divided.keys().len() < wanted, "seed {seed}");
        let total: f64 = shares(&divided, &sample).iter().sum();
        assert!((total - 1.0).abs() < 1e-9, "seed {seed}: {total}");
        let again = judge(&divided, &sample, 1_000_000, wanted);
        if divided.keys().len() + 1 == wanted {
            assert!(!matches!(again, Some(Reorganisation::Major(_))), "seed {seed}: {again:?}");
        }
        // No drange has more than its share and the heaviest key in it.
        for part in parts(&divided, &sample) {
            let runs = part.chunk_by(|a, b| a == b).map(<[_]>::len).max().unwrap_or(0);
            let fair = sample.len().div_ceil(divided.keys().len() + 1);
            assert!(part.len() <= 2 * fair + runs, "seed {seed}: {} of {fair}", part.len());
        }
    }
}
