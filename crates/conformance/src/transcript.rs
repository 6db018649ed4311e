//! Transcripts: bytes to send, grouped into connections, and how to compare the answers.
//!
//! A transcript holds no expected answers: the reference is a running memcached, asked the same
//! bytes. That keeps hundreds of cases short, and nobody can write down a wrong expectation. Only
//! where we differ on purpose does a case hold our answer, with the reason.
//!
//! Each connection of a case is sent, half-closed, and read until the server closes. memcached
//! answers everything it has read before it looks at the end of the stream, so this takes no
//! timeouts and no guess about where an answer ends; and whatever a server leaves unanswered, or
//! says twice, shows.
//!
//! # The format
//!
//! ```text
//! # A comment. Before the first case: flags for memcached and `evenkeel server` alike.
//! flags -I 2m
//!
//! case a name, unique in the file
//! > set k 0 0 2        A line to send; CR LF is added.
//! > hi
//! >> get k\n           Bytes to send as they are, with escapes.
//! take c               The last CAS unique answered on this connection is {c} from now on
//!                      (implies `same cas`).
//! --                   The next connection begins.
//! > mg k c E{c}
//! same cas ttl         Normalisations, see below.
//! targets server       Leave out the proxies ("server proxy" is the default).
//! differs server why   We differ on purpose, in the server or in the parser (which the proxy has
//!                      too). Then each connection must be followed by what we answer:
//! = HD                 a line; CR LF is added.
//! == HD\r\n            Bytes as they are.
//! ```
//!
//! Escapes: `\r \n \t \0 \\`, `\xHH`, and `\(TEXT*N)`, which repeats TEXT.
//!
//! # What is normalised
//!
//! Always: the word after `VERSION`. By `same`:
//!
//! * `cas`: CAS uniques (the fifth word of a `VALUE` line, meta return flag `c`) become their order
//!   of first appearance in the case, so that equal ones stay equal and new ones new.
//! * `ttl`: meta return flags `t`, `l` may differ by [`SECONDS_TOLERANCE`]: clocks tick between two
//!   commands, on a busy machine several times.
//! * `debug`: of `me`, only the names count where the values tell about memory and time
//!   (`la`, `exp`, `cas`, `cls`, `size`).

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// By how much a time in seconds may differ between two servers asked one after the other.
pub const SECONDS_TOLERANCE: i64 = 20;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript {
    /// Flags for memcached and `evenkeel server`.
    pub flags: Vec<String>,
    /// The cases, run in order against one server.
    pub cases: Vec<Case>,
}

/// One story.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// Unique in its file.
    pub name: String,
    /// Line in the file, from 1.
    pub line: usize,
    /// What is sent.
    pub connections: Vec<Connection>,
    /// Normalisations.
    pub same: Vec<Sameness>,
    /// Whether the case makes sense through a proxy.
    pub through_proxy: bool,
    /// Which part of ours answers differently from the reference on purpose, if one does.
    pub differs: Option<Part>,
}

/// What is sent on one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// The bytes, with `{name}` for what was taken earlier.
    pub bytes: Vec<u8>,
    /// Take the last CAS unique of the answer under this name.
    pub take: Option<String>,
    /// Our own answer, where it differs on purpose.
    pub ours: Option<Vec<u8>>,
}

/// A part of ours that differs from memcached on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The parser: the difference shows in the server and in every proxy.
    Parser,
    /// The server: the difference does not show in a proxy in front of memcached.
    Server,
}

/// A normalisation; see the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sameness {
    /// CAS uniques by order of first appearance.
    Cas,
    /// Seconds may differ a little.
    Ttl,
    /// `me`: names, not all values.
    Debug,
}

