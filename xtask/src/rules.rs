//! What holds where; plain data.

/// Crates and those of the workspace that they may depend on: never backwards.
pub const ARROWS: &[(&str, &[&str])] = &[
    ("terrace-base", &[]),
    ("terrace-env", &["terrace-base"]),
    ("terrace-engine", &["terrace-base", "terrace-env"]),
    ("terrace", &["terrace-base", "terrace-env", "terrace-engine"]),
    ("terrace-server", &["terrace", "terrace-base"]),
    ("terrace-bench", &["terrace", "terrace-base"]),
    ("terrace-cli", &["terrace", "terrace-base", "terrace-bench", "terrace-server", "terrace-sim"]),
    (
        "terrace-fuzz",
        &[
            "terrace",
            "terrace-base",
            "terrace-cli",
            "terrace-engine",
            "terrace-env",
            "terrace-server",
        ],
    ),
    ("terrace-model", &["terrace-env"]),
    ("terrace-rot", &["terrace-base", "terrace-env", "terrace-engine"]),
    ("terrace-sim", &["terrace", "terrace-base", "terrace-env", "terrace-engine"]),
    ("xtask", &[]),
];

/// Words by which a program touches the outside past `terrace-env`. A space in a pattern is part
/// of it.
const FILES: &[&str] = &["std::fs", "fs::File", "tokio::fs"];
const CLOCKS: &[&str] = &["Instant::now", "SystemTime::now"];
const THREADS: &[&str] = &["thread::spawn", "thread::sleep", "thread::park", "thread::yield_now"];
const WAITS: &[&str] = &[
    "std::sync::Mutex",
    "std::sync::RwLock",
    "std::sync::Condvar",
    "std::sync::mpsc",
    "sync::Barrier",
    "parking_lot",
    "OnceLock",
    "LazyLock",
];
const RANDOMNESS: &[&str] = &["RandomState", "HashMap::new", "HashSet::new", "getrandom", "rand::"];
const TERMINAL: &[&str] =
    &["println!", "print!(", "eprintln!", "io::stdin", "io::stdout", "indicatif"];
const NETWORK: &[&str] = &["TcpStream", "TcpListener", "UdpSocket", "UnixStream", "tokio::net"];

/// What one crate may not name, and the modules in which it may after all, each with the reason.
pub struct Outside {
    pub krate: &'static str,
    pub banned: &'static [&'static [&'static str]],
    pub listed: &'static [(&'static str, &'static str)],
}

/// Where the outside is touched. `terrace-env` is the outside and has no entry.
pub const OUTSIDE: &[Outside] = &[
    Outside {
        krate: "terrace-base",
        banned: &[FILES, CLOCKS, THREADS, WAITS, RANDOMNESS, TERMINAL, NETWORK],
        listed: &[],
    },
    Outside {
        krate: "terrace-engine",
        banned: &[FILES, CLOCKS, THREADS, WAITS, RANDOMNESS, TERMINAL, NETWORK],
        listed: &[],
    },
    Outside {
        krate: "terrace",
        banned: &[FILES, CLOCKS, THREADS, WAITS, RANDOMNESS, TERMINAL, NETWORK],
        listed: &[],
    },
    Outside {
        krate: "terrace-server",
        banned: &[FILES, CLOCKS, THREADS, TERMINAL, NETWORK],
        listed: &[("src/net.rs", "tokio: sockets, timers, waiting threads, and the clock")],
    },
    Outside {
        krate: "terrace-bench",
        banned: &[FILES, CLOCKS, THREADS, TERMINAL, NETWORK],
        listed: &[
            ("src/clock.rs", "what is measured is real time"),
            ("src/threads.rs", "the load comes from threads"),
        ],
    },
    Outside {
        krate: "terrace-rot",
        banned: &[FILES, CLOCKS, THREADS, RANDOMNESS, TERMINAL, NETWORK],
        listed: &[("src/main.rs", "the figures of a soak")],
    },
    Outside {
        krate: "terrace-sim",
        banned: &[FILES, CLOCKS, THREADS, WAITS, RANDOMNESS, TERMINAL, NETWORK],
        listed: &[("src/main.rs", "the file of a report, output")],
    },
    Outside {
        krate: "terrace-cli",
        banned: &[FILES, CLOCKS, THREADS, TERMINAL, NETWORK],
        listed: &[
            ("src/clock.rs", "when an entry of `put --ttl` expires"),
            ("src/files.rs", "import and export files"),
            ("src/signals.rs", "Ctrl-C"),
            ("src/terminal.rs", "output, progress bars"),
            ("src/data/remote.rs", "the connection to a server"),
        ],
    },
];

/// The files in which `unsafe` may stand, each block under a `// Safety:` comment.
pub const UNSAFE: &[&str] = &[
    "crates/terrace-env/src/pmem/memory.rs",
    "crates/terrace-env/src/pmem/write_back.rs",
    "crates/terrace-env/src/real/mapping.rs",
    "crates/terrace-engine/src/memtable/arena.rs",
    "crates/terrace-engine/src/memtable/cursor.rs",
    "crates/terrace-engine/src/memtable/entry.rs",
    "crates/terrace-engine/src/memtable/insert.rs",
    "crates/terrace-engine/src/memtable/pin.rs",
    "crates/terrace-engine/src/memtable/tree.rs",
    "crates/terrace-bench-compare/src/engines/lmdb.rs",
    "crates/terrace-fuzz/src/allocation.rs",
];

/// What a byte format may not know: whatever does I/O or waits.
pub const IMPURE: &[&str] =
    &["terrace_env", "crate::store", "crate::process", "crate::cache", "tokio", "std::sync"];

/// Marks of unfinished work, and of one machine.
pub const MARKS: &[&str] = &["todo!(", "unimplemented!(", "FIXME", "XXX", "dbg!(", "#[ignore"];
