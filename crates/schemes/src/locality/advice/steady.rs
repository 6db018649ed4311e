//! Advice that follows live traffic, and does not flap.

use core::time::Duration;

use evenkeel_types::Instant;

use crate::locality::model::Architecture;

/// How long other advice has to be the same at each look before it is given. So advice changes once in that time at most; noise around a
/// turning point changes the answer of a look too often for that.
pub const HOLDS: Duration = Duration::from_secs(600);

/// What is advised while traffic goes on. It begins with no change.
#[derive(Clone, Debug, Default)]
pub struct Steady {
    given: Option<Architecture>,
    /// Advice that has differed from `given` since then without a break.
    other: Option<(Option<Architecture>, Instant)>,
}

impl Steady {
    /// Hears the choice of one look, and says what is advised. `now` never goes backwards.
    pub fn handle(&mut self, now: Instant, choice: Option<Architecture>) -> Option<Architecture> {
        match self.other {
            _ if choice == self.given => self.other = None,
            Some((other, since)) if other == choice => {
                if now.since(since) >= HOLDS {
                    self.given = choice;
                    self.other = None;
                }
            }
            _ => self.other = Some((choice, now)),
        }
        self.given
    }
}
