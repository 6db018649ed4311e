//! What a client asks for, and how it is written. Every request borrows from the buffer it was
//! parsed from.

use super::{Echo, Opcode, RequestHeader};
use crate::extension::Hello;
use crate::mode::{Direction, StoreMode};
use evenkeel_types::copy;

/// One whole request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What is asked.
    pub command: Command<'a>,
    /// Whether a reading command answers only hits, and any other command only failures. Always
    /// false for commands that have no quiet form.
    pub quiet: bool,
    /// For agreed clients the cachelet in which they believe the key to be; ignored from others.
    pub vbucket: u16,
    /// What the answer repeats.
    pub opaque: u32,
    /// CAS unique that the item must still have; 0 for any.
    pub cas: u64,
}

/// What is asked, without regard to quiet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// `get`, or `getk` when the answer shall repeat the key.
    Get {
        /// The key.
        key: &'a [u8],
        /// Whether the answer repeats it.
        with_key: bool,
    },
    /// `gat`, or `gatk` when the answer shall repeat the key.
    GetAndTouch {
        /// The key.
        key: &'a [u8],
        /// Whether the answer repeats it.
        with_key: bool,
        /// New exptime: seconds, or a Unix time; 0 for never.
        exptime: u32,
    },
    /// `touch`.
    Touch {
        /// The key.
        key: &'a [u8],
        /// New exptime, as above.
        exptime: u32,
    },
    /// `set`, `add`, `replace`.
    Store {
        /// Which of them; never one that joins.
        mode: StoreMode,
        /// The key.
        key: &'a [u8],
        /// Client flags, opaque to the server.
        flags: u32,
        /// Exptime: seconds, or a Unix time; 0 for never.
        exptime: u32,
        /// The value.
        value: &'a [u8],
    },
    /// `append` or `prepend`.
    Join {
        /// Whether `value` goes in front.
        before: bool,
        /// The key.
        key: &'a [u8],
        /// What is put to the item's value.
        value: &'a [u8],
    },
    /// `delete`.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// `increment` or `decrement`.
    Arithmetic {
        /// The key.
        key: &'a [u8],
        /// Up or down.
        direction: Direction,
        /// By how much.
        delta: u64,
        /// The number to begin with when there is no item.
        initial: u64,
        /// Exptime of an item that is created; [`Command::CREATE_NOTHING`] creates none.
        exptime: u32,
    },
    /// `flush`.
    Flush {
        /// When, as an exptime; at once when absent or 0.
        delay: Option<u32>,
    },
    /// `noop`.
    Noop,
    /// `version`.
    Version,
    /// `quit`.
    Quit,
    /// `verbosity`.
    Verbosity {
        /// The wanted level.
        level: u32,
    },
    /// `stat`.
    Stat {
        /// What follows `stats` in the text protocol; empty for plain `stats`.
        arguments: &'a [u8],
    },
    /// `sasl list mechs`.
    SaslMechanisms,
    /// `sasl auth`, the first step, or `sasl step`.
    Sasl {
        /// Whether this is a later step.
        is_step: bool,
        /// Name of the mechanism.
        mechanism: &'a [u8],
        /// What the mechanism has to say.
        token: &'a [u8],
    },
    /// ElastiCache's `config get`.
    ConfigGet {
        /// What is asked for: `cluster`.
        name: &'a [u8],
    },
    /// The extension's hello, whose value is what stands behind `evenkeel` in the text protocol.
    Hello(Hello),
}

impl<'a> Command<'a> {
    /// Exptime of [`Arithmetic`](Command::Arithmetic) for "do not create the item".
    pub const CREATE_NOTHING: u32 = u32::MAX;

