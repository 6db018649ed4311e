//! Who may call what of a coordinator's API.
//!
//! # Idea
//!
//! Each call needs a certain access level, and what a caller shows gives it one. A path that is not in the lists
//! needs the operator's, so that nothing that is added to the API later can forget to ask.
//!
//! | access level | calls | shown by |
//! |---|---|---|
//! | anybody | `/healthz`, `/readyz`, `/metrics`, the files of the web page | nothing: probes and scrapers have no secrets, and learn none; the page asks for a token before it shows anything |
//! | member | heartbeats, the map, counts of hot keys | a member's token |
//! | operator | everything | an operator's token |
//!
//! A member's token says whose it is, a proxy's, a server's, or that of the server with one name, and speaks for
//! nobody else: the token that lies beside each application with its proxy must be no server's. Of that the path tells
//! little, so anyone who reads a call's body asks the [`Holder`] whether the body is in its name.
//!
//! Where client certificates are asked for, all but the first also need one: it says that the caller is of the
//! house, the token what it may do.
//!
//! Tokens are compared with all that are known, each over its full length, so that the time tells nothing.
//! Several of a kind are valid at one time, so that one can be replaced without a moment in which nobody gets in.

use core::fmt;

use subtle::Choice;

use crate::{MemberKind, check_name};
use evenkeel_protocol::auth::{CREDENTIAL_LEN_MAX, Secret};
use evenkeel_types::map::NAME_LEN_MAX;

/// Most tokens of operators: a few callers, each with an old and a new one.
pub const TOKENS_MAX: usize = 64;

/// Most tokens of members: an old and a new one for each of a hundred servers, and for their proxies. Each call is
/// compared with all of them; servers of larger clusters share some.
pub const MEMBER_TOKENS_MAX: usize = 256;

/// Shortest token in bytes. Nobody is kept from trying as fast as connections allow; 16 random letters outlast it.
pub const TOKEN_LEN_MIN: usize = 16;

/// Longest token in bytes.
pub const TOKEN_LEN_MAX: usize = CREDENTIAL_LEN_MAX;

/// Largest file of tokens in bytes: all at their longest with the longest names, and as many lines of comment.
pub const TOKENS_FILE_BYTES_MAX: u64 =
    (MEMBER_TOKENS_MAX * 2 * (TOKEN_LEN_MAX + " server ".len() + NAME_LEN_MAX + 2)) as u64;

const _: () = assert!(TOKEN_LEN_MIN < TOKEN_LEN_MAX);
const _: () = assert!(TOKENS_MAX <= MEMBER_TOKENS_MAX);

/// What a call needs, from little to much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessLevel {
    /// Nothing.
    Anybody,
    /// To be a server, a proxy, or a client that knows the map.
    Member,
    /// To be an operator.
    Operator,
}

impl AccessLevel {
    /// What a call needs.
    pub fn needed(method: &str, path: &str) -> AccessLevel {
        match (method, path) {
            ("GET" | "HEAD", "/healthz" | "/readyz" | "/metrics") => AccessLevel::Anybody,
            ("GET" | "HEAD", "/" | "/page.js" | "/page.css" | "/icon.svg") => AccessLevel::Anybody,
            ("POST", "/api/v1/heartbeat") | ("GET" | "POST", "/api/v1/map") => AccessLevel::Member,
            _ => AccessLevel::Operator,
        }
    }
}

/// In whose name a caller may speak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// An operator, who may speak for every member.
    Operator,
    /// A server: the one of this name, or any.
    Server(Option<String>),
    /// A proxy, or another client that knows the map.
    Proxy,
}

