//! Workloads to be crashed: small ones with a name each, and random ones.

use std::sync::Arc;

use terrace_env::SeededRng;

use crate::run::Case;
use crate::setup::Setup;
use crate::workload::{Generator, KeyForm, Purpose, Shape, ValueForm, Weights};

/// A workload with a name.
#[derive(Clone, Debug)]
pub struct Named {
    /// What it is about.
    pub name: &'static str,
    setup: &'static str,
    clients: u64,
    steps: usize,
    shape: Shape,
}

impl Named {
    /// A few puts by one client.
    fn new(name: &'static str) -> Named {
        let weights = Weights { write: 10, batch: 3, ..Weights::default() };
        let shape = Shape {
            key_form: KeyForm::Numbered,
            key_count: 20,
            prefix_bytes: 20,
            hot_in: 0,
            value_form: ValueForm::Small,
            block_bytes: 512,
            segment_bytes: 4096,
            merges_in: 5,
            deletes_in: 6,
            range_deletes_in: 0,
            ttl_in: 0,
            sync_in: 0,
            nowait_in: 0,
            batch_max: 4,
            twice_in: 0,
            weights,
        };
        Named { name, setup: "", clients: 1, steps: 40, shape }
    }

    fn setup(self, setup: &'static str) -> Named {
        Named { setup, ..self }
    }

    fn clients(self, clients: u64, steps: usize) -> Named {
        Named { clients, steps, ..self }
    }

    fn shape(mut self, change: impl FnOnce(&mut Shape)) -> Named {
        change(&mut self.shape);
        self
    }

    fn weights(self, change: impl FnOnce(&mut Weights)) -> Named {
        self.shape(|shape| change(&mut shape.weights))
    }

    /// The workload under a seed.
    #[must_use]
    pub fn case(&self, seed: u64) -> Case {
        let setup: Setup = self.setup.parse().expect("the setups of this file are well formed");
        let clients = (0..self.clients)
            .map(|client| Generator::new(seed, client, self.shape.clone()).list(self.steps));
        Case { seed, setup: Arc::new(setup), clients: clients.collect() }
    }
}