/// Reads a transcript.
///
/// # Errors
/// A sentence with the line at fault.
pub fn parse(text: &str) -> Result<Transcript, String> {
    let mut transcript = Transcript {
        flags: Vec::new(),
        cases: Vec::new(),
    };
    for (index, line) in text.lines().enumerate() {
        let at = |message: &str| format!("line {}: {message}", index + 1);
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "case" {
            if rest.is_empty() || transcript.cases.iter().any(|case| case.name == rest) {
                return Err(at("a case needs a name of its own"));
            }
            transcript.cases.push(Case {
                name: rest.to_owned(),
                line: index + 1,
                connections: vec![Connection::default()],
                through_proxy: true,
                ..Case::default()
            });
            continue;
        }
        let Some(case) = transcript.cases.last_mut() else {
            if word != "flags" {
                return Err(at("only `flags` may stand before the first case"));
            }
            transcript
                .flags
                .extend(rest.split_whitespace().map(str::to_owned));
            continue;
        };
        let connection = case
            .connections
            .last_mut()
            .expect("a case begins with a connection");
        match word {
            ">" | ">>" => {
                connection
                    .bytes
                    .extend(unescape(rest).map_err(|error| at(&error))?);
                if word == ">" {
                    connection.bytes.extend(b"\r\n");
                }
            }
            "=" | "==" => {
                let ours = connection.ours.get_or_insert_default();
                ours.extend(unescape(rest).map_err(|error| at(&error))?);
                if word == "=" {
                    ours.extend(b"\r\n");
                }
            }
            "--" => case.connections.push(Connection::default()),
            "take" => {
                connection.take = Some(rest.to_owned());
                // What is taken is answered too, and differs from server to server.
                case.same.push(Sameness::Cas);
            }
            "same" => {
                for name in rest.split_whitespace() {
                    case.same.push(match name {
                        "cas" => Sameness::Cas,
                        "ttl" => Sameness::Ttl,
                        "debug" => Sameness::Debug,
                        _ => return Err(at("`same` takes cas, ttl and debug")),
                    });
                }
            }
            "targets" => match rest {
                "server" => case.through_proxy = false,
                "server proxy" => case.through_proxy = true,
                _ => return Err(at("`targets` takes `server` or `server proxy`")),
            },
            "differs" => {
                case.differs = match rest.split_once(' ') {
                    Some(("parser", _)) => Some(Part::Parser),
                    Some(("server", _)) => Some(Part::Server),
                    _ => return Err(at("`differs` takes `parser` or `server` and the reason")),
                }
            }
            _ => return Err(at(&format!("`{word}` is not understood"))),
        }
    }
    check(&transcript)?;
    Ok(transcript)
}

fn check(transcript: &Transcript) -> Result<(), String> {
    if transcript.cases.is_empty() {
        return Err("no cases".to_owned());
    }
    for case in &transcript.cases {
        let answers = case
            .connections
            .iter()
            .filter(|connection| connection.ours.is_some())
            .count();
        let problem = if case
            .connections
            .iter()
            .any(|connection| connection.bytes.is_empty())
        {
            "a connection that sends nothing"
        } else if case.differs.is_some() && answers != case.connections.len() {
            "`differs` needs our answer on every connection"
        } else if case.differs.is_none() && answers > 0 {
            "our answer without the reason why it `differs`"
        } else {
            continue;
        };
        return Err(format!(
            "line {}: case `{}`: {problem}",
            case.line, case.name
        ));
    }
    Ok(())
}

/// Reads escapes.
fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\\') {
        bytes.extend(before.bytes());
        let kind = escape.chars().next().ok_or("a lone \\ at the end")?;
        rest = &escape[kind.len_utf8()..];
        match kind {
            'r' => bytes.push(b'\r'),
            'n' => bytes.push(b'\n'),
            't' => bytes.push(b'\t'),
            '0' => bytes.push(0),
            '\\' => bytes.push(b'\\'),
            'x' => {
                let digits = rest.get(..2).ok_or("\\x needs two digits")?;
                let byte = u8::from_str_radix(digits, 16).map_err(|_| "\\x needs two digits")?;
                bytes.push(byte);
                rest = &rest[2..];
            }
            '(' => {
                let (inner, after) = rest.split_once(')').ok_or("\\( without )")?;
                let (part, count) = inner.rsplit_once('*').ok_or("\\( needs TEXT*N")?;
                let count: usize = count.parse().map_err(|_| "\\( needs TEXT*N")?;
                bytes.extend(unescape(part)?.repeat(count));
                rest = after;
            }
            _ => return Err(format!("unknown escape \\{kind}")),
        }
    }
    bytes.extend(rest.bytes());
    Ok(bytes)
}

