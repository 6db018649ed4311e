//! The differential fuzzer: random sessions to a real memcached and to us, a server or a proxy, and the answers compared.
//!
//! A [`Session`] is what one or several connections send, one after the other. It comes from a
//! grammar ([`text`], [`binary`]) that mostly speaks well, sometimes spoils a command, and all from
//! one seed. memcached gets the bytes of a connection at once, we get them in whole, in random pieces
//! or byte by byte: what memcached answers depends at times on how the bytes arrive, what we answer
//! must never.
//!
//! Answers are compared as those of transcripts are (CAS uniques by identity, seconds with a
//! tolerance), and else byte for byte. A session whose answers differ is run again; one that differs
//! each time is explained by one of the [`differences`] that we intend, or it is a finding: it is made
//! as small as it gets (see `minimise`) and printed as a transcript.
//!
//! Round trips and connections would take far more time than the commands, so sessions share them
//! (`batch`): each has keys of its own, and sentinels say where its answers end. Those that end in the
//! middle of something, or disturb what was answered before, have connections to themselves. Most
//! batches are sent without what we differ in on purpose, the others as they were made. What differs
//! among others is run again without them before it is a finding, so sharing cannot accuse anybody
//! wrongly.

mod batch;
pub mod binary;
pub mod differences;
mod lane;
mod minimise;
mod random;
pub mod text;

pub use lane::{Finding, Options, Report, run};
pub use random::Choices;

use std::fmt::Write as _;

use crate::exchange::Split;
use crate::transcript::{self, Sameness, Taken};

/// Maximum connections of a session.
pub const CONNECTIONS_MAX: usize = 3;

/// What of ours is compared with memcached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A server.
    Server,
    /// A proxy in front of another memcached of the same version.
    Proxy,
}

/// What is sent, connection after connection. `{c0}` in text and `{{cas0}}` in binary stand for the
/// last CAS unique that the first connection was answered, and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The bytes of each connection.
    pub connections: Vec<Vec<u8>>,
    /// How we get them.
    pub split: Split,
}

/// Which protocols sessions speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocols {
    /// Classic and meta commands.
    Text,
    /// The binary protocol.
    Binary,
    /// Each connection one of the two.
    Both,
}

/// Of a hundred connections of [`Protocols::Both`], this many are binary.
const BINARY_PERCENT: usize = 35;

impl Session {
    /// The session of a number, the same for the same seed.
    pub fn generate(protocols: Protocols, seed: u64, number: u64) -> Session {
        let mut choices = Choices::of_session(seed, number);
        let connections = (0..choices.weighted(&[(5, 1), (3, 2), (2, CONNECTIONS_MAX)]))
            .map(|_| {
                let binary = match protocols {
                    Protocols::Text => false,
                    Protocols::Binary => true,
                    Protocols::Both => choices.chance(BINARY_PERCENT),
                };
                match binary {
                    true => binary::connection(&mut choices),
                    false => text::connection(&mut choices),
                }
            })
            .collect();
        let split = split(&mut choices);
        Session { connections, split }
    }

    /// How many bytes it sends.
    pub fn len(&self) -> usize {
        self.connections.iter().map(Vec::len).sum()
    }

    /// Whether it sends nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The session as a case of a transcript.
    pub fn transcript(&self) -> String {
        let mut text = format!("case found by the differential fuzzer ({:?})\n", self.split);
        let mut first = true;
        for (n, bytes) in self.connections.iter().enumerate() {
            if bytes.is_empty() {
                continue;
            }
            if !std::mem::take(&mut first) {
                text.push_str("--\n");
            }
            if is_binary(bytes) {
                let _ = writeln!(text, ">> {}", transcript::escape(bytes));
            } else {
                for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                    let _ = writeln!(text, ">> {}", transcript::escape(line));
                }
            }
            let mark = format!("{{c{n}}}");
            let later = &self.connections[n + 1..];
            if later.iter().any(|bytes| contains(bytes, mark.as_bytes())) {
                let _ = writeln!(text, "take c{n}");
            }
        }
        text + "same cas ttl debug\n"
    }
}

