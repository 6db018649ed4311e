//! What can be searched: a world in which one thing happens after another.

use super::common::{self, Wrong};
use std::hash::Hash;

pub trait World: Clone + Hash {
    type Scope;
    type Event: Copy;

    /// All that can happen next.
    fn events(&self, scope: &Self::Scope) -> Vec<Self::Event>;

    /// It happens. False if what an application is told is wrong.
    fn happen(&mut self, event: Self::Event, scope: &Self::Scope) -> bool;

    /// An event that can happen, in words.
    fn describe(&self, event: Self::Event) -> String;
}

/// How many states there are, or the shortest way to what is wrong.
pub fn search<W: World>(first: W, scope: &W::Scope) -> Result<usize, Wrong<String>> {
    let found = common::search(first.clone(), |world| {
        let judged = world.events(scope).into_iter().map(|event| {
            let mut next = world.clone();
            let is_right = next.happen(event, scope);
            (next, event, (!is_right).then(String::new))
        });
        judged.collect()
    });
    found.map_err(|(way, _)| tell(first, &way, scope))
}

/// A way to what is wrong, in words.
pub fn tell<W: World>(first: W, way: &[W::Event], scope: &W::Scope) -> Wrong<String> {
    let mut world = first;
    let steps = way.iter().map(|event| {
        let what = world.describe(*event);
        world.happen(*event, scope);
        what
    });
    let steps = steps.collect();
    (steps, "no order of the commands explains that".to_owned())
}
