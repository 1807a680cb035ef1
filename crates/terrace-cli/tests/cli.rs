//! Goal: the binary does what its help says, on a directory and on a server alike. Method: run it.
#![allow(clippy::unwrap_used)]
#![allow(
    clippy::disallowed_methods,
    reason = "the test runs the program, and looks at what it leaves"
)]

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use common::{Server, both_ways, fails, run, run_with_input, succeeds, terrace, text};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

#[test]
fn keys_are_put_read_and_deleted() {
    both_ways(|db| {
        succeeds(&run(db, "put DB a 1"));
        assert_eq!(run(db, "get DB a").stdout, b"1");
        assert_eq!(succeeds(&run(db, "get DB a --output text")), "1\n");
        succeeds(&run_with_input(db, "put DB blob -", b"\x00\xff\n"));
        assert_eq!(run(db, "get DB blob").stdout, b"\x00\xff\n");
        let json = "{\"key\":\"blob\",\"value\":{\"base64\":\"AP8K\"}}\n";
        assert_eq!(succeeds(&run(db, "get DB blob --output json")), json);
        assert!(fails(&run(db, "get DB nope"), 1).contains("there is no key nope"));
        succeeds(&run(db, "put DB --escaped k\\x00 v\\n"));
        assert_eq!(run(db, "get DB k\\x00").stdout, b"v\n");
        assert_eq!(succeeds(&run(db, "delete DB a blob nope")), "2\n");
        fails(&run(db, "delete DB a"), 1);
        succeeds(&run(db, "put DB t 1 --ttl 1h"));
        assert_eq!(run(db, "get DB t").stdout, b"1");
    });
}

#[test]
fn scans_go_both_ways_within_bounds() {
    both_ways(|db| {
        for key in ["a", "b", "ba", "bb", "c", "+", "-"] {
            succeeds(&run(db, &format!("put DB -- {key} v{key}")));
        }
        let scan = |rest: &str| run(db, &format!("scan DB --keys-only {rest}"));
        let keys = |rest: &str| succeeds(&scan(rest)).split_whitespace().collect::<String>();
        assert_eq!(keys(""), "+-abbabbc");
        assert_eq!(keys("--prefix b"), "bbabb");
        assert_eq!(keys("--from b --to bb"), "bba");
        assert_eq!(keys("--from=+ --to=-"), "+");
        assert_eq!(keys("--from=- --limit 2"), "-a");
        assert_eq!(keys("--reverse --limit 2"), "cbb");
        assert_eq!(keys("--from b --to a"), "");
        assert_eq!(keys("--limit 0"), "");
        assert_eq!(succeeds(&run(db, "scan DB --prefix ba")), "ba\tvba\n");
        let json = succeeds(&run(db, "scan DB --prefix ba --output json")).to_owned();
        assert_eq!(json, "{\"key\":\"ba\",\"value\":\"vba\"}\n");
        assert_eq!(succeeds(&scan("--from c --output json")), "{\"key\":\"c\"}\n");
    });
}

#[test]
fn an_export_imported_is_the_same() {
    let mut lines = String::from("{\"key\":\"\",\"value\":\"\"}\n");
    for number in 0..2500 {
        lines += &format!("{{\"key\":\"key{number:04}\",\"value\":\"ü\\t\\n\\\\{number}\"}}\n");
    }
    lines += "{\"key\":\"t\",\"value\":\"1\",\"expiry_ms\":4102444800123}\n";
    lines += "{\"key\":{\"base64\":\"/wA=\"},\"value\":{\"base64\":\"gIA=\"}}\n";
    both_ways(|db| {
        let import = "import DB --format jsonl -";
        let done = run_with_input(db, import, lines.as_bytes());
        succeeds(&done);
        assert!(text(&done.stderr).contains("2503 entries"), "{done:?}");
        assert_eq!(succeeds(&run(db, "export DB")), lines);
        let tsv = run(db, "export DB --format tsv").stdout;
        let dir = TempDir::new().unwrap();
        let copy = ["--data", dir.path().to_str().unwrap()];
        succeeds(&run_with_input(&copy, "import DB --format tsv -", &tsv));
        assert_eq!(succeeds(&run(&copy, "export DB")), lines);
        assert_eq!(succeeds(&run(&copy, "export DB --prefix t")).lines().count(), 1);
    });
}

