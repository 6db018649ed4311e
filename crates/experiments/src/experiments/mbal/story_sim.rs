//! The three workloads on simulated servers.

use super::workloads::{Moment, Pace, Part, RATE, WORKLOADS, tells_loads};
use crate::experiments::curves::setting::Setting;
use crate::experiments::curves::size::Size;
use crate::experiments::curves::subject::load_plan;
use crate::fleet::BalancingCounts;
use crate::run::Run;
use crate::simulated::latency;
use anyhow::anyhow;
use evenkeel_sim::load::{self, Arrivals, LoadPlan, fast};

/// All workloads in a setting.
pub(super) fn parts(
    run: &Run,
    size: &Size,
    label: &str,
    setting: &Setting,
    pace: Pace,
) -> anyhow::Result<Vec<Part>> {
    run.progress
        .say(format!("{label}: {} workloads", WORKLOADS.len()));
    let plan = plan(run, size, setting);
    let asked = WORKLOADS.map(|workload| load::Part {
        popularity: workload.popularity_in(setting),
        get_share: workload.get_share,
    });
    let nanos = [pace.each, pace.step].map(|duration| duration.as_nanos() as u64);
    let told = fast::tell(&plan, &asked, nanos[0], nanos[1]).map_err(|words| anyhow!(words))?;
    Ok(told.iter().map(part).collect())
}

/// Servers of a setting at the rate of the story. Their workers tell their loads, whether anything comes of it or not.
pub(super) fn plan(run: &Run, size: &Size, setting: &Setting) -> LoadPlan {
    let plan = load_plan(run.seed, size, setting);
    let balancing = plan.balancing;
    LoadPlan {
        arrivals: Arrivals::Open {
            rate: RATE * size.capacity(setting),
        },
        balancing: tells_loads(setting).then(|| balancing.unwrap_or_default()),
        ..plan
    }
}

fn part(told: &load::PartReport) -> Part {
    let report = &told.report;
    let did = report.balancing.unwrap_or_default();
    let moment = |moment: &load::Moment| Moment {
        seconds: moment.seconds,
        latency_us_p90: moment.latency_us_p90,
        max_to_mean: moment.load_max_over_mean,
    };
    Part {
        moments: told.moments.iter().map(moment).collect(),
        requests_per_second: report.requests_per_second,
        latency: latency(&report.latency_us),
        errors: report.errors,
        // The simulator ends a run in which one was read.
        wrong_values: 0,
        balancing: BalancingCounts {
            intervals: did.intervals,
            promoted: did.promoted,
            lent: did.lent,
            sent_home: did.sent_home,
            moved: did.moved,
        },
    }
}
