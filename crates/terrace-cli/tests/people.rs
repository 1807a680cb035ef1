//! Goal: the command line understands what people write, and its output can be given back to it.
//! Method: run it, on a directory and on a server.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "the test runs the program, and looks at its files")]

mod common;

use common::{Server, both_ways, fails, run, run_with_input, succeeds, terrace, text};
use tempfile::TempDir;

#[test]
fn what_scan_prints_can_be_given_to_get() {
    let keys: [&[u8]; 7] = [
        b"tab\tkey",
        b"back\\slash",
        b"\\t",
        b"nul\0",
        b"\xff\xfe",
        "Grüße".as_bytes(),
        b"new\nline",
    ];
    both_ways(|db| {
        let mut import = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            let json = std::str::from_utf8(key).map(|text| serde_json::json!(text));
            let base64 = serde_json::json!({ "base64": "//4=" });
            let line = serde_json::json!({
                "key": json.unwrap_or(base64), "value": format!("value {number}"),
            });
            import.extend_from_slice(format!("{line}\n").as_bytes());
        }
        succeeds(&run_with_input(db, "import DB --format jsonl -", &import));
        for hex in ["", "--hex"] {
            let scanned = run(db, &format!("scan DB {hex}"));
            let lines: Vec<&str> = succeeds(&scanned).lines().collect();
            assert_eq!(lines.len(), keys.len());
            for line in lines {
                let (key, value) = line.split_once('\t').unwrap();
                let got =
                    terrace().arg("get").args(db).args(hex.split_whitespace()).arg(key).output();
                let got = got.unwrap();
                assert_eq!(succeeds(&got).trim_end(), value, "{key}");
            }
        }
        let raw = terrace().arg("get").args(db).args(["--raw", "back\\slash"]).output().unwrap();
        assert_eq!(succeeds(&raw), "value 1");
        let wrong = terrace().arg("get").args(db).arg("back\\slash").output().unwrap();
        assert!(fails(&wrong, 2).contains("--raw"), "{wrong:?}");
    });
}

#[test]
fn several_keys_are_got_and_missing_ones_are_named() {
    both_ways(|db| {
        succeeds(&run(db, "put DB a 1"));
        succeeds(&run(db, "put DB b 2 --ttl 1h"));
        let got = run(db, "get DB a nope b no");
        assert_eq!(text(&got.stdout), "a\t1\nb\t2\n");
        assert!(fails(&got, 1).contains("there are no keys nope, no"), "{got:?}");
        let json = run(db, "get DB a b --output json");
        let lines: Vec<serde_json::Value> =
            succeeds(&json).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(lines[0]["expiry_ms"].is_null() && lines[1]["expiry_ms"].is_u64(), "{lines:?}");
        assert_eq!(lines[1]["value"], "2");
        assert!(fails(&run(db, "get DB a b --output raw"), 2).contains("one key"));
        assert_eq!(succeeds(&run(db, "get DB --hex 61")), "31\n");
        fails(&run(db, "scan DB --hex --output json"), 2);
    });
}

#[test]
fn values_are_taken_as_they_are_unless_said_otherwise() {
    both_ways(|db| {
        succeeds(&run(db, "put DB json {\"a\":\"b\\nc\"}"));
        assert_eq!(run(db, "get DB json").stdout, b"{\"a\":\"b\\nc\"}");
        succeeds(&run(db, "put DB lines a\\nb --escaped"));
        assert_eq!(run(db, "get DB lines").stdout, b"a\nb");
        succeeds(&run(db, "put DB --hex 00ff 0a"));
        assert_eq!(run(db, "get DB \\x00\\xff").stdout, b"\n");
        fails(&run(db, "put DB --hex 0 00"), 2);
    });
}

