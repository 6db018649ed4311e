//! Who may say what.
//!
//! # Idea
//!
//! A server that asks for authentication denies by default: what a connection is heard to say follows
//! from a state that only valid credentials change, and that state is looked at before a command is
//! parsed, not by the commands. So nothing that is added to the protocols later can forget to ask.
//!
//! ```text
//!               opening(auth, protocols)
//!                        │
//!       ┌────────────────┼─────────────────────────────┐
//!   no auth          -Y FILE                          -S
//!       v                v                             v
//!   Undecided       TextAuth: hears credentials     Binary with Sasl::Unknown: hears version and
//!   Text            and nothing else                the three SASL commands, answers others with
//!   Binary               │ right                    an error and closes
//!                        v                             │ right
//!                      Text                            v
//!                                                   Binary with Sasl::Known
//! ```
//!
//! Which protocol a client speaks decides nothing: with `-Y` there is no binary protocol, and with
//! `-S` no text, whatever the listener allows. memcached had both holes.
//!
//! # Credentials
//!
//! A name and a password in plain text, in a file that only the server should be able to read. They
//! are compared with all entries, each over its full length, so that the time tells nothing.

use crate::binary::Opcode;
use subtle::{Choice, ConstantTimeEq};

/// Most entries of a credentials file. memcached reads 8 and drops the rest without a word.
pub const CREDENTIALS_MAX: usize = 256;

/// Longest name and longest password, in bytes (RFC 4616).
pub const CREDENTIAL_LEN_MAX: usize = 255;

/// Largest credentials file, in bytes: every entry at its longest, and as many empty lines.
pub const FILE_BYTES_MAX: u64 = (CREDENTIALS_MAX * (2 * CREDENTIAL_LEN_MAX + 6)) as u64;

/// The SASL mechanisms there are, as clients are told.
pub const MECHANISMS: &[u8] = b"PLAIN";

/// What a client that is known now is told by SASL.
pub const AUTHENTICATED: &[u8] = b"Authenticated";

/// What a server asks of its clients before it hears them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthMode {
    /// Nothing.
    #[default]
    Open,
    /// Credentials as the value of a `set`, in the text protocol alone (`-Y`).
    Text,
    /// SASL, in the binary protocol alone (`-S`).
    Sasl,
}

/// Which protocols a listener lets its clients speak (`-B`, or `proto[…]:` before an address).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocols {
    /// The first byte decides.
    #[default]
    Any,
    /// Text and meta commands.
    Text,
    /// The binary protocol.
    Binary,
}

/// What a connection speaks at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Nobody knows: no byte has come.
    #[default]
    Undecided,
    /// Text and meta commands.
    Text,
    /// Credentials in the text protocol, and nothing else.
    TextAuth,
    /// The binary protocol.
    Binary,
}

/// How a connection begins; `None` when nothing that it could say would be heard.
pub fn opening(auth: AuthMode, protocols: Protocols) -> Option<(Dialect, Sasl)> {
    match (auth, protocols) {
        (AuthMode::Open, Protocols::Any) => Some((Dialect::Undecided, Sasl::Off)),
        (AuthMode::Open, Protocols::Text) => Some((Dialect::Text, Sasl::Off)),
        (AuthMode::Open, Protocols::Binary) => Some((Dialect::Binary, Sasl::Off)),
        (AuthMode::Text, Protocols::Any | Protocols::Text) => Some((Dialect::TextAuth, Sasl::Off)),
        (AuthMode::Sasl, Protocols::Any | Protocols::Binary) => {
            Some((Dialect::Binary, Sasl::Unknown))
        }
        (AuthMode::Text, Protocols::Binary) | (AuthMode::Sasl, Protocols::Text) => None,
    }
}

/// How far a connection has come with SASL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sasl {
    /// The server does not ask for it, and does not know its commands.
    #[default]
    Off,
    /// Nothing valid was said yet.
    Unknown,
    /// A mechanism was named, its token is to come in a step.
    Started,
    /// Valid credentials were given.
    Known,
}

/// The answer to a SASL command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaslAnswer {
    /// The client is known now.
    Authenticated,
    /// The token is expected in a step.
    Continue,
    /// It is not, whatever it was before.
    Failed,
}

impl Sasl {
    /// Whether a request of this opcode, valid or not, is heard.
    pub fn hears(self, opcode: Opcode) -> bool {
        match self {
            Sasl::Off | Sasl::Known => true,
            Sasl::Unknown | Sasl::Started => matches!(
                opcode,
                Opcode::VERSION | Opcode::SASL_LIST_MECHS | Opcode::SASL_AUTH | Opcode::SASL_STEP
            ),
        }
    }

