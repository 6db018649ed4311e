//! What a client asks for. Every request borrows from the buffer it was parsed from.

use crate::extension::{Hello, Migrate};
use crate::meta::{Meta, SentKey};
use crate::mode::Direction;
use crate::words::Words;

/// One whole request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// `get`, or `gets` when the CAS unique is wanted.
    Get {
        /// The keys, at least one.
        keys: Keys<'a>,
        /// Whether answers carry the CAS unique.
        with_cas: bool,
    },
    /// `gat`, or `gats` when the CAS unique is wanted.
    GetAndTouch {
        /// New exptime of what is found, as sent: seconds, or a Unix time, or negative for at once.
        exptime: i64,
        /// The keys; may be none, which memcached answers with `END`.
        keys: Keys<'a>,
        /// Whether answers carry the CAS unique.
        with_cas: bool,
    },
    /// `set`, `add`, `replace`, `append`, `prepend` or `cas`.
    Store(Store<'a>),
    /// `delete`.
    Delete {
        /// The key.
        key: &'a [u8],
        /// Whether the client wants no answer.
        noreply: bool,
    },
    /// `incr` or `decr`.
    Arithmetic {
        /// The key.
        key: &'a [u8],
        /// By how much.
        delta: u64,
        /// Up or down.
        direction: Direction,
        /// Whether the client wants no answer.
        noreply: bool,
    },
    /// `touch`.
    Touch {
        /// The key.
        key: &'a [u8],
        /// New exptime, as sent.
        exptime: i64,
        /// Whether the client wants no answer.
        noreply: bool,
    },
    /// `flush_all`.
    FlushAll {
        /// When to flush, as an exptime as sent; at once when absent, zero or negative.
        delay: Option<i64>,
        /// Whether the client wants no answer.
        noreply: bool,
    },
    /// `version`.
    Version,
    /// `verbosity`.
    Verbosity {
        /// The wanted level; memcached caps it.
        level: u32,
        /// Whether the client wants no answer.
        noreply: bool,
    },
    /// `stats`.
    Stats {
        /// What follows the command, without spaces on either side; empty for plain `stats`.
        arguments: &'a [u8],
    },
    /// `quit`.
    Quit,
    /// A word for the operator.
    Admin(Admin<'a>),
    /// `mg`.
    MetaGet(Meta<'a>),
    /// `ms`.
    MetaSet(Meta<'a>),
    /// `md`.
    MetaDelete(Meta<'a>),
    /// `ma`.
    MetaArithmetic(Meta<'a>),
    /// `mn`.
    MetaNoop,
    /// `me`. Its only flag is `b`; other words are ignored, as memcached does.
    MetaDebug {
        /// The key.
        key: SentKey<'a>,
    },
    /// The hello that opens the extension.
    Hello(Hello),
    /// A word from the source of a migration to its target, for agreed peers alone.
    Migrate(Migrate),
}

/// A classic storage command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// Which command.
    pub verb: StoreVerb,
    /// The key.
    pub key: &'a [u8],
    /// Client flags, opaque to the server.
    pub flags: u32,
    /// Exptime as sent: seconds, or a Unix time, or negative for at once.
    pub exptime: i64,
    /// The value, without the final CRLF.
    pub value: &'a [u8],
    /// Whether the client wants no answer.
    pub noreply: bool,
}

/// The classic storage commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreVerb {
    /// Store in any case.
    Set,
    /// Store if there is no such item.
    Add,
    /// Store if there is such an item.
    Replace,
    /// Put behind the value of an existing item. Flags and exptime are ignored.
    Append,
    /// Put before the value of an existing item. Flags and exptime are ignored.
    Prepend,
    /// Store if the item still has this CAS unique.
    Cas(u64),
}

/// Words for the operator, which the wire format knows and a server may or may not execute;
/// [`admin`](crate::admin) reads what follows them.
/// [`Admin::answer_without_feature`] is what memcached says where it has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admin<'a> {
    /// `shutdown`.
    Shutdown(ShutdownMode),
    /// `cache_memlimit`. Numbers that cannot be meant are refused while parsing.
    CacheMemlimit {
        /// The new memory limit in MiB, 8 to 1,000,000,000.
        mebibytes: u32,
        /// Whether the client wants no answer.
        noreply: bool,
    },
    /// `lru_crawler`, with what follows the command.
    LruCrawler(&'a [u8]),
    /// `watch`, with what follows the command.
    Watch(&'a [u8]),
    /// `slabs`, with what follows the command.
    Slabs(&'a [u8]),
    /// `lru`, with what follows the command.
    Lru(&'a [u8]),
    /// `refresh_certs`.
    RefreshCerts,
    /// `config get`, with the name behind it: the list of servers, as ElastiCache's clients ask.
    ConfigGet(&'a [u8]),
    /// `debugtime`, with what follows the command.
    DebugTime(&'a [u8]),
}

/// How `shutdown` asks to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// At once.
    Immediate,
    /// `graceful`.
    Graceful,
    /// Some other word, refused where shutting down is allowed at all.
    Unknown,
}

impl Admin<'_> {
    /// What memcached answers when the feature behind the word is missing or switched off.
    pub fn answer_without_feature(&self) -> &'static [u8] {
        use crate::text;
        match self {
            Admin::Shutdown(_) => text::SHUTDOWN_NOT_ENABLED,
            Admin::CacheMemlimit { noreply: true, .. } => b"",
            Admin::CacheMemlimit { noreply: false, .. } => text::MEMLIMIT_ADJUST_FAILED,
            Admin::Watch(_) => text::WATCH_NOT_ALLOWED,
            Admin::RefreshCerts => text::TLS_NOT_ENABLED,
            Admin::LruCrawler(_)
            | Admin::Slabs(_)
            | Admin::Lru(_)
            | Admin::ConfigGet(_)
            | Admin::DebugTime(_) => text::ERROR,
        }
    }
}

/// The keys of a `get`, as they stand in the line: read when iterated, checked already (each has 1
/// to [`KEY_LEN_MAX`](crate::KEY_LEN_MAX) bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys<'a> {
    text: &'a [u8],
    count: usize,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(text: &'a [u8], count: usize) -> Self {
        Keys { text, count }
    }

    /// How many keys there are. A key that stands twice counts twice.
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no key (only possible for `gat`).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The keys in the order sent.
    #[inline]
    pub fn iter(&self) -> KeysIter<'a> {
        KeysIter {
            words: Words::new(self.text),
            left: self.count,
        }
    }
}

impl<'a> IntoIterator for Keys<'a> {
    type Item = &'a [u8];
    type IntoIter = KeysIter<'a>;

    fn into_iter(self) -> KeysIter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &Keys<'a> {
    type Item = &'a [u8];
    type IntoIter = KeysIter<'a>;

    fn into_iter(self) -> KeysIter<'a> {
        self.iter()
    }
}

/// Iterator over [`Keys`].
#[derive(Clone, Debug)]
pub struct KeysIter<'a> {
    words: Words<'a>,
    left: usize,
}

impl<'a> Iterator for KeysIter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let key = self.words.next()?;
        self.left -= 1;
        Some(key)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for KeysIter<'_> {}