/// Bytes as a transcript would have them, shortened where they repeat.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut i = 0;
    while i < bytes.len() {
        let run = bytes[i..]
            .iter()
            .take_while(|byte| **byte == bytes[i])
            .count();
        let one = escape_byte(bytes[i]);
        if run > 8 {
            let _ = write!(text, "\\({one}*{run})");
            i += run;
        } else {
            text.push_str(&one);
            i += 1;
        }
    }
    text
}

fn escape_byte(byte: u8) -> String {
    match byte {
        b'\r' => "\\r".to_owned(),
        b'\n' => "\\n".to_owned(),
        b'\t' => "\\t".to_owned(),
        b'\\' => "\\\\".to_owned(),
        0 => "\\0".to_owned(),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    }
}

/// What was taken from answers, by name.
pub type Taken = BTreeMap<String, String>;

impl Connection {
    /// The bytes to send, with `{name}` replaced by what was taken.
    pub fn request(&self, taken: &Taken) -> Vec<u8> {
        fill_in(&self.bytes, taken)
    }

    /// Keeps the CAS unique that this connection is asked to take.
    ///
    /// # Errors
    /// When the answer holds none.
    pub fn keep(&self, answer: &[u8], taken: &mut Taken) -> Result<(), String> {
        let Some(name) = &self.take else {
            return Ok(());
        };
        let unique = last_unique(answer)
            .ok_or_else(|| format!("no CAS unique to take as {{{name}}} in {}", escape(answer)))?;
        taken.insert(name.clone(), unique);
        Ok(())
    }
}

/// The last CAS unique that an answer holds.
pub fn last_unique(answer: &[u8]) -> Option<String> {
    lines(answer).into_iter().rev().find_map(|line| {
        let words = words(line);
        let index = cas_words(&words).pop()?;
        let word = String::from_utf8_lossy(words[index].trim_ascii_end()).into_owned();
        Some(word.trim_start_matches('c').to_owned())
    })
}

/// Replaces `{name}` by what was taken under the name.
pub fn fill_in(bytes: &[u8], taken: &Taken) -> Vec<u8> {
    let mut filled = bytes.to_vec();
    for (name, value) in taken {
        let mark = format!("{{{name}}}").into_bytes();
        while let Some(at) = filled.windows(mark.len()).position(|window| window == mark) {
            filled.splice(at..at + mark.len(), value.bytes());
        }
    }
    filled
}

/// Compares all answers of a case. `Ok` when they say the same.
///
/// # Errors
/// The number of the first connection, from 0, whose answers differ.
pub fn compare(same: &[Sameness], reference: &[Vec<u8>], ours: &[Vec<u8>]) -> Result<(), usize> {
    let (reference, ours) = (normalise(same, reference), normalise(same, ours));
    match (0..reference.len().max(ours.len()))
        .find(|i| !same_answer(same, reference.get(*i), ours.get(*i)))
    {
        Some(connection) => Err(connection),
        None => Ok(()),
    }
}

fn normalise(same: &[Sameness], answers: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut uniques: Vec<Vec<u8>> = Vec::new();
    let mut number = |unique: &[u8]| {
        let found = uniques.iter().position(|known| known == unique);
        let index = found.unwrap_or_else(|| {
            uniques.push(unique.to_vec());
            uniques.len() - 1
        });
        format!("<cas {index}>").into_bytes()
    };
    answers
        .iter()
        .map(|answer| {
            let mut out = Vec::new();
            for line in lines(answer) {
                let mut words: Vec<Vec<u8>> = words(line).into_iter().map(<[u8]>::to_vec).collect();
                if words.len() > 1 && words[0] == b"VERSION" {
                    words[1] = replaced(&words[1], b"<version>");
                }
                if same.contains(&Sameness::Cas) {
                    let borrowed: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                    for index in cas_words(&borrowed) {
                        words[index] =
                            replaced(&words[index], &number(words[index].trim_ascii_end()));
                    }
                }
                if same.contains(&Sameness::Debug) && words[0] == b"ME" {
                    for word in &mut words[2..] {
                        for name in ["la=", "exp=", "cas=", "cls=", "size="] {
                            if word.starts_with(name.as_bytes()) {
                                *word = name.into();
                            }
                        }
                    }
                }
                out.extend(words.join(&b' '));
            }
            out
        })
        .collect()
}