#[test]
fn intervals_are_counted_and_deleted() {
    both_ways(|db| {
        for key in ["+", "-", "a", "b", "ba", "bb", "c"] {
            succeeds(&run(db, &format!("put DB -- {key} 1")));
        }
        let count = |rest: &str| succeeds(&run(db, &format!("count DB {rest}"))).trim().to_owned();
        assert_eq!(count(""), "7");
        assert_eq!(count("--prefix b"), "3");
        assert_eq!(count("--from=- --to b"), "2");
        assert_eq!(count("--from c --to b"), "0");
        let dry = run(db, "delete DB --prefix b --dry-run");
        assert_eq!(succeeds(&dry), "3 keys would be deleted\n  b\n  ba\n  bb\n");
        let dry = run(db, "delete DB a nope a --dry-run");
        assert_eq!(succeeds(&dry), "1 keys would be deleted\n  a\n");
        assert_eq!(count(""), "7");
        succeeds(&run(db, "delete DB --prefix b"));
        assert_eq!(count(""), "4");
        succeeds(&run(db, "delete DB --from=- --to a"));
        assert_eq!(succeeds(&run(db, "scan DB --keys-only")), "+\na\nc\n");
        for wrong in ["delete DB", "delete DB --prefix a b", "delete DB --all --from a"] {
            fails(&run(db, wrong), 2);
        }
        succeeds(&run(db, "delete DB --all"));
        assert_eq!(count(""), "0");
    });
}

#[test]
fn keyspaces_are_apart_and_listed_and_dropped() {
    both_ways(|db| {
        succeeds(&run(db, "put DB k default"));
        succeeds(&run(db, "--keyspace users put DB k named"));
        succeeds(&run(db, "put DB k numbered --keyspace 3"));
        assert_eq!(succeeds(&run(db, "get DB k")), "default");
        assert_eq!(succeeds(&run(db, "get DB k --keyspace users")), "named");
        assert_eq!(succeeds(&run(db, "get DB k --keyspace 3")), "numbered");
        assert_eq!(succeeds(&run(db, "get DB k --keyspace 0")), "default");
        let names = |listed: &str| {
            let names =
                listed.lines().map(|line| line.split_whitespace().next().unwrap().to_owned());
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(succeeds(&run(db, "keyspaces DB"))), ["3", "default", "users"]);
        for read in
            ["get DB k", "scan DB", "count DB", "export DB", "explain get DB k", "delete DB k"]
        {
            let complaint = run(db, &format!("{read} --keyspace nope"));
            assert!(fails(&complaint, 1).contains("there is no keyspace nope"), "{complaint:?}");
        }
        succeeds(&run_with_input(db, "import DB --keyspace users --format tsv -", b"l\t1\nm\t2\n"));
        assert_eq!(succeeds(&run(db, "count DB --keyspace users")), "3\n");
        assert!(succeeds(&run(db, "export DB --keyspace 3")).contains("numbered"));
        assert!(succeeds(&run(db, "explain get DB k --keyspace users")).contains("there: number"));
        assert_eq!(succeeds(&run(db, "delete DB k --keyspace users")), "1\n");
        assert!(fails(&run(db, "keyspaces DB drop users"), 2).contains("--yes"));
        succeeds(&run(db, "keyspaces DB drop users --yes"));
        assert_eq!(names(succeeds(&run(db, "keyspaces DB"))), ["3", "default"]);
        assert!(fails(&run(db, "keyspaces DB drop users --yes"), 1).contains("no keyspace users"));
        assert!(fails(&run(db, "keyspaces DB drop 3 --yes"), 3).contains("exists always"));
    });
}

#[test]
fn sorted_files_and_compactions_go_into_keyspaces() {
    let dir = TempDir::new().unwrap();
    let db = ["--data", dir.path().to_str().unwrap(), "--keyspace", "sorted"];
    succeeds(&run_with_input(&db, "ingest DB --format tsv -", b"a\t1\nb\t2\n"));
    assert_eq!(succeeds(&run(&db, "count DB")), "2\n");
    succeeds(&run(&db, "compact DB"));
    assert_eq!(succeeds(&run(&db[..2], "count DB")), "0\n");
    fails(&run(&db[..2], "compact DB --keyspace nope"), 1);
}