impl Holder {
    /// Whether it may speak as this member.
    ///
    /// # Errors
    /// Why not.
    pub fn may_speak_as(&self, kind: MemberKind, name: &str) -> Result<(), Denial> {
        match (self, kind) {
            (Holder::Operator, _)
            | (Holder::Proxy, MemberKind::Proxy)
            | (Holder::Server(None), MemberKind::Server) => Ok(()),
            (Holder::Server(Some(own)), MemberKind::Server) if own == name => Ok(()),
            (Holder::Server(Some(_)), MemberKind::Server) => Err(Denial::WrongName),
            (Holder::Proxy, MemberKind::Server) | (Holder::Server(_), MemberKind::Proxy) => {
                Err(Denial::WrongRole)
            }
        }
    }
}

/// Why a call is not executed.
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
    /// The token is a proxy's and the call a server's, or the other way round.
    #[error(
        "the token that was sent is for proxies and this call a server's, or the other way round; \
         --member-token-file says whose each token is"
    )]
    WrongRole,
    /// The token is another server's.
    #[error(
        "the token that was sent is for a server of another name; --member-token-file says whose each token is"
    )]
    WrongName,
}

impl Denial {
    /// All there are.
    pub const ALL: [Denial; 6] = [
        Denial::NoCertificate,
        Denial::NoToken,
        Denial::WrongToken,
        Denial::MembersToken,
        Denial::WrongRole,
        Denial::WrongName,
    ];

    /// Its name in metrics and answers; stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Denial::NoCertificate => "no_certificate",
            Denial::NoToken => "no_token",
            Denial::WrongToken => "wrong_token",
            Denial::MembersToken => "members_token",
            Denial::WrongRole => "wrong_role",
            Denial::WrongName => "wrong_name",
        }
    }
}

/// Tokens of operators, or those that a caller can show.
pub struct Tokens(Vec<Secret>);

/// Tokens of members, each with whose it is.
pub struct MemberTokens(Vec<(Secret, Holder)>);

/// Why tokens cannot be used. Tells the line and no part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokensError {
    /// There would be no way in.
    #[error("there is no token in it: write one a line")]
    Empty,
    /// More than this many.
    #[error("there are more than {0} tokens in it")]
    TooMany(usize),
    /// A line that is too short or too long.
    #[error("line {0}: a token has {TOKEN_LEN_MIN} to {TOKEN_LEN_MAX} bytes")]
    Length(usize),
    /// A line with other signs than HTTP allows in a token (RFC 6750).
    #[error("line {0}: a token consists of letters, digits and - . _ ~ + / =")]
    Malformed(usize),
    /// A member's token without whose it is.
    #[error(
        "line {0}: say whose the token is: write TOKEN proxy, TOKEN server NAME, or TOKEN server for servers of any name"
    )]
    Whose(usize),
    /// A member's token that has been given to somebody already.
    #[error("line {0}: this token stands above already; each holder needs its own")]
    Repeated(usize),
}

