//! What a client may say in the text protocol before it is known: `set <key> <flags> <exptime>
//! <bytes>` with `user password` for a value, and nothing else.
//!
//! This parser stands before the one for requests, so that no request of an unknown client is even
//! looked at. Its limits are small: who is not known shall not make us buffer much.

use memchr::memchr;

use crate::limits::{AUTH_TOKEN_LEN_MAX, LINE_LEN_MAX};
use crate::number;
use crate::text;
use crate::words::Words;

/// What the bytes so far amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthOutcome<'a> {
    /// The client says who it is.
    Attempt {
        /// Its name.
        user: &'a [u8],
        /// Its password.
        password: &'a [u8],
        /// How many bytes it took.
        consumed: usize,
    },
    /// More bytes are needed.
    Incomplete {
        /// The least length of the buffer at which asking again can help. More than the buffer has.
        total: usize,
    },
    /// Anything else.
    Refused {
        /// What to answer.
        reply: &'static [u8],
        /// How many bytes to drop.
        consumed: usize,
    },
    /// A line or a token that nobody would send: close.
    Close,
}

/// Reads what an unknown client says. Never panics, whatever the bytes.
pub fn parse_auth(buf: &[u8]) -> AuthOutcome<'_> {
    let end = memchr(b'\n', buf);
    if end.unwrap_or(buf.len()) > LINE_LEN_MAX {
        return AuthOutcome::Close;
    }
    let Some(end) = end else {
        return AuthOutcome::Incomplete {
            total: buf.len() + 1,
        };
    };
    let line_len = end + 1;
    let mut words = Words::new(&buf[..end]);
    let len = match words.next() {
        Some(b"set") => words.nth(3).and_then(number::wrapping_u32),
        _ => None,
    };
    let Some(len) = len else {
        return AuthOutcome::Refused {
            reply: text::UNAUTHENTICATED,
            consumed: line_len,
        };
    };
    let len = len as usize;
    if len > AUTH_TOKEN_LEN_MAX {
        return AuthOutcome::Close;
    }
    let consumed = line_len + len + text::CRLF.len();
    let Some(block) = buf.get(line_len..consumed) else {
        return AuthOutcome::Incomplete { total: consumed };
    };
    let refuse = |reply| AuthOutcome::Refused { reply, consumed };
    let Some(token) = block.strip_suffix(text::CRLF) else {
        return refuse(text::BAD_TERMINATION);
    };
    let mut words = Words::new(token);
    match (words.next(), words.next()) {
        (Some(user), Some(password)) => AuthOutcome::Attempt {
            user,
            password,
            consumed,
        },
        _ => refuse(text::BAD_AUTH_TOKEN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(input: &[u8]) -> &'static [u8] {
        match parse_auth(input) {
            AuthOutcome::Refused { reply, consumed } => {
                assert_eq!(consumed, input.len());
                reply
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn user_and_password_are_the_value_of_a_set() {
        let input = b"set auth 0 0 9\r\nme secret\r\nget a\r\n";
        let whole = parse_auth(input);
        assert_eq!(
            whole,
            AuthOutcome::Attempt {
                user: b"me",
                password: b"secret",
                consumed: 27
            }
        );
        for cut in 0..27 {
            match parse_auth(&input[..cut]) {
                AuthOutcome::Incomplete { total } => assert!(cut < total && total <= 27),
                other => panic!("{other:?} after {cut} bytes"),
            }
        }
        // A lone LF ends the line, and words beyond the fifth and the second are ignored.
        assert!(matches!(
            parse_auth(b"set k 0 0 7 x y\na b c  \r\n"),
            AuthOutcome::Attempt {
                user: b"a",
                password: b"b",
                ..
            }
        ));
    }

    #[test]
    fn anything_else_is_refused_line_by_line() {
        for input in [
            b"get a\r\n".as_slice(),
            b"\r\n",
            b"version\r\n",
            b"quit\r\n",
            b"mn\r\n",
            b"set k 0 0\r\n",
            b"set k 0 0 x\r\n",
            b"SET k 0 0 3\r\n",
            b"add k 0 0 3\r\n",
            b"evenkeel 1\r\n",
        ] {
            assert_eq!(refused(input), text::UNAUTHENTICATED, "{input:?}");
        }
        assert_eq!(refused(b"set k 0 0 3\r\nabc\r\n"), text::BAD_AUTH_TOKEN);
        assert_eq!(refused(b"set k 0 0 0\r\n\r\n"), text::BAD_AUTH_TOKEN);
        assert_eq!(refused(b"set k 0 0 3\r\na bcd"), text::BAD_TERMINATION);
    }

    #[test]
    fn an_unknown_client_cannot_make_us_buffer() {
        let mut line = vec![b' '; LINE_LEN_MAX];
        assert!(matches!(parse_auth(&line), AuthOutcome::Incomplete { .. }));
        line.push(b' ');
        assert_eq!(parse_auth(&line), AuthOutcome::Close);
        line.push(b'\n');
        assert_eq!(parse_auth(&line), AuthOutcome::Close);
        let largest = format!("set k 0 0 {AUTH_TOKEN_LEN_MAX}\r\n");
        assert!(matches!(
            parse_auth(largest.as_bytes()),
            AuthOutcome::Incomplete { .. }
        ));
        let larger = format!("set k 0 0 {}\r\n", AUTH_TOKEN_LEN_MAX + 1);
        assert_eq!(parse_auth(larger.as_bytes()), AuthOutcome::Close);
        assert_eq!(parse_auth(b"set k 0 0 4294967295\r\n"), AuthOutcome::Close);
    }
}
