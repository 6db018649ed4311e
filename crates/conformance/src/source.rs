//! Reads Rust sources well enough to check which paths they name.
//!
//! Not a parser: a scanner that drops comments, literals and `#[cfg(test)]` items, and lists the
//! paths that are left, with `use` trees written out. It errs on the side of reporting: a local name
//! that looks like a forbidden path is reported too, and then deserves another name.

use std::fmt;

/// A place in a source that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Line, from 1.
    pub line: usize,
    /// What stands there, and why it must not.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Path prefixes that tie code to a clock, a socket, a thread, a file or the process.
const IMPURE_PATHS: &[(&str, &str)] = &[
    (
        "std::time",
        "reads a clock (only std::time::Duration is pure)",
    ),
    (
        "std::net",
        "names sockets (only addresses, as data, are pure)",
    ),
    ("std::os", "names the operating system"),
    ("std::thread", "names threads"),
    ("std::fs", "names files"),
    ("std::process", "names processes"),
    ("std::env", "reads the environment"),
    ("std::sync::OnceLock", "holds global state"),
    ("std::sync::LazyLock", "holds global state"),
    ("mio", "names sockets"),
    ("tokio", "names sockets, timers and threads"),
    ("socket2", "names sockets"),
    ("rustix", "names the operating system"),
    ("libc", "names the operating system"),
    ("rand::rng", "makes its own randomness"),
    ("rand::thread_rng", "makes its own randomness"),
    ("rand::random", "makes its own randomness"),
];

/// Exceptions to [`IMPURE_PATHS`].
const PURE_PATHS: &[&str] = &[
    "std::time::Duration",
    "std::net::IpAddr",
    "std::net::Ipv4Addr",
    "std::net::Ipv6Addr",
    "std::net::SocketAddr",
];

/// Names that are wrong wherever they come from.
const IMPURE_NAMES: &[(&str, &str)] = &[
    ("thread_local", "holds global state"),
    ("lazy_static", "holds global state"),
    ("once_cell", "holds global state"),
    ("OnceLock", "holds global state"),
    ("LazyLock", "holds global state"),
    ("SystemTime", "reads a clock"),
];

/// Type names that make a `static` mutable.
const INTERIOR_MUTABILITY: &[&str] = &[
    "Atomic",
    "Mutex",
    "RwLock",
    "RefCell",
    "Cell",
    "OnceCell",
    "UnsafeCell",
];

/// What a pure crate's source must not name. Code under `#[cfg(test)]` may.
pub fn impurities(source: &str) -> Vec<Violation> {
    let tokens = without_tests(&tokens(source));
    let mut found = Vec::new();
    for (path, line) in paths(&tokens) {
        if PURE_PATHS.iter().any(|pure| has_prefix(&path, pure)) {
            continue;
        }
        let by_path = IMPURE_PATHS
            .iter()
            .find(|(prefix, _)| has_prefix(&path, prefix));
        let by_name = IMPURE_NAMES
            .iter()
            .find(|(name, _)| path.split("::").any(|part| part == *name));
        if let Some((_, why)) = by_path.or(by_name) {
            found.push(Violation {
                line,
                what: format!("`{path}` {why}"),
            });
        }
    }
    found.extend(mutable_statics(&tokens));
    found
}

/// Places that say `unsafe`, in tests too. Naming the lint `unsafe_code` is fine.
pub fn unsafe_places(source: &str) -> Vec<Violation> {
    tokens(source)
        .iter()
        .filter(|token| token.text == "unsafe")
        .map(|token| Violation {
            line: token.line,
            what: "`unsafe`".to_owned(),
        })
        .collect()
}

/// True when the crate root forbids unsafe code.
pub fn forbids_unsafe(root: &str) -> bool {
    let words: Vec<String> = tokens(root).into_iter().map(|token| token.text).collect();
    words
        .windows(7)
        .any(|window| window == ["#", "!", "[", "forbid", "(", "unsafe_code", ")"])
}

