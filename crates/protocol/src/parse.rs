//! The request parser.
//!
//! A request is a line, and for the storage commands a data block of the announced length behind
//! it. The parser finds the line's end, tells the command by its first word, and checks everything
//! that can be checked without the store. What it refuses, it refuses in memcached's words and with
//! memcached's idea of where the next request starts, because clients that send garbage depend on
//! both without knowing.

use memchr::memchr;

use crate::extension::{Hello, Migrate};
use crate::limits::{
    FLAG_COUNT_MAX, FLAG_COUNT_MAX_MS, KEY_LEN_MAX, LINE_LEN_MAX, LONG_LINE_SPACES_MAX, Limits,
    VALUE_LEN_MAX,
};
use crate::meta::{self, KeyScratch, Meta, MetaVerb, SentKey};
use crate::mode::Direction;
use crate::number;
use crate::request::{Admin, Keys, Request, ShutdownMode, Store, StoreVerb};
use crate::scan::scan_set;
use crate::text;
use crate::words::{Split, Words};

/// What the bytes so far amount to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestOutcome<'a> {
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
        /// What to answer, and what to forget.
        refusal: Refusal<'a>,
        /// How many bytes to drop now. Never more than the buffer has.
        consumed: usize,
        /// How many further bytes to drop, now or as they arrive, before parsing again.
        swallow: usize,
    },
    /// Nothing sensible can follow.
    Close {
        /// What to write before closing; may be empty.
        reply: &'static [u8],
    },
}

/// A request that cannot be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal<'a> {
    /// What to answer; empty when the client wants no answer.
    pub reply: &'static [u8],
    /// A key whose item must go: memcached removes the old value when the new one is too large, so
    /// that nobody reads what the client meant to replace.
    pub invalidates: Option<SentKey<'a>>,
    /// Whether that is a value beyond the limit of items, which is counted.
    pub too_large: bool,
}

/// Reads the first request of `buf`.
///
/// Takes one pass over the line; a data block costs nothing but the look at its end. Never panics,
/// whatever the bytes.
#[inline]
pub fn parse_request<'a>(buf: &'a [u8], limits: &Limits) -> RequestOutcome<'a> {
    if let Some(set) = scan_set(buf, 0, limits) {
        return RequestOutcome::Request {
            request: Request::Store(set.of(buf)),
            consumed: set.end(),
        };
    }
    parse_line(buf, limits)
}