    /// Takes `sasl auth`, or with `is_step` `sasl step`. Anyone who was known is so no longer unless the
    /// new credentials are right.
    pub fn take(
        &mut self,
        is_step: bool,
        mechanism: &[u8],
        token: &[u8],
        check: impl FnOnce(&[u8], &[u8]) -> bool,
    ) -> SaslAnswer {
        let before = *self;
        *self = Sasl::Unknown;
        let out_of_order = is_step && before != Sasl::Started;
        if out_of_order || mechanism != MECHANISMS {
            return SaslAnswer::Failed;
        }
        if token.is_empty() && !is_step {
            *self = Sasl::Started;
            return SaslAnswer::Continue;
        }
        match plain(token) {
            Some((user, password)) if check(user, password) => {
                *self = Sasl::Known;
                SaslAnswer::Authenticated
            }
            _ => SaslAnswer::Failed,
        }
    }
}

/// Name and password of a PLAIN token (RFC 4616): `[authzid] NUL authcid NUL passwd`. To act for
/// somebody else is not possible: an identity to act for must be the name itself.
fn plain(token: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = token.split(|&byte| byte == 0);
    let (for_whom, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    let sound = parts.next().is_none()
        && !user.is_empty()
        && !password.is_empty()
        && (for_whom.is_empty() || for_whom == user);
    sound.then_some((user, password))
}

/// Names and passwords that let a client in.
pub struct Credentials {
    entries: Vec<[Secret; 2]>,
}

/// Bytes whose comparison takes the same time whatever they are.
pub struct Secret {
    bytes: [u8; CREDENTIAL_LEN_MAX],
    len: u16,
}

/// Why a credentials file cannot be used. Tells the line and no part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// There would be no way in.
    #[error("it names nobody: write one user:password a line")]
    Empty,
    /// More than [`CREDENTIALS_MAX`] entries.
    #[error("it names more than {CREDENTIALS_MAX} users")]
    TooMany,
    /// A line without a colon.
    #[error("line {0} is not user:password")]
    Malformed(usize),
    /// A line whose name or password is empty or longer than [`CREDENTIAL_LEN_MAX`].
    #[error("line {0}: user and password must have 1 to {CREDENTIAL_LEN_MAX} bytes each")]
    Length(usize),
}

impl Credentials {
    /// Reads a file of lines `user:password`. The password is what follows the first colon, further
    /// colons included. Empty lines are skipped; there are no comments.
    ///
    /// # Errors
    /// Says which line is wrong. A file with a wrong line is not used in part.
    pub fn parse(text: &[u8]) -> Result<Self, CredentialsError> {
        let mut entries = Vec::new();
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let number = index + 1;
            let colon = line
                .iter()
                .position(|&byte| byte == b':')
                .ok_or(CredentialsError::Malformed(number))?;
            let (user, password) = (&line[..colon], &line[colon + 1..]);
            let entry = [user, password].map(|part| Secret::new(part).filter(|_| !part.is_empty()));
            let [Some(user), Some(password)] = entry else {
                return Err(CredentialsError::Length(number));
            };
            if entries.len() == CREDENTIALS_MAX {
                return Err(CredentialsError::TooMany);
            }
            entries.push([user, password]);
        }
        if entries.is_empty() {
            return Err(CredentialsError::Empty);
        }
        Ok(Credentials { entries })
    }

    /// Whether these are the name and the password of one entry.
    pub fn check(&self, user: &[u8], password: &[u8]) -> bool {
        let (Some(user), Some(password)) = (Secret::new(user), Secret::new(password)) else {
            return false;
        };
        let any = self.entries.iter().fold(Choice::from(0), |any, entry| {
            any | (entry[0].ct_eq(&user) & entry[1].ct_eq(&password))
        });
        any.into()
    }

    /// How many users there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none, which no file that was read amounts to.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Shows how many there are and none of them.
impl core::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Credentials({} users)", self.entries.len())
    }
}

