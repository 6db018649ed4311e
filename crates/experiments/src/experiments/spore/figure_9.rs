//! Figure 9: a pool of 64 servers with ten million keys, read-only.

use super::Experiment;
use crate::args::Mode;
use crate::experiments::curves::report::{Latencies, Measured};
use crate::experiments::curves::setting::Setting;
use crate::experiments::curves::size::Size;
use crate::report::{Claim, Report};
use crate::run::Run;
use std::time::Duration;

pub(in crate::experiments) const FIGURE_9: Experiment = Experiment {
    name: "spore-9",
    title: "Many servers and keys, read-only",
    source: "SPORE, Figure 9",
    modes: &[Mode::Sim],
    run: figure_9,
};

const PLAIN: &str = "plain, Zipf 0.99";
const REPLICATED: &str = "with hot keys replicated, Zipf 0.99";
const IDEAL: &str = "by the map, uniform keys";

fn figure_9(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let servers = run.by_scale([16, 64, 64, 1_000]);
    let size = Size {
        keys: run.by_scale([20_000, 200_000, 10_000_000, 20_000_000]),
        // About the paper's on EC2: 350,000 requests/s of 64.
        capacity: run.by_scale([1_000, 1_000, 5_500, 5_500]),
        // Its largest number of clients there; fewer before servers that carry less, since each client asks the home
        // of a hot key once in every lease.
        connections: run.by_scale([66, 150, 832, 2_000]),
        names: 1,
        warm_up: Duration::from_secs(run.by_scale([10, 30, 20, 20])),
        duration: Duration::from_secs(run.by_scale([5, 15, 15, 15])),
        ..Size::of(run)
    };
    let measured = Measured::new(
        run,
        &size,
        Latencies::Together,
        IDEAL,
        &[
            (PLAIN, Setting::plain(servers).get_share(1.0)),
            (REPLICATED, Setting::replicated(servers).get_share(1.0)),
            (IDEAL, Setting::ideal(servers).get_share(1.0)),
        ],
    )?;
    let mut report = measured.report(experiment, run);
    report
        .settings
        .insert(0, ("number of servers", servers.to_string()));
    let gain = measured.ratio(REPLICATED, PLAIN);
    report.claims = vec![
        Claim::new(
            "replication carries more than as many plain servers",
            "significantly more",
            format!("{gain:.2} times as much"),
            Some(gain > 1.1),
        ),
        measured.efficiency_claim("of plain servers", PLAIN, "", None),
        measured.efficiency_claim("with replication", REPLICATED, "", None),
    ];
    Ok(report)
}
