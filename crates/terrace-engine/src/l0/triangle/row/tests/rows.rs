//! Goal: hints are right, and searches that follow them answer as those that do not. Method: stacks
//! of rows, each with hints into the older ones as far as these are live, beside a search of each.

use super::*;
use crate::iter::PartsCursor;
use crate::l0::triangle::row::hints::{Hinting, SearchTrail, SeekTrail};

struct Member {
    model: Model,
    row: Arc<RowReader>,
    live: Option<Arc<[KeyRange]>>,
}

impl Member {
    fn is_live(&self, key: &[u8]) -> bool {
        self.live.as_ref().is_none_or(|parts| parts.iter().any(|part| part.contains(key)))
    }
}

/// Rows, the newest first.
fn stack(rng: &mut SeededRng, pages: &Arc<Pages>) -> Vec<Member> {
    let mut members: Vec<Member> = Vec::new();
    for number in 0..rng.index(5) + 2 {
        let model = random_row(rng);
        let predecessors = members
            .iter()
            .map(|member| Predecessor { row: Arc::clone(&member.row), parts: member.live.clone() })
            .collect();
        let row = build(pages, &model, TableUid(number as u128 + 1), predecessors).reader;
        members.insert(0, Member { model, row, live: None });
        // A cut takes what lies at one end of the keys, or in the middle, out of all rows.
        if rng.one_in(2) {
            let (a, b) = (target(rng, &members[0].model), target(rng, &members[0].model));
            let (start, end) = (a.clone().min(b.clone()), a.max(b));
            let parts = [KeyRange::new("", Some(start)), KeyRange::new(end, None)];
            for member in &mut members {
                if member.live.is_none() {
                    let mut parts = parts.to_vec();
                    parts.retain(|part| !part.is_empty());
                    member.live = Some(parts.into());
                }
            }
            let consumed = [KeyRange::new(
                parts[0].end().unwrap_or_default(),
                Some(parts[1].start().to_vec()),
            )];
            for member in members.iter().filter(|member| member.live.as_deref() == Some(&parts)) {
                member.row.release(&consumed);
            }
        }
    }
    members
}

#[test]
fn every_hint_is_that_of_the_newest_predecessor_that_is_live_and_spans_the_key() {
    let mut hints = 0;
    for seed in 0..60 {
        let mut rng = SeededRng::new(seed);
        let (_recorder, pages) = container(2000, 4096);
        let mut older: Vec<Member> = Vec::new();
        for number in 0..4 {
            let model = random_row(&mut rng);
            let predecessors: Vec<Predecessor> = older
                .iter()
                .map(|member| Predecessor {
                    row: Arc::clone(&member.row),
                    parts: member.live.clone(),
                })
                .collect();
            let row = build(&pages, &model, TableUid(number + 1), predecessors).reader;
            let uids: Vec<TableUid> = older.iter().map(|member| member.row.uid()).collect();
            assert_eq!(row.predecessors(), uids, "seed {seed}");
            for (index, (key, _)) in model.entries.keys().enumerate() {
                let expected = older.iter().enumerate().find_map(|(ordinal, member)| {
                    let keys = || member.model.entries.keys().map(|(key, _)| key);
                    let spans = keys().next()? <= key && key <= keys().next_back()?;
                    let low = keys().filter(|other| *other < key).count();
                    (spans && member.is_live(key)).then_some((ordinal, low))
                });
                assert_eq!(row.hint(index).get(), expected, "seed {seed}, {number}, {index}");
                hints += usize::from(expected.is_some());
            }
            let live = rng.one_in(2).then(|| {
                let (a, b) = (target(&mut rng, &model), target(&mut rng, &model));
                let part = KeyRange::new(a.clone().min(b.clone()), Some(a.max(b)));
                Arc::from(vec![part; 1])
            });
            older.insert(0, Member { model, row, live });
        }
    }
    assert!(hints > 1000, "{hints} hints");
}

#[test]
fn searches_that_follow_a_trail_answer_as_those_that_do_not() {
    let (mut narrowed, mut searches) = (0, 0);
    for seed in 0..80 {
        let mut rng = SeededRng::new(seed);
        let (_recorder, pages) = container(2500, 4096);
        let members = stack(&mut rng, &pages);
        for _ in 0..150 {
            let model = &members[rng.index(members.len())].model;
            let key = target(&mut rng, model);
            let mut trail = SearchTrail::default();
            for member in &members {
                // A search leaves rows out that are not live there, or for any other reason.
                if !member.is_live(&key) || rng.one_in(9) {
                    continue;
                }
                let row = &member.row;
                let within = trail.within(row.uid(), row.len());
                narrowed += usize::from(within.len() < row.len());
                searches += 1;
                let index = row.lower_bound_within(&key, within.clone()).unwrap();
                let context = format!("seed {seed}, {:?}", key.escape_ascii().to_string());
                assert_eq!(index, row.lower_bound(&key).unwrap(), "{context}, {within:?}");
                let read_point = SeqNo(rng.next_u64() % (member.model.greatest_seqno() + 2));
                let found = row.get_at(index, &key, read_point).unwrap();
                let found = found.as_ref().map(|found| found.entry(&key));
                let expected = member.model.get(&key, read_point).map(|entry| entry.as_ref());
                assert_eq!(found, expected, "{context}");
                trail.note(&**row, index);
            }
        }
    }
    assert!(narrowed * 4 > searches, "{narrowed} of {searches} searches were narrowed");
}

#[test]
fn cursors_that_share_a_trail_go_where_those_go_that_do_not() {
    for seed in 0..60 {
        let mut rng = SeededRng::new(seed);
        let (_recorder, pages) = container(2500, 4096);
        let members = stack(&mut rng, &pages);
        let read_point = rng.pick(&[SeqNo::MAX, SeqNo(500)]);
        let shared = Arc::new(SeekTrail::default());
        let cursors = |trail: Option<&Arc<SeekTrail>>| {
            let of = |member: &Member| {
                let cursor = Box::new(member.row.cursor(read_point, trail.cloned()));
                match &member.live {
                    None => cursor as Box<dyn Cursor + Send>,
                    Some(parts) => Box::new(PartsCursor::new(cursor, Arc::clone(parts))),
                }
            };
            members.iter().map(of).collect::<Vec<_>>()
        };
        let (mut with, mut without) = (cursors(Some(&shared)), cursors(None));
        for step in 0..100 {
            let model = &members[rng.index(members.len())].model;
            let key = target(&mut rng, model);
            let action = rng.index(4);
            for (one, other) in with.iter_mut().zip(&mut without) {
                for cursor in [&mut *one, &mut *other] {
                    match action {
                        0 => cursor.seek_back(Some(&key)).unwrap(),
                        1 if cursor.entry().is_some() => cursor.next().unwrap(),
                        2 if cursor.entry().is_some() => cursor.prev().unwrap(),
                        _ => cursor.seek(&key).unwrap(),
                    };
                }
                assert_eq!(one.entry(), other.entry(), "seed {seed}, step {step}");
            }
        }
    }
}