#[test]
fn damaged_lines_are_named_and_can_be_left_out() {
    let dir = TempDir::new().unwrap();
    let db = dir.path().join("db");
    let db = ["--data", db.to_str().unwrap()];
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    std::fs::write(&first, "a\t1\nb\t2\n").unwrap();
    std::fs::write(&second, "c\t3\nbroken\nd\t4\n").unwrap();
    let files = format!("{} {}", first.display(), second.display());
    let import = format!("import DB --format tsv {files}");
    let failed = run(&db, &import);
    let complaint = fails(&failed, 3);
    assert!(complaint.contains("second:2: there is no tab"), "{complaint}");
    assert!(complaint.contains("3 entries before it are stored"), "{complaint}");
    assert!(complaint.contains("--skip 3, or leave the line out with --skip 4"), "{complaint}");
    assert_eq!(succeeds(&run(&db, "scan DB --keys-only")), "a\nb\nc\n");
    let done = run(&db, &format!("{import} --skip 4"));
    assert!(text(&done.stderr).contains("1 entries"), "{done:?}");
    assert_eq!(succeeds(&run(&db, "scan DB --keys-only")), "a\nb\nc\nd\n");
    let long = format!("{}\t1\n", "k".repeat(65_537));
    let complaint = run_with_input(&db, "import DB --format tsv -", long.as_bytes());
    assert!(fails(&complaint, 3).contains("standard input:1: the key has 65537 bytes"));
    assert!(fails(&run(&db, "import DB --format tsv nowhere"), 3).contains("nowhere"));
}

#[test]
fn package_indexes_are_imported_plain_and_compressed() {
    let index = "Package: a\nVersion: 1\nArchitecture: all\nDescription: x\n y\n\n\
                 Package: b\nVersion: 2\nArchitecture: amd64\n\n";
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("plain"), index).unwrap();
    let level = flate2::Compression::default();
    let file = std::fs::File::create(path("index.gz")).unwrap();
    let mut gz = flate2::write::GzEncoder::new(file, level);
    gz.write_all(index.as_bytes()).unwrap();
    gz.finish().unwrap();
    let file = std::fs::File::create(path("index.lz4")).unwrap();
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(file);
    lz4.write_all(index.as_bytes()).unwrap();
    lz4.finish().unwrap();
    for name in ["plain", "index.gz", "index.lz4"] {
        let db = path(&format!("db-{name}"));
        let db = ["--data", db.to_str().unwrap()];
        let file = path(name);
        succeeds(&run(&db, &format!("import DB --format deb822 {}", file.display())));
        assert_eq!(succeeds(&run(&db, "scan DB --keys-only")), "a=1/all\nb=2/amd64\n");
        let json = "{\"Package\":\"a\",\"Version\":\"1\",\"Architecture\":\"all\",\
                    \"Description\":\"x\\ny\"}";
        assert_eq!(run(&db, "get DB a=1/all").stdout, json.as_bytes());
    }
    std::fs::write(path("cut.gz"), &std::fs::read(path("index.gz")).unwrap()[..40]).unwrap();
    let db = path("db-cut");
    let db = ["--data", db.to_str().unwrap()];
    let cut = format!("import DB --format deb822 {}", path("cut.gz").display());
    assert!(fails(&run(&db, &cut), 3).contains("cannot be read"));
}

#[test]
fn ctrl_c_stores_what_it_reports() {
    let dir = TempDir::new().unwrap();
    let db = dir.path().to_str().unwrap();
    let mut command = terrace();
    command.args(["import", "--data", db, "--format", "tsv", "-"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        let mut number = 0_u64;
        while writeln!(stdin, "{number:08}\tvalue").is_ok() {
            number += 1;
        }
        number
    });
    // Some entries go in before the signal.
    std::thread::sleep(std::time::Duration::from_millis(100));
    let id = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(id, Signal::INT).unwrap();
    let mut complaint = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{complaint}");
    let written = writer.join().unwrap();
    let numbers: Vec<usize> =
        complaint.split(|letter: char| !letter.is_ascii_digit()).flat_map(str::parse).collect();
    let [stored, skip] = numbers[..] else { panic!("{complaint}") };
    assert_eq!(stored, skip);
    assert!(stored as u64 <= written);
    let db = ["--data", db];
    let keys = run(&db, "scan DB --keys-only");
    assert_eq!(succeeds(&keys).lines().count(), stored);
}

