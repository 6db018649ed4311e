//! How long a command takes in each architecture (the paper's section 5).
//!
//! Each formula adds up the round trips that a command makes one after the other; those that it makes at once count as the longest. The
//! paper prints `set` alone. Its tables fix `delete hit`, `incr miss` and the two gets; where they leave several formulas possible,
//! and for all other outcomes, these are what the steps that the text describes would take. With
//!
//! * s = l1/r + (r−1)/r·l3: the key alone says in which rack its item is,
//! * near = k/r·l1 + (1−k/r)·l3: the nearest of k copies,
//! * o = ps·l1 + (1−ps)·l3: the rack that wrote an item last, which is the own one for a key of the session
//!
//! | | steps |
//! |---|---|
//! | SDC | one question to the backbone: l2 |
//! | SDS | one question to the key's rack: s. A flush goes to all racks at once: l3 |
//! | SDR | a set and a flush go to all copies at once: l3. Whatever depends on what is there asks all of them first: 2·l3. A get asks the nearest, and if it has nothing the others: near, near + l3 |
//! | Snoop | a set sends its notes and the item at once, deletes and flushes go everywhere: l3. Everything else asks the own rack first: nothing there is nowhere else either, l1, and a note leads to the item, l1 + (1−ps)·l3. What is stored anew after that sends notes: l1 + l3 |
//! | Dir | a set asks the directory, clears the item where it is, stores it in the own rack and notes that: 2·l2 + o + l1; an add has nothing to clear. A delete does without the third step. Whatever changes an item where it is asks the directory, l2, and goes there, o. A get asks the own rack first: l1, then directory and rack, (1−ps)·(l2 + l3), or l1 + l2 where the directory knows nothing |
//!
//! A set that was not stored takes the steps of one that was. What names no key asks the nearest server that there is.

use super::{Architecture, Distances, Racks, Usage};
use crate::locality::Outcome;

/// How long a command takes on average, in ms: of each outcome its share. `None` where the architecture needs a central server and there
/// is none.
pub fn mean(
    architecture: Architecture,
    usage: &Usage,
    distances: Distances,
    racks: Racks,
) -> Option<f64> {
    usage.mean(|outcome| latency(architecture, outcome, usage.ps, distances, racks))
}

/// How long a command that ends so takes, in ms, where `ps` of the keys are the session's own. `None` as for [`mean`].
///
/// A directory without a central server is spread over the racks by key, so that asking it takes s (the paper's section 7.2).
pub fn latency(
    architecture: Architecture,
    outcome: Outcome,
    ps: f64,
    distances: Distances,
    racks: Racks,
) -> Option<f64> {
    let (own, other) = (distances.own, distances.other);
    let either = |share: f64| share * own + (1.0 - share) * other;
    let spread = either(racks.own_share());
    match architecture {
        Architecture::Sdc => distances.central,
        Architecture::Sds => Some(sds(outcome, own, spread, other)),
        Architecture::Sdr => Some(sdr(outcome, own, either(racks.near_share()), other)),
        Architecture::Snoop => Some(snoop(outcome, own, ps, other)),
        Architecture::Dir => {
            let directory = distances.central.unwrap_or(spread);
            Some(dir(outcome, own, directory, ps, other))
        }
    }
}

fn sds(outcome: Outcome, own: f64, spread: f64, other: f64) -> f64 {
    match outcome {
        Outcome::Flush => other,
        Outcome::Other => own,
        _ => spread,
    }
}

fn sdr(outcome: Outcome, own: f64, near: f64, other: f64) -> f64 {
    match outcome {
        Outcome::SetHit | Outcome::SetMiss | Outcome::Flush => other,
        Outcome::GetHit => near,
        Outcome::GetMiss => near + other,
        Outcome::Other => own,
        _ => 2.0 * other,
    }
}

fn snoop(outcome: Outcome, own: f64, ps: f64, other: f64) -> f64 {
    match outcome {
        Outcome::SetHit
        | Outcome::SetMiss
        | Outcome::DeleteHit
        | Outcome::DeleteMiss
        | Outcome::Flush => other,
        Outcome::AddHit | Outcome::ReplaceHit => own + other,
        Outcome::GetHit
        | Outcome::IncrHit
        | Outcome::DecrHit
        | Outcome::AppendHit
        | Outcome::CasStored
        | Outcome::CasExists => own + (1.0 - ps) * other,
        Outcome::AddMiss
        | Outcome::ReplaceMiss
        | Outcome::IncrMiss
        | Outcome::DecrMiss
        | Outcome::GetMiss
        | Outcome::AppendMiss
        | Outcome::CasNotFound
        | Outcome::Other => own,
    }
}

fn dir(outcome: Outcome, own: f64, directory: f64, ps: f64, other: f64) -> f64 {
    let owner = ps * own + (1.0 - ps) * other;
    match outcome {
        Outcome::SetHit | Outcome::SetMiss | Outcome::ReplaceHit => 2.0 * directory + owner + own,
        Outcome::AddHit => 2.0 * directory + own,
        Outcome::DeleteHit => 2.0 * directory + owner,
        Outcome::IncrHit
        | Outcome::DecrHit
        | Outcome::AppendHit
        | Outcome::CasStored
        | Outcome::CasExists => directory + owner,
        Outcome::AddMiss
        | Outcome::ReplaceMiss
        | Outcome::DeleteMiss
        | Outcome::IncrMiss
        | Outcome::DecrMiss
        | Outcome::AppendMiss
        | Outcome::CasNotFound => directory,
        Outcome::GetHit => own + (1.0 - ps) * (directory + other),
        Outcome::GetMiss => own + directory,
        Outcome::Flush => other,
        Outcome::Other => own,
    }
}