/// As [`parse_request`], by the line and its words alone.
pub(crate) fn parse_line<'a>(buf: &'a [u8], limits: &Limits) -> RequestOutcome<'a> {
    let Some(end) = memchr(b'\n', buf) else {
        return match line_may_grow(buf, buf.len(), limits) {
            true => RequestOutcome::Incomplete {
                total: buf.len() + 1,
            },
            false => RequestOutcome::Close { reply: b"" },
        };
    };
    if !line_may_grow(buf, end, limits) {
        return RequestOutcome::Close { reply: b"" };
    }
    let line = &buf[..end];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut words = Words::new(line);
    let command = words.next().unwrap_or_default();
    let frame = Frame {
        buf,
        line_len: end + 1,
        limits,
    };
    if limits.nul_refused && memchr(0, line).is_some() {
        return frame.refuse(text::BAD_FORMAT);
    }
    match command {
        b"get" => frame.get(words, false),
        b"gets" => frame.get(words, true),
        b"mg" => frame.meta(MetaVerb::Get, words, Request::MetaGet),
        b"ms" => frame.meta_set(words),
        b"set" => frame.store(StoreVerb::Set, words),
        b"gat" => frame.get_and_touch(words, false),
        b"gats" => frame.get_and_touch(words, true),
        b"add" => frame.store(StoreVerb::Add, words),
        b"replace" => frame.store(StoreVerb::Replace, words),
        b"append" => frame.store(StoreVerb::Append, words),
        b"prepend" => frame.store(StoreVerb::Prepend, words),
        // The CAS unique stands further back in the line.
        b"cas" => frame.store(StoreVerb::Cas(0), words),
        b"delete" => frame.delete(words),
        b"incr" => frame.arithmetic(Direction::Incr, words),
        b"decr" => frame.arithmetic(Direction::Decr, words),
        b"touch" => frame.touch(words),
        b"md" => frame.meta(MetaVerb::Delete, words, Request::MetaDelete),
        b"ma" => frame.meta(MetaVerb::Arithmetic, words, Request::MetaArithmetic),
        b"mn" => frame.done(Request::MetaNoop),
        b"me" => frame.meta_debug(words),
        b"flush_all" => frame.flush_all(words),
        b"version" => frame.done(Request::Version),
        b"verbosity" => frame.verbosity(words),
        b"stats" => frame.done(Request::Stats {
            arguments: words.rest(),
        }),
        b"quit" => frame.done(Request::Quit),
        b"shutdown" => frame.shutdown(words),
        b"cache_memlimit" => frame.cache_memlimit(words),
        b"lru_crawler" => frame.done(Request::Admin(Admin::LruCrawler(words.rest()))),
        b"watch" => frame.done(Request::Admin(Admin::Watch(words.rest()))),
        b"slabs" => frame.done(Request::Admin(Admin::Slabs(words.rest()))),
        b"lru" => frame.done(Request::Admin(Admin::Lru(words.rest()))),
        b"refresh_certs" => frame.done(Request::Admin(Admin::RefreshCerts)),
        b"config" => match (words.next(), words.rest()) {
            (Some(b"get"), name) if !name.is_empty() => {
                frame.done(Request::Admin(Admin::ConfigGet(name)))
            }
            _ => frame.refuse(text::ERROR),
        },
        b"debugtime" => frame.done(Request::Admin(Admin::DebugTime(words.rest()))),
        b"evenkeel" => match Hello::parse(words) {
            Some(hello) => frame.done(Request::Hello(hello)),
            None => frame.refuse(text::ERROR),
        },
        b"migrate" => match Migrate::parse(words) {
            Some(migrate) => frame.done(Request::Migrate(migrate)),
            None => frame.refuse(text::ERROR),
        },
        _ => match words.last().unwrap_or(command) {
            [b'H', b'T', b'T', b'P', b'/', ..] => RequestOutcome::Close { reply: b"" },
            _ => frame.refuse(text::ERROR),
        },
    }
}

/// `cache_memlimit` wants at least this many MiB.
const MEMLIMIT_MIN_MIB: u32 = 8;

/// `cache_memlimit` takes a larger number for bytes.
const MEMLIMIT_MAX_MIB: u32 = 1_000_000_000;

/// Whether a line that has `len` bytes without a newline is still within bounds.
fn line_may_grow(buf: &[u8], len: usize, limits: &Limits) -> bool {
    if len <= LINE_LEN_MAX {
        return true;
    }
    let spaces = buf
        .iter()
        .take(LONG_LINE_SPACES_MAX + 1)
        .take_while(|&&byte| byte == b' ')
        .count();
    let reads_keys = [b"get ".as_slice(), b"gets ", b"gat ", b"gats "]
        .iter()
        .any(|command| buf[spaces..].starts_with(command));
    spaces <= LONG_LINE_SPACES_MAX && reads_keys && len <= limits.line_len_max
}

/// A line that is whole, and the bytes around it.
struct Frame<'a, 'l> {
    /// Everything received.
    buf: &'a [u8],
    /// Length of the line with its newline.
    line_len: usize,
    limits: &'l Limits,
}