#[test]
fn usage_and_failures_have_their_codes() {
    let dir = TempDir::new().unwrap();
    let missing = dir.path().join("missing");
    let db = ["--data", missing.to_str().unwrap()];
    assert!(fails(&run(&db, "get DB a"), 3).contains("there is no database in"));
    assert!(!missing.exists());
    for wrong in ["get a", "get DB", "scan DB --prefix a --from b"] {
        fails(&run(&db, wrong), 2);
    }
    fails(&run(&db, "get DB --connect 127.0.0.1:1 a"), 2);
    fails(&run(&db, "put DB --escaped \\q 1"), 2);
    fails(&run(&db, "bench nothing DB"), 2);
    let complaint = run(&["--connect", "127.0.0.1:1"], "get DB a");
    assert!(fails(&complaint, 3).contains("no server answers at 127.0.0.1:1"));
    assert!(fails(&run(&db, "serve DB --listen 0.0.0.0:0"), 2).contains("--password-file"));
    assert!(!missing.exists());
    let help = run(&[], "--help");
    assert!(succeeds(&help).contains("130  ended by Ctrl-C"));
}

#[test]
fn a_reader_that_goes_is_no_failure() {
    let dir = TempDir::new().unwrap();
    let db = ["--data", dir.path().to_str().unwrap()];
    let lines: String = (0..20_000).map(|number| format!("{number}\tvalue\n")).collect();
    succeeds(&run_with_input(&db, "import DB --format tsv -", lines.as_bytes()));
    let mut command = terrace();
    command.args(["scan", "--data", db[1]]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// The names of all figures in `json`, those within others after them.
fn names(json: &serde_json::Value, within: &str, found: &mut Vec<String>) {
    for (name, value) in json.as_object().into_iter().flatten() {
        found.push(format!("{within}{name}"));
        names(value, &format!("{within}{name}."), found);
    }
}

#[test]
fn the_figures_have_one_shape_with_a_directory_and_with_a_server() {
    let shapes = std::cell::RefCell::new(Vec::new());
    both_ways(|db| {
        succeeds(&run(db, "put DB a 1"));
        let json = run(db, "stats DB --output json");
        let mut found = Vec::new();
        names(&serde_json::from_slice(&json.stdout).unwrap(), "", &mut found);
        let text = run(db, "stats DB");
        let sections = succeeds(&text).lines().filter(|line| !line.starts_with(' '));
        // What was done since the start only a server knows.
        let sections = sections.filter(|line| *line != "since the server was started");
        // A busy machine delays writers.
        let sections = sections.filter(|line| !line.ends_with("unusual"));
        found.extend(sections.map(str::to_owned));
        shapes.borrow_mut().push(found);
    });
    let shapes = shapes.into_inner();
    assert!(shapes[0].len() > 20, "{:?}", shapes[0]);
    assert_eq!(shapes[0], shapes[1]);
}

#[test]
fn stats_check_and_compact_run() {
    both_ways(|db| {
        succeeds(&run(db, "put DB a 1"));
        assert!(!succeeds(&run(db, "stats DB")).is_empty());
        let json = run(db, "stats DB --output json");
        let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert!(json.is_object());
        let dranges = run(db, "stats dranges DB");
        let dranges = succeeds(&dranges);
        assert!(dranges.starts_with("1 dranges; 0 major and 0 minor "), "{dranges}");
        let json = run(db, "stats dranges DB --output json");
        let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(json["dranges"][0]["start"], "");
        let l0 = run(db, "stats l0 DB");
        assert!(succeeds(&l0).starts_with("plain: "), "{l0:?}");
        let json = run(db, "stats l0 DB --output json");
        let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!((&json["unit"], &json["container"]), (&"rows".into(), &serde_json::Value::Null));
    });
    let dir = TempDir::new().unwrap();
    let db = ["--data", dir.path().to_str().unwrap()];
    succeeds(&run(&db, "put DB a 1"));
    succeeds(&run(&db, "compact DB"));
    succeeds(&run(&db, "check DB"));
    assert_eq!(run(&db, "get DB a").stdout, b"1");
}

#[test]
fn sizes_are_planned() {
    let plan = ["plan", "--data-bytes", "80G", "--memory", "16G", "--pmem", "8G"];
    let text = terrace().args(plan).args(["--value-bytes", "4096"]).output().unwrap();
    assert!(succeeds(&text).ends_with("--l0 container --l0-bytes 8G --l0-path DIR\n"), "{text:?}");
    let json = terrace().args(plan).args(["--format", "json"]).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&json["l0"]["kind"], &json["l0"]["bytes"], &json["level_bytes_base"]),
        (&"container".into(), &(8_u64 << 30).into(), &(8_u64 << 30).into())
    );
    let none = terrace().args(["plan", "--data-bytes", "0", "--memory", "16G"]).output().unwrap();
    fails(&none, 2);
}

