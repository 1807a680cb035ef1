//! Goal: a real store keeps what the others keep, and what goes wrong on the way to it shows as the
//! seam says, without a secret. Method: the checks of all stores against the server that
//! `scripts/s3.sh` starts; then once more a few requests through a proxy that spoils those to
//! objects with the names of faults. A process reads the address of its server from its
//! environment, so the requests through the proxy are a second one.
//!
//! `TERRACE_S3_URL` says which store: `s3://BUCKET/PREFIX`.

#![allow(clippy::disallowed_methods, reason = "the proxy is no part of what is simulated")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on panics")]

#[path = "../src/objects/contract.rs"]
mod contract;
#[path = "proxy/mod.rs"]
mod proxy;

use std::io::ErrorKind;
use std::process::Command;

use proxy::Fate;
use terrace_env::{Env, EnvResult, ListPage, ObjectName, ObjectStore, Put, RealEnv};

/// Says to a process that it is the one behind the proxy.
const BEHIND_PROXY: &str = "TERRACE_S3_BEHIND_PROXY";

fn main() {
    let Ok(url) = std::env::var("TERRACE_S3_URL") else {
        println!(
            "left out, as TERRACE_S3_URL names no store: run \
             `scripts/s3.sh cargo test -p terrace-env --features cloud --test s3`"
        );
        return;
    };
    let env = RealEnv::new();
    let url = format!("{}/{:016x}", url.trim_end_matches('/'), env.random_u64());
    let open = |name: &str| env.objects().open(&format!("{url}/{name}")).unwrap();
    if std::env::var_os(BEHIND_PROXY).is_some() {
        behind_a_proxy(&*open("faults"));
        return;
    }
    for (name, check) in contract::CHECKS {
        check(&*open(name));
        println!("{name}: ok");
    }
    many_names(&*open("many"));
    a_refusal_shows_no_secret(&*env, &url);
    run_behind_a_proxy();
}

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}

fn many_names(store: &dyn ObjectStore) {
    for number in 0..1_003 {
        store.put(&name(&format!("a/{number:04}")), b"").unwrap();
    }
    let first = store.list("a/", None).unwrap();
    assert_eq!((first.objects.len(), first.is_last), (1_000, false));
    let rest = store.list("a/", Some(&first.objects[999].name)).unwrap();
    assert_eq!((rest.objects.len(), rest.is_last), (3, true));
    println!("lists come in pages: ok");
}

fn a_refusal_shows_no_secret(env: &dyn Env, url: &str) {
    let secrets =
        ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"].map(|key| std::env::var(key).unwrap());
    let nowhere = env.objects().open("s3://no-such-bucket-of-ours").unwrap();
    let store = env.objects().open(url).unwrap();
    let long = name(&"x".repeat(500));
    let texts = [
        format!("{nowhere:?}"),
        format!("{:?}", nowhere.get(&name("a"), None).unwrap_err()),
        nowhere.put(&name("a"), b"x").unwrap_err().to_string(),
        format!("{:?}", nowhere.list("", None).unwrap_err()),
        format!("{:?}", store.put(&long, b"x")),
        format!("{:?}", store.begin_upload(&name("a")).unwrap()),
    ];
    for text in texts {
        assert!(secrets.iter().all(|secret| !text.contains(secret)), "a text shows a secret");
        assert!(!text.contains("Signature") && !text.contains("Authorization"), "{text}");
    }
    println!("no text shows a secret: ok");
}

/// Requests to objects that are named after what happens to them on the way.
fn behind_a_proxy(store: &dyn ObjectStore) {
    let kind = |result: EnvResult<Vec<u8>>| result.unwrap_err().source.kind();
    store.put(&name("plain"), b"0123456789").unwrap();
    assert_eq!(store.get(&name("plain"), None).unwrap(), b"0123456789");
    for (fault, expected, is_unknown) in [
        ("fault-500", ErrorKind::ConnectionAborted, true),
        ("fault-503", ErrorKind::ConnectionAborted, true),
        ("fault-429", ErrorKind::ResourceBusy, false),
        ("fault-403", ErrorKind::PermissionDenied, false),
        ("fault-reset", ErrorKind::ConnectionReset, true),
    ] {
        let object = name(fault);
        assert_eq!(kind(store.get(&object, None)), expected, "{fault}");
        let error = store.put(&object, b"x").unwrap_err();
        assert_eq!((error.source.kind(), error.is_unknown_outcome()), (expected, is_unknown));
        let error = store.put_if_absent(&object, b"x").unwrap_err();
        assert_eq!(error.source.kind(), expected, "{error}");
        assert_eq!(store.delete(&object).unwrap_err().source.kind(), expected, "{fault}");
    }
    store.put(&name("fault-truncate"), &[7; 5_000]).unwrap();
    assert_eq!(kind(store.get(&name("fault-truncate"), None)), ErrorKind::UnexpectedEof);
    assert_eq!(kind(store.get(&name("fault-truncate"), Some(9..4_000))), ErrorKind::UnexpectedEof);

    // The answer is lost: the put was done, once, and a repetition finds the name taken.
    let error = store.put_if_absent(&name("fault-lost"), b"mine").unwrap_err();
    assert!(error.is_unknown_outcome(), "{error}");
    let beside = name("fault-lost.seen");
    assert_eq!(store.put_if_absent(&beside, b"mine").unwrap(), Put::Created);
    let listed = store.list("fault-lost", None).unwrap().objects;
    assert_eq!(listed.len(), 2, "the put whose answer was lost was done");
    println!("faults on the way show: ok");
}

fn run_behind_a_proxy() {
    let endpoint = proxy::start(&std::env::var("AWS_ENDPOINT").unwrap(), |request| {
        let fault = request.object.strip_prefix("fault-").unwrap_or_default();
        match fault {
            "reset" => Fate::Reset,
            "lost" => Fate::LoseAnswer,
            "truncate" if request.method == "GET" => Fate::Truncate,
            _ => fault.parse().map_or(Fate::Pass, Fate::Refuse),
        }
    });
    let status = Command::new(std::env::current_exe().unwrap())
        .env(BEHIND_PROXY, "1")
        .env("AWS_ENDPOINT", endpoint)
        .status()
        .unwrap();
    assert!(status.success(), "the process behind the proxy failed");
}
