//! What the server says of itself: `COMMAND`, `INFO`, `CONFIG`.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use super::client::unknown_subcommand;
use super::context::Context;
use super::fail::{CommandResult, fail, fail_with, shown};
use super::table::{COMMANDS, CommandSpec, find};
use crate::REDIS_VERSION;
use crate::glob::Glob;
use crate::net;
use crate::protocol::{Replies, Request};

pub(super) fn command(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let replies = &mut *ctx.replies;
    if request.len() == 1 {
        replies.array(COMMANDS.len());
        COMMANDS.iter().for_each(|spec| put_spec(replies, spec));
        return Ok(());
    }
    match request.get(1).to_ascii_lowercase().as_slice() {
        b"count" if request.len() == 2 => replies.count(COMMANDS.len()),
        b"list" if request.len() == 2 => {
            replies.array(COMMANDS.len());
            COMMANDS.iter().for_each(|spec| replies.bulk(spec.name.as_bytes()));
        }
        b"info" if request.len() == 2 => {
            replies.array(COMMANDS.len());
            COMMANDS.iter().for_each(|spec| put_spec(replies, spec));
        }
        b"info" => {
            replies.array(request.len() - 2);
            for name in request.from(2) {
                match find(name) {
                    Some(spec) => put_spec(replies, spec),
                    None => replies.null(),
                }
            }
        }
        b"docs" => {
            let asked: Vec<&CommandSpec> = if request.len() == 2 {
                COMMANDS.iter().collect()
            } else {
                request.from(2).filter_map(find).collect()
            };
            replies.map(asked.len());
            asked.into_iter().for_each(|spec| put_docs(replies, spec));
        }
        b"count" | b"list" => {
            let name = String::from_utf8_lossy(request.get(1)).to_lowercase();
            let text = format!("ERR wrong number of arguments for 'command|{name}' command");
            return Err(fail_with(text));
        }
        _ => return Err(unknown_subcommand("COMMAND", request.get(1))),
    }
    Ok(())
}

fn put_spec(replies: &mut Replies, spec: &CommandSpec) {
    replies.array(10);
    replies.bulk(spec.name.as_bytes());
    replies.integer(spec.arity);
    replies.set(spec.flags.len());
    spec.flags.iter().for_each(|flag| replies.simple(flag));
    let (first, last, step) = spec.keys;
    [first, last, step].into_iter().for_each(|number| replies.integer(number));
    replies.set(1);
    replies.simple(&format!("@{}", spec.group));
    // Tips, key specifications and subcommands: none.
    (0..3).for_each(|_| replies.array(0));
}

fn put_docs(replies: &mut Replies, spec: &CommandSpec) {
    replies.bulk(spec.name.as_bytes());
    let parts = [("summary", spec.summary), ("since", spec.since), ("group", spec.group)];
    replies.map(parts.len());
    for (key, value) in parts {
        replies.bulk(key.as_bytes());
        replies.bulk(value.as_bytes());
    }
}

/// Appends one section of `INFO`, below its heading.
type WriteSection = fn(&Context<'_>, &mut String);

pub(super) fn info(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let asked: Vec<Vec<u8>> = request.from(1).map(<[u8]>::to_ascii_lowercase).collect();
    let wanted = |section: &str| {
        let everything = [&b"all"[..], b"default", b"everything"];
        asked.is_empty()
            || asked
                .iter()
                .any(|word| word == section.as_bytes() || everything.contains(&word.as_slice()))
    };
    let sections: [(&str, WriteSection); 8] = [
        ("Server", info_server),
        ("Clients", info_clients),
        ("Memory", info_memory),
        ("Stats", info_stats),
        ("Replication", |_, out| out.push_str("role:master\r\nconnected_slaves:0\r\n")),
        ("Operation", info_operation),
        ("Cloud", info_cloud),
        ("Terrace", info_terrace),
    ];
    let mut text = String::new();
    for (name, write) in sections {
        if wanted(&name.to_lowercase()) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            put_field(&mut text, "# ", name, "");
            write(ctx, &mut text);
        }
    }
    ctx.replies.text(&text);
    Ok(())
}

