//! A report as people read it: a table for each pool like the paper's Figure 2.

use super::Shown;
use crate::ask;
use evenkeel_profile::{Curve, Figure, Hits, Section, Share};

/// Columns that a line has at most, of remarks.
const WIDTH: usize = 80;

/// All of a report.
pub(super) fn table(shown: &Shown) -> String {
    let Shown { summary, curves } = shown;
    let mut text = format!(
        "profile of {}: {} records in {:.0} s; {} of pages and {} of keys are recorded",
        summary.proxy,
        summary.records,
        summary.seconds,
        part(summary.sampling.pages),
        part(summary.sampling.keys),
    );
    text = wrapped(&text, "");
    for section in &summary.sections {
        text += &format!("\n\n{}", of_section(section));
    }
    for curve in curves {
        text += &format!("\n\n{}", of_curve(curve));
    }
    for remark in &summary.remarks {
        text += &format!("\n\n{}", wrapped(remark, "  ").trim_start());
    }
    text
}

fn part(one_of: u32) -> String {
    match one_of {
        0 => "none".to_owned(),
        1 => "all".to_owned(),
        one_of => format!("one in {one_of}"),
    }
}

fn of_section(section: &Section) -> String {
    let pool = section.pool.as_ref();
    let title = pool.map_or_else(|| "all pools".to_owned(), |pool| format!("pool {pool}"));
    let mut text = format!(
        "{title}: {} commands on {} pages of {} sessions\n",
        section.commands, section.pages, section.sessions
    );
    let figures = [
        ("latency (ms)", section.latency_ms, 3),
        ("switch (ms)", section.switch_ms, 3),
        ("base (ms)", section.base_ms, 3),
        ("ps", section.ps, 3),
        ("ps_rack", section.ps_rack, 3),
        ("rw_cmd", section.rw_cmd, 3),
        ("rw_net", section.rw_net, 3),
        ("hits of gets", section.hits, 3),
        ("object size (bytes)", section.object_bytes, 0),
        ("network size (bytes)", section.network_bytes, 0),
        ("message size (bytes)", section.message_bytes, 0),
        ("commands per page", section.commands_per_page, 1),
        ("requests per page", section.requests_per_page, 1),
    ];
    let figures = figures.map(|(name, figure, digits)| row(name, figure, digits));
    text += &ask::table("|value|95 % of resamples", figures).to_string();
    if !section.mix.is_empty() {
        text += &format!("\n\n{}", mix(&section.mix));
    }
    if !section.racks.is_empty() {
        let rows = section.racks.iter().map(|rack| {
            [
                rack.rack.clone().unwrap_or_else(|| "not known".to_owned()),
                rack.switches
                    .map_or_else(|| "-".to_owned(), |switches| switches.to_string()),
                rack.commands.to_string(),
                format!("{:.3}", rack.p50_ms),
                format!("{:.3}", rack.p99_ms),
            ]
        });
        let heads = "answering rack|switches|commands|p50 (ms)|p99 (ms)";
        text += &format!("\n\n{}", ask::table(heads, rows));
    }
    text
}

/// Which share of gets would find their item, had the pool other memory.
fn of_curve(curve: &Curve) -> String {
    let Curve {
        pool,
        memory_bytes,
        gets,
        unknown,
        points,
    } = curve;
    let title = format!(
        "pool {pool}: hits by memory, of {gets} gets; {:.1} % of all found what was there before",
        unknown * 100.0
    );
    let rows = points.iter().map(|point| {
        let times = memory_bytes.map_or_else(String::new, |memory| {
            format!("× {}", point.bytes as f64 / memory as f64)
        });
        let hits = |hits: Hits| format!("{:.3} ± {:.3}", hits.share, hits.error);
        [
            format!("{:.1} MiB", point.bytes as f64 / f64::from(1 << 20)),
            times,
            hits(point.lru),
            hits(point.segmented),
            hits(point.s3_fifo),
        ]
    });
    let heads = "memory||LRU|memcached's LRU|S3-FIFO";
    format!("{}\n{}", wrapped(&title, ""), ask::table(heads, rows))
}

fn row(name: &str, figure: Option<Figure>, digits: usize) -> [String; 3] {
    let value = figure.map_or_else(
        || "not known".to_owned(),
        |figure| format!("{:.digits$}", figure.value),
    );
    let spread = figure.and_then(|figure| figure.spread);
    let spread = spread.map_or_else(String::new, |(low, high)| {
        format!("{low:.digits$} to {high:.digits$}")
    });
    [name.to_owned(), value, spread]
}

/// Two outcomes a line, as in Figure 2, of those that occurred.
fn mix(mix: &[Share]) -> String {
    let cells = |share: Option<&Share>| {
        let word = share.map_or("", |share| share.outcome);
        let percent = share.map(|share| format!("{:.2} %", share.share.value * 100.0));
        [word.to_owned(), percent.unwrap_or_default()]
    };
    let rows = mix.chunks(2).map(|two| {
        let [first, first_share] = cells(two.first());
        let [second, second_share] = cells(two.get(1));
        [first, first_share, second, second_share]
    });
    ask::plain_table(["outcome", "share", "outcome", "share"], rows).to_string()
}

/// Broken between words so that no line is longer than [`WIDTH`], unless a word is.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = vec![indent.to_owned()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a first line");
        let is_fresh = *line == indent;
        if !is_fresh && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(format!("{indent}{word}"));
        } else {
            *line += if is_fresh { "" } else { " " };
            *line += word;
        }
    }
    lines.join("\n")
}