impl Tokens {
    /// Reads a file of one token a line. Empty lines and those that begin with `#` are skipped.
    ///
    /// # Errors
    /// Says which line is wrong. A file with a wrong line is not used in part.
    pub fn parse(text: &[u8]) -> Result<Self, TokensError> {
        let mut tokens = Vec::new();
        for (number, line) in lines(text) {
            if tokens.len() == TOKENS_MAX {
                return Err(TokensError::TooMany(TOKENS_MAX));
            }
            tokens.extend(Secret::new(token(number, line)?));
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
        let (_, first) = lines(text).next().ok_or(TokensError::Empty)?;
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

impl MemberTokens {
    /// Reads a file of lines `TOKEN proxy`, `TOKEN server NAME` and `TOKEN server`. Empty lines and those that begin with
    /// `#` are skipped.
    ///
    /// # Errors
    /// Says which line is wrong. A file with a wrong line is not used in part.
    pub fn parse(text: &[u8]) -> Result<Self, TokensError> {
        let mut tokens = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for (number, line) in lines(text) {
            if tokens.len() == MEMBER_TOKENS_MAX {
                return Err(TokensError::TooMany(MEMBER_TOKENS_MAX));
            }
            let mut words = line.split(u8::is_ascii_whitespace);
            let mut words = words.by_ref().filter(|word| !word.is_empty());
            let word = token(number, words.next().unwrap_or_default())?;
            let holder = match (words.next(), words.next(), words.next()) {
                (Some(b"proxy"), None, None) => Some(Holder::Proxy),
                (Some(b"server"), None, None) => Some(Holder::Server(None)),
                (Some(b"server"), Some(name), None) => {
                    let name = core::str::from_utf8(name).ok();
                    let name = name.filter(|name| check_name("name", name).is_ok());
                    name.map(|name| Holder::Server(Some(name.to_owned())))
                }
                _ => None,
            };
            let holder = holder.ok_or(TokensError::Whose(number))?;
            if !seen.insert(word) {
                return Err(TokensError::Repeated(number));
            }
            tokens.extend(Secret::new(word).map(|secret| (secret, holder)));
        }
        match tokens.is_empty() {
            true => Err(TokensError::Empty),
            false => Ok(MemberTokens(tokens)),
        }
    }

    /// Whose this is, if it is one of them.
    fn holder(&self, token: &[u8]) -> Option<&Holder> {
        let token = Secret::new(token)?;
        self.0.iter().fold(None, |found, (known, holder)| {
            match known.ct_eq(&token).into() {
                true => Some(holder),
                false => found,
            }
        })
    }
}

/// Shows whose they are and none of them.
impl fmt::Debug for MemberTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(_, holder)| holder))
            .finish()
    }
}

/// The lines that say something, with their numbers.
fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let lines = text.split(|&byte| byte == b'\n').enumerate();
    let lines = lines.map(|(index, line)| (index + 1, line.strip_suffix(b"\r").unwrap_or(line)));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with(b"#"))
}

/// A token, or what is wrong with it, which stands in the line of this number.
fn token(number: usize, word: &[u8]) -> Result<&[u8], TokensError> {
    let is_known = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
    match word.len() {
        _ if !word.iter().all(is_known) => Err(TokensError::Malformed(number)),
        TOKEN_LEN_MIN..=TOKEN_LEN_MAX => Ok(word),
        _ => Err(TokensError::Length(number)),
    }
}

/// What a coordinator asks of its callers.
#[derive(Debug, Default)]
pub struct AccessRules {
    /// Whether all but [anybody's](AccessLevel::Anybody) calls need a client certificate.
    pub wants_certificate: bool,
    /// Tokens for everything; `None`: nobody is asked for a token.
    pub operators: Option<Tokens>,
    /// Further tokens for members' calls.
    pub members: Option<MemberTokens>,
}

impl AccessRules {
    /// In whose name somebody who shows this may make a call that needs this access level: an operator's where nobody is
    /// asked for a token. `authorization` is the header of that name, if there is exactly one.
    ///
    /// # Errors
    /// Why not.
    pub fn judge(
        &self,
        needed: AccessLevel,
        has_certificate: bool,
        authorization: Option<&[u8]>,
    ) -> Result<Holder, Denial> {
        if needed == AccessLevel::Anybody {
            return Ok(Holder::Operator);
        }
        if self.wants_certificate && !has_certificate {
            return Err(Denial::NoCertificate);
        }
        let Some(operators) = &self.operators else {
            return Ok(Holder::Operator);
        };
        let token = authorization.and_then(bearer).ok_or(Denial::NoToken)?;
        let member = self
            .members
            .as_ref()
            .and_then(|members| members.holder(token));
        match (operators.knows(token), member) {
            (true, _) => Ok(Holder::Operator),
            (false, Some(holder)) if needed == AccessLevel::Member => Ok(holder.clone()),
            (false, Some(_)) => Err(Denial::MembersToken),
            (false, None) => Err(Denial::WrongToken),
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
            members: Some(
                MemberTokens::parse(format!("{MEMBER} proxy").as_bytes()).expect("sound"),
            ),
        }
    }

