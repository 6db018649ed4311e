//! Where we differ from memcached on purpose, each with its reason.
//!
//! A difference knows how to take what it is about out of a session, or out of answers. Answers that
//! differ are explained by it only when they agree without that: so a difference hides nothing that
//! is not its own. How often each explained something is counted and printed.

use std::ops::RangeInclusive;

use super::{Session, is_binary};

/// One difference on purpose.
pub struct Difference {
    /// What it is about; unique.
    pub name: &'static str,
    /// Why we differ.
    pub reason: &'static str,
    /// In which versions 1.6.x of memcached it shows.
    pub patches: RangeInclusive<u32>,
    about: About,
}

/// How to do without a difference.
enum About {
    /// Changes a line of a request; `None` when there is nothing of the difference in it.
    Line(fn(&[u8]) -> Option<Vec<u8>>),
    /// The end of the stream comes in the middle of something: goes on a while instead.
    End,
    /// Changes a line of an answer.
    Answer(fn(&[u8]) -> Option<&'static [u8]>),
}

/// Every version.
const ALWAYS: RangeInclusive<u32> = 0..=u32::MAX;

/// Debian's version, and others before the meta commands got their later flags and faults.
const OLD: RangeInclusive<u32> = 0..=18;

/// Versions with today's faults.
const NEW: RangeInclusive<u32> = 19..=u32::MAX;

/// Longest value that sessions send, in bytes: a longer one that is announced never comes whole.
const VALUE_MAX: u64 = 9000;

/// What follows a stream of text that ended in the middle of something: longer than the values of
/// sessions.
const GOES_ON: (&[u8], usize) = (b"mn\r\n", 4000);

/// What follows a binary one: longer than extras and key can be, and no request.
const GOES_ON_BINARY: (&[u8], usize) = (b"\0", 70_000);

/// Every difference that sessions can show.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "lengths beyond 31 bits",
        reason: "memcached keeps the lower 32 bits of a length; we take no length for another",
        patches: ALWAYS,
        about: About::Line(|line| {
            exchange_words(line, |_, word| is_number_above(word, 2_147_483_644), b"x")
        }),
    },
    Difference {
        name: "long lines",
        reason: "memcached closes or answers by whether the line's end came with its first 2048 bytes",
        patches: ALWAYS,
        about: About::Line(|line| (line.len() > 2048).then(|| b"mn\r\n".to_vec())),
    },
    Difference {
        name: "refusals before the value",
        reason: "memcached says that it refuses a value when the value has come; we say it at once",
        patches: ALWAYS,
        about: About::End,
    },
    Difference {
        name: "binary in the middle of text",
        reason: "a line that begins as a binary request has lost its way, and nothing sensible can follow",
        patches: ALWAYS,
        about: About::Line(|line| {
            let rest = line.strip_prefix(b"\x80")?;
            Some([b"x", rest].concat())
        }),
    },
    Difference {
        name: "refusals before a value that never comes",
        reason: "the same, of values that are announced only",
        patches: ALWAYS,
        about: About::Line(|line| {
            exchange_words(line, |_, word| is_number_above(word, VALUE_MAX), b"x")
        }),
    },
    Difference {
        name: "keys in base64",
        reason: "the key comes back as the request sent it; memcached remembers how the item was stored",
        patches: ALWAYS,
        about: About::Line(|line| {
            let line = line.starts_with(b"m").then_some(line)?;
            exchange_words(line, |at, word| at > 1 && word == b"b", b"")
        }),
    },
    Difference {
        name: "times in the order of flags",
        reason: "memcached works through flags in order: t before T or N tells the time before, and of T and N \
                 in ma the later one counts; we tell the time that the item has, and T counts",
        patches: ALWAYS,
        about: About::Line(|line| {
            let line = line.starts_with(b"m").then_some(line)?;
            let has = |letter: &u8| {
                line.split(|byte| *byte == b' ')
                    .any(|word| word.first() == Some(letter))
            };
            let sets = has(&b'T') || has(&b'N');
            let twice = line.starts_with(b"ma") && has(&b'T') && has(&b'N');
            exchange_words(
                line,
                |at, word| {
                    at > 1 && ((sets && word == b"t") || (twice && word.first() == Some(&b'T')))
                },
                b"",
            )
        }),
    },
    Difference {
        name: "flags of the extension",
        reason: "A, G, U and Y are refused when the request is whole, other flags that there are none at once",
        patches: ALWAYS,
        about: About::Line(|line| {
            let line = line.starts_with(b"m").then_some(line)?;
            let ours = |word: &[u8]| matches!(word.first(), Some(b'A' | b'G' | b'U' | b'Y'));
            exchange_words(line, |at, word| at > 1 && ours(word), b"?")
        }),
    },
    Difference {
        name: "quiet ma that makes an item",
        reason: "1.6.18 answers HD in spite of q; later versions nothing",
        patches: OLD,
        about: About::Line(|line| {
            let line = line.starts_with(b"ma").then_some(line)?;
            exchange_words(line, |at, word| at > 1 && word == b"q", b"")
        }),
    },
    Difference {
        name: "opaques that are too long",
        reason: "memcached refuses them after it has done what was asked; what is refused must not be done",
        patches: ALWAYS,
        about: About::Line(|line| {
            let line = line.starts_with(b"m").then_some(line)?;
            let opaque = |word: &[u8]| word.starts_with(b"O") && word.len() >= 32;
            exchange_words(line, |at, word| at > 1 && opaque(word), b"O1")
        }),
    },
    Difference {
        name: "lost answers",
        reason: "memcached drops what it has not sent before it refuses to read a key that is too long; \
                 a pipeline must not lose answers",
        patches: ALWAYS,
        about: About::Line(|line| {
            let reads = line.trim_ascii_start();
            let reads = reads.starts_with(b"get") || reads.starts_with(b"gat");
            let line = reads.then_some(line)?;
            exchange_words(line, |_, word| word.len() > 250, b"k")
        }),
    },
    Difference {
        name: "zero bytes",
        reason: "memcached takes a zero byte for the end of the line in some places; we nowhere",
        patches: ALWAYS,
        about: About::Line(|line| {
            let clean = || {
                line.iter()
                    .map(|byte| if *byte == 0 { b'?' } else { *byte })
            };
            line.contains(&0).then(|| clean().collect())
        }),
    },
    Difference {
        name: "later flags",
        reason: "1.6.18 does not know E and x, nor s of ms, which later versions do",
        patches: OLD,
        about: About::Line(|line| {
            let letters: &[u8] = match line.get(..2)? {
                b"mg" | b"ma" | b"md" => b"Ex",
                b"ms" => b"Exs",
                _ => return None,
            };
            exchange_words(
                line,
                |at, word| at > 1 && word.first().is_some_and(|letter| letters.contains(letter)),
                b"",
            )
        }),
    },
    Difference {
        name: "words of refusals",
        reason: "the words for lines that are wrong changed between versions; ours are those of 1.6.18",
        patches: NEW,
        about: About::Answer(|line| {
            (line.starts_with(b"ERROR") || line.starts_with(b"CLIENT_ERROR"))
                .then_some(b"refused\r\n")
        }),
    },
    Difference {
        name: "values behind wrong lines",
        reason: "newer versions swallow a value behind a storage line that is wrong; 1.6.18 does not",
        patches: NEW,
        about: About::Line(|line| is_wrong_store(line).then(|| b"mn\r\n".to_vec())),
    },
    Difference {
        name: "wrong lines that want no answer",
        reason: "newer versions answer nothing to any line that is wrong and ends in noreply",
        patches: NEW,
        about: About::Line(|line| exchange_words(line, |_, word| word == b"noreply", b"")),
    },
    Difference {
        name: "leading spaces",
        reason: "newer versions take no spaces before a command; 1.6.18 does, and so do we",
        patches: NEW,
        about: About::Line(|line| {
            line.starts_with(b" ")
                .then(|| line.trim_ascii_start().to_vec())
        }),
    },
];

