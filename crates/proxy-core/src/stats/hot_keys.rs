//! `stats hotkeys`: the keys that stand out.

use evenkeel_protocol::text;
use evenkeel_types::escape;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

/// Most keys that one worker reports of one pool.
pub(crate) const REPORTED_MAX: usize = 128;

/// Most keys that `stats hotkeys` shows of all workers and pools together.
const SHOWN_MAX: usize = 256;

/// A key that is read much, as one worker sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKeyReport {
    /// Its pool.
    pub pool: Arc<str>,
    /// The key as it is stored.
    pub key: Vec<u8>,
    /// Reads per second, at least.
    pub reads_per_second: f64,
    /// Writes per second.
    pub writes_per_second: f64,
    /// Replicas besides what its home holds; 0 when it is not replicated.
    pub gamma: u8,
}

/// A key that is read much, as all workers see it together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HotKeySum {
    /// Reads per second.
    pub reads: f64,
    /// Writes per second.
    pub writes: f64,
    /// Most replicas that a worker reads.
    pub gamma: u8,
}

/// What the workers have reported, by pool and key.
pub(crate) fn sums(reports: &[HotKeyReport]) -> BTreeMap<(&str, &[u8]), HotKeySum> {
    let mut sums: BTreeMap<(&str, &[u8]), HotKeySum> = BTreeMap::new();
    for report in reports {
        let sum = sums.entry((&report.pool, &report.key)).or_default();
        sum.reads += report.reads_per_second;
        sum.writes += report.writes_per_second;
        sum.gamma = sum.gamma.max(report.gamma);
    }
    sums
}

/// Writes what the workers have reported: keys by the sum of their reads.
pub(crate) fn compose(out: &mut Vec<u8>, reports: &[HotKeyReport]) {
    let mut list: Vec<_> = sums(reports).into_iter().collect();
    list.sort_by(|(_, a), (_, b)| b.reads.total_cmp(&a.reads));
    for ((pool, key), sum) in list.into_iter().take(SHOWN_MAX) {
        let HotKeySum {
            reads,
            writes,
            gamma,
        } = sum;
        let state = if gamma > 0 { "HOT" } else { "COLD" };
        out.extend_from_slice(b"STAT ");
        escape(key, out);
        // Writing into memory cannot fail.
        let _ = write!(
            out,
            " pool={pool} state={state} rps={reads:.0} wps={writes:.0} gamma={gamma}"
        );
        out.extend_from_slice(text::CRLF);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_workers_add_up() {
        let report = |pool: &str, key: &str, reads_per_second, gamma| HotKeyReport {
            pool: Arc::from(pool),
            key: key.into(),
            reads_per_second,
            writes_per_second: 1.0,
            gamma,
        };
        let mut out = Vec::new();
        let reports = [
            report("a", "k", 10.0, 0),
            report("b", "k\u{1}", 25.0, 0),
            report("a", "k", 20.0, 3),
        ];
        compose(&mut out, &reports);
        let expected = "STAT k pool=a state=HOT rps=30 wps=2 gamma=3\r\n\
                        STAT k%01 pool=b state=COLD rps=25 wps=1 gamma=0\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
