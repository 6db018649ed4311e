//! What the demo found out, as a table and as JSON.

use super::measure::Sample;
use crate::up::args::{Args, DemoArgs};
use comfy_table::ContentArrangement;
use evenkeel_bench::table::framed;
use serde::Serialize;

/// Result of a demo. The names are a contract with scripts.
#[derive(Clone, Debug, Serialize)]
pub struct DemoReport {
    /// Version of this program.
    pub version: &'static str,
    /// False when a signal ended the demo before its time; then phases are missing.
    pub completed: bool,
    /// What was asked for.
    pub settings: Settings,
    /// The phases in their order, each without its first `settle_seconds`.
    pub phases: Vec<PhaseReport>,
    /// Requests that were answered with an error, or not at all, over all phases.
    pub errors: u64,
    /// Values that nobody wrote for the key they came with.
    pub wrong_values: u64,
    /// Processes that had to be started again.
    pub restarts: u64,
}

/// What was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// Servers.
    pub servers: usize,
    /// Workers of each server.
    pub workers_per_server: u16,
    /// Memory of each server.
    pub memory_mb_per_server: usize,
    /// Lease on replicas.
    pub lease_ms: u32,
    /// Connections of the load, each a client of its own.
    pub connections: usize,
    /// Requests a second that were due.
    pub rate_per_second: f64,
    /// Number of keys.
    pub keys: u64,
    /// Exponent of the keys' popularity.
    pub zipf_exponent: f64,
    /// Share of gets.
    pub get_share: f64,
    /// Size of values: a number or a range.
    pub value_size_bytes: String,
    /// Length of the phase without balancing.
    pub off_seconds: f64,
    /// Length of the two phases with balancing together.
    pub on_seconds: f64,
    /// Left out at the start of each phase.
    pub settle_seconds: Vec<f64>,
    /// Seed.
    pub seed: u64,
}

/// Which phase of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Balancing off.
    Off,
    /// Balancing on.
    OnBeforeSwitch,
    /// Balancing on, other keys hot.
    OnAfterSwitch,
}

/// One phase.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseReport {
    /// Which.
    pub phase: Phase,
    /// Seconds that the figures are about.
    pub measured_seconds: f64,
    /// The most loaded server's requests by the mean of all servers.
    pub server_load_max_over_mean: f64,
    /// Requests a second that were answered, and not by an error.
    pub requests_per_second: f64,
    /// Median latency.
    pub latency_us_p50: f64,
    /// 99th percentile of latency.
    pub latency_us_p99: f64,
    /// Keys found of keys asked for.
    pub hit_ratio: f64,
    /// Keys with replicas at the end.
    pub hot_keys: usize,
    /// Replicas at the end, over all hot keys.
    pub replicas: usize,
    /// A read may be older than the newest write by this much at most: the lease. 0 without
    /// replication.
    pub staleness_bound_ms: u32,
    /// Requests answered with an error, or not at all.
    pub errors: u64,
    /// Each server.
    pub servers: Vec<ServerReport>,
}

/// One server in one phase.
#[derive(Clone, Debug, Serialize)]
pub struct ServerReport {
    /// Its name.
    pub name: String,
    /// Requests for keys that it answered a second, replica reads included.
    pub requests_per_second: f64,
}

impl Phase {
    /// As the table calls it.
    pub fn title(self) -> &'static str {
        match self {
            Phase::Off => "off, as memcached",
            Phase::OnBeforeSwitch => "on",
            Phase::OnAfterSwitch => "on, other keys hot",
        }
    }

    /// Whether load is balanced.
    pub fn is_on(self) -> bool {
        self != Phase::Off
    }
}

impl PhaseReport {
    /// The figures of a phase.
    pub fn new(phase: Phase, sample: &Sample, names: &[String], lease_ms: u32) -> Self {
        PhaseReport {
            phase,
            measured_seconds: sample.load.seconds,
            server_load_max_over_mean: sample.max_over_mean(),
            requests_per_second: sample.requests_per_second(),
            latency_us_p50: sample.load.latency_us(0.5),
            latency_us_p99: sample.load.latency_us(0.99),
            hit_ratio: sample.load.counters.hit_ratio(),
            hot_keys: sample.hot_keys.len(),
            replicas: sample.replicas(),
            staleness_bound_ms: if phase.is_on() { lease_ms } else { 0 },
            errors: sample.load.counters.errors,
            servers: names
                .iter()
                .enumerate()
                .map(|(server, name)| ServerReport {
                    name: name.clone(),
                    requests_per_second: sample.server_rate(server),
                })
                .collect(),
        }
    }

    fn row(&self) -> Vec<String> {
        vec![
            self.phase.title().to_owned(),
            format!("{:.0}", self.requests_per_second),
            format!("{:.1}", self.latency_us_p50 / 1e3),
            format!("{:.1}", self.latency_us_p99 / 1e3),
            self.errors.to_string(),
            format!("{:.2}", self.server_load_max_over_mean),
            format!("{:.0} %", self.hit_ratio * 100.0),
        ]
    }
}