    fn judge(access: &AccessRules, needed: AccessLevel, token: &str) -> Result<Holder, Denial> {
        access.judge(needed, false, Some(format!("Bearer {token}").as_bytes()))
    }

    #[test]
    fn what_is_not_listed_is_the_operators() {
        for (method, path, needed) in [
            ("GET", "/healthz", AccessLevel::Anybody),
            ("GET", "/metrics", AccessLevel::Anybody),
            ("POST", "/healthz", AccessLevel::Operator),
            ("GET", "/healthz/", AccessLevel::Operator),
            ("POST", "/api/v1/heartbeat", AccessLevel::Member),
            ("GET", "/api/v1/map", AccessLevel::Member),
            ("POST", "/api/v1/map", AccessLevel::Member),
            ("GET", "/api/v1/servers", AccessLevel::Operator),
            ("POST", "/api/v1/drain", AccessLevel::Operator),
            ("DELETE", "/api/v1/servers/s1", AccessLevel::Operator),
            ("GET", "/", AccessLevel::Anybody),
            ("HEAD", "/page.js", AccessLevel::Anybody),
            ("GET", "/page.js/", AccessLevel::Operator),
            ("POST", "/", AccessLevel::Operator),
            ("GET", "/api/v1/stream", AccessLevel::Operator),
            ("", "", AccessLevel::Operator),
        ] {
            assert_eq!(AccessLevel::needed(method, path), needed, "{method} {path}");
        }
    }