/// `word` with its text replaced and the line end it may carry kept.
fn replaced(word: &[u8], text: &[u8]) -> Vec<u8> {
    [text, &word[word.trim_ascii_end().len()..]].concat()
}

/// Which words of an answer line are CAS uniques.
fn cas_words(words: &[&[u8]]) -> Vec<usize> {
    match words[0] {
        b"VALUE" if words.len() == 5 => vec![4],
        b"VA" | b"HD" | b"EX" | b"NF" | b"NS" | b"EN" => (1..words.len())
            .filter(|i| words[*i].strip_prefix(b"c").is_some_and(is_number))
            .collect(),
        _ => Vec::new(),
    }
}

fn is_number(word: &[u8]) -> bool {
    let word = word.trim_ascii_end();
    !word.is_empty() && word.iter().all(u8::is_ascii_digit)
}

/// Lines with their ends; the last may lack one.
fn lines(answer: &[u8]) -> Vec<&[u8]> {
    answer.split_inclusive(|byte| *byte == b'\n').collect()
}

fn words(line: &[u8]) -> Vec<&[u8]> {
    line.split(|byte| *byte == b' ').collect()
}

fn same_answer(same: &[Sameness], one: Option<&Vec<u8>>, other: Option<&Vec<u8>>) -> bool {
    let (Some(one), Some(other)) = (one, other) else {
        return false;
    };
    if one == other {
        return true;
    }
    let (one, other) = (lines(one), lines(other));
    same.contains(&Sameness::Ttl)
        && one.len() == other.len()
        && one
            .iter()
            .zip(&other)
            .all(|(one, other)| one == other || same_but_for_seconds(one, other))
}

fn same_but_for_seconds(one: &[u8], other: &[u8]) -> bool {
    let (one, other) = (words(one), words(other));
    one.len() == other.len()
        && one.iter().zip(&other).all(|(one, other)| {
            one == other
                || match (seconds(one), seconds(other)) {
                    (Some((a, n)), Some((b, m))) => a == b && (n - m).abs() <= SECONDS_TOLERANCE,
                    _ => false,
                }
        })
}