impl DemoReport {
    /// A report without phases yet.
    pub fn new(args: &Args, settle_seconds: Vec<f64>) -> Self {
        let demo: &DemoArgs = &args.of_demo;
        DemoReport {
            version: env!("CARGO_PKG_VERSION"),
            completed: false,
            settings: Settings {
                servers: args.servers,
                workers_per_server: args.threads,
                memory_mb_per_server: args.memory_limit,
                lease_ms: args.lease_ms,
                connections: demo.connections,
                rate_per_second: args.demo_rate(),
                keys: demo.keys,
                zipf_exponent: demo.zipf,
                get_share: demo.get_share,
                value_size_bytes: demo.value_size.to_string(),
                off_seconds: demo.off_seconds,
                on_seconds: demo.on_seconds,
                settle_seconds,
                seed: demo.seed,
            },
            phases: Vec::new(),
            errors: 0,
            wrong_values: 0,
            restarts: 0,
        }
    }

    /// For scripts.
    ///
    /// # Errors
    /// When a figure is no number of JSON; none of ours is not.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// For people, within `width` columns where there is a limit.
    pub fn to_table(&self, width: Option<u16>) -> String {
        let heads = "balancing|served/s|p50 ms|p99 ms|errors|max/mean|hits";
        let rows = self.phases.iter().map(PhaseReport::row);
        let mut table = framed(heads, rows, 1..usize::MAX);
        if let Some(width) = width {
            table.set_content_arrangement(ContentArrangement::Dynamic);
            table.set_width(width);
        }
        let mut text = table.to_string();
        text.push_str(&format!(
            "\n{} errors, {} wrong values, {} restarts",
            self.errors, self.wrong_values, self.restarts
        ));
        if !self.completed {
            text.push_str("; stopped before its end");
        }
        if let [off, on, ..] = &self.phases[..] {
            text.push_str(&format!("\n\n{}", gain(off, on)));
        }
        text
    }
}

/// What balancing has changed, in one sentence.
fn gain(off: &PhaseReport, on: &PhaseReport) -> String {
    let failed = |phase: &PhaseReport| {
        let served = phase.requests_per_second * phase.measured_seconds;
        let errors = phase.errors as f64;
        errors / (served + errors).max(1.0) * 100.0
    };
    format!(
        "Of the same load, the same servers served {:.0} instead of {:.0} requests/s with balancing on: {:.1} instead of {:.1} % were \
         refused or failed, and p99 went from {:.1} to {:.1} ms.",
        on.requests_per_second,
        off.requests_per_second,
        failed(on),
        failed(off),
        off.latency_us_p99 / 1e3,
        on.latency_us_p99 / 1e3
    )
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::sample;
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        args: Args,
    }

    fn report() -> DemoReport {
        let args = Program::parse_from(["up", "--demo"]).args;
        let names = ["server-1".to_owned(), "server-2".to_owned()];
        let mut report = DemoReport::new(&args, vec![5.0; 3]);
        for (phase, loads) in [
            (Phase::Off, [300, 100]),
            (Phase::OnBeforeSwitch, [205, 195]),
            (Phase::OnAfterSwitch, [210, 190]),
        ] {
            let sample = sample(&loads, &[100, 200, 9000]);
            let phase = PhaseReport::new(phase, &sample, &names, 750);
            report.phases.push(phase);
        }
        report.completed = true;
        report
    }

    #[test]
    fn the_table_has_a_row_for_each_phase() {
        let table = report().to_table(None);
        let row = |title: &str| {
            let mut rows = table.lines().filter(|line| line.contains(title));
            rows.next().unwrap_or_else(|| panic!("{title}: {table}"))
        };
        for (title, words) in [
            ("│ off, as memcached ", ["400", "0.2", "9.0", "1.50"]),
            ("│ on  ", ["400", "0.2", "9.0", "1.02"]),
            ("│ on, other keys hot ", ["400", "0.2", "9.0", "1.05"]),
        ] {
            for word in words {
                assert!(row(title).contains(word), "{word}: {table}");
            }
        }
        let told =
            "served 400 instead of 400 requests/s with balancing on: 0.0 instead of 0.0 % were";
        assert!(table.contains(told), "{table}");
    }

    #[test]
    fn the_table_fits_a_narrow_terminal() {
        let table = report().to_table(Some(80));
        let lines: Vec<&str> = table.lines().filter(|line| line.contains('│')).collect();
        assert_eq!(lines.len(), 4, "a line for each row: {table}");
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{table}"
        );
        assert!(table.contains("1.50"), "{table}");
    }

    #[test]
    fn names_in_the_json_are_stable() {
        let json: serde_json::Value =
            serde_json::from_str(&report().to_json().unwrap()).expect("sound JSON");
        let off = &json["phases"][0];
        assert_eq!(off["phase"], "off");
        assert_eq!(json["phases"][2]["phase"], "on_after_switch");
        assert_eq!(off["server_load_max_over_mean"], 1.5);
        assert_eq!(off["staleness_bound_ms"], 0);
        assert_eq!(json["phases"][1]["staleness_bound_ms"], 750);
        assert_eq!(off["servers"][0]["requests_per_second"], 300.0);
        for name in [
            "measured_seconds",
            "requests_per_second",
            "latency_us_p50",
            "latency_us_p99",
            "hit_ratio",
            "hot_keys",
            "replicas",
            "errors",
        ] {
            assert!(off[name].is_number(), "{name}");
        }
        assert_eq!(json["settings"]["lease_ms"], 1000);
        assert_eq!(json["completed"], true);
    }
}