#[test]
fn tiers_are_planned() {
    let plan = |words: &str| {
        let sizes = ["plan", "--data-bytes", "400G", "--memory-bytes", "8G"];
        terrace().args(sizes).args(words.split_whitespace()).output().unwrap()
    };
    let needs = "--value-bytes 1000 --rate 300 --reads 70 --scans 5% --local-bytes-max 100G";
    let text = plan(&format!("{needs} --lose 60s"));
    let text = succeeds(&text);
    assert!(text.contains("\nchosen: L6 in the store, a mirror each 1m\n"), "{text}");
    assert!(text.contains("needs 507 GiB of local disk, 100 GiB are there"), "{text}");
    assert!(text.ends_with("--cloud-url URL --local-bytes 100G --cloud-mirror 60s\n"), "{text}");
    let json = plan(&format!("{needs} --lose nothing --get-latency 20ms --output json"));
    let json: serde_json::Value = serde_json::from_str(succeeds(&json)).unwrap();
    let chosen = &json["chosen"];
    assert_eq!((&chosen["durability"], &chosen["loss"]), (&"durable".into(), &"nothing".into()));
    assert_eq!(json["needs"]["get_latency_us"], 20_000.0);
    assert!(chosen["dollars"]["total"].as_f64().unwrap() > 60.0, "{chosen}");
    assert!(json["rejected"].as_array().unwrap().len() > 3, "{json}");
    let free = plan(&format!("{needs} --cloud-prices none --local-prices none --output json"));
    let free: serde_json::Value = serde_json::from_str(succeeds(&free)).unwrap();
    assert_eq!(free["chosen"]["dollars"]["total"], 0.0);
    // What cannot be had says what comes nearest; what is wrong says what is wrong.
    let impossible = plan(&format!("{needs} --read-p99-max 1ms"));
    assert!(fails(&impossible, 2).contains("the nearest is \"L"), "{impossible:?}");
    for (wrong, why) in [
        ("--reads 70", "--rate"),
        ("--rate 300", "--local-bytes-max"),
        ("--rate 0 --local-bytes-max 1T", "is no number of operations a second"),
        ("--rate 9 --local-bytes-max 1T --reads 80 --scans 30", "100 % at most together"),
        ("--rate 9 --local-bytes-max 1T --lose 10ms", "from 1s on"),
        ("--rate 9 --local-bytes-max 1T --l0-bytes 1G", "cannot be used with"),
    ] {
        let output = plan(wrong);
        assert!(fails(&output, 2).contains(why), "{wrong}: {output:?}");
    }
}

#[test]
fn reads_are_explained() {
    both_ways(|db| {
        succeeds(&run(db, "put DB a 1"));
        succeeds(&run(db, "put DB b 2"));
        succeeds(&run(db, "delete DB b"));
        let there = run(db, "explain get DB a");
        let there = succeeds(&there);
        assert!(there.starts_with("GET a at number ") && there.contains("└─ there: number 1"));
        let gone = run(db, "explain get DB b");
        assert!(succeeds(&gone).ends_with("└─ hidden: tombstone 3 is the newest entry\n"));
        let json = run(db, "explain get DB b --output json");
        let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!((&json["key"], &json["verdict"]["kind"]), (&"b".into(), &"deleted".into()));
        assert_eq!(
            (&json["totals"]["memtables"], &json["totals"]["file_blocks"]),
            (&1.into(), &0.into())
        );
        let scan = run(db, "explain scan DB --from a --reverse --limit 5");
        let scan = succeeds(&scan);
        assert!(scan.starts_with("SCAN from 'a' on, backwards, at number 3;"), "{scan}");
        assert!(scan.contains("stepped over 1 tombstone"), "{scan}");
        assert!(scan.contains("asked 1 source (1 memtable); read no block\n"), "{scan}");
        let json = run(db, "explain scan DB --prefix a --output json");
        let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!((&json["key_count"], &json["ended_by"]), (&1.into(), &"interval".into()));
    });
}

