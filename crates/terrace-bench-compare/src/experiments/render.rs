//! What the reports of an experiment come to: `NAME.json`, `NAME.svg`, and rows of the README
//! beside them. On an emulated disk the names end in `-emulated`.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use terrace_bench::{StoreError, plot};

use super::runner::Reports;
use super::session::{cloud_options, terrace_options};
use super::{Chart, Experiment, Far, Figure, Kind, Subject, space};
use crate::ExperimentArgs;
use crate::cells::Setup;
use crate::engines::{Engine, MEMTABLES, raw_file, rocksdb, slatedb};
use crate::summary::{machine, median, versions};

/// Writes what there is. Nothing is written if some subject never got through some step.
///
/// Errors: a file cannot be written.
pub fn write(
    args: &ExperimentArgs,
    experiment: &Experiment,
    reports: &Reports,
) -> Result<(), StoreError> {
    let whole = experiment.steps().all(|step| {
        experiment.subjects.iter().all(|subject| reports.contains_key(&(step.name, subject.name)))
    });
    if !whole {
        eprintln!("{}: no round is whole, and so nothing is written", experiment.name);
        return Ok(());
    }
    let out = out_of(args, experiment);
    std::fs::create_dir_all(&out)?;
    let stem = match &args.disk_profile {
        Some(_) => format!("{}-emulated", experiment.name),
        None => experiment.name.to_owned(),
    };
    let table = table(args, experiment, reports)?;
    std::fs::write(out.join(format!("{stem}.json")), format!("{table:#}\n"))?;
    draw(args, &out, &stem, experiment, reports)?;
    let rows = readme_rows(&stem, experiment, reports);
    println!("{}", rows.join("\n"));
    let readme = out.join("README.md");
    if let Ok(text) = std::fs::read_to_string(&readme)
        && let Some(changed) = with_rows(&text, &stem, &rows)
    {
        std::fs::write(&readme, changed)?;
    }
    Ok(())
}

/// Where the results of an experiment go.
fn out_of(args: &ExperimentArgs, experiment: &Experiment) -> PathBuf {
    args.out.clone().unwrap_or_else(|| PathBuf::from(experiment.paper.results))
}

/// A figure of each round of a step.
fn figures(reports: &Reports, step: &'static str, subject: &Subject, figure: Figure) -> Vec<f64> {
    let found = reports.get(&(step, subject.name)).into_iter().flatten();
    found.map(|report| report[figure.field()].as_f64().unwrap_or(f64::NAN)).collect()
}

/// How many times the first subject is better than another one: the median of the rounds' own
/// ratios, since neighbours in time are compared.
fn ratio(
    experiment: &Experiment,
    reports: &Reports,
    step: &'static str,
    other: &Subject,
    figure: Figure,
) -> f64 {
    let own = figures(reports, step, &experiment.subjects[0], figure);
    let others = figures(reports, step, other, figure);
    median(own.iter().zip(&others).map(|(own, other)| figure.ratio(*own, *other)).collect())
}

fn table(
    args: &ExperimentArgs,
    experiment: &Experiment,
    reports: &Reports,
) -> Result<Value, StoreError> {
    let mut options = Map::new();
    for subject in experiment.subjects {
        options.insert(subject.name.into(), options_of(args, experiment, subject)?);
    }
    let rows = experiment.steps().flat_map(|step| {
        experiment.subjects.iter().map(move |subject| row(experiment, reports, step.name, subject))
    });
    Ok(json!({
        "experiment": experiment.name,
        "source": format!("{}, {}", experiment.paper.name, experiment.source),
        "meaning": experiment.meaning,
        "headline": experiment.headline,
        "commit": args.commit,
        "seed": args.seed,
        "rounds": args.rounds,
        "scale": args.scale,
        "medium": args.medium.display().to_string(),
        "rate_ops_per_s": args.rate,
        "disk": args.disk_profile.as_ref().map(ToString::to_string),
        "objects": has_far(experiment).then(|| args.objects_profile.to_string()),
        "machine": machine(),
        "versions": versions(),
        "records": experiment.records(args.scale),
        "key_bytes": experiment.data.key_bytes,
        "value_bytes": experiment.data.value_bytes,
        "cache_bytes": experiment.cache_bytes(args.scale),
        "options": options,
        "rows": rows.collect::<Vec<_>>(),
    }))
}