#[test]
fn an_ingest_goes_into_several_keyspaces_or_into_none() {
    let dir = TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let users = file("users.tsv", "1\tada\n2\tgrace\n");
    let names = file("names.tsv", "ada\t1\ngrace\t2\n");
    let unsorted = file("unsorted.tsv", "grace\t2\nada\t1\n");
    let data = dir.path().join("db");
    let db = ["--data", data.to_str().unwrap()];
    let ingest = |names: &str| {
        run(&db, &format!("ingest DB --format tsv --into users={users} --into names={names}"))
    };
    let complaint = ingest(&unsorted);
    assert!(fails(&complaint, 3).contains("unsorted.tsv:2: the key comes before"), "{complaint:?}");
    assert_eq!(succeeds(&run(&db, "count DB --keyspace users")), "0\n");
    succeeds(&ingest(&names));
    assert_eq!(succeeds(&run(&db, "get DB 2 --keyspace users")), "grace");
    assert_eq!(succeeds(&run(&db, "get DB grace --keyspace names")), "2");
    assert_eq!(succeeds(&run(&db, "count DB")), "0\n");
    // Beside files for the keyspace that is chosen.
    succeeds(&run(&db, &format!("ingest DB --format tsv {users} --into other={names}")));
    assert_eq!(succeeds(&run(&db, "count DB")), "2\n");
    assert_eq!(succeeds(&run(&db, "count DB --keyspace other")), "2\n");
    for wrong in ["", "--into users", "--into =file", "--into users="] {
        fails(&run(&db, &format!("ingest DB {wrong}")), 2);
    }
}

#[test]
fn where_the_database_is_may_be_said_before_and_after_and_by_the_environment() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("db");
    let data = data.to_str().unwrap();
    succeeds(&run(&[], &format!("--data {data} put a 1")));
    assert_eq!(succeeds(&run(&[], &format!("get a --data {data}"))), "1");
    let by_environment = |variables: &[(&str, &str)], words: &[&str]| {
        terrace().envs(variables.iter().copied()).args(words).output().unwrap()
    };
    let here = ("TERRACE_DATA", data);
    assert_eq!(succeeds(&by_environment(&[here], &["get", "a"])), "1");
    succeeds(&by_environment(&[here], &["check"]));
    // The command line counts, and complaints say what did.
    let nowhere = ("TERRACE_DATA", "/nowhere/at/all");
    assert_eq!(succeeds(&by_environment(&[nowhere], &["get", "a", "--data", data])), "1");
    let complaint = by_environment(&[nowhere], &["get", "a"]);
    assert!(fails(&complaint, 3).contains("TERRACE_DATA says so"), "{complaint:?}");
    let server = ("TERRACE_CONNECT", "127.0.0.1:1");
    let complaint = by_environment(&[server], &["get", "a"]);
    assert!(fails(&complaint, 3).contains("TERRACE_CONNECT says so"), "{complaint:?}");
    let complaint = by_environment(&[here, server], &["get", "a"]);
    assert!(fails(&complaint, 2).contains("are both set"), "{complaint:?}");
    // What works on a directory alone does not mind the other.
    succeeds(&by_environment(&[here, server], &["adopt"]));
    let complaint = run(&[], &format!("--data {data} get --connect 127.0.0.1:1 a"));
    assert!(fails(&complaint, 2).contains("both said"), "{complaint:?}");
    let complaint = run(&[], "get a");
    assert!(fails(&complaint, 2).contains("which database?"), "{complaint:?}");
    // No database is filled by accident, and nothing that is said goes unheard.
    let complaint = by_environment(&[here], &["bench", "load", "--records", "10"]);
    assert!(fails(&complaint, 2).contains("--data"), "{complaint:?}");
    let complaint = run(&[], "adopt --connect 127.0.0.1:1");
    assert!(fails(&complaint, 2).contains("no server has open"), "{complaint:?}");
    let complaint = run(&[], &format!("slow --data {data}"));
    assert!(fails(&complaint, 2).contains("no use for --data"), "{complaint:?}");
    let complaint = run(&[], &format!("check --data {data} --keyspace x"));
    assert!(fails(&complaint, 2).contains("no use for --keyspace"), "{complaint:?}");
}

#[test]
fn sizes_are_what_people_write() {
    let plan = |words: &[&str]| terrace().arg("plan").args(words).output().unwrap();
    let one = plan(&["--data-bytes", "1.5T", "--memory-bytes", "16GiB", "--l0-bytes", "0.5G"]);
    let old = plan(&["--data-bytes", "1536G", "--memory", "16G", "--pmem", "512M"]);
    assert_eq!(succeeds(&one), succeeds(&old));
    let wrong = plan(&["--data-bytes", "many", "--memory-bytes", "1e9"]);
    assert!(fails(&wrong, 2).contains("1.5G"), "{wrong:?}");
}

