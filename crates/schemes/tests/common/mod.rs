//! A search through all states that can follow a first one, the shortest ways first.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};

/// What can happen next: the state behind it, what it is, and what is wrong with it if anything is.
pub type Next<W, E> = (W, E, Option<String>);

/// The shortest way to what is wrong, and what that is.
pub type Wrong<E> = (Vec<E>, String);

/// Hashes of states, which stand for them. The standard library's hasher would take half of the time that a search takes.
struct Folding(u64);

impl Hasher for Folding {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(byte.into());
    }

    fn write_u64(&mut self, word: u64) {
        // All bits of a product of 128 depend on all of its factors.
        let mixed = u128::from(self.0 ^ word) * u128::from(0x9E37_79B9_7F4A_7C15_u64);
        self.0 = (mixed as u64 ^ (mixed >> 64) as u64).wrapping_add(0xD6E8_FEB8_6659_FD93);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// How many states there are, or the shortest way to what is wrong.
pub fn search<W: Hash, E: Clone>(
    first: W,
    successors: impl Fn(&W) -> Vec<Next<W, E>>,
) -> Result<usize, Wrong<E>> {
    let hash = |world: &W| {
        let mut hasher = Folding(0);
        world.hash(&mut hasher);
        hasher.finish()
    };
    let mut seen = HashSet::from([hash(&first)]);
    // What has happened last, and the way before that.
    let mut ways: Vec<(Option<usize>, E)> = Vec::new();
    let mut layer = vec![(first, None)];
    while !layer.is_empty() {
        let mut following = Vec::new();
        for (world, way) in layer {
            for (next, what, wrong) in successors(&world) {
                if let Some(wrong) = wrong {
                    let mut steps = vec![what];
                    let mut at: Option<usize> = way;
                    while let Some(before) = at {
                        steps.push(ways[before].1.clone());
                        at = ways[before].0;
                    }
                    steps.reverse();
                    return Err((steps, wrong));
                }
                if seen.insert(hash(&next)) {
                    ways.push((way, what));
                    following.push((next, Some(ways.len() - 1)));
                }
            }
        }
        layer = following;
    }
    Ok(seen.len())
}

/// Nothing that was searched is wrong.
pub fn is_right(searched: Result<usize, Wrong<String>>) {
    match searched {
        Ok(states) => println!("{states} states"),
        Err((way, wrong)) => panic!("wrong:\n  {}\n  {wrong}", way.join("\n  ")),
    }
}

/// A fault is found, within this many seconds.
pub fn is_found(fault: &str, search: impl FnOnce() -> Result<usize, Wrong<String>>) {
    let began = std::time::Instant::now();
    match search() {
        Ok(states) => panic!("{fault} is not found among {states} states"),
        Err((way, _)) => println!(
            "{fault}: {} steps, {:.1} s\n  {}",
            way.len(),
            began.elapsed().as_secs_f64(),
            way.join("\n  ")
        ),
    }
}
