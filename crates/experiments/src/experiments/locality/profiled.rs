//! The plots of Figures 4, 5, 6 and 11 for any profile.

use super::Sweep;
use super::figure_4::SWITCH;
use super::figure_11::{ARCHITECTURES, COASTS};
use evenkeel_bench::plot::Plot;
use evenkeel_schemes::locality::model::{Architecture, Distances, Racks, Usage, shipped};

/// What the model makes of an application as switches, ps, reads and the distance of data centres are others and all else stays. Where
/// nothing is central, SDC is left out.
pub fn plots(usage: &Usage, distances: Distances, racks: Racks) -> Vec<Plot> {
    let all = if distances.central.is_some() {
        &Architecture::ALL[..]
    } else {
        &ARCHITECTURES
    };
    let sweep =
        |over, range, mean: &dyn Fn(Architecture, f64) -> Option<f64>, name: &str, title: &str| {
            let sweep = Sweep {
                architectures: all,
                over,
                range,
                mean: &|one, at| mean(one, at).unwrap_or(f64::NAN),
            };
            sweep.plot(format!("advice-{name}"), title.into())
        };
    let now = distances.switch();
    let slowest = SWITCH.1.max(2.0 * now);
    let centres = Racks {
        racks: 2,
        copies: 2,
    };
    vec![
        sweep(
            "switch, ms",
            (0.0, slowest),
            &|one, switch| shipped::mean(one, usage, distances.with_switch(switch), racks),
            "switch",
            "Mean latency by the switches' speed",
        ),
        sweep(
            "ps",
            (0.0, 1.0),
            &|one, ps| shipped::mean(one, &Usage { ps, ..*usage }, distances, racks),
            "ps",
            "Mean latency by the share of keys that are a session's own",
        ),
        sweep(
            "share of reads",
            (0.0, 1.0),
            &|one, reads| shipped::mean(one, &usage.with_reads(reads), distances, racks),
            "reads",
            "Mean latency by the share of reads",
        ),
        Sweep {
            architectures: &ARCHITECTURES,
            over: "ps",
            range: (0.0, 1.0),
            mean: &|one, ps| {
                let usage = Usage { ps, ..*usage };
                shipped::mean(one, &usage, COASTS, centres).unwrap_or(f64::NAN)
            },
        }
        .plot(
            "advice-centres".into(),
            "Mean latency over two data centres, 5 ms within and 40 ms between".into(),
        ),
    ]
}
