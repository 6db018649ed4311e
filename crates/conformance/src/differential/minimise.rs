//! Making a session that differs as small as it gets, by delta debugging (Zeller and Hildebrandt:
//! Simplifying and isolating failure-inducing input, 2002).

use super::Session;
use crate::exchange::Split;

/// Most tries: enough for sessions of some kilobytes, and seconds at most.
const TRIES_MAX: usize = 4000;

/// The smallest session found for which `fails` still holds. `session` is one.
pub fn minimise(session: &Session, mut fails: impl FnMut(&Session) -> bool) -> Session {
    let mut best = session.clone();
    let mut tries = 0;
    let mut still_fails = |candidate: &Session| {
        tries += 1;
        tries <= TRIES_MAX && fails(candidate)
    };
    let whole = Session {
        split: Split::Whole,
        ..best.clone()
    };
    if best.split != Split::Whole && still_fails(&whole) {
        best = whole;
    }
    loop {
        let len = best.len();
        // The last connection is the one that differs; what went before may be needed or not.
        for n in (0..best.connections.len() - 1).rev() {
            let mut candidate = best.clone();
            // Emptied, not removed: the marks of later ones count connections.
            candidate.connections[n].clear();
            if !best.connections[n].is_empty() && still_fails(&candidate) {
                best = candidate;
            }
        }
        for n in 0..best.connections.len() {
            shorten(&mut best, n, &mut still_fails);
        }
        if best.len() == len {
            return best;
        }
    }
}

/// Takes ever smaller pieces out of one connection for as long as the session fails.
fn shorten(best: &mut Session, n: usize, still_fails: &mut impl FnMut(&Session) -> bool) {
    let mut piece = best.connections[n].len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < best.connections[n].len() {
            let mut candidate = best.clone();
            let end = (at + piece).min(candidate.connections[n].len());
            candidate.connections[n].drain(at..end);
            match still_fails(&candidate) {
                true => *best = candidate,
                false => at += piece,
            }
        }
        piece /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_matter_goes() {
        let session = Session {
            connections: vec![
                b"noise".to_vec(),
                b"much noise, a needle, noise and a pin".to_vec(),
            ],
            split: Split::SingleBytes,
        };
        let has = |session: &Session, word: &str| {
            let text = String::from_utf8_lossy(&session.connections[1]).into_owned();
            text.contains(word)
        };
        let small = minimise(&session, |session| {
            has(session, "needle") && has(session, "pin")
        });
        assert_eq!(small.connections, [b"".to_vec(), b"needlepin".to_vec()]);
        assert_eq!(small.split, Split::Whole);
    }
}
