//! Who may call what of a coordinator's API.
//!
//! # Idea
//!
//! Each call needs a certain standing, and what a caller shows gives it one. A path that is not in the lists
//! needs the operator's, so that nothing that is added to the API later can forget to ask.
//!
//! | standing | calls | shown by |
//! |---|---|---|
//! | anybody | `/healthz`, `/readyz`, `/metrics` | nothing: probes and scrapers have no secrets, and learn none |
//! | member | heartbeats, the map, counts of hot keys | a member's token |
//! | operator | everything | an operator's token |
//!
//! Where client certificates are asked for, all but the first also need one: it says that the caller is of the
//! house, the token what it may do.
//!
//! Tokens are compared with all that are known, each over its full length, so that the time tells nothing.
//! Several of a kind are valid at one time, so that one can be replaced without a moment in which nobody gets in.

use core::fmt;

use subtle::Choice;

use crate::auth::{CREDENTIAL_LEN_MAX, Secret};

/// Most tokens of a kind: a few callers, each with an old and a new one.
pub const TOKENS_MAX: usize = 64;

/// Shortest token in bytes. Nobody is kept from trying as fast as connections allow; 16 random letters outlast it.
pub const TOKEN_LEN_MIN: usize = 16;

/// Longest token in bytes.
pub const TOKEN_LEN_MAX: usize = CREDENTIAL_LEN_MAX;

/// Largest file of tokens in bytes: all at their longest, with as many lines of comment.
pub const TOKENS_FILE_BYTES_MAX: u64 = (TOKENS_MAX * 2 * (TOKEN_LEN_MAX + 2)) as u64;

const _: () = assert!(TOKEN_LEN_MIN < TOKEN_LEN_MAX);

/// What a call needs, from little to much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Nothing.
    Anybody,
    /// To be a server, a proxy, or a client that knows the map.
    Member,
    /// To be an operator.
    Operator,
}

impl Standing {
    /// What a call needs.
    pub fn needed(method: &str, path: &str) -> Standing {
        match (method, path) {
            ("GET" | "HEAD", "/healthz" | "/readyz" | "/metrics") => Standing::Anybody,
            ("POST", "/api/v1/heartbeat" | "/api/v1/hot-keys")
            | ("GET" | "POST", "/api/v1/map") => Standing::Member,
            _ => Standing::Operator,
        }
    }
}

/// Why a call is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// No certificate was shown.
    #[error(
        "this coordinator wants a client certificate: give --coordinator-cert FILE and --coordinator-key FILE"
    )]
    NoCertificate,
    /// No token was shown, or in no form that is known.
    #[error(
        "this coordinator wants a token: give --coordinator-token-file FILE, or send Authorization: Bearer TOKEN"
    )]
    NoToken,
    /// The token is none.
    #[error("this coordinator does not know the token that was sent")]
    WrongToken,
    /// The token is a member's, the call an operator's.
    #[error("the token that was sent is for members; this call needs one of --api-token-file")]
    MembersToken,
}

impl Denial {
    /// All there are.
    pub const ALL: [Denial; 4] = [
        Denial::NoCertificate,
        Denial::NoToken,
        Denial::WrongToken,
        Denial::MembersToken,
    ];

    /// Its name in metrics and answers; stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Denial::NoCertificate => "no_certificate",
            Denial::NoToken => "no_token",
            Denial::WrongToken => "wrong_token",
            Denial::MembersToken => "members_token",
        }
    }
}

/// Tokens of one kind.
#[derive(Default)]
pub struct Tokens(Vec<Secret>);

/// Why tokens cannot be used. Tells the line and no part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokensError {
    /// There would be no way in.
    #[error("there is no token in it: write one a line")]
    Empty,
    /// More than [`TOKENS_MAX`].
    #[error("there are more than {TOKENS_MAX} tokens in it")]
    TooMany,
    /// A line that is too short or too long.
    #[error("line {0}: a token has {TOKEN_LEN_MIN} to {TOKEN_LEN_MAX} bytes")]
    Length(usize),
    /// A line with other signs than HTTP allows in a token (RFC 6750).
    #[error("line {0}: a token consists of letters, digits and - . _ ~ + / =")]
    Malformed(usize),
}

impl Tokens {
    /// Reads a file of one token a line. Empty lines and those that begin with `#` are skipped.
    ///
    /// # Errors
    /// Says which line is wrong. A file with a wrong line is not used in part.
    pub fn parse(text: &[u8]) -> Result<Self, TokensError> {
        let mut tokens = Vec::new();
        for token in lines(text) {
            if tokens.len() == TOKENS_MAX {
                return Err(TokensError::TooMany);
            }
            tokens.extend(Secret::new(token?));
        }
        match tokens.is_empty() {
            true => Err(TokensError::Empty),
            false => Ok(Tokens(tokens)),
        }
    }

