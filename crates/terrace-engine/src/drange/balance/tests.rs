//! Reorganisations, drawn: `a*4 b*2` is a sample with `a` four times and `b` twice; `h ×3 p` are
//! the boundaries `h` and `p`, and three dranges between them.

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

fn division_of(text: &str) -> Division {
    let (mut keys, mut duplicates): (Vec<Vec<u8>>, Vec<usize>) = (Vec::new(), vec![1]);
    for word in text.split_whitespace() {
        match word.strip_prefix('×') {
            Some(count) => *duplicates.last_mut().unwrap() = count.parse().expect("a number"),
            None => {
                keys.push(word.replace('~', "\0").into_bytes());
                duplicates.push(1);
            }
        }
    }
    Division::new(Boundaries::new(keys), &duplicates)
}

/// A division as text, `\0` as a tilde.
fn drawn(division: &Division) -> String {
    let mut words = Vec::new();
    for (index, count) in division.duplicates().enumerate() {
        if let Some(before) = index.checked_sub(1) {
            let key = &division.boundaries().keys()[before];
            words.push(String::from_utf8_lossy(key).replace('\0', "~"));
        }
        if count > 1 {
            words.push(format!("×{count}"));
        }
    }
    words.join(" ")
}

/// What is done with dranges at `current` after writes like `sample`, each thousandfold.
fn judged(current: &str, sample: &str, wanted: usize) -> String {
    let sample = sample_of(sample);
    let mut many: Vec<&[u8]> = Vec::new();
    for key in &sample {
        many.extend(std::iter::repeat_n(key.as_slice(), 32));
    }
    match judge(&division_of(current), &many, 1000 * wanted as u64, wanted) {
        None => "-".into(),
        Some(Reorganisation::Minor(division)) => format!("minor: {}", drawn(&division)),
        Some(Reorganisation::Major(division)) => format!("major: {}", drawn(&division)),
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
        ("e i m", "a b c d..h h*20", 4, "major: h ×3"),
        ("", "a..p", 4, "major: e i m"),
        // Another number of dranges is asked for.
        ("e i m", "a..p", 2, "major: i"),
        // A hot key has dranges of its own, as many as its share asks for, and is not unfair then.
        ("d g l p", "a..g h*20 i..p", 5, "major: h ×3 h~"),
        ("h ×3 h~", "a..g h*20 i..p", 5, "-"),
        ("h ×2 h~ l", "a..g h*20 i..p", 5, "major: h ×3 h~"),
        ("e i m", "a*20 b..p", 4, "major: ×2 a~ j"),
        // So it is when it is the last one, or one of several.
        ("e i m", "a..o p*15", 4, "major: i p ×2"),
        ("d", "a*8 b*8 c..j", 6, "major: ×2 a~ ×2 b~ g"),
        // It gives them back as it cools down.
        ("h ×3 h~ l", "a..g h*8 i..p", 6, "major: e h ×2 h~ m"),
        ("e ×3 e~ i", "a..p", 5, "major: d g j n"),
        // Nothing is gained by one more or one less.
        ("e ×2 e~", "a..d e*7 f..i", 4, "-"),
        ("e ×2 e~", "a..d e*10 f..i", 4, "-"),
        // What is too little for a drange of its own shares those of a hot key.
        ("b", "a b*30 c..l", 4, "major: ×3 b~"),
        ("b", "a b*30 c", 4, "major: ×4"),
        // Fewer keys than dranges.
        ("", "a*5 b*5", 4, "major: ×2 a~ ×2"),
        ("×2 a~ ×2", "a*5 b*5", 4, "-"),
        ("", "a*5", 4, "major: ×4"),
        ("×4", "a*5", 4, "-"),
        ("×4", "a..p", 4, "major: e i m"),
    ];
    for (current, sample, wanted, expected) in cases {
        assert_eq!(judged(current, sample, wanted), expected, "{current} | {sample} | {wanted}");
    }
}

#[test]
fn dranges_are_dealt_out_by_equal_proportions() {
    let many = usize::MAX;
    let dealt =
        |weights: &[usize], wanted| apportion(weights.iter().map(|weight| (*weight, many)), wanted);
    assert_eq!(dealt(&[40, 20, 10, 10], 8), [4, 2, 1, 1]);
    // One becomes two at √2, two become three at √6 of what the others have.
    assert_eq!(dealt(&[141, 900], 10), [1, 9]);
    assert_eq!(dealt(&[142, 800], 10), [2, 8]);
    assert_eq!(dealt(&[244, 800], 10), [2, 8]);
    assert_eq!(dealt(&[246, 700], 10), [3, 7]);
    assert_eq!(dealt(&[1, 0, 1000], 2), [1, 1, 1], "each claim has one");
    assert_eq!(dealt(&[0, 0], 9), [1, 1], "nothing is dealt out for nothing");
    assert_eq!(apportion([(100, 2), (1, 3)].into_iter(), 9), [2, 3], "there is a most");
    assert_eq!(dealt(&[], 3), [0; 0]);
}