    #[test]
    fn a_token_opens_what_it_is_for() {
        let access = access();
        for operator in [OPERATOR, OPERATOR_NEW] {
            for needed in [
                AccessLevel::Anybody,
                AccessLevel::Member,
                AccessLevel::Operator,
            ] {
                assert_eq!(judge(&access, needed, operator), Ok(Holder::Operator));
            }
        }
        assert_eq!(
            judge(&access, AccessLevel::Member, MEMBER),
            Ok(Holder::Proxy)
        );
        let beyond = judge(&access, AccessLevel::Operator, MEMBER);
        assert_eq!(beyond, Err(Denial::MembersToken));
        for needed in [AccessLevel::Member, AccessLevel::Operator] {
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
        assert!(access.judge(AccessLevel::Anybody, false, None).is_ok());
        let alone = AccessRules {
            members: None,
            ..access
        };
        assert_eq!(
            judge(&alone, AccessLevel::Member, OPERATOR),
            Ok(Holder::Operator)
        );
        assert_eq!(
            judge(&alone, AccessLevel::Member, MEMBER),
            Err(Denial::WrongToken)
        );
    }

    #[test]
    fn headers_in_any_form_are_judged() {
        let access = access();
        let judge = |header: &[u8]| access.judge(AccessLevel::Operator, false, Some(header));
        assert_eq!(
            judge(format!("bEARER   {OPERATOR}  ").as_bytes()),
            Ok(Holder::Operator)
        );
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
        assert_eq!(
            judge(&access, AccessLevel::Anybody, false, None),
            Ok(Holder::Operator)
        );
        let without = judge(&access, AccessLevel::Member, false, Some(&token));
        assert_eq!(without, Err(Denial::NoCertificate));
        assert_eq!(
            judge(&access, AccessLevel::Operator, true, None),
            Err(Denial::NoToken)
        );
        assert_eq!(
            judge(&access, AccessLevel::Operator, true, Some(&token)),
            Ok(Holder::Operator)
        );
        access.operators = None;
        assert_eq!(
            judge(&access, AccessLevel::Operator, true, None),
            Ok(Holder::Operator)
        );
        assert_eq!(
            AccessRules::default().judge(AccessLevel::Operator, false, None),
            Ok(Holder::Operator)
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
        assert_eq!(
            parse(&many(TOKENS_MAX + 1)),
            Err(TokensError::TooMany(TOKENS_MAX))
        );
    }

    #[test]
    fn members_files_say_whose_each_token_is() {
        let parse = |text: &str| MemberTokens::parse(text.as_bytes()).map(|tokens| tokens.0.len());
        let sound = format!(
            "# whose\n{MEMBER} proxy\r\n\n{OPERATOR}\tserver  s:1 \n{OPERATOR_NEW} server\n"
        );
        assert_eq!(parse(&sound), Ok(3));
        assert_eq!(parse("# nothing\n"), Err(TokensError::Empty));
        // A file of before roles, among others.
        for whose in [
            "",
            " ",
            " reader",
            " proxy p1",
            " server s1 s2",
            " Server s1",
            " server s\"1",
        ] {
            let text = format!("{OPERATOR} proxy\n{MEMBER}{whose}");
            assert_eq!(parse(&text), Err(TokensError::Whose(2)), "{whose}");
        }
        let long = format!("{MEMBER} server {}", "n".repeat(NAME_LEN_MAX + 1));
        assert_eq!(parse(&long), Err(TokensError::Whose(1)));
        assert_eq!(parse("short proxy"), Err(TokensError::Length(1)));
        assert_eq!(parse(" proxy"), Err(TokensError::Length(1)));
        assert_eq!(
            parse("größe-größe-größe proxy"),
            Err(TokensError::Malformed(1))
        );
        let twice = format!("{MEMBER} server s1\n{MEMBER} server s2\n");
        assert_eq!(parse(&twice), Err(TokensError::Repeated(2)));
        let many = |count: usize| -> String {
            let name = "n".repeat(NAME_LEN_MAX);
            let lines = (0..count).map(|i| format!("{i:x<TOKEN_LEN_MAX$} server {name}\r\n"));
            lines.collect()
        };
        let most = many(MEMBER_TOKENS_MAX);
        assert_eq!(parse(&most), Ok(MEMBER_TOKENS_MAX));
        assert!(most.len() as u64 <= TOKENS_FILE_BYTES_MAX);
        let more = many(MEMBER_TOKENS_MAX + 1);
        assert_eq!(parse(&more), Err(TokensError::TooMany(MEMBER_TOKENS_MAX)));
        let shown = format!("{:?}", MemberTokens::parse(sound.as_bytes()));
        assert!(
            shown.contains("Proxy") && !shown.contains("0123456789"),
            "{shown}"
        );
    }

    #[test]
    fn a_members_token_speaks_for_nobody_else() {
        let text = format!("{MEMBER} server s1\n{OPERATOR} server\n{OPERATOR_NEW} proxy\n");
        let access = AccessRules {
            wants_certificate: false,
            operators: tokens("operators-of-another-house"),
            members: Some(MemberTokens::parse(text.as_bytes()).expect("sound")),
        };
        let speaks = |token, kind, name| {
            let holder = judge(&access, AccessLevel::Member, token).expect("it is a member's");
            holder.may_speak_as(kind, name)
        };
        let (server, proxy) = (MemberKind::Server, MemberKind::Proxy);
        assert_eq!(speaks(MEMBER, server, "s1"), Ok(()));
        for other in ["s2", "s", "s11", "S1", ""] {
            assert_eq!(
                speaks(MEMBER, server, other),
                Err(Denial::WrongName),
                "{other}"
            );
        }
        assert_eq!(speaks(MEMBER, proxy, "s1"), Err(Denial::WrongRole));
        assert_eq!(speaks(OPERATOR, server, "s2"), Ok(()));
        assert_eq!(speaks(OPERATOR, proxy, "p1"), Err(Denial::WrongRole));
        assert_eq!(speaks(OPERATOR_NEW, proxy, "p1"), Ok(()));
        assert_eq!(speaks(OPERATOR_NEW, server, "s1"), Err(Denial::WrongRole));
        for (kind, name) in [(server, "s1"), (proxy, "p1")] {
            assert_eq!(Holder::Operator.may_speak_as(kind, name), Ok(()));
        }
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
