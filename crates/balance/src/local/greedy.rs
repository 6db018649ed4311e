//! Greedy search with moves and swaps: the fast path, and what is done where an integer program fails.
//!
//! The most loaded of the overloaded workers gives something away, by the step that evens the loads most, and so
//! on until nobody is overloaded or nothing helps. A step is a move, or a swap of two cachelets where no single
//! one does it: of a worker with loads 9 and 8 and one with 6 and 5, the 9 and the 5 change places.
//!
//! Each step lowers the sum of the squared loads, so the search ends. A step that shifts `x` from load `a` to
//! load `b` lowers it by `2x(a − b − x)`: most for `x = (a − b) / 2`, which makes the two equal.

use super::assignment::Assignment;
use super::input::LocalLimits;
use crate::ROUNDING;

/// A step has to shift this much, in parts of the load that is permissible. Less is noise.
const STEP_RATIO_MIN: f64 = 0.01;

/// What evens the loads as much as another step, but for this part, and takes a cachelet home, is preferred.
const HOME_BONUS: f64 = 1.05;

/// A step: a cachelet goes, perhaps for another one in return.
#[derive(Clone, Copy, Debug)]
struct Step {
    cachelet: usize,
    to: u16,
    /// What comes back.
    back: Option<usize>,
    /// Whether the worker is relieved by this step alone.
    relieves: bool,
    /// What it lowers the sum of the squared loads by, for each cachelet that changes hands.
    score: f64,
}

impl Step {
    fn is_better_than(&self, other: &Step) -> bool {
        (self.relieves, self.score) > (other.relieves, other.score)
    }
}

/// Relieves what overloaded workers it can. At most `moves_max` cachelets end elsewhere.
pub(super) fn relieve<'a>(
    start: &Assignment<'a>,
    movable: &[bool],
    limits: LocalLimits,
    moves_max: usize,
) -> Assignment<'a> {
    let mut now = start.clone();
    let mut sources = now.overloaded(limits);
    let mut moves_left = moves_max;
    while let Some(&source) = most_loaded(&now, &sources) {
        let step = match now.loads[usize::from(source)] > limits.permissible {
            true => best_step(&now, movable, source, &sources, limits, moves_left),
            false => None,
        };
        let Some(step) = step else {
            sources.retain(|&worker| worker != source);
            continue;
        };
        now.shift(step.cachelet, step.to);
        moves_left -= 1;
        if let Some(back) = step.back {
            now.shift(back, source);
            moves_left -= 1;
        }
    }
    now
}

fn most_loaded<'s>(now: &Assignment<'_>, sources: &'s [u16]) -> Option<&'s u16> {
    sources.iter().max_by(|&&a, &&b| {
        let (load_a, load_b) = (now.loads[usize::from(a)], now.loads[usize::from(b)]);
        load_a.total_cmp(&load_b).then(b.cmp(&a))
    })
}

fn best_step(
    now: &Assignment<'_>,
    movable: &[bool],
    source: u16,
    sources: &[u16],
    limits: LocalLimits,
    moves_left: usize,
) -> Option<Step> {
    let destinations: Vec<u16> = (0..now.loads.len() as u16)
        .filter(|worker| !sources.contains(worker))
        .collect();
    let own: Vec<usize> = now.hosted(source).filter(|&c| movable[c]).collect();
    let mut best: Option<Step> = None;
    let mut offer = |step: Option<Step>| {
        if step.is_some_and(|step| best.is_none_or(|best| step.is_better_than(&best))) {
            best = step;
        }
        best.is_some_and(|best| best.relieves)
    };
    let mut relieves = false;
    if moves_left >= 1 {
        for &to in &destinations {
            for &cachelet in &own {
                relieves = offer(step(now, source, cachelet, to, None, limits));
            }
        }
    }
    // Swaps are many, and two changes for one: they are looked at where no single move does it.
    if moves_left >= 2 && !relieves {
        for &to in &destinations {
            for back in now.hosted(to).filter(|&c| movable[c]) {
                for &cachelet in &own {
                    offer(step(now, source, cachelet, to, Some(back), limits));
                }
            }
        }
    }
    best
}

/// A step, if it shifts enough, evens the loads and keeps the limit.
fn step(
    now: &Assignment<'_>,
    source: u16,
    cachelet: usize,
    to: u16,
    back: Option<usize>,
    limits: LocalLimits,
) -> Option<Step> {
    let c = &now.cachelets[cachelet];
    let (load, load_to) = (now.loads[usize::from(source)], now.loads[usize::from(to)]);
    let shifted = c.load - back.map_or(0.0, |back| now.cachelets[back].load);
    let gain = 2.0 * shifted * (load - load_to - shifted);
    let is_enough = shifted >= limits.permissible * STEP_RATIO_MIN + ROUNDING;
    if !is_enough || gain <= 0.0 || load_to + shifted > limits.permissible {
        return None;
    }
    let bonus = if c.home == to { HOME_BONUS } else { 1.0 };
    let changes = if back.is_some() { 2.0 } else { 1.0 };
    Some(Step {
        cachelet,
        to,
        back,
        relieves: load - shifted <= limits.permissible,
        score: bonus * gain / changes,
    })
}