fn has_prefix(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// An identifier, `::`, or one character of punctuation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    text: String,
    line: usize,
}

/// Splits a source into tokens, without comments and without the text of literals.
fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let (mut i, mut line) = (0, 1);
    let mut tokens = Vec::new();
    while i < chars.len() {
        let start = i;
        match chars[i] {
            '/' if at(i + 1) == '/' => {
                while i < chars.len() && chars[i] != '\n' {
                    i += 1;
                }
            }
            '/' if at(i + 1) == '*' => i = end_of_block_comment(&chars, i),
            '"' => i = end_of_string(&chars, i),
            '\'' => i = end_of_char_or_lifetime(&chars, i),
            c if c.is_alphanumeric() || c == '_' => {
                while i < chars.len() && (chars[i].is_alphanumeric() || chars[i] == '_') {
                    i += 1;
                }
                let word: String = chars[start..i].iter().collect();
                match (word.as_str(), at(i)) {
                    ("r" | "br" | "cr", '"' | '#') if raw_string_follows(&chars, i) => {
                        i = end_of_raw_string(&chars, i);
                    }
                    ("b" | "c", '"') => i = end_of_string(&chars, i),
                    ("b", '\'') => i = end_of_char_or_lifetime(&chars, i),
                    _ => tokens.push(Token { text: word, line }),
                }
            }
            ':' if at(i + 1) == ':' => {
                tokens.push(Token {
                    text: "::".to_owned(),
                    line,
                });
                i += 2;
            }
            c => {
                if !c.is_whitespace() {
                    tokens.push(Token {
                        text: c.to_string(),
                        line,
                    });
                }
                i += 1;
            }
        }
        line += chars[start..i].iter().filter(|c| **c == '\n').count();
    }
    tokens
}

fn end_of_block_comment(chars: &[char], mut i: usize) -> usize {
    let mut depth = 0;
    while i < chars.len() {
        if chars[i..].starts_with(&['/', '*']) {
            depth += 1;
            i += 2;
        } else if chars[i..].starts_with(&['*', '/']) {
            depth -= 1;
            i += 2;
            if depth == 0 {
                break;
            }
        } else {
            i += 1;
        }
    }
    i
}

/// `i` is at the opening quote.
fn end_of_string(chars: &[char], mut i: usize) -> usize {
    i += 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    (i + 1).min(chars.len())
}

fn raw_string_follows(chars: &[char], i: usize) -> bool {
    chars[i..].iter().find(|c| **c != '#') == Some(&'"')
}

/// `i` is at the first `#` or the quote.
fn end_of_raw_string(chars: &[char], mut i: usize) -> usize {
    let hashes = chars[i..].iter().take_while(|c| **c == '#').count();
    i += hashes + 1;
    while i < chars.len() {
        if chars[i] == '"'
            && chars[i + 1..]
                .iter()
                .take(hashes)
                .filter(|c| **c == '#')
                .count()
                == hashes
        {
            return i + 1 + hashes;
        }
        i += 1;
    }
    i
}

/// `i` is at the quote: `'a'`, `'\n'`, `'\u{1}'`, or a lifetime such as `'a`.
fn end_of_char_or_lifetime(chars: &[char], i: usize) -> usize {
    if chars.get(i + 1) == Some(&'\\') {
        let mut end = i + 3;
        while end < chars.len() && chars[end] != '\'' {
            end += 1;
        }
        return (end + 1).min(chars.len());
    }
    if chars.get(i + 2) == Some(&'\'') {
        i + 3
    } else {
        i + 1
    }
}

/// Drops every item under `#[cfg(test)]`.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        let marked = tokens[i..].len() >= MARK.len()
            && tokens[i..]
                .iter()
                .zip(MARK)
                .all(|(token, word)| token.text == word);
        if marked {
            i = end_of_item(tokens, i + MARK.len());
        } else {
            kept.push(tokens[i].clone());
            i += 1;
        }
    }
    kept
}

