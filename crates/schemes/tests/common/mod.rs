//! A search through all states that can follow a first one, the shortest ways first.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What can happen next: the state behind it, what it is, and what is wrong with it if anything is.
pub type Next<W> = (W, String, Option<String>);

/// How many states there are, or the shortest way to what is wrong.
pub fn search<W: Hash>(
    first: W,
    successors: impl Fn(&W) -> Vec<Next<W>>,
) -> Result<usize, Vec<String>> {
    let hash = |world: &W| {
        let mut hasher = DefaultHasher::new();
        world.hash(&mut hasher);
        hasher.finish()
    };
    let mut seen = HashSet::from([hash(&first)]);
    let mut ways: Vec<(usize, String)> = vec![(0, String::new())];
    let mut layer = vec![(first, 0)];
    while !layer.is_empty() {
        let mut following = Vec::new();
        for (world, way) in layer {
            for (next, what, wrong) in successors(&world) {
                if let Some(wrong) = wrong {
                    let mut steps = vec![wrong, what];
                    let mut at = way;
                    while at > 0 {
                        steps.push(ways[at].1.clone());
                        at = ways[at].0;
                    }
                    steps.reverse();
                    return Err(steps);
                }
                if seen.insert(hash(&next)) {
                    ways.push((way, what));
                    following.push((next, ways.len() - 1));
                }
            }
        }
        layer = following;
    }
    Ok(seen.len())
}

/// Nothing that was searched is wrong.
pub fn is_right(searched: Result<usize, Vec<String>>) {
    match searched {
        Ok(states) => println!("{states} states"),
        Err(way) => panic!("wrong:\n  {}", way.join("\n  ")),
    }
}