/// `t99` is `('t', 99)`.
fn seconds(word: &[u8]) -> Option<(u8, i64)> {
    let (letter, digits) = word.split_first()?;
    if !matches!(letter, b't' | b'l') || !is_number(digits) {
        return None;
    }
    Some((
        *letter,
        std::str::from_utf8(digits.trim_ascii_end())
            .ok()?
            .parse()
            .ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_is_read() {
        let transcript = parse(
            "# comment\nflags -I 2m -C\n\ncase one\n> get a\n>> x\\n\ntake c\n--\n> mg a E{c}\n\
             same cas ttl\n\ncase two\n> get b\ntargets server\ndiffers server because\n= END\n== x",
        )
        .unwrap();
        assert_eq!(transcript.flags, ["-I", "2m", "-C"]);
        let [one, two] = &transcript.cases[..] else {
            panic!("two cases")
        };
        assert_eq!(one.connections[0].bytes, b"get a\r\nx\n");
        assert_eq!(one.connections[0].take.as_deref(), Some("c"));
        assert_eq!(one.same, [Sameness::Cas, Sameness::Cas, Sameness::Ttl]);
        assert!(one.through_proxy && !two.through_proxy);
        assert_eq!(two.connections[0].ours.as_deref(), Some(&b"END\r\nx"[..]));
        let taken = Taken::from([("c".to_owned(), "17".to_owned())]);
        assert_eq!(one.connections[1].request(&taken), b"mg a E17\r\n");
    }

    #[test]
    fn mistakes_are_refused_with_their_line() {
        for (text, message) in [
            ("", "no cases"),
            ("> get a", "line 1: only `flags`"),
            ("case a\n> x\ncase a", "line 3: a case needs a name"),
            ("case a", "sends nothing"),
            ("case a\n> x\n= END", "without the reason"),
            ("case a\n> x\ndiffers server why", "needs our answer"),
            ("case a\n> x\ndiffers why", "line 3: `differs` takes"),
            ("case a\n> \\q", "line 2: unknown escape"),
            ("case a\n> \\x4", "line 2: \\x needs"),
            ("case a\nget b", "line 2: `get` is not understood"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(message), "{text:?} gave {error:?}");
        }
    }

    #[test]
    fn escapes_go_both_ways() {
        let bytes = unescape("a\\(k*250)\\r\\n\\0\\x80\\\\\\(\\n*9)").unwrap();
        assert_eq!(bytes.len(), 1 + 250 + 2 + 1 + 1 + 1 + 9);
        assert_eq!(unescape(&escape(&bytes)).unwrap(), bytes);
    }

    fn differ(same: &[Sameness], one: &str, other: &str) -> bool {
        compare(same, &[one.into()], &[other.into()]).is_err()
    }

    #[test]
    fn bytes_are_compared_as_they_are() {
        assert!(!differ(&[], "END\r\n", "END\r\n"));
        assert!(differ(&[], "END\r\n", "END\n"));
        assert!(differ(&[], "END\r\n", "END\r\nEND\r\n"));
        assert!(differ(&[], "HD t100\r\n", "HD t99\r\n"));
        assert!(differ(&[], "HD c1\r\n", "HD c2\r\n"));
        assert!(!differ(&[], "VERSION 1.6.18\r\n", "VERSION 0.1.0\r\n"));
    }

    #[test]
    fn cas_uniques_are_compared_by_identity() {
        let cas = [Sameness::Cas];
        assert!(!differ(
            &cas,
            "HD c1\r\nHD c1\r\nHD c2\r\n",
            "HD c7\r\nHD c7\r\nHD c9\r\n"
        ));
        assert!(differ(&cas, "HD c1\r\nHD c1\r\n", "HD c7\r\nHD c8\r\n"));
        assert!(differ(&cas, "HD c1\r\n", "HD c1\n"));
        assert!(differ(&cas, "HD c1\r\nHD c2\r\n", "HD c7\r\nHD c7\r\n"));
        assert!(!differ(
            &cas,
            "VALUE k 0 1 5\r\nx\r\nEND\r\n",
            "VALUE k 0 1 9\r\nx\r\nEND\r\n"
        ));
        assert!(differ(
            &cas,
            "VALUE k 0 1 5\r\nx\r\n",
            "VALUE k 0 2 5\r\nx\r\n"
        ));
    }

    #[test]
    fn seconds_may_tick_and_no_more() {
        let ttl = [Sameness::Ttl];
        assert!(!differ(&ttl, "HD t100 f0\r\n", "HD t99 f0\r\n"));
        assert!(differ(&ttl, "HD t100 f0\r\n", "HD t79 f0\r\n"));
        assert!(differ(&ttl, "HD t-1\r\n", "HD t1\r\n"));
        assert!(differ(&ttl, "HD s100\r\n", "HD s99\r\n"));
    }

    #[test]
    fn debug_lines_keep_their_names() {
        let debug = [Sameness::Debug];
        let theirs = "ME k exp=-1 la=3 cas=2 fetch=no cls=1 size=63\r\n";
        assert!(!differ(
            &debug,
            theirs,
            "ME k exp=-1 la=0 cas=9 fetch=no cls=2 size=70\r\n"
        ));
        assert!(differ(
            &debug,
            theirs,
            "ME k exp=-1 la=0 cas=9 fetch=yes cls=2 size=70\r\n"
        ));
        assert!(differ(
            &debug,
            theirs,
            "ME k exp=-1 la=0 cas=9 fetch=no size=70\r\n"
        ));
    }

    #[test]
    fn a_cas_unique_is_taken_from_the_last_line_that_has_one() {
        let connection = Connection {
            take: Some("c".to_owned()),
            ..Connection::default()
        };
        let mut taken = Taken::new();
        connection
            .keep(b"VALUE k 0 1 5\r\nx\r\nEND\r\nHD c9\r\nEN\r\n", &mut taken)
            .unwrap();
        assert_eq!(taken["c"], "9");
        connection
            .keep(b"VALUE k 0 1 5\r\nx\r\nEND\r\n", &mut taken)
            .unwrap();
        assert_eq!(taken["c"], "5");
        assert!(connection.keep(b"END\r\n", &mut taken).is_err());
    }
}