#[test]
fn slow_operations_are_shown_and_forgotten() {
    let dir = TempDir::new().unwrap();
    let server = Server::start_with(dir.path(), &mut terrace(), &["--durability", "sync"]);
    let db = ["--connect", &server.address];
    succeeds(&run(&db, "put DB key 1"));
    let slow = run(&db, "slow DB");
    let slow = succeeds(&slow);
    assert!(slow.contains("write  key  1 entry, sync "), "{slow}");
    let json = run(&db, "slow DB --reset --output json");
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["operation"], &json["key"]), (&"WRITE".into(), &"key".into()));
    assert_eq!(succeeds(&run(&db, "slow DB")), "nothing was slow in the last minutes\n");
    assert_eq!(server.stop(), 0);
}

/// The only file in `dir` with this ending.
fn file_with(dir: &std::path::Path, ending: &str) -> std::path::PathBuf {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.into_iter().find(|path| path.to_str().unwrap().ends_with(ending)).unwrap()
}

#[test]
fn damage_is_found_shown_and_repaired() {
    let dir = TempDir::new().unwrap();
    let (source, target) = (dir.path().join("db"), dir.path().join("new"));
    let db = ["--data", source.to_str().unwrap()];
    let lines: String = (0..5000).map(|number| format!("{number:05}\tvalue {number}\n")).collect();
    succeeds(&run_with_input(&db, "import DB --format tsv -", lines.as_bytes()));
    succeeds(&run(&db, "compact DB"));
    succeeds(&run(&db, "put DB later 1"));
    assert!(succeeds(&run(&db, "check DB")).contains("no damage found"));
    let (table, log) = (file_with(&source, ".table"), file_with(&source, ".log"));
    let manifest = file_with(&source, ".manifest");
    let files = [
        ("table", table.clone(), "block"),
        ("log", log, "closing"),
        ("manifest", manifest, "snapshot"),
        ("current", source.join("CURRENT"), "manifest="),
    ];
    for (kind, file, shows) in &files {
        let text = run(&[], &format!("inspect {kind} {}", file.display()));
        assert!(succeeds(&text).contains(shows), "{kind}: {text:?}");
        let json = run(&[], &format!("inspect {kind} {} --entries --output json", file.display()));
        let json = succeeds(&json);
        let first = json.lines().next().unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(first).unwrap()["damaged"], false);
    }
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&table, &bytes).unwrap();
    let checked = run(&db, "check DB");
    assert!(fails(&checked, 1).contains("terrace repair"));
    assert!(text(&checked.stdout).contains("a data block is damaged"), "{checked:?}");
    let checked = run(&db, "check DB --output json");
    let report: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(report["findings"][0]["severity"], "damage");
    assert_eq!(report["findings"][0]["file"], table.to_str().unwrap());
    let shown = run(&[], &format!("inspect table {}", table.display()));
    assert_eq!(shown.status.code(), Some(1));
    assert!(text(&shown.stdout).contains("DAMAGED"), "{shown:?}");

    let repaired = run(&db, &format!("repair DB --out {} --output json", target.display()));
    assert_eq!(repaired.status.code(), Some(1), "{repaired:?}");
    let report: serde_json::Value = serde_json::from_slice(&repaired.stdout).unwrap();
    assert_eq!(report["basis"], "manifest");
    assert_eq!(report["lost"].as_array().unwrap().len(), 1);
    let new = ["--data", target.to_str().unwrap()];
    assert!(succeeds(&run(&new, "check DB")).contains("put together by a repair"));
    assert_eq!(run(&new, "get DB later").stdout, b"1");
    assert_eq!(run(&new, "get DB 04999").stdout, b"value 4999");
    // Never over something that is there.
    fails(&run(&db, &format!("repair DB --out {}", target.display())), 3);
    assert_eq!(std::fs::read(&table).unwrap(), bytes, "the damaged database was written");
}

