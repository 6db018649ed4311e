//! Where we differ from memcached on purpose, each with its reason.
//!
//! A difference knows how to take what it is about out of a session, or out of answers. Answers that
//! differ are explained by it only when they agree without that: so a difference hides nothing that
//! is not its own. How often each explained something is counted and printed.

use std::ops::RangeInclusive;

use super::{Session, Subject, binary, is_binary};

/// One difference on purpose.
pub struct Difference {
    /// What it is about; unique.
    pub name: &'static str,
    /// Why we differ.
    pub reason: &'static str,
    /// In which versions 1.6.x of memcached it shows.
    pub patches: RangeInclusive<u32>,
    /// Whether the server shows it, the proxy, or both.
    pub subjects: &'static [Subject],
    /// Whether it reaches beyond the command: what was answered before is lost, or how much came at
    /// once counts. A session with such a thing gets connections of its own.
    disturbs: bool,
    /// Whether it is about something that most sessions have, and that none shall go without for it.
    common: bool,
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

const BOTH: &[Subject] = &[Subject::Server, Subject::Proxy];

/// Longest value that sessions send, in bytes: a longer one that is announced never comes whole.
const VALUE_MAX: u64 = 9000;

/// What follows a stream of text that ended in the middle of something: longer than the values of
/// sessions. Nothing is answered, for memcached 1.6.18 sends each answer by itself.
const GOES_ON: (&[u8], usize) = (b"mg g q\r\n", 1500);

/// What follows a binary one: longer than extras and key can be, and no request.
const GOES_ON_BINARY: (&[u8], usize) = (b"\0", 70_000);

/// Every difference that sessions can show.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "lengths beyond 31 bits",
        reason: "memcached keeps the lower 32 bits of a length; we take no length for another",
        patches: ALWAYS,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| {
            exchange_words(line, |_, word| is_number_above(word, 2_147_483_644), b"x")
        }),
    },
    Difference {
        name: "long lines",
        reason: "memcached closes or answers by whether the line's end came with its first 2048 bytes",
        patches: ALWAYS,
        subjects: BOTH,
        disturbs: true,
        common: false,
        about: About::Line(|line| (line.len() > 2048).then(|| b"mn\r\n".to_vec())),
    },
    Difference {
        name: "refusals before the value",
        reason: "memcached says that it refuses a value when the value has come; we say it at once",
        patches: ALWAYS,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::End,
    },
    Difference {
        name: "refusals before a value that never comes",
        reason: "the same, of values that are announced only",
        patches: ALWAYS,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| {
            exchange_words(line, |_, word| is_number_above(word, VALUE_MAX), b"x")
        }),
    },
    Difference {
        name: "keys in base64",
        reason: "the key comes back as the request sent it; memcached remembers how the item was stored",
        patches: ALWAYS,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| {
            let line = line.starts_with(b"m").then_some(line)?;
            exchange_words(line, |at, word| at > 1 && word.starts_with(b"b"), b"")
        }),
    },
    Difference {
        name: "uniques of another size",
        reason: "ours begin at a random number of 31 bits, memcached's at 1: a number may be older than one and \
                 newer than the other, and one that stands in a value makes it longer",
        patches: ALWAYS,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| {
            let is_number = |word: &[u8]| word.starts_with(b"C") && !word.starts_with(b"C{");
            if line.starts_with(b"m") && line.split(|byte| *byte == b' ').any(is_number) {
                return exchange_words(line, |at, word| at > 1 && word.starts_with(b"I"), b"");
            }
            let mark = |word: &[u8]| {
                let at = word.windows(2).position(|part| part == b"{c");
                at.is_some_and(|at| at > 1 || (at == 1 && word[0] != b'C'))
            };
            exchange_words(line, |_, word| mark(word), b"x")
        }),
    },
    Difference {
        name: "times in the order of flags",
        reason: "memcached works through flags in order: t and R before T or N see the time before, and of T and N \
                 the later one counts for what mg or ma makes; here t and R see the time that the item gets, and T counts",
        patches: ALWAYS,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| {
            let line = line.starts_with(b"m").then_some(line)?;
            let has = |letter: &u8| {
                line.split(|byte| *byte == b' ')
                    .any(|word| word.first() == Some(letter))
            };
            let sets = has(&b'T') || has(&b'N');
            let twice = has(&b'T') && has(&b'N');
            exchange_words(
                line,
                |at, word| {
                    let first =
                        |letters: &[u8]| word.first().is_some_and(|one| letters.contains(one));
                    at > 1 && ((sets && first(b"tR")) || (twice && first(b"T")))
                },
                b"",
            )
        }),
    },
    Difference {
        name: "flags of the extension",
        reason: "A, G, U, W, X and Y are refused when the request is whole, other flags that there are none at once",
        patches: ALWAYS,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| {
            let line = line.starts_with(b"m").then_some(line)?;
            let ours = |word: &[u8]| word.first().is_some_and(|one| b"AGUWXY".contains(one));
            exchange_words(line, |at, word| at > 1 && ours(word), b"?")
        }),
    },
    Difference {
        name: "quiet ma that makes an item",
        reason: "1.6.18 answers HD in spite of q; later versions nothing",
        patches: OLD,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| {
            let line = line.starts_with(b"ma").then_some(line)?;
            exchange_words(line, |at, word| at > 1 && word == b"q", b"")
        }),
    },
    Difference {
        name: "opaques that are too long",
        reason: "memcached refuses them after it has done what was asked; what is refused must not be done",
        patches: ALWAYS,
        subjects: BOTH,
        disturbs: false,
        common: false,
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
        subjects: BOTH,
        disturbs: true,
        common: false,
        about: About::Line(|line| {
            let reads = line.trim_ascii_start();
            let reads = reads.starts_with(b"get") || reads.starts_with(b"gat");
            let line = reads.then_some(line)?;
            exchange_words(line, |_, word| word.len() > 250, b"k")
        }),
    },
    Difference {
        name: "answers lost to browsers",
        reason: "the same, of a line that ends in HTTP/ and closes the connection",
        patches: ALWAYS,
        subjects: BOTH,
        disturbs: true,
        common: false,
        about: About::Line(|line| {
            exchange_words(
                line,
                |_, word| word.windows(5).any(|part| part == b"HTTP/"),
                b"x",
            )
        }),
    },
    Difference {
        name: "times of numbers that grow",
        reason: "T of ma is lost in memcached when the number needs another item; we set the time",
        patches: ALWAYS,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| {
            let line = line.starts_with(b"ma").then_some(line)?;
            exchange_words(line, |at, word| at > 1 && word.starts_with(b"T"), b"")
        }),
    },
    Difference {
        name: "numbers of items that are being sent",
        reason: "memcached counts in place, and pads the number, unless answers of the same pipeline hold the \
                 item: then it makes another, without padding and never fetched; here it is always in place",
        patches: ALWAYS,
        subjects: BOTH,
        disturbs: false,
        common: true,
        about: About::Line(|line| {
            let counts = [&b"incr "[..], b"decr ", b"ma "];
            let counts = counts.iter().any(|verb| line.starts_with(verb));
            counts.then(|| b"mn\r\n".to_vec())
        }),
    },
    Difference {
        name: "bget",
        reason: "an old name of get, which later versions dropped and we do not have",
        patches: OLD,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| {
            line.trim_ascii_start()
                .starts_with(b"bget ")
                .then(|| b"mn\r\n".to_vec())
        }),
    },
    Difference {
        name: "words too many",
        reason: "newer versions look at none but noreply; 1.6.18 refuses them (but for the 0 of delete), and so do we",
        patches: NEW,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| {
            let needed = match line.split(|byte| *byte == b' ').next()? {
                b"delete" | b"flush_all" => 2,
                b"touch" | b"incr" | b"decr" => 3,
                _ => return None,
            };
            let line = exchange_words(line, |at, word| at >= needed && word != b"noreply", b"")?;
            Some([line.trim_ascii_end(), b"\r\n"].concat())
        }),
    },
    Difference {
        name: "mn and a lone line feed",
        reason: "newer versions refuse mn whose line does not end in both; 1.6.18 takes either, and so do we",
        patches: NEW,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| (line == b"mn\n").then(|| b"mn\r\n".to_vec())),
    },
    Difference {
        name: "other white space inside a line",
        reason: "newer versions end numbers there, 1.6.18 does not, and neither do we",
        patches: NEW,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| {
            let end = match line.ends_with(b"\r\n") {
                true => line.len() - 2,
                false => line.len(),
            };
            let clean = |(at, byte): (usize, &u8)| match *byte {
                b'\t' | 0x0b..=b'\r' if at < end => b'?',
                other => other,
            };
            line[..end]
                .iter()
                .any(|byte| matches!(byte, b'\t' | 0x0b..=b'\r'))
                .then(|| line.iter().enumerate().map(clean).collect())
        }),
    },
    Difference {
        name: "signs of numbers",
        reason: "newer versions take no plus before a delta; 1.6.18 does, and so do we",
        patches: NEW,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| {
            let counts = line.starts_with(b"incr ") || line.starts_with(b"decr ");
            let line = counts.then_some(line)?;
            exchange_words(line, |at, word| at > 1 && word.starts_with(b"+"), b"x")
        }),
    },
    Difference {
        name: "letters of me",
        reason: "newer versions refuse flags that me has not; 1.6.18 ignores them, and so do we",
        patches: NEW,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| {
            let line = line.starts_with(b"me ").then_some(line)?;
            exchange_words(line, |at, word| at > 1 && word != b"b", b"")
        }),
    },
    Difference {
        name: "joins that make an item",
        reason: "N of ms makes what append and prepend do not find in later versions and here, not in 1.6.18",
        patches: OLD,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| {
            let line = line.starts_with(b"ms ").then_some(line)?;
            exchange_words(line, |at, word| at > 2 && word.starts_with(b"N"), b"")
        }),
    },
    Difference {
        name: "numbers of other widths",
        reason: "newer versions read times as 32 bits with at most a minus, and other numbers as digits alone; \
                 1.6.18 reads more, and so do we",
        patches: NEW,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| {
            let first = line.split(|byte| *byte == b' ').next()?;
            match first {
                b"mg" | b"ms" | b"ma" | b"md" => exchange_words(
                    line,
                    |at, word| {
                        at > 1
                            && word
                                .split_first()
                                .is_some_and(|(letter, token)| match letter {
                                    b'T' | b'N' | b'R' => !is_time(token),
                                    b'D' | b'J' | b'C' | b'E' => !is_digits(token),
                                    b'F' => !(is_time(token) && is_digits(token)),
                                    _ => false,
                                })
                    },
                    b"",
                ),
                b"touch" => exchange_words(line, |at, word| at == 2 && !is_time(word), b"0"),
                b"gat" | b"gats" => {
                    exchange_words(line, |at, word| at == 1 && !is_time(word), b"0")
                }
                b"incr" | b"decr" => {
                    exchange_words(line, |at, word| at == 2 && !is_digits(word), b"x")
                }
                _ => None,
            }
        }),
    },
    Difference {
        name: "modes of several letters",
        reason: "newer versions look at the first letter of M alone; 1.6.18 refuses more, and so do we",
        patches: NEW,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| {
            let line = line.starts_with(b"m").then_some(line)?;
            exchange_words(
                line,
                |at, word| at > 1 && word.starts_with(b"M") && word.len() != 2,
                b"",
            )
        }),
    },
    Difference {
        name: "a minus for a time",
        reason: "newer versions take it for nought; 1.6.18 takes it for none, and so do we",
        patches: NEW,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| exchange_words(line, |_, word| word == b"-", b"x")),
    },
    Difference {
        name: "gat without a key",
        reason: "newer versions refuse it; 1.6.18 finds nothing, and so do we",
        patches: NEW,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| {
            let mut words = line
                .split(|byte| *byte == b' ')
                .filter(|word| !word.trim_ascii().is_empty());
            let is_gat = matches!(words.next(), Some(b"gat" | b"gats"));
            (is_gat && words.count() == 1).then(|| b"mn\r\n".to_vec())
        }),
    },
    Difference {
        name: "zero bytes",
        reason: "memcached takes a zero byte for the end of the line in some places; we nowhere",
        patches: ALWAYS,
        subjects: BOTH,
        disturbs: false,
        common: false,
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
        subjects: BOTH,
        disturbs: false,
        common: false,
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
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Answer(|line| {
            let refusals: [&[u8]; 3] = [b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR: shutdown"];
            let refused = refusals.iter().any(|words| line.starts_with(words));
            refused.then_some(b"refused\r\n")
        }),
    },
    Difference {
        name: "wrong lines that want no answer",
        reason: "newer versions answer nothing to any line that is wrong and ends in noreply",
        patches: NEW,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| exchange_words(line, |_, word| word == b"noreply", b"")),
    },
    Difference {
        name: "leading spaces",
        reason: "newer versions take no spaces before a command; 1.6.18 does, and so do we",
        patches: NEW,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| {
            line.starts_with(b" ")
                .then(|| line.trim_ascii_start().to_vec())
        }),
    },
    Difference {
        name: "values behind wrong lines",
        reason: "newer versions swallow a value behind a storage line that is wrong, but for ms with a wrong flag; \
                 1.6.18 does the opposite, and so do we",
        patches: NEW,
        subjects: BOTH,
        disturbs: false,
        common: false,
        about: About::Line(|line| is_wrong_store(line).then(|| b"mn\r\n".to_vec())),
    },
];