#[test]
fn help_is_in_groups_and_papers_switches_are_in_the_long_one() {
    let help = run(&[], "--help");
    let titles =
        ["\nData:\n  get ", "\nFiles:\n  import ", "\nOperating:\n  serve ", "\nMeasuring:\n"];
    for title in titles {
        assert!(succeeds(&help).contains(title), "{help:?}");
    }
    let (short, long) = (run(&[], "bench -h"), run(&[], "bench --help"));
    for switch in ["--dranges", "--memtable-merging", "--baseline", "--static-trees"] {
        assert!(!succeeds(&short).contains(switch) && succeeds(&long).contains(switch), "{switch}");
    }
    assert!(!succeeds(&run(&[], "repair -h")).contains("--connect"));
    assert!(succeeds(&run(&[], "scan -h")).contains("--keyspace"));
}

#[test]
fn a_keyspace_made_through_a_server_is_in_its_directory() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path(), &mut terrace());
    let db = ["--connect", &*server.address];
    succeeds(&run(&db, "put DB a 1 --keyspace users"));
    assert_eq!(server.stop(), 0);
    let data = ["--data", dir.path().to_str().unwrap()];
    assert_eq!(succeeds(&run(&data, "get DB a --keyspace users")), "1");
}

#[test]
fn commands_that_only_look_read_beside_a_running_server() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path(), &mut terrace());
    let (there, here) = (["--connect", &*server.address], ["--data", dir.path().to_str().unwrap()]);
    succeeds(&run(&there, "put DB a 1"));
    succeeds(&run(&there, "put DB b 2 --keyspace users"));
    for (line, shown) in [
        ("get DB a", "1"),
        ("get DB b --keyspace users", "2"),
        ("scan DB --output json", "\"a\""),
        ("count DB", "1"),
        ("keyspaces DB", "users"),
        ("stats DB", "memtable"),
        ("explain get DB a", "memtable"),
        ("export DB", "a"),
    ] {
        let output = run(&here, line);
        assert!(succeeds(&output).contains(shown), "{line}: {output:?}");
        let said = text(&output.stderr).matches("is open in another process").count();
        assert_eq!(said, 1, "{line}: {output:?}");
    }
    // What was written since is there, and writing is refused as ever.
    succeeds(&run(&there, "put DB a 3"));
    assert_eq!(succeeds(&run(&here, "get DB a")), "3");
    for line in ["put DB a 4", "delete DB a", "keyspaces DB drop users --yes"] {
        assert!(fails(&run(&here, line), 3).contains("is in use"), "{line}");
    }
    assert_eq!(server.stop(), 0);
    let alone = run(&here, "get DB a");
    assert_eq!((succeeds(&alone), text(&alone.stderr)), ("3", ""));
}

#[test]
fn inspect_sees_what_it_is_given() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("db");
    let db = ["--data", data.to_str().unwrap()];
    let lines: String = (0..5000).map(|number| format!("{number:05}\tvalue\n")).collect();
    succeeds(&run_with_input(&db, "ingest DB --format tsv -", lines.as_bytes()));
    succeeds(&run(&db, "put DB later 1"));
    let files = || std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path());
    let shows =
        [("table", "footer"), ("log", "batch"), ("manifest", "snapshot"), ("CURRENT", "current")];
    for (ending, part) in shows {
        let file = files().find(|path| path.to_str().unwrap().ends_with(ending)).unwrap();
        // By what it says of itself, not by its name.
        let copy = dir.path().join("a file");
        std::fs::copy(&file, &copy).unwrap();
        let shown = terrace().arg("inspect").arg(&copy).output().unwrap();
        assert!(succeeds(&shown).contains(part), "{shown:?}");
        let summary = terrace().args(["inspect", "--summary"]).arg(&copy).output().unwrap();
        assert!(succeeds(&summary).lines().count() <= 8, "{summary:?}");
    }
    let all = run(&[], &format!("inspect {}", data.display()));
    let text = succeeds(&all).to_owned();
    assert!(text.contains(".table: table") && text.contains("block: "), "{text}");
    let json = run(&[], &format!("inspect {} --output json", data.display()));
    for line in succeeds(&json).lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    let table = files().find(|path| path.to_str().unwrap().ends_with("table")).unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let damaged = run(&[], &format!("inspect {}", data.display()));
    assert!(fails(&damaged, 1).contains("terrace check"), "{damaged:?}");
    let strange = dir.path().join("strange");
    std::fs::write(&strange, "nothing of ours").unwrap();
    let unknown = run(&[], &format!("inspect {}", strange.display()));
    assert!(fails(&unknown, 2).contains("--kind"), "{unknown:?}");
    fails(&run(&[], &format!("inspect {} --kind manifest", strange.display())), 1);
}