/// One subject, one step: of each figure the median, its spread, and the ratio of the first subject
/// over this one, above 1 where the first is better; and the medians of whatever else reports say
/// in numbers.
fn row(experiment: &Experiment, reports: &Reports, step: &'static str, subject: &Subject) -> Value {
    let found = &reports[&(step, subject.name)];
    let mut fields = Map::new();
    fields.insert("step".into(), step.into());
    fields.insert("subject".into(), subject.name.into());
    fields.insert("rounds".into(), found.len().into());
    for figure in experiment.figures {
        let all = figures(reports, step, subject, *figure);
        let ratio = ratio(experiment, reports, step, subject, *figure);
        fields.insert(
            figure.field().into(),
            json!({
                "median": median(all.clone()),
                "least": all.iter().copied().reduce(f64::min),
                "most": all.iter().copied().reduce(f64::max),
                "first_is_better": ratio,
            }),
        );
    }
    let mut details = Map::new();
    for (name, value) in found[0].as_object().into_iter().flatten() {
        if value.is_number() {
            let all = found.iter().filter_map(|report| report[name].as_f64()).collect();
            details.insert(name.clone(), json!(median(all)));
        }
    }
    fields.insert("details".into(), Value::Object(details));
    Value::Object(fields)
}

/// Whether some subject lies in an object store.
fn has_far(experiment: &Experiment) -> bool {
    experiment.subjects.iter().any(|subject| match subject.kind {
        Kind::Slatedb | Kind::SlatedbNear(_) => true,
        Kind::Terrace(tree) => tree.far != Far::Nothing,
        _ => false,
    })
}

fn options_of(
    args: &ExperimentArgs,
    experiment: &Experiment,
    subject: &Subject,
) -> Result<Value, StoreError> {
    let memtable_bytes = experiment.memtable_bytes(subject, args.scale);
    let setup = Setup {
        cache_bytes: experiment.cache_bytes(args.scale),
        memtable_bytes,
        sync: false,
        transactions: false,
    };
    Ok(match subject.kind {
        Kind::Rocksdb => json!({
            "engine": "rocksdb",
            "memtable_bytes_in_all": memtable_bytes,
            "options": Engine::Rocksdb.options(),
            "disk": args.disk_profile.as_ref().map(|_| {
                "its own rate limiter holds flushes and compactions to the rate of writes; its log \
                 and its reads are not held"
            }),
        }),
        Kind::RocksdbBlobs => json!({
            "engine": "rocksdb",
            "memtable_bytes_in_all": memtable_bytes,
            "options": rocksdb::BLOBS,
        }),
        Kind::RocksdbAtProportions => json!({
            "engine": "rocksdb",
            "write_buffer_bytes": memtable_bytes / MEMTABLES,
            "first_level_bytes": memtable_bytes,
            "options": rocksdb::AT_PROPORTIONS,
        }),
        Kind::Slatedb => json!({
            "engine": "slatedb",
            "memtable_bytes_in_all": memtable_bytes,
            "options": slatedb::FAR,
        }),
        Kind::SlatedbNear(share) => json!({
            "engine": "slatedb",
            "memtable_bytes_in_all": memtable_bytes,
            "options": slatedb::NEAR,
            "near_bytes": (experiment.data_bytes(args.scale) as f64 * share) as u64,
        }),
        Kind::File { on_medium } => json!({
            "engine": "file",
            "on_medium": on_medium,
            "options": raw_file::OPTIONS,
        }),
        Kind::Terrace(tree) => {
            let data_bytes = experiment.data_bytes(args.scale);
            let options = terrace_options(&tree, &setup, data_bytes, &args.medium)?;
            let far = cloud_options(&tree, Path::new("/objects"), data_bytes, args.scale);
            json!({
                "engine": "terrace",
                "memtable_bytes_in_all": memtable_bytes,
                "memtable_bytes": options.memtable_bytes,
                "dranges": tree.dranges,
                "static_trees": tree.static_trees,
                "memtable_merging": options.layout.memtable_merging,
                "flush_all_versions": options.research.flush_all_versions,
                "lookup_index_bytes": options.layout.lookup_index_bytes,
                "scan_all_memtables": options.research.scan_all_memtables,
                "memtables_kept": options.layout.memtables_kept,
                "l0": tree.l0.form.name(),
                "l0_bytes": (data_bytes as f64 * tree.l0.of_data) as u64,
                "l0_on_medium": tree.l0.on_medium,
                "log_on_medium": tree.log_on_medium,
                "l0_cut_all": options.research.l0_cut_all,
                "level_bytes_base": options.layout.level_bytes_base,
                "filter_bits_per_key": options.layout.filter_bits_per_key,
                "far": format!("{:?}", tree.far),
                "local_bytes": far.local_bytes,
                "far_first_level": far.first_level,
                "near": format!("{:?}", options.research.near),
                "near_bytes": far.cache_bytes,
                "near_alone": options.research.near_alone,
                "far_one_by_one": options.research.far_one_by_one,
                "near_bucket_bytes": options.research.near_bucket_bytes,
                "block_cache_bytes": options.cache_bytes,
                "near_meta_none": options.research.near_meta_none,
                "mirror_s": far.mirror.map(|period| period.as_secs_f64()),
                "log_at": format!("{:?}", tree.log_at),
                "log_unbounded": options.research.log_unbounded,
                "recovery_threads": options.layout.recovery_threads,
                "value_log": options.layout.value_log.map(|log| format!("{log:?}")),
            })
        }
    })
}