/// Whether other sessions may share connections with this one: it ends its commands, and nothing in
/// it reaches beyond them.
pub fn is_sociable(session: &Session) -> bool {
    let whole = session
        .connections
        .iter()
        .all(|bytes| match is_binary(bytes) {
            true => binary::ends_whole(bytes),
            false => bytes.ends_with(b"\n"),
        });
    let disturbs = |some: &Difference| some.disturbs && some.without(session).is_some();
    whole && !DIFFERENCES.iter().any(disturbs)
}

impl Difference {
    /// Whether it is about the end of a stream, which a session that shares connections has none of.
    pub fn is_about_the_end(&self) -> bool {
        matches!(self.about, About::End)
    }

    /// Whether sessions that are to show no differences go without what this is about.
    pub fn is_avoidable(&self) -> bool {
        !self.common && !self.is_about_the_end()
    }

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
        Some(&b"ms") => {
            let key_is_long = words.get(1).is_some_and(|key| key.len() > 250);
            let is_flag = |word: &&[u8]| b"bcCEFIkOqsSTMNx".contains(&word[0]);
            let is_long = words.get(2).is_some_and(|len| is_digits(len));
            return key_is_long || !is_long || !words.iter().skip(3).all(is_flag);
        }
        _ => return false,
    };
    let Some(given) = words.get(2..2 + numbers) else {
        return true;
    };
    let number = |(at, word): (usize, &&[u8])| match at {
        1 => is_time(word),
        0 | 2 => is_time(word) && is_digits(word),
        _ => is_digits(word),
    };
    words[1].len() > 250
        || words.len() > 3 + numbers
        || line.ends_with(b"\r\r\n")
        || !given.iter().enumerate().all(number)
}

/// Digits that make up to 64 bits, whatever reads them.
fn is_digits(word: &[u8]) -> bool {
    !word.is_empty() && word.len() < 20 && word.iter().all(u8::is_ascii_digit)
}

/// A number of 32 bits, whatever reads it.
fn is_time(word: &[u8]) -> bool {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    is_digits(digits)
        && std::str::from_utf8(digits).is_ok_and(|digits| digits.parse::<i32>().is_ok())
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
