//! Authentication at servers that ask for it in the text protocol (`-Y`): the first thing said on a
//! connection is a `set` whose value is name and password; the key, the flags and the exptime mean
//! nothing (memcached's `protocol.txt`, "Authentication").
//!
//! A server that does not ask takes this for what it looks like. So the exptime is in the past: such a
//! server keeps nothing, and nobody can read the password there. For the same reason it is said once
//! on each connection, before the first greeting and not with those of a trial.
//!
//! SASL is spoken in the binary protocol alone, which the proxy does not speak to servers.

use crate::config::Login;
use std::io::Write;

/// Appends what says who we are.
pub(crate) fn compose(out: &mut Vec<u8>, login: &Login) {
    let Login { user, password } = login;
    let len = user.len() + 1 + password.len();
    // Writing into memory cannot fail.
    let _ = write!(out, "set auth 0 -1 {len}\r\n{user} {password}\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_protocol::{AuthOutcome, parse_auth};

    #[test]
    fn servers_understand_it() {
        let login = Login {
            user: "u".into(),
            password: "p:w".into(),
        };
        let mut out = Vec::new();
        compose(&mut out, &login);
        let understood = AuthOutcome::Attempt {
            user: b"u",
            password: b"p:w",
            consumed: out.len(),
        };
        assert_eq!(parse_auth(&out), understood);
        assert!(!format!("{login:?}").contains("p:w"));
    }
}