    /// The key of a command on one key.
    #[inline]
    pub fn key(&self) -> Option<&'a [u8]> {
        match *self {
            Command::Get { key, .. }
            | Command::GetAndTouch { key, .. }
            | Command::Touch { key, .. }
            | Command::Store { key, .. }
            | Command::Join { key, .. }
            | Command::Delete { key }
            | Command::Arithmetic { key, .. } => Some(key),
            _ => None,
        }
    }

    fn opcode(&self) -> Opcode {
        match *self {
            Command::Get { with_key, .. } => pick(with_key, Opcode::GETK, Opcode::GET),
            Command::GetAndTouch { with_key, .. } => pick(with_key, Opcode::GATK, Opcode::GAT),
            Command::Touch { .. } => Opcode::TOUCH,
            Command::Store { mode, .. } => match mode {
                StoreMode::Add => Opcode::ADD,
                StoreMode::Replace => Opcode::REPLACE,
                _ => Opcode::SET,
            },
            Command::Join { before, .. } => pick(before, Opcode::PREPEND, Opcode::APPEND),
            Command::Delete { .. } => Opcode::DELETE,
            Command::Arithmetic { direction, .. } => match direction {
                Direction::Incr => Opcode::INCREMENT,
                Direction::Decr => Opcode::DECREMENT,
            },
            Command::Flush { .. } => Opcode::FLUSH,
            Command::Noop => Opcode::NOOP,
            Command::Version => Opcode::VERSION,
            Command::Quit => Opcode::QUIT,
            Command::Verbosity { .. } => Opcode::VERBOSITY,
            Command::Stat { .. } => Opcode::STAT,
            Command::SaslMechanisms => Opcode::SASL_LIST_MECHS,
            Command::Sasl { is_step, .. } => pick(is_step, Opcode::SASL_STEP, Opcode::SASL_AUTH),
            Command::ConfigGet { .. } => Opcode::CONFIG_GET,
            Command::Hello(_) => Opcode::HELLO,
        }
    }
}

fn pick(condition: bool, yes: Opcode, no: Opcode) -> Opcode {
    if condition { yes } else { no }
}

impl<'a> Request<'a> {
    /// A command without conditions.
    pub fn new(command: Command<'a>) -> Self {
        Request {
            command,
            quiet: false,
            vbucket: 0,
            opaque: 0,
            cas: 0,
        }
    }

    /// What its answer repeats.
    #[inline]
    pub fn echo(&self) -> Echo {
        let opcode = self.command.opcode();
        Echo {
            opcode: if self.quiet { opcode.quiet() } else { opcode },
            opaque: self.opaque,
        }
    }

    /// Appends the request. Keys are at most [`KEY_LEN_MAX`](crate::KEY_LEN_MAX) bytes long and values
    /// fit a body of 32 bits, as all do that come out of the parser.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut extras = Vec::new();
        let mut hello_words = Vec::new();
        let (key, value): (&[u8], &[u8]) = match self.command {
            Command::Store {
                key,
                flags,
                exptime,
                value,
                ..
            } => {
                extras.extend_from_slice(&flags.to_be_bytes());
                extras.extend_from_slice(&exptime.to_be_bytes());
                (key, value)
            }
            Command::Arithmetic {
                key,
                delta,
                initial,
                exptime,
                ..
            } => {
                extras.extend_from_slice(&delta.to_be_bytes());
                extras.extend_from_slice(&initial.to_be_bytes());
                extras.extend_from_slice(&exptime.to_be_bytes());
                (key, b"")
            }
            Command::GetAndTouch { key, exptime, .. } | Command::Touch { key, exptime } => {
                extras.extend_from_slice(&exptime.to_be_bytes());
                (key, b"")
            }
            Command::Flush {
                delay: Some(number),
            }
            | Command::Verbosity { level: number } => {
                extras.extend_from_slice(&number.to_be_bytes());
                (b"", b"")
            }
            Command::Join { key, value, .. } => (key, value),
            Command::Sasl {
                mechanism, token, ..
            } => (mechanism, token),
            Command::Get { key, .. } | Command::Delete { key } => (key, b""),
            Command::Stat { arguments } => (arguments, b""),
            Command::ConfigGet { name } => (name, b""),
            Command::Hello(hello) => {
                hello.write_words(&mut hello_words);
                (b"", &hello_words)
            }
            Command::Flush { delay: None }
            | Command::Noop
            | Command::Version
            | Command::Quit
            | Command::SaslMechanisms => (b"", b""),
        };
        RequestHeader {
            opcode: self.echo().opcode,
            key_len: key.len() as u16,
            extras_len: extras.len() as u8,
            data_type: 0,
            vbucket: self.vbucket,
            body_len: (extras.len() + key.len() + value.len()) as u32,
            opaque: self.opaque,
            cas: self.cas,
        }
        .write(out);
        out.extend_from_slice(&extras);
        out.extend_from_slice(key);
        copy::append(out, value);
    }
}
