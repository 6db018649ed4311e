//! Pages that are asked for and edited: those of Wikipedia where the public data is there, made-up ones otherwise.

use crate::run::Run;
use anyhow::Context;
use evenkeel_placement::hash::Hash;
use evenkeel_placement::ring::{Part, Ring};
use evenkeel_types::KeyHash;
use evenkeel_workload::trace::{TraceReader, TraceRequest};
use evenkeel_workload::{Permutation, ValueSizes, rng};
use std::collections::HashMap;
use std::path::PathBuf;

/// The edits of a day, in the folder of public data.
const EDITS: &str = "wikipedia-edits/wikipedia-edits-2015-09-12-sampled.tsv.gz";

/// Sizes of pages, in the folder of public data.
const SIZES: &str = "wikipedia-histograms/wikipedia-histograms.tsv.gz";

/// Its section of the sizes of pages.
const SIZES_SECTION: &str = "text.TEXT_LENGTH";

/// Sizes where it is absent: the mean is about the same.
const SIZES_LIKE_IT: &str = "geometric(4000)";

/// Pages, by number.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    /// Where they are in the hash space.
    pub hashes: Vec<u32>,
    /// In bytes, at least 1.
    pub sizes: Vec<u32>,
    /// How often each is asked for, relative to the others.
    pub weights: Vec<f64>,
    /// Which pages are edited, in order; it starts again at its end.
    pub edits: Vec<u32>,
}

impl Pages {
    /// This many pages, drawn at random from those that there are, of Zipf popularity. `notes` is told what stands in.
    pub fn new(
        run: &Run,
        count: usize,
        exponent: f64,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Pages> {
        let file = |name: &str| -> Option<PathBuf> {
            let path = run.data.as_ref().map(|folder| folder.join(name));
            path.filter(|path| path.exists())
        };
        let mut absent = |name: &str, instead: &str| {
            notes.push(format!(
                "**{instead}**: there is no {name} in the folder of public data (--data)."
            ));
        };
        let (mut keys, rows) = match file(EDITS) {
            Some(path) => edited(path)?,
            None => (Vec::new(), Vec::new()),
        };
        if keys.len() < count {
            absent(EDITS, "Made-up pages and edits stand in for Wikipedia's");
            keys = (0..count)
                .map(|n| format!("page:{n}").into_bytes())
                .collect();
        }
        let sizes: ValueSizes = match file(SIZES) {
            Some(path) => format!("file({}, {SIZES_SECTION})", path.display()).parse()?,
            None => {
                absent(
                    SIZES,
                    "Geometric sizes stand in for those of Wikipedia's pages",
                );
                SIZES_LIKE_IT.parse()?
            }
        };
        // Which pages are chosen, and how popular each is, is chance.
        let chosen = Permutation::new(keys.len() as u64, run.seed, 0);
        let chosen: Vec<usize> = (0..count as u64)
            .map(|n| chosen.apply(n) as usize)
            .collect();
        let number: HashMap<usize, u32> = chosen.iter().copied().zip(0..).collect();
        let edits: Vec<u32> = rows
            .iter()
            .filter_map(|row| number.get(row).copied())
            .collect();
        let keys: Vec<Vec<u8>> = chosen.iter().map(|&key| keys[key].clone()).collect();
        let ranks = Permutation::new(count as u64, run.seed, 1);
        let weight = |n: u64| ((ranks.apply(n) + 1) as f64).powf(-exponent);
        let mut pages = Pages {
            hashes: keys.iter().map(|key| Hash::Md5.of(key) as u32).collect(),
            sizes: keys
                .iter()
                .map(|key| sizes.of(KeyHash::of(key).0).max(1))
                .collect(),
            weights: (0..count as u64).map(weight).collect(),
            edits,
        };
        if pages.edits.is_empty() {
            let by_popularity = pages.sampler();
            let mut random = rng::stream(run.seed, 2);
            pages.edits = (0..count)
                .map(|_| by_popularity.draw(&mut random))
                .collect();
        }
        Ok(pages)
    }

    /// Makes the pages of each server of this ring asked for in this proportion.
    pub fn skew(&mut self, ring: &Ring, loads: &[f64]) {
        let owner = |hash: u32| usize::from(ring.owner(hash));
        let mut sums = vec![0.0; loads.len()];
        for (&hash, weight) in self.hashes.iter().zip(&self.weights) {
            sums[owner(hash)] += weight;
        }
        for (&hash, weight) in self.hashes.iter().zip(&mut self.weights) {
            *weight *= loads[owner(hash)] / sums[owner(hash)];
        }
    }

    /// Puts this many pages side by side at the beginning of a part, of equal popularity, this part of all requests together.
    pub fn crowd(&mut self, part: Part, count: u32, share: f64) {
        let all: f64 = self.weights.iter().sum();
        let each = all * share / f64::from(count);
        for (page, hash) in (0..count).map(|n| (n as usize, part.first.wrapping_add(n))) {
            self.hashes[page] = hash;
            self.weights[page] = each;
        }
    }

    /// Draws pages by their popularity.
    pub fn sampler(&self) -> Sampler {
        let mut sum = 0.0;
        let sums = self.weights.iter().map(|weight| {
            sum += weight;
            sum
        });
        Sampler(sums.collect())
    }
}

/// Draws pages by their popularity: the sums of the weights up to each.
#[derive(Clone, Debug)]
pub(super) struct Sampler(Vec<f64>);

impl Sampler {
    /// The next page. O(log p).
    pub fn draw(&self, random: &mut rng::WorkloadRng) -> u32 {
        let last = self.0.len() - 1;
        let at = rng::unit(random) * self.0[last];
        self.0.partition_point(|&sum| sum <= at).min(last) as u32
    }
}

/// The pages that a file of edits names, each once, and for each edit which.
fn edited(path: PathBuf) -> anyhow::Result<(Vec<Vec<u8>>, Vec<usize>)> {
    let mut trace = TraceReader::open(&path, None).context("reading edits")?;
    let (mut request, mut keys) = (TraceRequest::default(), Vec::new());
    let (mut numbers, mut rows) = (HashMap::new(), Vec::new());
    while trace.next_request(&mut request)? {
        let number = *numbers.entry(request.key.clone()).or_insert_with(|| {
            keys.push(request.key.clone());
            keys.len() - 1
        });
        rows.push(number);
    }
    Ok((keys, rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Mode, Scale};

    #[test]
    fn made_up_pages_are_said_to_be_and_skewed_as_told() {
        let run = Run::silent(Scale::Quick, Mode::Sim);
        let mut notes = Vec::new();
        let mut pages = Pages::new(&run, 2_000, 0.9, &mut notes).unwrap();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(pages.sizes.iter().all(|&size| size > 0));
        assert!(pages.edits.iter().all(|&page| page < 2_000));
        let ring = Ring::even(3, 1).unwrap();
        pages.skew(&ring, &[2.5, 1.0, 1.0]);
        let (sampler, mut random) = (pages.sampler(), rng::stream(1, 1));
        let mut counts = [0u32; 3];
        for _ in 0..45_000 {
            let page = sampler.draw(&mut random) as usize;
            counts[usize::from(ring.owner(pages.hashes[page]))] += 1;
        }
        for (count, expected) in counts.into_iter().zip([25_000u32, 10_000, 10_000]) {
            assert!(count.abs_diff(expected) < 1_000, "{counts:?}");
        }
        let part = Part {
            first: 77,
            last: 99,
        };
        pages.crowd(part, 5, 0.1);
        assert_eq!(pages.hashes[4], 81);
    }
}
