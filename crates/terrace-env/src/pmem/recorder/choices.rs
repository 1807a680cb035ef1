use std::collections::BTreeSet;

use crate::SeededRng;

/// Number of states of a point up to which all are tried.
const ALL_MAX: usize = 4096;
/// Number of lines of which all subsets are tried.
const SUBSET_LINES_MAX: usize = 12;
/// How many states are drawn where not all are tried.
const RANDOM_COUNT: usize = 64;
/// Number of words of which all subsets are tried.
const SUBSET_WORDS_MAX: usize = 4;
/// Of one long store's cuts, if it has more than this, some are drawn.
const CUTS_MAX: usize = 64;

/// Which states of a crash are tried, of lines in the order of their last stores: for each the
/// index of the content that is left. `counts`: how many contents each line has, at least 1; the
/// first is the old one, the last the new one.
pub(super) fn line_choices(counts: &[usize], random: &mut SeededRng) -> Vec<Vec<usize>> {
    let product = counts.iter().try_fold(1_usize, |product, &count| product.checked_mul(count));
    if product.is_some_and(|product| product <= ALL_MAX) {
        return every_choice(counts);
    }
    let mut choices: Vec<Vec<usize>> = Vec::new();
    let mut add = |is_new: &dyn Fn(usize) -> bool| {
        let choice = counts.iter().enumerate();
        choices
            .push(choice.map(|(line, count)| if is_new(line) { count - 1 } else { 0 }).collect());
    };
    if counts.len() <= SUBSET_LINES_MAX {
        (0..1_usize << counts.len()).for_each(|set| add(&|line| set >> line & 1 == 1));
    } else {
        (0..=counts.len()).for_each(|end| add(&|line| line < end));
        (0..counts.len()).for_each(|one| add(&|line| line == one));
        (0..counts.len()).for_each(|one| add(&|line| line != one));
    }
    let old = vec![0; counts.len()];
    let new: Vec<usize> = counts.iter().map(|count| count - 1).collect();
    for (line, &count) in counts.iter().enumerate() {
        for between in 1..count.max(2) - 1 {
            for others in [&old, &new] {
                let mut choice = others.clone();
                choice[line] = between;
                choices.push(choice);
            }
        }
    }
    let draw = |_| counts.iter().map(|&count| random.index(count)).collect();
    choices.extend((0..RANDOM_COUNT).map(draw));
    choices
}

fn every_choice(counts: &[usize]) -> Vec<Vec<usize>> {
    let mut choices = vec![Vec::new()];
    for &count in counts {
        let longer = choices.iter().flat_map(|choice: &Vec<usize>| {
            (0..count).map(|index| choice.iter().copied().chain([index]).collect())
        });
        choices = longer.collect();
    }
    choices
}

/// How a store of `count` words can be cut: sets of the words that have arrived, neither none nor
/// all.
pub(super) fn cuts(count: usize, random: &mut SeededRng) -> Vec<BTreeSet<usize>> {
    if count <= SUBSET_WORDS_MAX {
        let sets = 1..(1_usize << count) - 1;
        return sets.map(|set| (0..count).filter(|word| set >> word & 1 == 1).collect()).collect();
    }
    let ends: Vec<usize> = if count <= CUTS_MAX {
        (1..count).collect()
    } else {
        (0..CUTS_MAX).map(|_| 1 + random.index(count - 1)).collect()
    };
    // Front to back, and back to front.
    ends.into_iter().flat_map(|end| [(0..end).collect(), (end..count).collect()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distinct(choices: Vec<Vec<usize>>) -> BTreeSet<Vec<usize>> {
        choices.into_iter().collect()
    }

    #[test]
    fn few_states_are_all_tried() {
        let mut random = SeededRng::new(1);
        assert_eq!(line_choices(&[], &mut random), [Vec::<usize>::new()]);
        assert_eq!(distinct(line_choices(&[2, 1, 3], &mut random)).len(), 6);
        assert_eq!(distinct(line_choices(&[2; 12], &mut random)).len(), 4096);
    }

    #[test]
    fn of_twelve_lines_every_subset_is_tried_however_many_contents_they_have() {
        let mut random = SeededRng::new(2);
        let choices = distinct(line_choices(&[3; 12], &mut random));
        let of_two = choices.iter().filter(|choice| choice.iter().all(|&index| index != 1)).count();
        assert_eq!(of_two, 4096);
        let mut between = vec![2; 12];
        between[5] = 1;
        assert!(choices.contains(&between));
    }

    #[test]
    fn of_many_lines_prefixes_single_ones_and_all_but_one_are_tried() {
        let mut random = SeededRng::new(3);
        let count = 40;
        let choices = distinct(line_choices(&vec![2; count], &mut random));
        for one in 0..count {
            let shapes: [&dyn Fn(usize) -> bool; 3] =
                [&|line| line < one, &|line| line == one, &|line| line != one];
            for is_new in shapes {
                let choice: Vec<usize> = (0..count).map(|line| usize::from(is_new(line))).collect();
                assert!(choices.contains(&choice), "{choice:?}");
            }
        }
        assert!(choices.contains(&vec![1; count]));
        assert!(choices.len() > 3 * count + RANDOM_COUNT / 2);
    }

    #[test]
    fn a_cut_leaves_some_words_and_not_all() {
        let mut random = SeededRng::new(4);
        for count in [1, 2, 4, 5, 8, 64, 500] {
            let cuts = cuts(count, &mut random);
            assert_eq!(cuts.is_empty(), count == 1);
            assert!(cuts.iter().all(|cut| !cut.is_empty() && cut.len() < count));
        }
        assert_eq!(cuts(4, &mut random).len(), 14);
        assert_eq!(cuts(8, &mut random).len(), 14);
    }
}