fn draw(
    args: &ExperimentArgs,
    out: &Path,
    stem: &str,
    experiment: &Experiment,
    reports: &Reports,
) -> Result<(), StoreError> {
    let disk = args.disk_profile.as_ref().map(|disk| format!(", on {disk}")).unwrap_or_default();
    let title = format!("{}{disk}", experiment.meaning);
    match experiment.chart {
        Chart::Bars(figure) => {
            let groups: Vec<String> = experiment.steps().map(|step| step.name.to_owned()).collect();
            let heights = |subject: &Subject| {
                let of = |step: &'static str| median(figures(reports, step, subject, figure));
                experiment.steps().map(|step| of(step.name)).collect()
            };
            let series: Vec<(String, Vec<f64>)> =
                experiment.subjects.iter().map(|one| (one.name.to_owned(), heights(one))).collect();
            let (unit, groups, series) = (figure.unit(), &groups[..], &series[..]);
            let path = out.join(format!("{stem}.svg"));
            plot::bars(&path, &plot::Bars { title: &title, unit, groups, series })
        }
        Chart::OverTime | Chart::SpaceOverTime => {
            let draw = match experiment.chart {
                Chart::SpaceOverTime => draw_space,
                _ => draw_over_time,
            };
            let mut steps = experiment.steps();
            steps.try_for_each(|step| {
                let word = step.name.replace(", ", "-").replace(' ', "-");
                let path = out.join(format!("{stem}-{word}.svg"));
                draw(&path, &title, experiment, reports, step.name)
            })
        }
    }
}

/// Throughput over time of the first round.
fn draw_over_time(
    path: &Path,
    title: &str,
    experiment: &Experiment,
    reports: &Reports,
    step: &'static str,
) -> Result<(), StoreError> {
    let slots = |subject: &Subject| -> Vec<u64> {
        let slots = &reports[&(step, subject.name)][0]["throughput_ops_per_100ms"];
        slots.as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
    };
    let slots: Vec<_> =
        experiment.subjects.iter().map(|one| (one.name.to_owned(), slots(one))).collect();
    let slots: Vec<_> = slots.iter().map(|(name, slots)| (name.clone(), &slots[..])).collect();
    plot::throughput(path, title, &slots)
}

