//! The request parser.

use super::{Command, Echo, HEADER_LEN, Opcode, REQUEST_MAGIC, Request, RequestHeader, Status};
use crate::extension::Hello;
use crate::limits::{
    KEY_LEN_MAX, LINE_LEN_MAX, Limits, SASL_MECHANISM_LEN_MAX, SASL_TOKEN_LEN_MAX,
};
use crate::mode::{Direction, StoreMode};
use crate::words::Words;

/// What the bytes so far amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// A whole request.
    Request {
        /// The request.
        request: Request<'a>,
        /// How many bytes it took.
        consumed: usize,
    },
    /// More bytes are needed.
    Incomplete {
        /// The least length of the buffer at which asking again can help. More than the buffer has.
        total: usize,
    },
    /// A request that cannot be executed.
    Refused {
        /// What to answer, what to forget, and whether that is the end.
        refusal: Refusal<'a>,
        /// How many bytes to drop now. Never more than the buffer has.
        consumed: usize,
        /// How many further bytes to drop, now or as they arrive, before parsing again.
        swallow: usize,
    },
    /// This is no request of the binary protocol.
    Close,
}

/// A request that cannot be executed. It is answered even if it is of a quiet form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal<'a> {
    /// What the answer repeats.
    pub echo: Echo,
    /// What is wrong.
    pub status: Status,
    /// A key whose item must go: memcached removes the old value when the new one is too large, so
    /// that nobody reads what the client meant to replace.
    pub invalidates: Option<&'a [u8]>,
    /// Whether the connection is closed behind the answer.
    pub close: bool,
}

/// Longest body, in bytes: no item may be larger than a gigabyte, whatever `-I` says. As in memcached
/// since 1.6.42; before, a longer one was waited for.
const BODY_LEN_MAX: u32 = 1 << 30;

/// Which parts a command has.
struct Shape {
    /// Lengths that the extras may have.
    extras: &'static [u8],
    key: Part,
    value: Part,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// There is none.
    Absent,
    /// It may be empty.
    Possible,
    /// It has at least one byte.
    Present,
}

impl Part {
    fn fits(self, len: usize) -> bool {
        match self {
            Part::Absent => len == 0,
            Part::Possible => true,
            Part::Present => len > 0,
        }
    }
}

/// The parts of a command; `None` when there is no such command.
fn shape(loud: Opcode) -> Option<Shape> {
    let (extras, key, value): (&[u8], Part, Part) = match loud {
        Opcode::GET | Opcode::GETK | Opcode::DELETE | Opcode::CONFIG_GET => {
            (&[0], Part::Present, Part::Absent)
        }
        Opcode::SET | Opcode::ADD | Opcode::REPLACE => (&[8], Part::Present, Part::Possible),
        Opcode::APPEND | Opcode::PREPEND => (&[0], Part::Present, Part::Possible),
        Opcode::INCREMENT | Opcode::DECREMENT => (&[20], Part::Present, Part::Absent),
        Opcode::TOUCH | Opcode::GAT | Opcode::GATK => (&[4], Part::Present, Part::Absent),
        Opcode::FLUSH => (&[0, 4], Part::Absent, Part::Absent),
        Opcode::VERBOSITY => (&[4], Part::Absent, Part::Absent),
        Opcode::NOOP | Opcode::VERSION | Opcode::QUIT | Opcode::SASL_LIST_MECHS => {
            (&[0], Part::Absent, Part::Absent)
        }
        Opcode::STAT => (&[0], Part::Possible, Part::Absent),
        Opcode::SASL_AUTH | Opcode::SASL_STEP => (&[0], Part::Present, Part::Possible),
        Opcode::HELLO => (&[0], Part::Absent, Part::Present),
        _ => return None,
    };
    Some(Shape { extras, key, value })
}