impl Difference {
    /// The session without what this difference is about, or `None` when it has nothing of it.
    pub fn without(&self, session: &Session) -> Option<Session> {
        let mut changed = false;
        let mut session = session.clone();
        for bytes in &mut session.connections {
            match self.about {
                About::End => {
                    let (more, count) = match is_binary(bytes) {
                        true => GOES_ON_BINARY,
                        false => GOES_ON,
                    };
                    changed = true;
                    bytes.extend(more.repeat(count));
                }
                About::Answer(_) => changed = true,
                About::Line(_) if is_binary(bytes) => {}
                About::Line(without) => {
                    let lines = bytes.split_inclusive(|byte| *byte == b'\n').map(|line| {
                        let other = without(line);
                        changed |= other.is_some();
                        other.unwrap_or_else(|| line.to_vec())
                    });
                    *bytes = lines.collect::<Vec<_>>().concat();
                }
            }
        }
        changed.then_some(session)
    }

    /// Answers without what this difference is about.
    pub(super) fn blind(&self, answers: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let About::Answer(blind) = self.about else {
            return answers;
        };
        let blinded = answers.iter().map(|answer| {
            let lines = answer.split_inclusive(|byte| *byte == b'\n');
            let lines = lines.map(|line| blind(line).unwrap_or(line));
            lines.collect::<Vec<_>>().concat()
        });
        blinded.collect()
    }
}