fn put_field(out: &mut String, name: &str, separator: &str, value: impl std::fmt::Display) {
    write!(out, "{name}{separator}{value}\r\n").expect("writing to memory does not fail");
}

fn info_server(ctx: &Context<'_>, out: &mut String) {
    let uptime = ctx.shared.started.elapsed().as_secs();
    put_field(out, "redis_version", ":", REDIS_VERSION);
    put_field(out, "redis_mode", ":", "standalone");
    put_field(out, "terrace_version", ":", env!("CARGO_PKG_VERSION"));
    put_field(out, "process_id", ":", net::process_id());
    put_field(out, "tcp_port", ":", ctx.shared.local_port.load(Ordering::Relaxed));
    put_field(out, "uptime_in_seconds", ":", uptime);
    put_field(out, "uptime_in_days", ":", uptime / 86_400);
}

fn info_clients(ctx: &Context<'_>, out: &mut String) {
    put_field(out, "connected_clients", ":", ctx.shared.clients.count());
    put_field(out, "maxclients", ":", ctx.shared.options.clients_max);
    put_field(out, "blocked_clients", ":", 0);
}

fn info_memory(ctx: &Context<'_>, out: &mut String) {
    put_field(out, "mem_clients_normal", ":", ctx.shared.budget.used_bytes());
    put_field(out, "maxmemory_clients", ":", ctx.shared.options.client_bytes_max);
}

fn info_stats(ctx: &Context<'_>, out: &mut String) {
    let counters = &ctx.shared.counters;
    for (name, counter) in [
        ("total_connections_received", &counters.connections),
        ("total_commands_processed", &counters.commands),
        ("rejected_connections", &counters.rejected),
        ("commands_moved_to_waiting_threads", &counters.moved),
        ("failed_authentications", &counters.failed_authentications),
        ("connections_cut_for_limits", &counters.cut),
        ("connections_lost_to_panics", &counters.panics),
    ] {
        put_field(out, name, ":", counter.load(Ordering::Relaxed));
    }
}

/// What an operator has the server do.
fn info_operation(ctx: &Context<'_>, out: &mut String) {
    for (name, value) in ctx.shared.operations.describe() {
        put_field(out, &format!("operation_{name}"), ":", value);
    }
}

/// What lies in the object store, what was asked of it, and about what that costs.
fn info_cloud(ctx: &Context<'_>, out: &mut String) {
    let stats = ctx.shared.db.admin().stats();
    put_field(out, "cloud_enabled", ":", u8::from(stats.cloud.is_some()));
    let Some(cloud) = &stats.cloud else { return };
    match serde_json::to_value(cloud) {
        Ok(figures) => put_json(out, "cloud", &figures),
        Err(error) => put_field(out, "cloud_error", ":", error),
    }
}

/// The store's own figures, flat.
fn info_terrace(ctx: &Context<'_>, out: &mut String) {
    let stats = serde_json::to_value(ctx.shared.db.admin().stats());
    match stats {
        Ok(mut stats) => {
            // It has a section of its own.
            stats.as_object_mut().and_then(|figures| figures.remove("cloud"));
            put_json(out, "", &stats);
        }
        Err(error) => put_field(out, "stats_error", ":", error),
    }
    let dranges = ctx.shared.db.admin().dranges();
    put_field(out, "drange_count", ":", dranges.dranges.len());
    put_field(out, "drange_duplicate_count", ":", dranges.duplicate_count());
    put_field(out, "drange_imbalance", ":", dranges.imbalance);
    put_field(out, "drange_minor_reorganisations", ":", dranges.minor_reorganisations);
    put_field(out, "drange_major_reorganisations", ":", dranges.major_reorganisations);
}