/// Space over the course of a step, of the first round.
fn draw_space(
    path: &Path,
    title: &str,
    experiment: &Experiment,
    reports: &Reports,
    step: &'static str,
) -> Result<(), StoreError> {
    let points = |subject: &Subject| -> Result<Vec<(f64, f64)>, StoreError> {
        let samples = reports[&(step, subject.name)][0][space::SAMPLES].clone();
        Ok(serde_json::from_value(samples)?)
    };
    let series: Result<Vec<_>, StoreError> = experiment
        .subjects
        .iter()
        .map(|one| Ok(plot::Series { name: one.name.to_owned(), points: points(one)? }))
        .collect();
    let axes = ["share of the step", "bytes of all files per living byte"];
    plot::lines(path, &format!("{step}: {title}"), axes, &series?)
}

/// A number for people: as many digits as say something.
pub fn shown(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// What an experiment came to, as rows `| paper | here | ours | paper's |`. The first row says
/// which subject is compared in which figure, the one that matters most. Each row below it says for
/// one step by how much that subject is better than the others. A single step stands in the first
/// row.
fn readme_rows(stem: &str, experiment: &Experiment, reports: &Reports) -> Vec<String> {
    let figure = experiment.figures[0];
    let steps = experiment.steps().map(|step| step_text(experiment, reports, step.name, figure));
    let mut steps: Vec<String> = steps.collect();
    let compared = format!("{}, {}", experiment.subjects[0].name, figure.unit());
    let ours = match &steps[..] {
        [only] => format!("{compared}: {only}"),
        _ => compared,
    };
    if steps.len() == 1 {
        steps.clear();
    }
    let first = format!(
        "| {}, {} | [`{stem}`]({stem}.json) | {ours} | {} |",
        experiment.source, experiment.meaning, experiment.headline
    );
    let below = steps.iter().map(|step| format!("{BELOW} {step} | |"));
    std::iter::once(first).chain(below).collect()
}

/// By how much the first subject is better than the others in one step.
fn step_text(
    experiment: &Experiment,
    reports: &Reports,
    step: &'static str,
    figure: Figure,
) -> String {
    let own = median(figures(reports, step, &experiment.subjects[0], figure));
    let others = experiment.subjects[1..].iter().map(|other| {
        if figure.is_count() {
            let number = median(figures(reports, step, other, figure));
            return format!("{} {}", shown(number), other.name);
        }
        let ratio = ratio(experiment, reports, step, other, figure);
        format!("{}× {}", shown(ratio), other.name)
    });
    let others = others.collect::<Vec<_>>().join(", ");
    format!("{step}: {others} (at {})", shown(own))
}

/// The head of the table that rows go into.
const HEAD: &str = "| paper | here | ours | paper's |";

/// How a row begins that belongs to the experiment of the row above it.
const BELOW: &str = "| | |";

/// `text` with these rows in the place of those of the same name, or at the end of the table;
/// `None` if there is no table.
fn with_rows(text: &str, stem: &str, rows: &[String]) -> Option<String> {
    let mut lines: Vec<&str> = text.lines().collect();
    let name = format!("[`{stem}`]");
    let head = lines.iter().position(|line| *line == HEAD)?;
    let count = lines[head..].iter().take_while(|line| line.starts_with('|')).count();
    let end = head + count;
    let replaced = match lines[head..end].iter().position(|line| line.contains(&name)) {
        Some(at) => {
            let first = head + at;
            let below = lines[first + 1..end].iter().take_while(|line| line.starts_with(BELOW));
            first..first + 1 + below.count()
        }
        None => end..end,
    };
    lines.splice(replaced, rows.iter().map(String::as_str));
    Some(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    //! Goal: figures of many rounds become the table, the row and the charts. Method: reports
    //! written by hand.

    use super::*;
    use crate::experiments::find;

    fn args(out: &Path) -> ExperimentArgs {
        ExperimentArgs {
            names: Vec::new(),
            rounds: 3,
            scale: 0.01,
            seed: 1,
            scratch: None,
            out: Some(out.to_owned()),
            medium: "/dev/shm".into(),
            rate: None,
            commit: "c0ffee".into(),
            disk_profile: None,
            objects_profile: "bucket".parse().unwrap(),
        }
    }

    /// Three rounds in which subject number n (from 1) has n times the bytes of the first one.
    fn reports(experiment: &Experiment) -> Reports {
        let mut reports = Reports::new();
        for step in experiment.steps() {
            for (at, subject) in experiment.subjects.iter().enumerate() {
                let report = |round: f64| {
                    json!({
                        "ops_per_s": 1000.0 * round,
                        "table_amplification": round * (at + 1) as f64,
                        "throughput_ops_per_100ms": [1, 2, 3],
                        "written_bytes": 7,
                    })
                };
                let rounds = [1.0, 2.0, 4.0].map(report);
                reports.insert((step.name, subject.name), rounds.to_vec());
            }
        }
        reports
    }

    #[test]
    fn rounds_become_a_table_rows_and_a_chart() {
        let dir = std::env::temp_dir().join(format!("terrace-render-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let readme = dir.join("README.md");
        std::fs::write(&readme, format!("# N\n\n{HEAD}\n|---|---|---|---|\n\nend\n")).unwrap();
        let experiment = find("nova-sec4-merge").unwrap();
        let reports = reports(experiment);
        // Twice: the second takes the place of the first.
        write(&args(&dir), experiment, &reports).unwrap();
        write(&args(&dir), experiment, &reports).unwrap();
        let text = std::fs::read_to_string(dir.join("nova-sec4-merge.json")).unwrap();
        let table: Value = serde_json::from_str(&text).unwrap();
        let row = &table["rows"][1];
        assert_eq!(
            (&row["subject"], &row["rounds"]),
            (&"kept and flushed together".into(), &3.into())
        );
        assert_eq!(row["table_amplification"]["median"], 4.0);
        assert_eq!(row["table_amplification"]["most"], 8.0);
        assert_eq!(row["table_amplification"]["first_is_better"], 2.0);
        assert_eq!(row["ops_per_s"]["first_is_better"], 1.0);
        assert_eq!(row["details"]["written_bytes"], 7.0);
        assert_eq!(table["options"]["every version flushed"]["flush_all_versions"], true);
        let text = std::fs::read_to_string(&readme).unwrap();
        assert_eq!(text.matches("nova-sec4-merge.json").count(), 1, "{text}");
        assert!(text.contains("2.00× kept and flushed together, 3.00× flushed"), "{text}");
        assert!(text.ends_with("\n\nend\n"));
        let rows = text.lines().filter(|line| line.starts_with(BELOW)).count();
        let steps = experiment.steps().count();
        assert_eq!(rows, if steps == 1 { 0 } else { steps }, "{text}");
        assert!(dir.join("nova-sec4-merge.svg").exists());
        let experiment = find("nova-fig01-stalls").unwrap();
        write(&args(&dir), experiment, &self::reports(experiment)).unwrap();
        assert!(dir.join("nova-fig01-stalls-w100-uniform.svg").exists());
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn an_experiment_that_was_stopped_early_leaves_what_is_there() {
        let dir = std::env::temp_dir().join(format!("terrace-stopped-{}", std::process::id()));
        let experiment = find("nova-sec8-memory").unwrap();
        let mut reports = reports(experiment);
        reports.remove(&("w100 uniform", "8 memtables"));
        write(&args(&dir), experiment, &reports).unwrap();
        assert!(!dir.exists());
    }

    #[test]
    fn the_rows_of_an_experiment_take_the_place_of_those_it_had() {
        let table = format!("{HEAD}\n|---|---|---|---|\n| a | [`a`] | | |\n");
        let had =
            format!("{table}| b | [`b`] | | |\n{BELOW} one | |\n{BELOW} two | |\n| c | | | |\n");
        let rows = ["| b | [`b`] | new | |".to_owned(), format!("{BELOW} other | |")];
        let has = with_rows(&had, "b", &rows).unwrap();
        assert_eq!(has, format!("{table}{}\n{}\n| c | | | |\n", rows[0], rows[1]));
        let has = with_rows(&table, "b", &rows).unwrap();
        assert_eq!(has, format!("{table}{}\n{}\n", rows[0], rows[1]));
    }

    #[test]
    fn a_readme_without_the_table_stays_as_it_is() {
        assert_eq!(with_rows("# none\n", "x", &["| x |".to_owned()]), None);
    }
}