impl Secret {
    /// `None` when the text is longer than any secret.
    pub fn new(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; CREDENTIAL_LEN_MAX];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        let len = text.len() as u16;
        Some(Secret { bytes, len })
    }

    /// Whether both are the same, in a time that tells nothing of where they differ.
    pub fn ct_eq(&self, other: &Secret) -> Choice {
        self.bytes.ct_eq(&other.bytes) & self.len.ct_eq(&other.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(text: &str) -> Credentials {
        Credentials::parse(text.as_bytes()).expect("sound")
    }

    #[test]
    fn entries_are_found_by_name_and_password_together() {
        let known = credentials("me:secret\r\nyou:a:b c\n\nlast:x");
        assert_eq!(known.len(), 3);
        for (user, password) in [("me", "secret"), ("you", "a:b c"), ("last", "x")] {
            assert!(known.check(user.as_bytes(), password.as_bytes()));
        }
        let long = "s".repeat(CREDENTIAL_LEN_MAX + 1);
        for (user, password) in [
            ("me", "a:b c"),
            ("me", "secret\r"),
            ("me", "secre"),
            ("me", "secret\0"),
            ("me", ""),
            ("", "secret"),
            ("", ""),
            ("m", "esecret"),
            ("Me", "secret"),
            (&long, "secret"),
            ("me", &long),
        ] {
            assert!(!known.check(user.as_bytes(), password.as_bytes()), "{user}");
        }
    }

    #[test]
    fn files_that_cannot_be_meant_are_refused_whole() {
        let parse = |text: &str| Credentials::parse(text.as_bytes()).map(|_| ());
        assert_eq!(parse(""), Err(CredentialsError::Empty));
        assert_eq!(parse("\n\r\n"), Err(CredentialsError::Empty));
        assert_eq!(parse("a:b\nnobody"), Err(CredentialsError::Malformed(2)));
        assert_eq!(parse(":b"), Err(CredentialsError::Length(1)));
        assert_eq!(parse("a:b\n\na:"), Err(CredentialsError::Length(3)));
        let longest = "x".repeat(CREDENTIAL_LEN_MAX);
        assert_eq!(parse(&format!("{longest}:{longest}")), Ok(()));
        assert_eq!(
            parse(&format!("{longest}x:b")),
            Err(CredentialsError::Length(1))
        );
        assert_eq!(parse(&"a:b\n".repeat(CREDENTIALS_MAX)), Ok(()));
        assert_eq!(
            parse(&"a:b\n".repeat(CREDENTIALS_MAX + 1)),
            Err(CredentialsError::TooMany)
        );
    }

    #[test]
    fn nothing_secret_is_shown() {
        assert_eq!(
            format!("{:?}", credentials("me:secret")),
            "Credentials(1 users)"
        );
    }

    #[test]
    fn plain_tokens() {
        assert_eq!(plain(b"\0me\0pw"), Some((&b"me"[..], &b"pw"[..])));
        assert_eq!(plain(b"me\0me\0pw"), Some((&b"me"[..], &b"pw"[..])));
        for token in [
            b"".as_slice(),
            b"me",
            b"me\0pw",
            b"\0me\0",
            b"\0\0pw",
            b"\0me\0pw\0",
            b"\0me\0p\0w",
            b"you\0me\0pw",
        ] {
            assert_eq!(plain(token), None, "{token:?}");
        }
    }

    #[test]
    fn each_listener_begins_where_its_authentication_says() {
        assert_eq!(
            opening(AuthMode::Text, Protocols::Any),
            Some((Dialect::TextAuth, Sasl::Off))
        );
        assert_eq!(
            opening(AuthMode::Sasl, Protocols::Any),
            Some((Dialect::Binary, Sasl::Unknown))
        );
        assert_eq!(opening(AuthMode::Text, Protocols::Binary), None);
        assert_eq!(opening(AuthMode::Sasl, Protocols::Text), None);
        // Whatever the listener allows, asking for credentials never begins with being heard.
        for protocols in [Protocols::Any, Protocols::Text, Protocols::Binary] {
            for auth in [AuthMode::Text, AuthMode::Sasl] {
                match opening(auth, protocols) {
                    None | Some((Dialect::TextAuth, _)) => {}
                    Some((Dialect::Binary, sasl)) => assert!(!sasl.hears(Opcode::GET)),
                    Some(other) => panic!("{other:?}"),
                }
            }
        }
    }

    /// Every sequence of four SASL commands, right and wrong: known only by what came last.
    #[test]
    fn only_valid_credentials_make_a_client_known() {
        const COMMANDS: [(bool, &[u8], &[u8]); 9] = [
            (false, b"PLAIN", b"\0me\0secret"),
            (false, b"PLAIN", b"\0me\0wrong"),
            (false, b"PLAIN", b""),
            (false, b"CRAM-MD5", b"\0me\0secret"),
            (false, b"plain", b"\0me\0secret"),
            (true, b"PLAIN", b"\0me\0secret"),
            (true, b"PLAIN", b"\0me\0wrong"),
            (true, b"PLAIN", b""),
            (true, b"", b"\0me\0secret"),
        ];
        let known = credentials("me:secret");
        let count = COMMANDS.len();
        for sequence in 0..count.pow(4) {
            let mut sasl = Sasl::Unknown;
            let mut started = false;
            for step in 0..4 {
                let (is_step, mechanism, token) = COMMANDS[sequence / count.pow(step) % count];
                let answer = sasl.take(is_step, mechanism, token, |user, password| {
                    known.check(user, password)
                });
                let right = token == b"\0me\0secret" && mechanism == b"PLAIN";
                let expected = right && (!is_step || started);
                started = !is_step && mechanism == b"PLAIN" && token.is_empty();
                assert_eq!(answer == SaslAnswer::Authenticated, expected);
                assert_eq!(sasl == Sasl::Known, expected);
                assert_eq!(sasl.hears(Opcode::GET), expected);
            }
        }
    }
}