/// Goal: writes by Zipf's law over keys in the order of their ranks are divided as evenly as the
/// paper says: among 64 dranges, with a deviation of 1.65e-3 (§8.2.1). Method: the shares are those
/// of the law, the sample is one that flushes would take.
#[test]
fn shares_by_zipfs_law_deviate_no_more_than_the_papers() {
    const KEYS: usize = 1_000_000;
    const SAMPLES: usize = 64 * SAMPLES_PER_DRANGE;
    let mut below = vec![0.0];
    below.extend((1..=KEYS).scan(0.0, |sum, rank| {
        *sum += (rank as f64).powf(-0.99);
        Some(*sum)
    }));
    let all = below[KEYS];
    let key_of = |rank: usize| format!("user{rank:012}").into_bytes();
    let keys: Vec<Vec<u8>> = (0..SAMPLES)
        .map(|at| {
            let sum = (at as f64 + 0.5) / SAMPLES as f64 * all;
            key_of(below.partition_point(|below| *below <= sum) - 1)
        })
        .collect();
    let sample: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let divided = divide(&sample, 64);
    assert_eq!(divided.drange_count(), 64);
    let duplicates: Vec<usize> = divided.duplicates().collect();
    assert_eq!(duplicates[..2], [4, 2], "the hottest key has 4.2 fair shares, the next one 2.1");
    // A boundary is a rank, or what follows one.
    let rank_of = |key: &[u8]| {
        let rank = std::str::from_utf8(&key[4..16]).unwrap().parse::<usize>().unwrap();
        rank + usize::from(key.len() > 16)
    };
    let mut ends: Vec<f64> =
        divided.boundaries().keys().iter().map(|key| below[rank_of(key)]).collect();
    ends.push(all);
    let mut start = 0.0;
    let mut squares = 0.0;
    for (end, duplicates) in ends.into_iter().zip(&duplicates) {
        let share = (end - start) / all / *duplicates as f64;
        squares += *duplicates as f64 * (share - 1.0 / 64.0).powi(2);
        start = end;
    }
    let deviation = (squares / 64.0).sqrt();
    assert!(deviation <= 1.65e-3, "{deviation:.2e}");
    assert_eq!(judge(&divided, &sample, 1_000_000, 64), None);
}

#[test]
fn too_few_writes_say_nothing() {
    let sample = sample_of("a*50 b*50");
    let sample: Vec<&[u8]> = sample.iter().map(Vec::as_slice).collect();
    let uneven = division_of("e");
    assert!(judge(&uneven, &sample, 1000, 2).is_some());
    assert_eq!(judge(&uneven, &sample, 100, 2), None);
    assert_eq!(judge(&uneven, &sample[..5], 1000, 2), None);
    assert_eq!(judge(&Division::default(), &sample, 1000, 1), None);
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
        let divided = divide(&sample, wanted);
        assert!(divided.drange_count() <= wanted, "seed {seed}");
        let total: f64 = shares(divided.boundaries(), &sample).iter().sum();
        assert!((total - 1.0).abs() < 1e-9, "seed {seed}: {total}");
        let again = judge(&divided, &sample, 1_000_000, wanted);
        if divided.drange_count() == wanted {
            assert!(!matches!(again, Some(Reorganisation::Major(_))), "seed {seed}: {again:?}");
        }
        // No drange has more than its share and the heaviest key in it that has none of its own.
        let fair = sample.len().div_ceil(divided.drange_count());
        for (part, duplicates) in parts(divided.boundaries(), &sample).zip(divided.duplicates()) {
            let heaviest = part.chunk_by(|a, b| a == b).map(<[_]>::len).max().unwrap_or(0);
            let bound = if duplicates > 1 { 2 * fair } else { 2 * fair + heaviest };
            let each = part.len() / duplicates;
            assert!(each <= bound, "seed {seed}: {each} of {fair}, {duplicates} duplicates");
            assert!(duplicates == 1 || heaviest >= fair / 2, "seed {seed}: {heaviest} of {fair}");
        }
    }
}