/// The workloads with a name.
#[must_use]
pub fn named() -> Vec<Named> {
    let new = Named::new;
    let disturbed = |weights: &mut Weights| (weights.flush, weights.compact) = (2, 1);
    vec![
        new("buffered puts"),
        new("synced puts").setup("class=sync"),
        new("puts synced at intervals").setup("class=interval:1").weights(|w| w.sleep = 3),
        new("some writes synced").shape(|s| s.sync_in = 3),
        new("a log written by system calls").setup("mapped=false").shape(|s| s.sync_in = 4),
        new("records above a segment").clients(1, 16).shape(|s| {
            (s.value_form, s.sync_in) = (ValueForm::Segment, 2);
        }),
        new("records that fill segments").clients(1, 90).shape(|s| {
            (s.value_form, s.sync_in, s.batch_max) = (ValueForm::Tiny, 9, 2);
        }),
        new("flushes and compactions").shape(|s| s.sync_in = 5).weights(disturbed),
        new("small rows").shape(|s| s.value_form = ValueForm::Tiny).weights(|w| w.flush = 4),
        new("conditional writes").shape(|s| s.sync_in = 3).weights(|w| w.update = 13),
        new("restarts").shape(|s| s.sync_in = 6).weights(|w| w.restart = 2),
        new("restarts with flushes").setup("class=sync mapped=false").weights(|w| {
            (w.restart, w.flush) = (1, 1);
        }),
        new("two clients").clients(2, 24).shape(|s| s.sync_in = 4),
        new("two clients, synced, disturbed")
            .setup("class=sync switch=1")
            .clients(2, 20)
            .weights(disturbed),
        new("four clients with conditions")
            .setup("switch=2")
            .clients(4, 12)
            .shape(|s| (s.key_count, s.sync_in) = (4, 4))
            .weights(|w| w.update = 10),
        new("three dranges").setup("dranges=6b3030303035,6b3030303135").clients(2, 20).shape(|s| {
            (s.sync_in, s.range_deletes_in) = (4, 8);
        }),
        new("three dranges, flushed and opened again")
            .setup("dranges=6b3030303035,6b3030303135")
            .shape(|s| (s.sync_in, s.range_deletes_in) = (6, 6))
            .weights(|w| (w.flush, w.restart) = (2, 1)),
        new("range deletes").shape(|s| (s.range_deletes_in, s.sync_in) = (3, 5)).weights(disturbed),
        new("values that expire").shape(|s| (s.ttl_in, s.sync_in) = (2, 5)).weights(|w| {
            (w.sleep, w.flush, w.compact) = (3, 1, 1);
        }),
        new("compressed tables").setup("compression=lz4 block=4096").weights(disturbed),
        new("tables of tiny blocks")
            .setup("compression=zstd block=64 table=4096 level=4096 filter=0")
            .shape(|s| s.sync_in = 8)
            .weights(disturbed),
        new("the empty key and its successors").shape(|s| {
            (s.key_form, s.value_form, s.sync_in) = (KeyForm::Prefixes, ValueForm::Empty, 4);
        }),
        new("keys of 0xff").weights(disturbed).shape(|s| {
            (s.key_form, s.range_deletes_in, s.sync_in) = (KeyForm::High, 6, 4);
        }),
        new("a slow disk").setup("delay-us=900 switch=1").clients(3, 14).shape(|s| s.sync_in = 3),
        new("snapshots held over compactions").shape(|s| s.key_count = 5).weights(|w| {
            (w.snapshot, w.iterator, w.flush, w.compact, w.get) = (3, 3, 3, 2, 3);
        }),
        new("sorted data at once").shape(|s| s.sync_in = 6).weights(|w| {
            (w.ingest, w.flush, w.compact) = (2, 1, 1);
        }),
        new("sorted data beside writers")
            .setup("dranges=6b3030303035,6b3030303135 switch=2")
            .clients(2, 16)
            .weights(|w| w.ingest = 2),
        new("values that are garbage soon")
            .setup("values=32 values-ratio=105")
            .clients(1, 60)
            .shape(|s| (s.key_count, s.sync_in) = (8, 6))
            .weights(|w| (w.flush, w.compact, w.iterator) = (3, 3, 2)),
        new("values named by rows that are cut in slices")
            .setup("values=32 values-ratio=105 cut=1 table=4096 memtable=16384 rows-per-cut=1")
            .clients(1, 90)
            .shape(|s| (s.value_form, s.merges_in, s.deletes_in) = (ValueForm::Block, 0, 9))
            .weights(|w| w.flush = 3),
        new("values of two clients, opened again")
            .setup("values=32 values-ratio=105 dranges=6b3030303035,6b3030303135")
            .clients(2, 24)
            .shape(|s| (s.ttl_in, s.range_deletes_in, s.sync_in) = (4, 8, 4))
            .weights(|w| (w.flush, w.compact, w.restart) = (2, 1, 1)),
        new("checkpoints")
            .setup("dranges=6b3030303035,6b3030303135")
            .clients(2, 14)
            .weights(|w| (w.checkpoint, w.compact) = (1, 1)),
    ]
}

/// A random workload.
#[must_use]
pub fn random(seed: u64) -> Case {
    let mut random = SeededRng::stream(seed, 52);
    let setup = Setup::draw(&mut random);
    let shape =
        Shape::draw(&mut random, Purpose::Crash, setup.block_bytes(), setup.segment_bytes());
    let setup = setup.with_dranges_of(&mut random, &shape);
    let (clients, steps) = [(1, 30), (1, 60), (2, 20), (3, 12)][random.index(4)];
    let clients =
        (0..clients).map(|client| Generator::new(seed, client, shape.clone()).list(steps));
    Case { seed, setup: Arc::new(setup), clients: clients.collect() }
}