fn put_json(out: &mut String, name: &str, value: &serde_json::Value) {
    let inner = |key: &dyn std::fmt::Display| {
        if name.is_empty() { key.to_string() } else { format!("{name}_{key}") }
    };
    match value {
        serde_json::Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| put_json(out, &inner(key), value));
        }
        serde_json::Value::Array(parts) => {
            parts.iter().enumerate().for_each(|(at, value)| put_json(out, &inner(&at), value));
        }
        serde_json::Value::String(text) => put_field(out, name, ":", text),
        // An amount of money is a plain number, without an exponent.
        serde_json::Value::Number(number) if name.ends_with("_dollars") => {
            put_field(out, name, ":", number.as_f64().unwrap_or_default());
        }
        other => put_field(out, name, ":", other),
    }
}

pub(super) fn config(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    match request.get(1).to_ascii_lowercase().as_slice() {
        b"get" if request.len() >= 3 => config_get(ctx, request),
        b"get" => Err(fail("ERR wrong number of arguments for 'config|get' command")),
        b"set" if request.len() >= 4 && request.len().is_multiple_of(2) => config_set(ctx, request),
        b"set" => Err(fail("ERR wrong number of arguments for 'config|set' command")),
        b"resetstat" => {
            ctx.shared.counters.reset();
            ctx.replies.ok();
            Ok(())
        }
        _ => Err(unknown_subcommand("CONFIG", request.get(1))),
    }
}

/// Changes options of the database: all that are named, or none.
fn config_set(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    // It may wait for threads to be started.
    ctx.needs_waiting_thread()?;
    let refused = |name: &[u8], error: &terrace::Error| {
        let name = shown(name, 64);
        fail_with(format!("ERR CONFIG SET failed for {name}, and changed nothing: {error}"))
    };
    let text = |argument| std::str::from_utf8(argument).unwrap_or("\u{fffd}");
    let admin = ctx.shared.db.admin();
    let mut settings = Vec::new();
    for at in (2..request.len()).step_by(2) {
        let (name, value) = (request.get(at), request.get(at + 1));
        let setting = admin.setting(text(name), text(value));
        settings.push((name, setting.map_err(|error| refused(name, &error))?));
    }
    let before = admin.settings();
    for (name, setting) in settings {
        if let Err(error) = admin.set(setting) {
            for old in before {
                // It held until a moment ago; if it cannot be had back, that is said too.
                admin
                    .set(old)
                    .map_err(|second| fail_with(format!("ERR {error}; {old}: {second}")))?;
            }
            return Err(refused(name, &error));
        }
    }
    ctx.replies.ok();
    Ok(())
}

fn config_get(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let options = &ctx.shared.options;
    // Redis counts in whole seconds, and 0 is for ever.
    let timeout = options.idle_timeout.map_or(0, |timeout| timeout.as_secs().max(1));
    let mut parameters = vec![
        // What redis-benchmark asks for: there are no snapshots, and the log is always on.
        ("save", String::new()),
        ("appendonly", "yes".to_owned()),
        ("bind", options.listen.ip().to_string()),
        ("port", ctx.shared.local_port.load(Ordering::Relaxed).to_string()),
        ("databases", ctx.shared.keyspaces.len().to_string()),
        ("maxclients", options.clients_max.to_string()),
        ("maxmemory", "0".to_owned()),
        ("maxmemory-clients", options.client_bytes_max.to_string()),
        ("proto-max-bulk-len", terrace::limits::VALUE_BYTES_MAX.to_string()),
        ("timeout", timeout.to_string()),
    ];
    let settings = ctx.shared.db.admin().settings();
    let names = settings.iter().map(|setting| setting.name().replace('_', "-"));
    let names: Vec<String> = names.collect();
    let values = settings.iter().map(|setting| setting.value().to_string());
    parameters.extend(names.iter().map(String::as_str).zip(values));
    let mut globs = Vec::new();
    for pattern in request.from(2) {
        let glob = Glob::new(&pattern.to_ascii_lowercase());
        globs.push(glob.ok_or(fail("ERR pattern is longer than 1024 bytes"))?);
    }
    let matched: Vec<_> = parameters
        .iter()
        .filter(|(name, _)| globs.iter().any(|glob| glob.matches(name.as_bytes())))
        .collect();
    ctx.replies.map(matched.len());
    for (name, value) in matched {
        ctx.replies.bulk(name.as_bytes());
        ctx.replies.bulk(value.as_bytes());
    }
    Ok(())
}
