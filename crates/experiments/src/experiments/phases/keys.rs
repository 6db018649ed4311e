//! Keys by where they live, and requests for them.

use anyhow::{Context, ensure};
use evenkeel_types::map::ClusterMap;
use evenkeel_types::random::SplitMix64;
use evenkeel_types::{CacheletId, KeyHash};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Keys that are looked at for enough of each kind.
const TRIED_MAX: u32 = 1_000_000;

/// Requests of a list; it is sent again and again.
const REQUESTS: usize = 50_000;

/// This many keys of these cachelets, by cachelet.
///
/// # Errors
/// When there are not as many among a million names.
pub(super) fn keys_of(
    map: &ClusterMap,
    cachelets: &[CacheletId],
    count: usize,
) -> anyhow::Result<BTreeMap<CacheletId, Vec<String>>> {
    let mut keys: BTreeMap<CacheletId, Vec<String>> = BTreeMap::new();
    let mut found = 0;
    for number in 0..TRIED_MAX {
        let key = format!("warm:{number:019}");
        let cachelet = map.locate(KeyHash::of(key.as_bytes())).cachelet;
        if cachelets.contains(&cachelet) {
            keys.entry(cachelet).or_default().push(key);
            found += 1;
        }
        if found == count {
            return Ok(keys);
        }
    }
    ensure!(found > 0, "no key of {} cachelets", cachelets.len());
    Ok(keys)
}

/// Writes requests for keys, one a line: each group by its weight, and its keys alike.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn write_requests(
    path: &Path,
    groups: &[(f64, Vec<String>)],
    seed: u64,
) -> anyhow::Result<()> {
    let mut random = SplitMix64::new(seed);
    let all: f64 = groups.iter().map(|(weight, _)| weight).sum();
    let mut text = String::new();
    for _ in 0..REQUESTS {
        let mut left = random.unit() * all;
        let group = groups.iter().find(|(weight, _)| {
            left -= weight;
            left < 0.0
        });
        let (_, keys) = group.or(groups.last()).context("no keys to ask for")?;
        let key = &keys[random.below(keys.len() as u64) as usize];
        writeln!(text, "{key}")?;
    }
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_get_requests_by_their_weights() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("requests");
        let group = |weight, names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned());
            (weight, names.collect::<Vec<_>>())
        };
        let groups = [group(3.0, &["a", "b"]), group(1.0, &["c"])];
        write_requests(&path, &groups, 1).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let share = |key: &str| {
            let lines = text.lines().filter(|&line| line == key);
            lines.count() as f64 / REQUESTS as f64
        };
        for (key, expected) in [("a", 0.375), ("b", 0.375), ("c", 0.25)] {
            assert!(
                (share(key) - expected).abs() < 0.02,
                "{key}: {}",
                share(key)
            );
        }
    }
}