    /// The token that a caller shows of such a file: its first one.
    ///
    /// # Errors
    /// As [`Tokens::parse`]: a file that coordinators would refuse is refused here, too.
    pub fn first(text: &[u8]) -> Result<&str, TokensError> {
        Tokens::parse(text)?;
        let first = lines(text).next().ok_or(TokensError::Empty)??;
        Ok(core::str::from_utf8(first).expect("a token's signs are ASCII"))
    }

    /// Whether this is one of them.
    fn knows(&self, token: &[u8]) -> bool {
        let Some(token) = Secret::new(token) else {
            return false;
        };
        let any = self
            .0
            .iter()
            .fold(Choice::from(0), |any, known| any | known.ct_eq(&token));
        any.into()
    }
}

/// Shows how many there are and none of them.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

/// The tokens in a text, or what is wrong with their lines.
fn lines(text: &[u8]) -> impl Iterator<Item = Result<&[u8], TokensError>> {
    let lines = text.split(|&byte| byte == b'\n').enumerate();
    let lines = lines.map(|(index, line)| (index + 1, line.strip_suffix(b"\r").unwrap_or(line)));
    let said = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with(b"#"));
    said.map(|(number, line)| {
        let is_known = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
        match line.len() {
            _ if !line.iter().all(is_known) => Err(TokensError::Malformed(number)),
            TOKEN_LEN_MIN..=TOKEN_LEN_MAX => Ok(line),
            _ => Err(TokensError::Length(number)),
        }
    })
}

/// What a coordinator asks of its callers.
#[derive(Debug, Default)]
pub struct AccessRules {
    /// Whether all but [anybody's](Standing::Anybody) calls need a client certificate.
    pub wants_certificate: bool,
    /// Tokens for everything; `None`: nobody is asked for a token.
    pub operators: Option<Tokens>,
    /// Further tokens for members' calls.
    pub members: Option<Tokens>,
}

impl AccessRules {
    /// Whether somebody who shows this may make a call that needs such a standing. `authorization` is the
    /// header of that name, if there is exactly one.
    ///
    /// # Errors
    /// Why not.
    pub fn judge(
        &self,
        needed: Standing,
        has_certificate: bool,
        authorization: Option<&[u8]>,
    ) -> Result<(), Denial> {
        if needed == Standing::Anybody {
            return Ok(());
        }
        if self.wants_certificate && !has_certificate {
            return Err(Denial::NoCertificate);
        }
        let Some(operators) = &self.operators else {
            return Ok(());
        };
        let token = authorization.and_then(bearer).ok_or(Denial::NoToken)?;
        let is_member = self
            .members
            .as_ref()
            .is_some_and(|members| members.knows(token));
        match (operators.knows(token), is_member) {
            (true, _) => Ok(()),
            (false, true) if needed == Standing::Member => Ok(()),
            (false, true) => Err(Denial::MembersToken),
            (false, false) => Err(Denial::WrongToken),
        }
    }
}

