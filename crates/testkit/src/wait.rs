//! Waiting for something that another process can only be asked about, and doing again what a machine that stood still has spoilt.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two questions. Short beside every deadline, long beside the question itself.
const PAUSE_BETWEEN_QUESTIONS: Duration = Duration::from_millis(5);

/// Asks `question` until it answers `Some`, and returns that answer.
///
/// This is for readiness that has no event to wait for, such as "the coordinator knows three
/// servers". Where there is an event (a line, a file, a closed connection), wait for the event.
///
/// # Panics
/// After `deadline`, with the words in `awaited`.
pub fn poll_until<T>(
    deadline: Duration,
    awaited: &str,
    mut question: impl FnMut() -> Option<T>,
) -> T {
    let end = Instant::now() + deadline;
    // A channel on which nothing is ever sent: its timed receive is a pause that ends by itself.
    let (_never_sent, pause) = mpsc::channel::<()>();
    loop {
        if let Some(answer) = question() {
            return answer;
        }
        assert!(
            Instant::now() < end,
            "waited {deadline:?} in vain for: {awaited}"
        );
        let _ = pause.recv_timeout(PAUSE_BETWEEN_QUESTIONS);
    }
}

/// The machine stood still if a pause took this much longer than it should.
const STANDSTILL: Duration = Duration::from_millis(500);

/// Tries of which one is to be undisturbed.
const TRIES: usize = 10;

/// Does what is spoilt (`Err`) by a machine that stands still for a moment, such as a virtual one that is paused, and does it again
/// where this has happened meanwhile.
///
/// # Panics
/// With what was wrong, where the machine did not stand still, or did so each of ten times.
pub fn undisturbed<T>(mut act: impl FnMut() -> Result<T, String>) -> T {
    let mut tries = 0;
    loop {
        tries += 1;
        let (done, longest) = with_longest_pause(&mut act);
        match done {
            Ok(done) => return done,
            Err(wrong) => assert!(longest >= STANDSTILL && tries < TRIES, "{wrong}"),
        }
    }
}

/// Does something, and tells by how much a short pause that was made meanwhile was too long at most.
fn with_longest_pause<T>(act: impl FnOnce() -> T) -> (T, Duration) {
    thread::scope(|scope| {
        let (stop, stopped) = mpsc::channel::<()>();
        let watch = scope.spawn(move || {
            let mut longest = Duration::ZERO;
            loop {
                let begun = Instant::now();
                let ended = stopped.recv_timeout(PAUSE_BETWEEN_QUESTIONS);
                longest = longest.max(begun.elapsed().saturating_sub(PAUSE_BETWEEN_QUESTIONS));
                if ended == Err(RecvTimeoutError::Disconnected) {
                    return longest;
                }
            }
        });
        let done = act();
        drop(stop);
        (done, watch.join().expect("it only pauses"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_ends_the_wait() {
        let mut questions = 0;
        let answer = poll_until(Duration::from_secs(5), "the third question", || {
            questions += 1;
            (questions == 3).then_some(questions)
        });
        assert_eq!(answer, 3);
    }

    #[test]
    #[should_panic(expected = "wrong by itself")]
    fn what_is_wrong_without_a_standstill_is_told() {
        undisturbed::<()>(|| Err("wrong by itself".into()));
    }

    #[test]
    fn what_is_right_is_right_at_once() {
        let mut tries = 0;
        undisturbed(|| {
            tries += 1;
            Ok(())
        });
        assert_eq!(tries, 1);
    }

    #[test]
    #[should_panic(expected = "in vain for: a thing that never comes")]
    fn the_deadline_names_what_was_awaited() {
        poll_until::<()>(Duration::ZERO, "a thing that never comes", || None);
    }
}