#[test]
fn a_plan_says_what_it_costs() {
    let plan = terrace().args(["plan", "--data-bytes", "80G", "--memory-bytes", "16G"]).output();
    let plan = plan.unwrap();
    let text = succeeds(&plan);
    for part in ["  disk  ", "  writing  ", "  files  ", "  restart  ", "ulimit -n"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("persistent"), "{text}");
    let words = ["plan", "--data-bytes", "80G", "--memory-bytes", "16G", "--output", "json"];
    let json = terrace().args(words).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(json["cost"]["disk_bytes"].as_u64().unwrap() > 80 << 30, "{json}");
}

#[test]
fn sizes_of_keyspaces_and_intervals_are_estimated() {
    both_ways(|db| {
        let lines: String = (0..2000).map(|number| format!("k{number:04}\tvalue\n")).collect();
        succeeds(&run_with_input(
            db,
            "import DB --keyspace users --format tsv -",
            lines.as_bytes(),
        ));
        let json = run(db, "keyspaces DB --output json");
        let users = succeeds(&json).lines().last().unwrap();
        let users: serde_json::Value = serde_json::from_str(users).unwrap();
        assert_eq!(users["name"], "users");
        let entries = users["approximate_entries"].as_u64().unwrap();
        assert!((1800..2200).contains(&entries), "{users}");
        assert!(users["approximate_bytes"].as_u64().unwrap() > 2000 * 10, "{users}");
        let count = |rest: &str| {
            let counted = run(db, &format!("count DB --keyspace users --approximate {rest}"));
            succeeds(&counted).trim().parse::<u64>().unwrap()
        };
        assert!((1800..2200).contains(&count("")), "{}", count(""));
        assert!((300..1700).contains(&count("--prefix k0")), "{}", count("--prefix k0"));
        assert_eq!(count("--from b --to a"), 0);
        assert_eq!(succeeds(&run(db, "count DB --approximate")), "0\n");
    });
}

/// A server counts what all its clients do; of a directory nobody has asked anything yet.
#[test]
fn keyspaces_say_what_they_were_asked() {
    both_ways(|db| {
        succeeds(&run(db, "put DB key value --keyspace users"));
        succeeds(&run(db, "get DB key --keyspace users"));
        fails(&run(db, "get DB other --keyspace users"), 1);
        let is_server = db[0] == "--connect";
        let shown = run(db, "keyspaces DB --stats");
        let text = succeeds(&shown);
        let users = text.split("users").nth(1).unwrap();
        assert_eq!(users.contains("nothing was asked"), !is_server, "{text}");
        let mut lines = users.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let is_missed = lines.any(|words| words == ["get", "missed", "count", "1"]);
        assert_eq!(is_missed, is_server, "{text}");
        let json = run(db, "keyspaces DB --stats --output json");
        let users = succeeds(&json).lines().last().unwrap();
        let users: serde_json::Value = serde_json::from_str(users).unwrap();
        let (stats, count) = (&users["stats"], u64::from(is_server));
        assert_eq!(stats["put_count"].as_u64().unwrap_or(0), count, "{users}");
        assert_eq!(stats["get_found_count"].as_u64().unwrap_or(0), count, "{users}");
        assert_eq!(stats["write_bytes"].as_u64().unwrap_or(0), 8 * count, "{users}");
        let plain = run(db, "keyspaces DB --output json");
        assert!(!succeeds(&plain).contains("stats"), "{plain:?}");
    });
}

#[test]
fn stats_say_what_is_here_and_a_server_what_it_does() {
    both_ways(|db| {
        succeeds(&run(db, "put DB a 1"));
        let shown = run(db, "stats DB");
        let text = succeeds(&shown);
        assert!(text.lines().next().unwrap().ends_with("unusual"), "{text}");
        assert!(text.contains("\nwhat is here\n"), "{text}");
        let is_server = db[0] == "--connect";
        assert_eq!(text.contains("since the server was started"), is_server, "{text}");
        let watched = run(db, "stats DB --watch 20ms --times 2");
        if is_server {
            let lines: Vec<&str> = succeeds(&watched).lines().collect();
            assert!(lines.len() == 3 && lines[0].contains("writes/s"), "{lines:?}");
        } else {
            assert!(fails(&watched, 2).contains("--connect"), "{watched:?}");
        }
    });
}