/// The token of `Bearer TOKEN`. The scheme's case does not matter (RFC 9110).
fn bearer(header: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = header.split_at_checked(b"Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPERATOR: &str = "operator-0123456789";
    const OPERATOR_NEW: &str = "operator-9876543210";
    const MEMBER: &str = "member-0123456789==";

    fn tokens(text: &str) -> Option<Tokens> {
        Some(Tokens::parse(text.as_bytes()).expect("sound"))
    }

    fn access() -> AccessRules {
        AccessRules {
            wants_certificate: false,
            operators: tokens(&format!("# old\n{OPERATOR}\r\n\n{OPERATOR_NEW}\n")),
            members: tokens(MEMBER),
        }
    }

    fn judge(access: &AccessRules, needed: Standing, token: &str) -> Result<(), Denial> {
        access.judge(needed, false, Some(format!("Bearer {token}").as_bytes()))
    }

    #[test]
    fn what_is_not_listed_is_the_operators() {
        for (method, path, needed) in [
            ("GET", "/healthz", Standing::Anybody),
            ("GET", "/metrics", Standing::Anybody),
            ("POST", "/healthz", Standing::Operator),
            ("GET", "/healthz/", Standing::Operator),
            ("POST", "/api/v1/heartbeat", Standing::Member),
            ("GET", "/api/v1/map", Standing::Member),
            ("POST", "/api/v1/map", Standing::Member),
            ("GET", "/api/v1/servers", Standing::Operator),
            ("POST", "/api/v1/drain", Standing::Operator),
            ("DELETE", "/api/v1/servers/s1", Standing::Operator),
            ("GET", "/", Standing::Operator),
            ("", "", Standing::Operator),
        ] {
            assert_eq!(Standing::needed(method, path), needed, "{method} {path}");
        }
    }

    #[test]
    fn a_token_opens_what_it_is_for() {
        let access = access();
        for operator in [OPERATOR, OPERATOR_NEW] {
            for needed in [Standing::Anybody, Standing::Member, Standing::Operator] {
                assert_eq!(judge(&access, needed, operator), Ok(()));
            }
        }
        assert_eq!(judge(&access, Standing::Member, MEMBER), Ok(()));
        let beyond = judge(&access, Standing::Operator, MEMBER);
        assert_eq!(beyond, Err(Denial::MembersToken));
        for needed in [Standing::Member, Standing::Operator] {
            for wrong in [
                "",
                "operator-012345678",
                "operator-01234567890",
                "x",
                MEMBER.trim_end_matches('='),
            ] {
                assert_eq!(
                    judge(&access, needed, wrong),
                    Err(Denial::WrongToken),
                    "{wrong}"
                );
            }
            assert_eq!(access.judge(needed, false, None), Err(Denial::NoToken));
        }
        assert_eq!(access.judge(Standing::Anybody, false, None), Ok(()));
        let alone = AccessRules {
            members: None,
            ..access
        };
        assert_eq!(judge(&alone, Standing::Member, OPERATOR), Ok(()));
        assert_eq!(
            judge(&alone, Standing::Member, MEMBER),
            Err(Denial::WrongToken)
        );
    }

    #[test]
    fn headers_in_any_form_are_judged() {
        let access = access();
        let judge = |header: &[u8]| access.judge(Standing::Operator, false, Some(header));
        assert_eq!(judge(format!("bEARER   {OPERATOR}  ").as_bytes()), Ok(()));
        let longest = [&b"Bearer "[..], &[b'x'; 4096]].concat();
        for (header, denial) in [
            (&b""[..], Denial::NoToken),
            (b"Bearer", Denial::NoToken),
            (b"Bearer ", Denial::WrongToken),
            (b"Basic b3BlcmF0b3I=", Denial::NoToken),
            (OPERATOR.as_bytes(), Denial::NoToken),
            (b"\xff\x00\xff\xfe\xfd\xfc\xfb\xfa", Denial::NoToken),
            (b"Bearer \xff\x00", Denial::WrongToken),
            (&longest, Denial::WrongToken),
        ] {
            assert_eq!(judge(header), Err(denial), "{header:?}");
        }
    }

    #[test]
    fn a_certificate_is_wanted_beside_the_token() {
        let mut access = AccessRules {
            wants_certificate: true,
            ..access()
        };
        let token = format!("Bearer {OPERATOR}");
        let judge = |access: &AccessRules, needed, has, token: Option<&str>| {
            access.judge(needed, has, token.map(str::as_bytes))
        };
        assert_eq!(judge(&access, Standing::Anybody, false, None), Ok(()));
        let without = judge(&access, Standing::Member, false, Some(&token));
        assert_eq!(without, Err(Denial::NoCertificate));
        assert_eq!(
            judge(&access, Standing::Operator, true, None),
            Err(Denial::NoToken)
        );
        assert_eq!(
            judge(&access, Standing::Operator, true, Some(&token)),
            Ok(())
        );
        access.operators = None;
        assert_eq!(judge(&access, Standing::Operator, true, None), Ok(()));
        assert_eq!(
            AccessRules::default().judge(Standing::Operator, false, None),
            Ok(())
        );
    }

    #[test]
    fn files_that_cannot_be_meant_are_refused_whole() {
        let parse = |text: &str| Tokens::parse(text.as_bytes()).map(|_| ());
        assert_eq!(parse(""), Err(TokensError::Empty));
        assert_eq!(parse("# nothing\n\r\n"), Err(TokensError::Empty));
        assert_eq!(
            parse(&format!("{OPERATOR}\nshort")),
            Err(TokensError::Length(2))
        );
        assert_eq!(parse(&"x".repeat(TOKEN_LEN_MAX)), Ok(()));
        assert_eq!(
            parse(&"x".repeat(TOKEN_LEN_MAX + 1)),
            Err(TokensError::Length(1))
        );
        for wrong in [
            "two words and more",
            "quoted\"\"\"\"\"\"\"\"\"\"\"",
            "größe-größe-größe",
        ] {
            assert_eq!(parse(wrong), Err(TokensError::Malformed(1)), "{wrong}");
        }
        let many = |count| format!("{OPERATOR}\n").repeat(count);
        assert_eq!(parse(&many(TOKENS_MAX)), Ok(()));
        assert_eq!(parse(&many(TOKENS_MAX + 1)), Err(TokensError::TooMany));
        let fits = format!("{}\r\n", "x".repeat(TOKEN_LEN_MAX)).repeat(TOKENS_MAX);
        assert!(fits.len() as u64 <= TOKENS_FILE_BYTES_MAX);
    }

    #[test]
    fn a_caller_shows_the_first() {
        let text = format!("# new\n{OPERATOR_NEW}\n{OPERATOR}\n");
        assert_eq!(Tokens::first(text.as_bytes()), Ok(OPERATOR_NEW));
        assert_eq!(Tokens::first(b"short"), Err(TokensError::Length(1)));
        let shown = format!("{:?}", access());
        assert!(!shown.contains("0123456789"), "{shown}");
    }
}
