//! `stats hotkeys`: the keys that are hot, and those that get most.

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

/// A key that gets much, as one worker sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct HottestReport {
    /// Its pool.
    pub pool: Arc<str>,
    /// The key as applications know it.
    pub key: Vec<u8>,
    /// Its server, where it has one, by the same name.
    pub home: Option<String>,
    /// Reads per second.
    pub gets_per_second: f64,
    /// Writes per second.
    pub sets_per_second: f64,
    /// Bytes of values per second.
    pub bytes_per_second: f64,
    /// What that costs, in small requests per second.
    pub load: f64,
    /// Why nothing is done about it.
    pub why: &'static str,
}

/// The keys that get most, as one worker sees them or several do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HottestReports {
    /// All requests per second.
    pub requests_per_second: f64,
    /// One for each worker and key.
    pub keys: Vec<HottestReport>,
}

impl HottestReports {
    /// Adds what another worker has reported.
    pub fn add(&mut self, more: HottestReports) {
        self.requests_per_second += more.requests_per_second;
        self.keys.extend(more.keys);
    }
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

/// Writes what the workers have reported: hot keys by the sum of their reads, then the others by what they cost.
pub(crate) fn compose(out: &mut Vec<u8>, hot: &[HotKeyReport], hottest: &HottestReports) {
    let hot = sums(hot);
    let mut list: Vec<_> = hot.iter().collect();
    list.sort_by(|(_, a), (_, b)| b.reads.total_cmp(&a.reads));
    list.truncate(SHOWN_MAX);
    let left = SHOWN_MAX - list.len();
    for ((pool, key), sum) in list {
        let HotKeySum {
            reads,
            writes,
            gamma,
        } = sum;
        let state = if *gamma > 0 { "HOT" } else { "COLD" };
        write_head(out, key, pool, state);
        // Writing into memory cannot fail, here and below.
        let _ = write!(out, "rps={reads:.0} wps={writes:.0} gamma={gamma}");
        out.extend_from_slice(text::CRLF);
    }
    let all = hottest.requests_per_second.max(f64::MIN_POSITIVE);
    let others = added_up(&hottest.keys).into_iter();
    let others = others.filter(|of| !hot.contains_key(&(&*of.pool, &*of.key)));
    for of in others.take(left) {
        let (gets, sets) = (of.gets_per_second, of.sets_per_second);
        write_head(out, &of.key, &of.pool, "COLD");
        let _ = write!(
            out,
            "gets={gets:.0} sets={sets:.0} bytes={:.0} share={:.4} why={}",
            of.bytes_per_second,
            (gets + sets) / all,
            of.why
        );
        out.extend_from_slice(text::CRLF);
    }
}

fn write_head(out: &mut Vec<u8>, key: &[u8], pool: &str, state: &str) {
    out.extend_from_slice(b"STAT ");
    escape(key, out);
    // Writing into memory cannot fail.
    let _ = write!(out, " pool={pool} state={state} ");
}

/// One for each pool and key, the greatest load first.
pub(crate) fn added_up(reports: &[HottestReport]) -> Vec<HottestReport> {
    let mut sums: BTreeMap<(&str, &[u8]), HottestReport> = BTreeMap::new();
    for report in reports {
        sums.entry((&report.pool, &report.key))
            .and_modify(|sum| {
                sum.gets_per_second += report.gets_per_second;
                sum.sets_per_second += report.sets_per_second;
                sum.bytes_per_second += report.bytes_per_second;
                sum.load += report.load;
            })
            .or_insert_with(|| report.clone());
    }
    let mut list: Vec<_> = sums.into_values().collect();
    list.sort_by(|a, b| b.load.total_cmp(&a.load));
    list
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
        let hottest = |pool: &str, key: &str, gets, bytes: f64| HottestReport {
            pool: Arc::from(pool),
            key: key.into(),
            home: None,
            gets_per_second: gets,
            sets_per_second: 1.0,
            bytes_per_second: bytes,
            load: gets + bytes / 1000.0,
            why: "it is small",
        };
        let mut all = HottestReports::default();
        for keys in [
            vec![hottest("a", "k", 99.0, 0.0), hottest("c", "k", 4.0, 900.0)],
            vec![
                hottest("c", "wide", 1.0, 9e6),
                hottest("c", "k", 5.0, 100.0),
            ],
        ] {
            all.add(HottestReports {
                requests_per_second: 50.0,
                keys,
            });
        }
        let reports = [
            report("a", "k", 10.0, 0),
            report("b", "k\u{1}", 25.0, 0),
            report("a", "k", 20.0, 3),
        ];
        compose(&mut out, &reports, &all);
        let expected = "STAT k pool=a state=HOT rps=30 wps=2 gamma=3\r\n\
                        STAT k%01 pool=b state=COLD rps=25 wps=1 gamma=0\r\n\
                        STAT wide pool=c state=COLD gets=1 sets=1 bytes=9000000 share=0.0200 why=it is small\r\n\
                        STAT k pool=c state=COLD gets=9 sets=2 bytes=1000 share=0.1100 why=it is small\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
