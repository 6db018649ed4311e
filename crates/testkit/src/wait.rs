//! Waiting for something that another process can only be asked about.

use std::sync::mpsc;
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
    #[should_panic(expected = "in vain for: a thing that never comes")]
    fn the_deadline_names_what_was_awaited() {
        poll_until::<()>(Duration::ZERO, "a thing that never comes", || None);
    }
}