#[test]
fn a_benchmark_writes_its_figures() {
    let dir = TempDir::new().unwrap();
    let (db, json) = (dir.path().join("db"), dir.path().join("report.json"));
    let db = ["--data", db.to_str().unwrap()];
    let sizes = "--records 1000 --operations 1000 --threads 2 --value-bytes 20";
    let rest = format!("DB {sizes} --durability interval:50 --json {}", json.display());
    let output = run(&db, &format!("bench load {rest}"));
    assert!(succeeds(&output).contains("load: put every record once"));
    assert!(!succeeds(&run(&db, &format!("bench a {rest}"))).contains("loaded first"));
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["name"], "a");
    assert_eq!(report["durability"], "interval:50");
    assert_eq!(report["operations"], 1000);
    for name in ["ops_per_s", "p50_us", "p99_99_us", "write_amplification", "cpu_us_per_op"] {
        assert!(report[name].as_f64().unwrap() > 0.0, "{name}");
    }
}

/// Goal: the baselines of dranges can be measured by hand.
#[test]
fn a_benchmark_runs_over_static_trees_and_with_every_version_flushed() {
    let dir = TempDir::new().unwrap();
    let (db, json) = (dir.path().join("db"), dir.path().join("report.json"));
    let data = ["--data", db.to_str().unwrap()];
    let sizes = "--records 1000 --operations 1000 --value-bytes 20 --dranges 1";
    let rest = format!("DB {sizes} --static-trees 5 --json {}", json.display());
    let output = run(&data, &format!("bench sw50 {rest} --baseline flush-all-versions"));
    let text = succeeds(&output);
    assert!(text.contains("static trees 5") && !text.contains("imbalance"), "{text}");
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["static_trees"], 5);
    assert_eq!(report["baselines"], serde_json::json!(["flush-all-versions"]));
    assert!(report["dranges"].is_null());
    assert_eq!(std::fs::read_dir(&db).unwrap().count(), 5);
    for wrong in [
        "--static-trees 0",
        "--baseline flush-all-versions --memtable-merging on",
        "--baseline no-such",
    ] {
        fails(&run(&data, &format!("bench load DB {sizes} {wrong}")), 2);
    }
}

#[test]
fn a_server_asks_for_its_password() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "secret\n").unwrap();
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(&file, mode(0o644)).unwrap();
    let data = dir.path().join("db");
    let db = ["--data", data.to_str().unwrap()];
    let option = format!("--password-file {}", file.display());
    let open = run(&db, &format!("serve DB --listen 127.0.0.1:0 {option}"));
    assert!(fails(&open, 3).contains("chmod 600"));
    std::fs::set_permissions(&file, mode(0o600)).unwrap();
    let server = Server::start(&data, terrace().env("TERRACE_PASSWORD", "secret"));
    let db = ["--connect", &*server.address];
    assert!(fails(&run(&db, "put DB a 1"), 3).contains("NOAUTH"));
    succeeds(&run(&db, &format!("put DB a 1 {option}")));
    std::fs::write(&file, "wrong").unwrap();
    assert!(fails(&run(&db, &format!("get DB a {option}")), 3).contains("WRONGPASS"));
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_stopped_server_leaves_everything_and_a_directory_is_open_once() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().to_str().unwrap();
    let server = Server::start(dir.path(), &mut terrace());
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.write_all(b"SET a 1\r\n").unwrap();
    let mut reply = [0; 5];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+OK\r\n");
    assert!(fails(&run(&["--data", path], "put DB b 2"), 3).contains("--connect"));
    assert_eq!(server.stop(), 0);
    assert_eq!(run(&["--data", path], "get DB a").stdout, b"1");
}

#[test]
fn a_server_out_of_files_goes_on_accepting() {
    let dir = TempDir::new().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 40; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_terrace")]);
    let server = Server::start(dir.path(), &mut shell);
    let connections: Vec<TcpStream> =
        (0..80).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    drop(connections);
    // Until the server has noticed that those are gone, others are told that there are too many.
    let served = (0..10_000).any(|_| {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        let mut reply = [0; 7];
        // A server that cuts the connection at once may do so before it is written to.
        let is_sent = stream.write_all(b"PING\r\n").is_ok();
        is_sent && stream.read_exact(&mut reply).is_ok() && &reply == b"+PONG\r\n"
    });
    assert!(served, "nobody was served any more");
    assert_eq!(server.stop(), 0);
}