impl<'a> Frame<'a, '_> {
    fn done(&self, request: Request<'a>) -> RequestOutcome<'a> {
        RequestOutcome::Request {
            request,
            consumed: self.line_len,
        }
    }

    fn refuse(&self, reply: &'static [u8]) -> RequestOutcome<'a> {
        self.refuse_block(reply, 0)
    }

    /// Refuses unless the client wants no answer, in which case it hears nothing.
    fn refuse_unless(&self, noreply: bool, reply: &'static [u8]) -> RequestOutcome<'a> {
        self.refuse(if noreply { b"" } else { reply })
    }

    fn refuse_block(&self, reply: &'static [u8], swallow: usize) -> RequestOutcome<'a> {
        RequestOutcome::Refused {
            refusal: Refusal {
                reply,
                invalidates: None,
                too_large: false,
            },
            consumed: self.line_len,
            swallow,
        }
    }

    /// Refuses an item for its size, and the old one goes if the command gives it up.
    fn refuse_item(
        &self,
        reply: &'static [u8],
        invalidates: Option<SentKey<'a>>,
        swallow: usize,
    ) -> RequestOutcome<'a> {
        RequestOutcome::Refused {
            refusal: Refusal {
                reply,
                invalidates,
                too_large: true,
            },
            consumed: self.line_len,
            swallow,
        }
    }

    fn get(&self, words: Words<'a>, with_cas: bool) -> RequestOutcome<'a> {
        match check_keys(words) {
            Some(keys) if keys.is_empty() => self.refuse(text::ERROR),
            Some(keys) => self.done(Request::Get { keys, with_cas }),
            None => self.refuse(text::BAD_FORMAT),
        }
    }

    fn get_and_touch(&self, mut words: Words<'a>, with_cas: bool) -> RequestOutcome<'a> {
        let Some(exptime) = words.next() else {
            return self.refuse(text::ERROR);
        };
        let Some(exptime) = number::wrapping_i32(exptime).map(i64::from) else {
            return self.refuse(text::BAD_EXPTIME);
        };
        match check_keys(words) {
            Some(keys) => self.done(Request::GetAndTouch {
                exptime,
                keys,
                with_cas,
            }),
            None => self.refuse(text::BAD_FORMAT),
        }
    }

    /// `<verb> <key> <flags> <exptime> <bytes> [<cas unique>] [noreply]`. A word in the place of
    /// `noreply` that is something else is ignored, as memcached does.
    fn store(&self, verb: StoreVerb, words: Words<'a>) -> RequestOutcome<'a> {
        let words = Split::<6>::new(words);
        let has_cas = matches!(verb, StoreVerb::Cas(_));
        let required = 4 + usize::from(has_cas);
        if words.count != required && words.count != required + 1 {
            return self.refuse(text::ERROR);
        }
        let noreply = words.last() == NOREPLY;
        let key = words.at(0);
        let Some((verb, flags, exptime, value_len)) = store_numbers(verb, &words) else {
            return self.refuse_unless(noreply, text::BAD_FORMAT);
        };
        if key.len() > KEY_LEN_MAX {
            return self.refuse_unless(noreply, text::BAD_FORMAT);
        }
        if self.limits.is_too_large(key.len(), value_len, flags) {
            let reply = if noreply { b"" } else { text::TOO_LARGE };
            // Of the classic commands only `set` gives up the old value.
            let invalidates = matches!(verb, StoreVerb::Set).then(|| SentKey::plain(key));
            return self.refuse_item(reply, invalidates, value_len + 2);
        }
        self.block(
            value_len,
            if noreply { b"" } else { text::BAD_DATA },
            |value| {
                Request::Store(Store {
                    verb,
                    key,
                    flags,
                    exptime,
                    value,
                    noreply,
                })
            },
        )
    }

    /// Finishes a request with its data block of `len` bytes and CRLF.
    fn block(
        &self,
        len: usize,
        bad_data: &'static [u8],
        request: impl FnOnce(&'a [u8]) -> Request<'a>,
    ) -> RequestOutcome<'a> {
        let total = self.line_len + len + text::CRLF.len();
        let Some(block) = self.buf.get(self.line_len..total) else {
            return RequestOutcome::Incomplete { total };
        };
        match block.strip_suffix(text::CRLF) {
            Some(value) => RequestOutcome::Request {
                request: request(value),
                consumed: total,
            },
            None => RequestOutcome::Refused {
                refusal: Refusal {
                    reply: bad_data,
                    invalidates: None,
                    too_large: false,
                },
                consumed: total,
                swallow: 0,
            },
        }
    }

    /// `delete <key> [0] [noreply]`: the zero was a time once, and old clients still send it.
    fn delete(&self, words: Words<'a>) -> RequestOutcome<'a> {
        let words = Split::<3>::new(words);
        if words.count == 0 || words.count > 3 {
            return self.refuse(text::ERROR);
        }
        let noreply = words.count > 1 && words.last() == NOREPLY;
        let zero = words.at(1) == b"0";
        let understood = match words.count {
            1 => true,
            2 => zero || noreply,
            _ => zero && noreply,
        };
        let key = words.at(0);
        if !understood {
            self.refuse_unless(noreply, text::BAD_DELETE)
        } else if key.len() > KEY_LEN_MAX {
            self.refuse_unless(noreply, text::BAD_FORMAT)
        } else {
            self.done(Request::Delete { key, noreply })
        }
    }

    /// `incr|decr <key> <delta> [noreply]`
    fn arithmetic(&self, direction: Direction, words: Words<'a>) -> RequestOutcome<'a> {
        let words = Split::<3>::new(words);
        if words.count < 2 || words.count > 3 {
            return self.refuse(text::ERROR);
        }
        let noreply = words.last() == NOREPLY;
        let key = words.at(0);
        if key.len() > KEY_LEN_MAX {
            return self.refuse_unless(noreply, text::BAD_FORMAT);
        }
        match number::unsigned(words.at(1)) {
            Some(delta) => self.done(Request::Arithmetic {
                key,
                delta,
                direction,
                noreply,
            }),
            None => self.refuse_unless(noreply, text::BAD_DELTA),
        }
    }

    /// `touch <key> <exptime> [noreply]`
    fn touch(&self, words: Words<'a>) -> RequestOutcome<'a> {
        let words = Split::<3>::new(words);
        if words.count < 2 || words.count > 3 {
            return self.refuse(text::ERROR);
        }
        let noreply = words.last() == NOREPLY;
        let key = words.at(0);
        if key.len() > KEY_LEN_MAX {
            return self.refuse_unless(noreply, text::BAD_FORMAT);
        }
        match number::wrapping_i32(words.at(1)).map(i64::from) {
            Some(exptime) => self.done(Request::Touch {
                key,
                exptime,
                noreply,
            }),
            None => self.refuse_unless(noreply, text::BAD_EXPTIME),
        }
    }

    /// `flush_all [<delay>] [noreply]`
    fn flush_all(&self, words: Words<'a>) -> RequestOutcome<'a> {
        let words = Split::<2>::new(words);
        if words.count > 2 {
            return self.refuse(text::ERROR);
        }
        let noreply = words.last() == NOREPLY;
        if words.count == usize::from(noreply) {
            return self.done(Request::FlushAll {
                delay: None,
                noreply,
            });
        }
        match number::wrapping_i32(words.at(0)).map(i64::from) {
            Some(delay) => self.done(Request::FlushAll {
                delay: Some(delay),
                noreply,
            }),
            None => self.refuse_unless(noreply, text::BAD_EXPTIME),
        }
    }

    /// `verbosity <level> [noreply]`
    fn verbosity(&self, words: Words<'a>) -> RequestOutcome<'a> {
        let words = Split::<2>::new(words);
        if words.count == 0 || words.count > 2 {
            return self.refuse(text::ERROR);
        }
        let noreply = words.last() == NOREPLY;
        match number::wrapping_u32(words.at(0)) {
            Some(level) => self.done(Request::Verbosity { level, noreply }),
            None => self.refuse_unless(noreply, text::BAD_FORMAT),
        }
    }

    fn shutdown(&self, words: Words<'a>) -> RequestOutcome<'a> {
        let mode = match words.rest() {
            b"" => ShutdownMode::Immediate,
            b"graceful" => ShutdownMode::Graceful,
            _ => ShutdownMode::Unknown,
        };
        self.done(Request::Admin(Admin::Shutdown(mode)))
    }

    /// `cache_memlimit <MiB> [noreply]`
    fn cache_memlimit(&self, words: Words<'a>) -> RequestOutcome<'a> {
        let words = Split::<2>::new(words);
        if words.count == 0 || words.count > 2 {
            return self.refuse(text::ERROR);
        }
        let noreply = words.last() == NOREPLY;
        match number::wrapping_u32(words.at(0)) {
            None => self.refuse_unless(noreply, text::ERROR),
            Some(..MEMLIMIT_MIN_MIB) => self.refuse_unless(noreply, text::MEMLIMIT_TOO_SMALL),
            Some(mebibytes @ MEMLIMIT_MIN_MIB..=MEMLIMIT_MAX_MIB) => {
                self.done(Request::Admin(Admin::CacheMemlimit { mebibytes, noreply }))
            }
            Some(_) => self.refuse_unless(noreply, text::MEMLIMIT_NOT_MEGABYTES),
        }
    }

    /// `mg|md|ma <key> <flag>*`
    fn meta(
        &self,
        verb: MetaVerb,
        mut words: Words<'a>,
        request: fn(Meta<'a>) -> Request<'a>,
    ) -> RequestOutcome<'a> {
        let Some(key) = words.next() else {
            return self.refuse(text::ERROR);
        };
        if key.len() > KEY_LEN_MAX {
            return self.refuse(text::BAD_FORMAT);
        }
        if meta::too_many_flags(words, FLAG_COUNT_MAX) {
            return self.refuse(match verb {
                MetaVerb::Get => text::FLAGS_TOO_LONG_MG,
                _ => text::FLAGS_TOO_LONG,
            });
        }
        let flags = match meta::parse_flags(verb, key, words) {
            Ok(flags) => flags,
            Err(reply) => return self.refuse(reply),
        };
        let key = SentKey {
            text: key,
            base64: flags.has(b'b'),
        };
        let meta = Meta {
            key,
            flags,
            value: b"",
        };
        self.done(request(meta))
    }

    /// `ms <key> <bytes> <flag>*`. Once the length is known, a fault swallows the data block.
    fn meta_set(&self, mut words: Words<'a>) -> RequestOutcome<'a> {
        let Some(key) = words.next() else {
            return self.refuse(text::ERROR);
        };
        let Some(value_len) = words.next().filter(|_| key.len() <= KEY_LEN_MAX) else {
            return self.refuse(text::BAD_FORMAT);
        };
        if meta::too_many_flags(words, FLAG_COUNT_MAX_MS) {
            return self.refuse(text::FLAGS_TOO_LONG);
        }
        let Some(value_len) = value_length(value_len) else {
            return self.refuse(text::BAD_FORMAT);
        };
        let flags = match meta::parse_flags(MetaVerb::Set, key, words) {
            Ok(flags) => flags,
            Err(reply) => return self.refuse_block(reply, value_len + 2),
        };
        let key = SentKey {
            text: key,
            base64: flags.has(b'b'),
        };
        let key_len = key.decode(&mut KeyScratch::default()).len();
        if self
            .limits
            .is_too_large(key_len, value_len, flags.client_flags().unwrap_or(0))
        {
            return self.refuse_item(text::TOO_LARGE, Some(key), value_len + 2);
        }
        self.block(value_len, text::BAD_DATA, |value| {
            Request::MetaSet(Meta { key, flags, value })
        })
    }

    /// `me <key> [b]`. The flag counts only right behind the key.
    fn meta_debug(&self, mut words: Words<'a>) -> RequestOutcome<'a> {
        let Some(text) = words.next().filter(|key| key.len() <= KEY_LEN_MAX) else {
            return self.refuse(text::BAD_FORMAT);
        };
        let key = SentKey {
            text,
            base64: words.next() == Some(b"b"),
        };
        if key.decode(&mut KeyScratch::default()).is_empty() {
            return self.refuse(text::BAD_FORMAT);
        }
        self.done(Request::MetaDebug { key })
    }
}

const NOREPLY: &[u8] = b"noreply";

/// The words as keys, or `None` when one of them is too long.
#[inline]
fn check_keys(words: Words<'_>) -> Option<Keys<'_>> {
    let mut count = 0;
    for key in words {
        if key.len() > KEY_LEN_MAX {
            return None;
        }
        count += 1;
    }
    Some(Keys::new(words.rest(), count))
}

/// The numbers behind the key of a classic storage command: CAS unique, flags, exptime, length.
fn store_numbers(verb: StoreVerb, words: &Split<'_, 6>) -> Option<(StoreVerb, u32, i64, usize)> {
    let flags = number::wrapping_u32(words.at(1))?;
    let exptime = number::wrapping_i32(words.at(2))?.into();
    let value_len = value_length(words.at(3))?;
    let verb = match verb {
        StoreVerb::Cas(_) => StoreVerb::Cas(number::unsigned(words.at(4))?),
        other => other,
    };
    Some((verb, flags, exptime, value_len))
}

/// The length of a data block, without its CRLF.
fn value_length(word: &[u8]) -> Option<usize> {
    let len = number::signed(word)?;
    if !(0..=VALUE_LEN_MAX).contains(&len) {
        return None;
    }
    usize::try_from(len).ok()
}