/// The index after the item at `i`: after its `;`, or after its closing brace.
fn end_of_item(tokens: &[Token], mut i: usize) -> usize {
    let mut depth = 0_usize;
    let mut braces = 0_usize;
    while i < tokens.len() {
        match tokens[i].text.as_str() {
            "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            "{" => braces += 1,
            "}" => {
                braces = braces.saturating_sub(1);
                if braces == 0 {
                    // `use a::{b};` ends at the semicolon.
                    let semicolon = tokens.get(i + 1).is_some_and(|next| next.text == ";");
                    return i + 1 + usize::from(semicolon);
                }
            }
            ";" if depth == 0 && braces == 0 => return i + 1,
            _ => {}
        }
        i += 1;
    }
    i
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// All paths a source names, with the lines they begin on. `use` trees are written out.
fn paths(tokens: &[Token]) -> Vec<(String, usize)> {
    let mut paths = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        if tokens[i].text == "use" {
            i = use_tree(tokens, i + 1, &[], &mut paths);
        } else if is_name(&tokens[i].text) {
            let line = tokens[i].line;
            let mut path = vec![tokens[i].text.clone()];
            while i + 2 < tokens.len() && tokens[i + 1].text == "::" && is_name(&tokens[i + 2].text)
            {
                path.push(tokens[i + 2].text.clone());
                i += 2;
            }
            paths.push((normal(&path), line));
            i += 1;
        } else {
            i += 1;
        }
    }
    paths
}

/// Reads one tree of a `use` from `i`; returns the index after it.
fn use_tree(
    tokens: &[Token],
    mut i: usize,
    prefix: &[String],
    paths: &mut Vec<(String, usize)>,
) -> usize {
    let mut path = prefix.to_vec();
    while i < tokens.len() {
        let Token { text, line } = &tokens[i];
        match text.as_str() {
            "::" => i += 1,
            "{" => {
                i += 1;
                while i < tokens.len() && tokens[i].text != "}" {
                    i = use_tree(tokens, i, &path, paths);
                    if tokens.get(i).is_some_and(|token| token.text == ",") {
                        i += 1;
                    }
                }
                return i + 1;
            }
            "as" => i += 2,
            "," | "}" | ";" => {
                paths.push((normal(&path), *line));
                return if text == ";" { i + 1 } else { i };
            }
            "self" if !path.is_empty() => i += 1,
            _ => {
                path.push(text.clone());
                i += 1;
            }
        }
    }
    i
}

/// `core` and `alloc` say the same as `std`.
fn normal(path: &[String]) -> String {
    let mut path = path.to_vec();
    if path.len() > 1 && (path[0] == "core" || path[0] == "alloc") {
        path[0] = "std".to_owned();
    }
    path.join("::")
}

/// `static mut`, and statics of a type that changes behind a shared reference.
fn mutable_statics(tokens: &[Token]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (i, token) in tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| token.text == "static")
    {
        let next = tokens.get(i + 1).map(|token| token.text.as_str());
        if next == Some("mut") {
            found.push(Violation {
                line: token.line,
                what: "`static mut`".to_owned(),
            });
        }
        if !next.is_some_and(is_name) {
            continue; // 'static and the like.
        }
        let of_type = tokens[i + 1..]
            .iter()
            .take_while(|token| !matches!(token.text.as_str(), "=" | ";"));
        for part in of_type {
            if INTERIOR_MUTABILITY
                .iter()
                .any(|name| part.text.starts_with(name))
            {
                found.push(Violation {
                    line: token.line,
                    what: format!("a `static` of type {} is global state", part.text),
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of these must be reported.
    const BAD: &[&str] = &[
        "use std::time::Instant;",
        "use std::time::{Duration, SystemTime};",
        "use std::{collections::BTreeMap, net::TcpStream};",
        "use std::{sync::{Arc, OnceLock}, fmt};",
        "use std::time;",
        "use std::time::*;",
        "use std::thread as t;",
        "fn f() { let now = std::time::Instant::now(); }",
        "fn f() { ::std::thread::spawn(|| {}); }",
        "fn f() { let n: u8 = rand::random(); }",
        "use mio::net::TcpListener;",
        "async fn f() { tokio::time::sleep(d).await }",
        "static mut COUNT: u32 = 0;",
        "static COUNT: AtomicUsize = AtomicUsize::new(0);",
        "pub static TABLE: std::sync::Mutex<Vec<u8>> = std::sync::Mutex::new(Vec::new());",
        "thread_local! { static X: u8 = 0; }",
        "fn f() { static CELL: OnceLock<u8> = OnceLock::new(); }",
        "fn f<'a>(x: &'a str) { std::fs::read(x); }",
        "const QUOTE: char = '\"'; use std::net::UdpSocket; const Q: char = '\"';",
        "#[cfg(test)] use a::{b, c}; use std::net::ToSocketAddrs;",
        "#[cfg(test)] mod tests { fn f() {} } use std::thread;",
        "#[cfg(not(test))] use std::thread;",
        "/* /* nested */ */ use std::thread;",
        "const R: &str = r#\"a \" quote\"#; use std::thread;",
    ];

    /// None of these may be reported.
    const GOOD: &[&str] = &[
        "use std::time::Duration;",
        "use std::{collections::BTreeMap, fmt, sync::Arc};",
        "use core::time::Duration;",
        "use core::net::{IpAddr, Ipv6Addr, SocketAddr};",
        "// std::time::Instant::now() in a comment",
        "/// [`std::thread`] in documentation\nfn f() {}",
        "const TEXT: &str = \"std::net::TcpStream\";",
        "const RAW: &str = r##\"use std::thread; \"# \"##;",
        "const BYTES: &[u8] = b\"std::thread \\\" use std::net\";",
        "#[cfg(test)]\nmod tests { use std::thread; fn f() { std::time::Instant::now(); } }",
        "#[cfg(test)] use std::net::TcpStream;",
        "static NAMES: [&str; 2] = [\"a\", \"b\"];",
        "fn f(x: &'static str) -> Instant { Instant::from_nanos(x.len()) }",
        "struct Own { clock: Clock, cell: Cell<u8> }",
        "use crate::time::Instant;",
    ];

    #[test]
    fn what_a_pure_crate_must_not_name_is_found() {
        for source in BAD {
            assert!(!impurities(source).is_empty(), "missed: {source}");
        }
    }

    #[test]
    fn what_a_pure_crate_may_name_is_left_alone() {
        for source in GOOD {
            assert_eq!(impurities(source), [], "wrongly reported: {source}");
        }
    }

    #[test]
    fn violations_name_line_and_path() {
        let found =
            impurities("/* one\n two */\nconst S: &str = \"\n\";\nuse std::net::TcpStream;\n");
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].to_string(),
            "line 5: `std::net::TcpStream` names sockets (only addresses, as data, are pure)"
        );
    }

    #[test]
    fn unsafe_is_found_in_code_alone() {
        assert_eq!(
            unsafe_places("// unsafe\nfn f() {\n    unsafe { g() }\n}")[0].line,
            3
        );
        assert_eq!(unsafe_places("unsafe impl Send for X {}").len(), 1);
        assert_eq!(
            unsafe_places("#![forbid(unsafe_code)] const S: &str = \"unsafe\";"),
            []
        );
        assert_eq!(
            unsafe_places("#[cfg(test)] mod t { unsafe fn f() {} }").len(),
            1
        );
    }

    #[test]
    fn the_forbid_attribute_must_be_real() {
        assert!(forbids_unsafe("//! Doc.\n\n#![forbid(unsafe_code)]\n"));
        assert!(!forbids_unsafe("// #![forbid(unsafe_code)]\n"));
        assert!(!forbids_unsafe("#![deny(unsafe_code)]\n"));
    }
}
