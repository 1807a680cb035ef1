//! The life of a database: from its opening to its close.

use std::path::Path;
use std::sync::Arc;

use terrace::Db;
use terrace_env::{JobClass, Latch, SharedEnv};

use super::client::Client;
use super::errors::failed;
use super::filtered::Watch;
use super::open::{open, whole};
use super::spaces::{Spaces, Who};
use crate::oracle::{Recorder, What};
use crate::run::{Case, MAIN};
use crate::setup::DIR;
use crate::workload::Operation;

/// Opens a database, lets the clients of a case work, reads everything, closes.
pub fn live(case: &Case, env: &SharedEnv, recorder: &Recorder) {
    let Some((db, spaces)) = begin(case, env, recorder) else { return };
    let client = |number| Client::new(env, &case.setup, recorder.clone(), number, (&db, &spaces));
    let db = match case.clients.as_slice() {
        [only] => {
            let mut client = client(0).alone();
            drop(db);
            // A client whose database cannot be opened again has nothing left to do.
            let _ = only.iter().all(|operation| client.act(operation));
            client.into_db()
        }
        clients => {
            let mut threads: Vec<_> = clients
                .iter()
                .enumerate()
                .map(|(number, operations)| {
                    let (operations, mut client) = (operations.clone(), client(number));
                    let job = Box::new(move || {
                        let _ = operations.iter().all(|operation| client.act(operation));
                    });
                    env.spawn(JobClass::Client, &number.to_string(), job)
                })
                .collect();
            let watch = watch_of(case, env, recorder, &db);
            if let Some(place) = watch.clone() {
                let beside = clients.iter().map(Vec::len).max().unwrap_or(0);
                let job = Box::new(move || {
                    let watch = place.lock().take();
                    let worked = watch.map(|mut watch| {
                        watch.work(beside);
                        watch
                    });
                    *place.lock() = worked;
                });
                threads.push(env.spawn(JobClass::Client, "watch", job));
            }
            for thread in threads.into_iter().flatten() {
                // A panic ends the simulation, and is reported by it.
                let _ = thread.join();
            }
            let worked = watch.and_then(|place| place.lock().take());
            worked.into_iter().for_each(|mut watch| watch.finish());
            Some(db)
        }
    };
    let Some(db) = db else { return };
    let mut last = Client::new(env, &case.setup, recorder.clone(), MAIN, (&db, &spaces));
    last.act(&Operation::Settle);
    last.act(&Operation::Check);
    let id = last.begin(What::Begun);
    last.end(id, whole(env, &db).unwrap_or_else(|error| failed(&error)));
    let id = last.begin(What::Begun);
    last.end(id, db.close().map_or_else(|error| failed(&error), |()| What::Durable));
}

/// The client of the filtered keyspace, if there is one, where its thread takes it from and puts it
/// back.
fn watch_of(
    case: &Case,
    env: &SharedEnv,
    recorder: &Recorder,
    db: &Db,
) -> Option<Arc<Latch<Option<Watch>>>> {
    let who = (case.clients.len(), case.seed);
    let watch = case.setup.filtered.then(|| Watch::new(env, &case.setup, recorder, who, db))?;
    // A keyspace that exists always is had without a write; what fails all the same fails others.
    Some(Arc::new(Latch::new(Some(watch.ok()?))))
}

fn begin(case: &Case, env: &SharedEnv, recorder: &Recorder) -> Option<(Db, Arc<Spaces>)> {
    let id = recorder.begin(MAIN, 0, What::Begun);
    let begun = open(&case.setup, env, Path::new(DIR)).and_then(|db| {
        let seqno = db.snapshot().seqno().0;
        recorder.end(id, |what| *what = What::Opened { seqno });
        let who = Who { recorder, client: MAIN, step: 0, wall: env.wall_time() };
        let spaces = Spaces::new(env, &db, who)?;
        Ok((db, Arc::new(spaces)))
    });
    begun.map_err(|error| recorder.end(id, |what| *what = failed(&error))).ok()
}