#[test]
fn sorted_data_is_ingested_and_a_checkpoint_holds_it() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (source, copy) = (path("source"), path("copy"));
    let lines: String = (0..2000).map(|n| format!("key{n:05}\tvalue {n}\n")).collect();
    let ingest = format!("ingest --data {source} --format tsv -");
    let output = run_with_input(&[], &ingest, lines.as_bytes());
    succeeds(&output);
    assert!(text(&output.stderr).contains("2000 entries"), "{output:?}");
    assert_eq!(succeeds(&run(&["--data", &source], "get DB key00777")), "value 777");

    // Out of order: nothing of it is there, and the line is named.
    let wrong = b"z1\ta\nz3\tb\nz2\tc\n";
    let output = run_with_input(&[], &ingest, wrong);
    let complaint = fails(&output, 3);
    assert!(complaint.contains("standard input:3:"), "{complaint}");
    assert!(complaint.contains("nothing was ingested"), "{complaint}");
    fails(&run(&["--data", &source], "get DB z1"), 1);

    let output = run(&[], &format!("checkpoint --data {source} --out {copy}"));
    succeeds(&output);
    assert!(text(&output.stderr).contains(" 0 copied"), "{output:?}");
    succeeds(&run(&["--data", &source], "delete DB key00777"));
    assert_eq!(succeeds(&run(&["--data", &copy], "get DB key00777")), "value 777");
    succeeds(&run(&[], &format!("check --data {copy}")));
    let again = run(&[], &format!("checkpoint --data {source} --out {copy}"));
    assert!(fails(&again, 3).contains("is not empty"), "{again:?}");
    let exported = run(&["--data", &copy], "export DB --format tsv");
    assert_eq!(succeeds(&exported), lines);
}

/// As when Ctrl-C ends both sides of a pipe: the data ends too, before it is whole.
#[test]
fn ctrl_c_ingests_nothing() {
    let dir = TempDir::new().unwrap();
    let db = dir.path().to_str().unwrap();
    let mut command = terrace();
    command.args(["ingest", "--data", db, "--format", "tsv", "-"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "key\tvalue").unwrap();
    // Signals are caught before the database is made.
    while !dir.path().join("CURRENT").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let id = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(id, Signal::INT).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(fails(&output, 130).contains("nothing was ingested"), "{output:?}");
    assert_eq!(succeeds(&run(&["--data", db], "scan DB")), "");
}

#[test]
fn a_put_may_depend_on_what_is_there() {
    both_ways(|db| {
        succeeds(&run(db, "put DB lock one --if-absent"));
        assert!(fails(&run(db, "put DB lock two --if-absent"), 1).contains("nothing was written"));
        fails(&run(db, "put DB lock two --if-equal three"), 1);
        succeeds(&run(db, "put DB lock two --if-equal one"));
        assert_eq!(succeeds(&run(db, "get DB lock")), "two");
        fails(&run(db, "put DB other two --if-equal one"), 1);
        succeeds(&run(db, "put DB lock x --if-equal two --ttl 1h"));
        assert!(succeeds(&run(db, "get DB lock --output json")).contains("expiry_ms"));
        succeeds(&run(db, "put DB session one --if-absent --ttl 1h"));
        fails(&run(db, "put DB session two --if-absent --ttl 1h"), 1);
        assert!(succeeds(&run(db, "scan DB --prefix s --output json")).contains("expiry_ms"));
    });
}

#[test]
fn a_benchmark_on_an_emulated_disk_says_so() {
    let dir = TempDir::new().unwrap();
    let (db, json) = (dir.path().join("db"), dir.path().join("report.json"));
    let db = ["--data", db.to_str().unwrap()];
    let sizes = "--records 100 --operations 100 --threads 2 --value-bytes 20";
    let rest = format!("DB {sizes} --json {} --disk-profile ssd-2017", json.display());
    let output = run(&db, &format!("bench load {rest}"));
    assert!(succeeds(&output).contains("disk ssd-2017 (emulated)"));
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["disk"], "ssd-2017 (emulated)");
    let wrong = run(&db, "bench load DB --disk-profile fast");
    assert!(fails(&wrong, 2).contains("ssd-2017"), "{wrong:?}");
}
