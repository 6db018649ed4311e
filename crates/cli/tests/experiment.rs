//! `evenkeel experiment` as its users run it.

use std::process::{Command, Output};

fn experiment(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .arg("experiment")
        .args(arguments)
        .output()
        .expect("the program is there")
}

fn json(arguments: &[&str]) -> serde_json::Value {
    // Where a machine stands still while a cluster is loaded, some of it is refused, and the experiment does not go on.
    let output = served(|| {
        let output = experiment(arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        (!told.contains(" keys were stored")).then_some(output)
    });
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {told}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn the_list_names_what_can_be_run() {
    let output = experiment(&["list"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    for name in [
        "spore-1",
        "spore-6a",
        "spore-10b",
        "spore-overhead",
        "rnb-3",
        "rnb-10",
        "rnb-13",
        "rnb-scale",
        "mbal-9",
        "mbal-13",
        "balance-targets",
        "hot-targets",
        "hot-placement",
        "overload",
        "phases",
    ] {
        assert!(text.contains(name), "{name} in {text}");
    }
}

#[test]
fn what_cannot_be_run_is_said() {
    for (arguments, told) in [
        (&["run", "spore-0"][..], "there is no experiment 'spore-0'"),
        (
            &["run", "rnb-2", "--mode", "real"],
            "rnb-2 has no mode real",
        ),
        (
            &["run", "spore-9", "--mode", "sim,real"],
            "spore-9 has no mode real",
        ),
    ] {
        let output = experiment(arguments);
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn an_experiment_that_is_worked_out_gives_the_same_figures_for_the_same_seed() {
    let run = || json(&["run", "rnb-2", "--scale", "quick", "--format", "json"]);
    let report = run();
    assert_eq!(report, run());
    assert_eq!(report["tables"][0]["rows"][0][1], "2.00");
    assert_eq!(
        report["plots"][0]["curves"].as_array().map(Vec::len),
        Some(4)
    );
}

#[test]
fn a_simulated_experiment_writes_its_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("a plain name");
    let report = json(&[
        "run", "spore-7", "--mode", "sim", "--scale", "quick", "--format", "json", "--out", out,
    ]);
    assert_eq!(report["mode"], "sim");
    for file in [
        "spore-7-sim.json",
        "spore-7-sim-reads.svg",
        "spore-7-sim-writes.svg",
    ] {
        assert!(folder.path().join(file).exists(), "{file}");
    }
}

#[test]
fn what_stands_in_for_absent_data_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().to_str().expect("a plain name");
    let report = json(&[
        "run", "rnb-3", "--scale", "quick", "--format", "json", "--data", data,
    ]);
    let notes = report["notes"].to_string();
    assert!(
        notes.contains("A generated graph stands in for Slashdot"),
        "{notes}"
    );
    for claim in report["claims"].as_array().expect("claims") {
        assert_eq!(claim["holds"], true, "{claim}");
    }
}

/// Runs of an experiment until it is served: a machine with much else to do may keep servers from answering in time, or from
/// their serving leases.
const TRIES: usize = 5;

/// What the first run gives that the machine had time for.
fn served<T>(mut run: impl FnMut() -> Option<T>) -> T {
    let found = (0..TRIES).find_map(|_| run());
    found.expect("a machine that serves what is offered")
}

#[test]
fn an_experiment_with_real_servers_writes_its_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("a plain name");
    let report = served(|| {
        let report = json(&[
            "run", "spore-1", "--scale", "quick", "--format", "json", "--out", out,
        ]);
        let rows = report["tables"][0]["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 3 * 2, "two rates in three settings");
        let answered = |row: &serde_json::Value| -> f64 {
            let answered = row[2].as_str().and_then(|n| n.parse().ok());
            answered.expect("requests/s")
        };
        rows.iter().all(|row| answered(row) > 0.0).then_some(report)
    });
    let kept = std::fs::read_to_string(folder.path().join("spore-1-real.json")).expect("a report");
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&kept).expect("JSON"),
        report
    );
    let plot = std::fs::read_to_string(folder.path().join("spore-1-real.svg")).expect("a plot");
    assert!(plot.contains("90th percentile"));
}

#[test]
fn the_simulator_is_calibrated_by_a_real_server() {
    let report = json(&["run", "agreement", "--scale", "quick", "--format", "json"]);
    let fitted = &report["tables"][0]["rows"][0];
    let number = |column: usize, unit: &str| -> f64 {
        let text = fitted[column].as_str().expect("a figure");
        let number = text.strip_suffix(unit).and_then(|n| n.parse().ok());
        number.unwrap_or_else(|| panic!("{text} is not in {unit}"))
    };
    // The servers sleep a millisecond for each key, a busy machine wakes them late, and the model says as much of a
    // request by itself, but for its error. What of that counts as a key's and what as a batch's is the machine's affair.
    let one = number(1, " us") + 300.0 * number(2, " us") + number(3, " us");
    let error = number(4, " %") / 100.0;
    assert!(one >= 990.0 * (1.0 - error), "{fitted}");
    assert_eq!(report["claims"].as_array().map(Vec::len), Some(1));
}

#[test]
fn nothing_is_lost_of_loads_on_hot_keys_below_the_capacity() {
    served(|| {
        let report = json(&["run", "overload", "--scale", "quick", "--format", "json"]);
        let cells = &report["tables"][0];
        let column = |name: &str| {
            let mut columns = cells["columns"].as_array().expect("columns").iter();
            columns.position(|column| column == name).expect("a column")
        };
        let rows = cells["rows"].as_array().expect("rows");
        // Of each cell the first second and the rest, and what happens in two of them.
        assert_eq!(rows.len(), 2 + 5 + 4);
        let is_zero =
            |row: &serde_json::Value, name| row[column(name)] == "0" || row[column(name)] == "";
        for row in rows {
            assert!(is_zero(row, "wrong"), "{row}");
        }
        let is_lost = |row| !is_zero(row, "failed") || !is_zero(row, "misses");
        let are_served = rows.iter().filter(|row| row[column("served/s")] != "0");
        let holds = are_served.count() >= 3 && !rows.iter().any(is_lost);
        if !holds {
            eprintln!("lost or hardly served: {rows:?}");
        }
        holds.then_some(())
    });
}

#[test]
fn a_run_that_goes_on_with_another_measures_nothing_again() {
    let run = ["run", "overload", "--scale", "quick", "--cells"];
    let cells = ["proxy killed,links", "--format", "json", "--out"];
    let parts = |report: &serde_json::Value| report["tables"][0]["rows"].clone();
    let is_served = |row: &serde_json::Value| row[6] == "0" && row[7] == "0";
    let (folder, run, measured) = served(|| {
        let folder = tempfile::TempDir::new().expect("a folder");
        let out = folder.path().to_str().expect("a plain name").to_owned();
        let run = [&run[..], &cells, &[&out]].concat();
        let run: Vec<String> = run.into_iter().map(str::to_owned).collect();
        let measured = json(&words(&run));
        let rows = parts(&measured);
        // A second in which the coordinator alone does not hear a server costs nothing.
        let (steady, event) = (&rows[5], &rows[6]);
        assert_eq!((&steady[1], &event[1]), (&"steady".into(), &"event".into()));
        (is_served(steady) && is_served(event)).then_some((folder, run, measured))
    });
    let again = json(&[&words(&run)[..], &["--resume"]].concat());
    assert_eq!(parts(&measured), parts(&again));
    let notes = |report: &serde_json::Value| report["notes"].to_string();
    let taken = "2 figures are those of the run";
    assert!(notes(&again).contains(taken), "{again}");
    assert!(!notes(&measured).contains(taken), "{measured}");
    let rows = parts(&measured);
    let rows = rows.as_array().expect("rows");
    let (proxy, links) = rows.split_at(4);
    let labels = |rows: &[serde_json::Value]| {
        let labels = rows.iter().map(|row| row[1].as_str().expect("a name"));
        labels.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        labels(proxy),
        ["first second", "steady", "recovery", "after"]
    );
    assert_eq!(
        labels(links),
        ["first second", "steady", "event", "recovery", "after"]
    );
    let plots = again["plots"].as_array().expect("plots");
    assert_eq!(plots.len(), 4, "of each what was served, and how fast");
    for plot in plots {
        let file = format!("{}.svg", plot["name"].as_str().expect("a name"));
        assert!(folder.path().join(&file).exists(), "{file}");
    }
}

fn words(line: &[String]) -> Vec<&str> {
    line.iter().map(String::as_str).collect()
}

#[test]
fn a_trace_is_replayed_on_servers_that_have_all_of_its_keys() {
    let data = tempfile::TempDir::new().expect("a folder");
    let folder = data.path().join("ibm-docker-registry");
    std::fs::create_dir(&folder).expect("a folder");
    // Nearly all are asked for once while the cell lasts: they are there before anybody has read them.
    let keys: String = (0..9_000)
        .map(|n| format!("v2\nblob/{}\n", n % 4_500))
        .collect();
    std::fs::write(folder.join("ibm-docker-725k.txt.gz"), keys).expect("room");
    let data = data.path().to_str().expect("a plain name");
    let run = ["run", "overload", "--scale", "quick", "--format", "json"];
    let registry = ["--cells", "Docker registry"];
    let replayed = served(|| {
        let replayed = json(&[&run[..], &registry, &["--data", data]].concat());
        let rows = replayed["tables"][0]["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 2, "the first second and the rest");
        // None failed, none was a miss, some were served.
        let is_served = |row: &serde_json::Value| row[6] == "0" && row[7] == "0" && row[3] != "0";
        rows.iter().all(is_served).then_some(replayed)
    });
    let notes = replayed["notes"].to_string();
    assert!(!notes.contains("stood in"), "{notes}");
}

#[test]
fn workers_are_compared_as_many_as_are_told() {
    let report = json(&[
        "run",
        "mbal-9",
        "--scale",
        "quick",
        "--workers",
        "2",
        "--format",
        "json",
    ]);
    for table in report["tables"].as_array().expect("tables") {
        let rows = table["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 2, "Evenkeel and memcached");
        for row in rows {
            assert_eq!(row[1], "2");
            assert_eq!(row[6], "100.0 %", "of the gets hit: {row}");
        }
    }
    let scaling = &report["claims"][0];
    assert_eq!(scaling["holds"], serde_json::Value::Null, "{scaling}");
}

#[test]
fn workloads_follow_each_other_on_real_servers_that_tell_what_they_do() {
    let report = json(&["run", "mbal-13", "--scale", "quick", "--format", "json"]);
    let rows = report["tables"][0]["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 3, "workloads A, B and C");
    for row in rows {
        let intervals = (1..=4).map(|column| {
            let count = row[column].as_str().and_then(|n| n.parse::<u64>().ok());
            count.expect("a number of intervals")
        });
        assert!(intervals.sum::<u64>() > 0, "balancers look at loads: {row}");
    }
}