/// Reads the first request of `buf`. Never panics, whatever the bytes.
pub fn parse_request<'a>(buf: &'a [u8], limits: &Limits) -> Outcome<'a> {
    let Some(header) = RequestHeader::parse(buf) else {
        return match buf.first() {
            None | Some(&REQUEST_MAGIC) => Outcome::Incomplete { total: HEADER_LEN },
            Some(_) => Outcome::Close,
        };
    };
    let (loud, quiet) = header.opcode.loud();
    let frame = Frame {
        buf,
        header,
        loud,
        quiet,
        extras_len: header.extras_len.into(),
        key_len: header.key_len.into(),
        body_len: header.body_len as usize,
    };
    frame.request(limits)
}

/// A request whose header is there.
struct Frame<'a> {
    buf: &'a [u8],
    header: RequestHeader,
    loud: Opcode,
    quiet: bool,
    extras_len: usize,
    key_len: usize,
    body_len: usize,
}

impl<'a> Frame<'a> {
    fn request(&self, limits: &Limits) -> Outcome<'a> {
        let before_value = self.extras_len + self.key_len;
        let Some(value_len) = self.body_len.checked_sub(before_value) else {
            return self.refuse_and_close(Status::UnknownCommand);
        };
        if self.key_len > KEY_LEN_MAX {
            return self.refuse_and_close(Status::InvalidArguments);
        }
        let Some(shape) = shape(self.loud) else {
            return self.refuse(Status::UnknownCommand);
        };
        let fits = shape.extras.contains(&self.header.extras_len)
            && shape.key.fits(self.key_len)
            && shape.value.fits(value_len);
        if !fits {
            return self.refuse_and_close(Status::InvalidArguments);
        }
        match self.loud {
            Opcode::SASL_AUTH | Opcode::SASL_STEP if self.is_endless() => {
                return self.refuse_and_close(Status::UnknownCommand);
            }
            Opcode::SASL_AUTH | Opcode::SASL_STEP if self.key_len > SASL_MECHANISM_LEN_MAX => {
                return self.refuse(Status::InvalidArguments);
            }
            Opcode::SASL_AUTH | Opcode::SASL_STEP if value_len > SASL_TOKEN_LEN_MAX => {
                return self.refuse(Status::AuthError);
            }
            Opcode::HELLO if value_len > LINE_LEN_MAX => {
                return self.refuse_and_close(Status::InvalidArguments);
            }
            _ => {}
        }
        // What stands before the value is short: it is waited for, so that the key of a refused item
        // is known.
        let Some(head) = self.buf.get(HEADER_LEN..HEADER_LEN + before_value) else {
            return Outcome::Incomplete {
                total: HEADER_LEN + before_value,
            };
        };
        let (extras, key) = head.split_at(self.extras_len);
        if self.is_endless() {
            // Also what is no item's length is more than an item may have: the old one goes.
            let invalidates = (self.loud == Opcode::SET).then_some(key);
            return self.refused(
                Status::InvalidArguments,
                true,
                invalidates,
                HEADER_LEN + before_value,
                0,
            );
        }
        if shape.value == Part::Possible
            && limits.is_too_large(key.len(), value_len, client_flags(self.loud, extras))
        {
            return self.refuse_item(key, value_len);
        }
        let total = HEADER_LEN + self.body_len;
        let Some(value) = self.buf.get(HEADER_LEN + before_value..total) else {
            return Outcome::Incomplete { total };
        };
        let Some(command) = self.command(extras, key, value) else {
            return self.refused(Status::InvalidArguments, true, None, total, 0);
        };
        let request = Request {
            command,
            quiet: self.quiet,
            vbucket: self.header.vbucket,
            opaque: self.header.opaque,
            cas: self.header.cas,
        };
        Outcome::Request {
            request,
            consumed: total,
        }
    }

    /// The command of parts that have the right lengths; `None` when their contents are wrong.
    #[inline]
    fn command(&self, extras: &'a [u8], key: &'a [u8], value: &'a [u8]) -> Option<Command<'a>> {
        let number = |at: usize| u32_at(extras, at);
        Some(match self.loud {
            Opcode::GET | Opcode::GETK => Command::Get {
                key,
                with_key: self.loud == Opcode::GETK,
            },
            Opcode::SET | Opcode::ADD | Opcode::REPLACE => Command::Store {
                mode: match self.loud {
                    Opcode::ADD => StoreMode::Add,
                    Opcode::REPLACE => StoreMode::Replace,
                    _ => StoreMode::Set,
                },
                key,
                flags: number(0),
                exptime: number(4),
                value,
            },
            Opcode::APPEND | Opcode::PREPEND => Command::Join {
                before: self.loud == Opcode::PREPEND,
                key,
                value,
            },
            Opcode::DELETE => Command::Delete { key },
            Opcode::INCREMENT | Opcode::DECREMENT => Command::Arithmetic {
                key,
                direction: match self.loud {
                    Opcode::DECREMENT => Direction::Decr,
                    _ => Direction::Incr,
                },
                delta: u64_at(extras, 0),
                initial: u64_at(extras, 8),
                exptime: number(16),
            },
            Opcode::TOUCH => Command::Touch {
                key,
                exptime: number(0),
            },
            Opcode::GAT | Opcode::GATK => Command::GetAndTouch {
                key,
                with_key: self.loud == Opcode::GATK,
                exptime: number(0),
            },
            Opcode::FLUSH => Command::Flush {
                delay: (!extras.is_empty()).then(|| number(0)),
            },
            Opcode::NOOP => Command::Noop,
            Opcode::VERSION => Command::Version,
            Opcode::QUIT => Command::Quit,
            Opcode::VERBOSITY => Command::Verbosity { level: number(0) },
            Opcode::STAT => Command::Stat { arguments: key },
            Opcode::SASL_LIST_MECHS => Command::SaslMechanisms,
            Opcode::SASL_AUTH | Opcode::SASL_STEP => Command::Sasl {
                is_step: self.loud == Opcode::SASL_STEP,
                mechanism: key,
                token: value,
            },
            Opcode::CONFIG_GET => Command::ConfigGet { name: key },
            Opcode::HELLO => Command::Hello(Hello::parse(Words::new(value))?),
            _ => return None,
        })
    }

    /// Whether the body is longer than any may be.
    fn is_endless(&self) -> bool {
        self.header.body_len > BODY_LEN_MAX
    }

    /// Refuses and goes on behind the body, if it ends.
    fn refuse(&self, status: Status) -> Outcome<'a> {
        match self.is_endless() {
            true => self.refuse_and_close(status),
            false => self.refused(status, false, None, HEADER_LEN, self.body_len),
        }
    }

    /// Refuses a request after which nothing sensible can follow.
    fn refuse_and_close(&self, status: Status) -> Outcome<'a> {
        self.refused(status, true, None, HEADER_LEN, 0)
    }

    /// Refuses an item that is too large. Only `set` gives up the old one, as in memcached.
    fn refuse_item(&self, key: &'a [u8], value_len: usize) -> Outcome<'a> {
        let invalidates = (self.loud == Opcode::SET).then_some(key);
        let consumed = HEADER_LEN + self.extras_len + self.key_len;
        self.refused(Status::TooLarge, false, invalidates, consumed, value_len)
    }

    fn refused(
        &self,
        status: Status,
        close: bool,
        invalidates: Option<&'a [u8]>,
        consumed: usize,
        swallow: usize,
    ) -> Outcome<'a> {
        let refusal = Refusal {
            echo: self.header.echo(),
            status,
            invalidates,
            close,
        };
        Outcome::Refused {
            refusal,
            consumed,
            swallow,
        }
    }
}

/// Client flags as the item's size counts them: those of the storage commands that have some.
fn client_flags(loud: Opcode, extras: &[u8]) -> u32 {
    match loud {
        Opcode::SET | Opcode::ADD | Opcode::REPLACE => u32_at(extras, 0),
        _ => 0,
    }
}

/// The number that begins at a byte of extras whose length was checked.
#[inline]
fn u32_at(extras: &[u8], at: usize) -> u32 {
    extras
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// The same for a long number.
#[inline]
fn u64_at(extras: &[u8], at: usize) -> u64 {
    extras
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |bytes| u64::from_be_bytes(*bytes))
}