/// Puts `other` in the place of every word that `chosen` names, by its number and its text.
fn exchange_words(
    line: &[u8],
    chosen: impl Fn(usize, &[u8]) -> bool,
    other: &[u8],
) -> Option<Vec<u8>> {
    let mut changed = false;
    let words = line
        .split(|byte| *byte == b' ')
        .enumerate()
        .map(|(at, word)| {
            let text = word.trim_ascii_end();
            if !chosen(at, text) {
                return word.to_vec();
            }
            changed = true;
            [other, &word[text.len()..]].concat()
        });
    let line = words.collect::<Vec<_>>().join(&b' ');
    changed.then_some(line)
}

/// A line of a storage command that memcached refuses whatever the store holds.
fn is_wrong_store(line: &[u8]) -> bool {
    let words: Vec<&[u8]> = line
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
        .collect();
    let numbers = match words.first() {
        Some(&b"set" | &b"add" | &b"replace" | &b"append" | &b"prepend") => 3,
        Some(&b"cas") => 4,
        _ => return false,
    };
    let Some(given) = words.get(2..2 + numbers) else {
        return true;
    };
    let number = |word: &&[u8]| {
        let digits = word.strip_prefix(b"-").unwrap_or(word);
        digits.len() <= 20 && !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
    };
    words[1].len() > 250 || words.len() > 3 + numbers || !given.iter().all(number)
}

fn is_number_above(word: &[u8], limit: u64) -> bool {
    let digits = word.trim_ascii_start();
    !digits.is_empty()
        && digits.iter().all(u8::is_ascii_digit)
        && std::str::from_utf8(digits)
            .ok()
            .is_some_and(|digits| digits.parse::<u64>().map_or(true, |number| number > limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> &'static Difference {
        let found = DIFFERENCES.iter().find(|some| some.name == name);
        found.expect("there is such a difference")
    }

    fn without(name: &str, request: &str) -> Option<String> {
        let session = Session {
            connections: vec![request.into()],
            split: crate::exchange::Split::Whole,
        };
        let other = named(name).without(&session)?;
        Some(String::from_utf8_lossy(&other.connections[0]).into_owned())
    }

    #[test]
    fn a_difference_takes_out_what_it_is_about_and_no_more() {
        for (name, request, other) in [
            (
                "lengths beyond 31 bits",
                "set a 0 0 4294967297\r\n",
                Some("set a 0 0 x\r\n"),
            ),
            ("lengths beyond 31 bits", "set a 0 0 5\r\nhello\r\n", None),
            (
                "later flags",
                "ms a 2 E5 T0 s\r\nEx\r\n",
                Some("ms a 2  T0 \r\nEx\r\n"),
            ),
            ("later flags", "mg E v\r\n", None),
            ("zero bytes", "get a\0b\r\n", Some("get a?b\r\n")),
            (
                "values behind wrong lines",
                "set a 0 0\r\nx\r\n",
                Some("mn\r\nx\r\n"),
            ),
            (
                "values behind wrong lines",
                "set a 0 0 1 noreply\r\nx\r\n",
                None,
            ),
            ("binary in the middle of text", "a\r\n", None),
            ("leading spaces", "  get a\r\n", Some("get a\r\n")),
        ] {
            assert_eq!(
                without(name, request).as_deref(),
                other,
                "{name}: {request:?}"
            );
        }
        let long = format!("get {} b\r\n", "k".repeat(251));
        assert_eq!(
            without("lost answers", &long).as_deref(),
            Some("get k b\r\n")
        );
    }

    #[test]
    fn names_are_unique() {
        for (n, difference) in DIFFERENCES.iter().enumerate() {
            let same = DIFFERENCES
                .iter()
                .position(|some| some.name == difference.name);
            assert_eq!(same, Some(n), "{}", difference.name);
        }
    }
}
