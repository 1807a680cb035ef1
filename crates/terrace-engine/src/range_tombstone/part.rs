//! A segment tree over the fragments of a fixed set of range tombstones.

use terrace_base::SeqNo;

use super::RangeTombstone;

/// At least one range tombstone, none of them empty, in the form that questions are put to.
pub(super) struct Part {
    /// The sorted, distinct bounds, one after the other; fragment i lies between bounds i and
    /// i + 1.
    bound_bytes: Box<[u8]>,
    /// Where each bound ends.
    bound_ends: Box<[usize]>,
    /// By start, for one start the newest first; no two alike.
    tombstones: Box<[Indexed]>,
    /// The tree's nodes are numbered from 1, the children of i are 2i and 2i + 1, and fragment i
    /// is node `fragment_count` + i. The numbers of node i lie in `seqnos` from `node_starts[i]`
    /// to `node_starts[i + 1]`, descending.
    node_starts: Box<[usize]>,
    seqnos: Box<[SeqNo]>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Indexed {
    /// The start's position among the bounds.
    start: usize,
    newest_first: std::cmp::Reverse<SeqNo>,
    end: usize,
}

impl Part {
    /// The part of these tombstones, of which there is at least one and none is empty.
    /// Cost: O(n log n), less if they come in sorted runs.
    pub(super) fn new(tombstones: &[RangeTombstone<'_>]) -> Part {
        assert!(!tombstones.is_empty(), "a part is never empty");
        assert!(tombstones.iter().all(|tombstone| !tombstone.is_empty()), "no tombstone is empty");
        // A stable sort, since it makes use of runs that are sorted already.
        let mut bounds: Vec<&[u8]> = tombstones.iter().map(|tombstone| tombstone.start).collect();
        bounds.extend(tombstones.iter().map(|tombstone| tombstone.end));
        bounds.sort();
        bounds.dedup();

        let index_of = |bound: &[u8]| bounds.partition_point(|other| *other < bound);
        let mut indexed: Vec<Indexed> = tombstones
            .iter()
            .map(|tombstone| Indexed {
                start: index_of(tombstone.start),
                newest_first: std::cmp::Reverse(tombstone.seqno),
                end: index_of(tombstone.end),
            })
            .collect();
        indexed.sort();
        indexed.dedup();

        let (node_starts, seqnos) = plant(&indexed, bounds.len() - 1);
        let mut bound_bytes = Vec::with_capacity(bounds.iter().map(|bound| bound.len()).sum());
        let mut bound_ends = Vec::with_capacity(bounds.len());
        for bound in bounds {
            bound_bytes.extend_from_slice(bound);
            bound_ends.push(bound_bytes.len());
        }
        Part {
            bound_bytes: bound_bytes.into(),
            bound_ends: bound_ends.into(),
            tombstones: indexed.into(),
            node_starts: node_starts.into(),
            seqnos: seqnos.into(),
        }
    }

    /// How many tombstones there are.
    pub(super) fn len(&self) -> usize {
        self.tombstones.len()
    }

    /// The tombstone at an index, in the order by start and for one start the newest first.
    pub(super) fn tombstone(&self, index: usize) -> Option<RangeTombstone<'_>> {
        let indexed = self.tombstones.get(index)?;
        Some(RangeTombstone {
            start: self.bound(indexed.start),
            end: self.bound(indexed.end),
            seqno: indexed.newest_first.0,
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = RangeTombstone<'_>> {
        (0..self.len()).filter_map(|index| self.tombstone(index))
    }

    pub(super) fn bound(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.bound_ends[before]);
        &self.bound_bytes[start..self.bound_ends[index]]
    }

    pub(super) fn fragment_count(&self) -> usize {
        self.bound_ends.len() - 1
    }

    /// How many bounds lie at or below `key`: it lies in the fragment before that bound, if there
    /// is one on either side.
    pub(super) fn bounds_at_or_below(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.bound_ends.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.bound(middle) <= key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The newest number at or below `read_point` that covers a fragment.
    pub(super) fn newest_over(&self, fragment: usize, read_point: SeqNo) -> Option<SeqNo> {
        let mut newest = None;
        for seqnos in self.lists_over(fragment) {
            let too_new = seqnos.partition_point(|&seqno| seqno > read_point);
            newest = newest.max(seqnos.get(too_new).copied());
        }
        newest
    }

    /// All numbers that cover a fragment, descending.
    pub(super) fn all_over(&self, fragment: usize) -> Vec<SeqNo> {
        let mut seqnos: Vec<SeqNo> = self.lists_over(fragment).flatten().copied().collect();
        seqnos.sort_unstable_by(|a, b| b.cmp(a));
        seqnos.dedup();
        seqnos
    }

    #[cfg(test)]
    pub(super) fn kept_seqno_count(&self) -> usize {
        self.seqnos.len()
    }

    /// The numbers at the nodes from a fragment up to the root.
    fn lists_over(&self, fragment: usize) -> impl Iterator<Item = &[SeqNo]> {
        let leaf = self.fragment_count() + fragment;
        std::iter::successors(Some(leaf), |node| Some(node / 2))
            .take_while(|&node| node > 0)
            .map(|node| &self.seqnos[self.node_starts[node]..self.node_starts[node + 1]])
    }
}

/// Gives each tombstone to its nodes. Returns where the list of each node starts, and the lists.
fn plant(tombstones: &[Indexed], fragment_count: usize) -> (Vec<usize>, Vec<SeqNo>) {
    let mut newest_first: Vec<&Indexed> = tombstones.iter().collect();
    newest_first.sort_by_key(|tombstone| tombstone.newest_first);
    // The list of node i is counted at i + 1, so that the sums up to i are where it starts.
    let mut node_starts = vec![0; 2 * fragment_count + 1];
    for tombstone in &newest_first {
        for_each_node(tombstone, fragment_count, |node| node_starts[node + 1] += 1);
    }
    let mut sum = 0;
    for start in &mut node_starts {
        sum += *start;
        *start = sum;
    }
    let mut seqnos = vec![SeqNo::ZERO; sum];
    let mut free = node_starts.clone();
    for tombstone in &newest_first {
        for_each_node(tombstone, fragment_count, |node| {
            seqnos[free[node]] = tombstone.newest_first.0;
            free[node] += 1;
        });
    }
    (node_starts, seqnos)
}

/// Visits the highest nodes that a tombstone covers.
fn for_each_node(tombstone: &Indexed, fragment_count: usize, mut visit: impl FnMut(usize)) {
    let mut low = tombstone.start + fragment_count;
    let mut high = tombstone.end + fragment_count;
    while low < high {
        if low % 2 == 1 {
            visit(low);
            low += 1;
        }
        if high % 2 == 1 {
            high -= 1;
            visit(high);
        }
        low /= 2;
        high /= 2;
    }
}
