//! Which proxies have ended without a goodbye: their control ports refuse connections.
//!
//! A proxy that follows pools keeps a port of its own for as long as its process lives, and says there which process it is. Once it has said
//! so to this coordinator, a refusal says that the process has ended: its machine answers, and nothing there has the port any more.
//!
//! ```text
//!              says its boot                    silent, and refused REFUSALS_ENDED times one after the other
//!   unknown ─────────────────> known ─────────────────────────────────────────────────────────────────────────> ended
//!      └─ asked ASKS_MAX times in vain: never asked again
//! ```
//!
//! A port that says nothing proves nothing: a machine or a network that is gone looks like one that is slow. Such a proxy waits for an
//! operator, as does one that ended before this coordinator led. A firewall that refuses in the name of the machine would pass for
//! the end of the process: see docs/operations.md, "Proxies that have ended".

use evenkeel_types::BootId;

/// Refusals one after the other that say that a process has ended.
const REFUSALS_ENDED: u8 = 3;

/// Times that a port is asked in vain before it is given up: one that cannot be reached from here. A busy machine may miss some.
const ASKS_MAX: u8 = 20;

/// What is known of a proxy's control port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ControlPort {
    /// 0 for none.
    pub(super) port: u16,
    known: Known,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It has not said its boot; asked so often.
    Unknown(u8),
    /// It has, and has refused so often since.
    Answers(u8),
}

impl ControlPort {
    pub(super) fn new(port: u16) -> Self {
        ControlPort {
            port,
            known: Known::Unknown(0),
        }
    }

    /// Its process speaks, and has this port.
    pub(super) fn note_heard(&mut self, port: u16) {
        match self.known {
            Known::Answers(_) if port == self.port => self.known = Known::Answers(0),
            _ if port == self.port => {}
            _ => *self = ControlPort::new(port),
        }
    }

    /// Whether it has said its boot.
    pub(super) fn is_known(self) -> bool {
        matches!(self.known, Known::Answers(_))
    }

    /// Whether it is worth asking: until it has said its boot, and then when its process is silent.
    pub(super) fn is_to_be_asked(self, is_silent: bool) -> bool {
        match self.known {
            Known::Unknown(asked) => self.port != 0 && asked < ASKS_MAX && !is_silent,
            Known::Answers(_) => is_silent,
        }
    }

    /// True where the process, which is silent or not known yet, has ended.
    pub(super) fn handle(&mut self, answer: ControlAnswer) -> bool {
        self.known = match (self.known, answer) {
            (_, ControlAnswer::SaysBoot) => Known::Answers(0),
            (Known::Unknown(asked), _) => Known::Unknown(asked.saturating_add(1)),
            (Known::Answers(refused), ControlAnswer::Refuses) => {
                Known::Answers(refused.saturating_add(1))
            }
            (Known::Answers(_), ControlAnswer::SaysNothing) => Known::Answers(0),
        };
        matches!(self.known, Known::Answers(refused) if refused >= REFUSALS_ENDED)
    }
}

/// A control port that is to be asked whether the process is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlAsk {
    /// The proxy's name.
    pub proxy: String,
    /// The process that is to answer.
    pub boot: BootId,
    /// Where it is reached.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// What a control port has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlAnswer {
    /// The process says that it is the one that was asked for.
    SaysBoot,
    /// The machine says that nothing has the port.
    Refuses,
    /// Nothing in time, or something else.
    SaysNothing,
}