/// A way to cut bytes. Most are not cut, for every piece costs as much as a session.
fn split(choices: &mut Choices) -> Split {
    match choices.weighted(&[(70, 0), (25, 1), (5, 2)]) {
        0 => Split::Whole,
        1 => Split::Random(choices.number()),
        _ => Split::SingleBytes,
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn is_binary(request: &[u8]) -> bool {
    request.first() == Some(&binary::REQUEST_MAGIC)
}

/// What was taken from a server's answers.
#[derive(Default)]
struct Uniques {
    text: Taken,
    binary: Vec<Option<u64>>,
}

impl Uniques {
    /// The bytes to send, with every mark replaced by what stands for it.
    fn fill_in(&self, bytes: &[u8]) -> Vec<u8> {
        match is_binary(bytes) {
            true => binary::fill_in(bytes, &self.binary),
            false => transcript::fill_in(bytes, &self.text),
        }
    }

    /// Takes the last CAS unique of the next connection's answer.
    fn take(&mut self, request: &[u8], answer: &[u8]) {
        let unique = match is_binary(request) {
            true => binary::last_unique(answer),
            false => transcript::last_unique(answer).and_then(|text| text.parse().ok()),
        };
        if let Some(unique) = unique {
            let name = format!("c{}", self.binary.len());
            self.text.insert(name, unique.to_string());
        }
        self.binary.push(unique);
    }
}

/// Compares the answers of two servers to a session; `Err` names the first connection that differs.
fn compare(session: &Session, reference: &[Vec<u8>], ours: &[Vec<u8>]) -> Result<(), usize> {
    if reference == ours {
        return Ok(());
    }
    let (mut theirs_seen, mut ours_seen) = (Vec::new(), Vec::new());
    let (mut text, mut numbers) = ([Vec::new(), Vec::new()], Vec::new());
    for (n, request) in session.connections.iter().enumerate() {
        let (theirs, ours) = (&reference[n], &ours[n]);
        if is_binary(request) {
            let theirs = binary::normalise(theirs, &mut theirs_seen);
            if theirs != binary::normalise(ours, &mut ours_seen) {
                return Err(n);
            }
        } else {
            text[0].push(theirs.clone());
            text[1].push(ours.clone());
            numbers.push(n);
        }
    }
    let same = [Sameness::Cas, Sameness::Ttl, Sameness::Debug];
    transcript::compare(&same, &text[0], &text[1]).map_err(|index| numbers[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_the_same_for_the_same_seed() {
        for protocols in [Protocols::Text, Protocols::Binary, Protocols::Both] {
            let of = |seed| -> Vec<Session> {
                (0..200)
                    .map(|n| Session::generate(protocols, seed, n))
                    .collect()
            };
            assert_eq!(of(1), of(1));
            assert_ne!(of(1), of(2));
        }
    }

    #[test]
    fn sessions_reach_every_command() {
        let sessions: Vec<Session> = (0..5000)
            .map(|n| Session::generate(Protocols::Text, 1, n))
            .collect();
        for command in [
            "get ",
            "gets ",
            "gat ",
            "gats ",
            "set ",
            "add ",
            "replace ",
            "append ",
            "prepend ",
            "cas ",
            "incr ",
            "decr ",
            "delete ",
            "touch ",
            "flush_all",
            "mg ",
            "ms ",
            "md ",
            "ma ",
            "me ",
            "mn\r",
            "version",
            "quit",
        ] {
            let found = sessions
                .iter()
                .any(|session| contains(&session.connections[0], command.as_bytes()));
            assert!(found, "no session has `{command}`");
        }
    }

    #[test]
    fn a_session_is_a_transcript() {
        for n in 0..2000 {
            let session = Session::generate(Protocols::Text, 7, n);
            if session.connections.iter().any(Vec::is_empty) {
                continue;
            }
            let text = session.transcript();
            let read = transcript::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            let bytes = read.cases[0].connections.iter().map(|sent| &sent.bytes);
            assert!(bytes.eq(&session.connections), "{text}");
        }
    }

    #[test]
    fn answers_that_differ_are_seen() {
        let session = Session {
            connections: vec![b"get a\r\n".to_vec(), b"\x80".to_vec()],
            split: Split::Whole,
        };
        let answers = |text: &str, binary: &[u8]| vec![text.as_bytes().to_vec(), binary.to_vec()];
        let reference = answers("END\r\n", b"");
        assert_eq!(compare(&session, &reference, &reference), Ok(()));
        assert_eq!(
            compare(&session, &reference, &answers("EN\r\n", b"")),
            Err(0)
        );
        assert_eq!(
            compare(&session, &reference, &answers("END\r\n", b"x")),
            Err(1)
        );
    }
}
