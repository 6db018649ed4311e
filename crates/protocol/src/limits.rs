//! Limits of the wire format. Each is what bounds the memory or the work one message can cost.

/// Longest key, in bytes, as it stands in the protocol (memcached `KEY_MAX_LENGTH`). A base64 key
/// must keep to it in its encoded form, as in memcached.
pub const KEY_LEN_MAX: usize = evenkeel_types::limits::KEY_LEN_MAX;

/// Longest request line without its newline, in bytes, except for the `get` family. memcached
/// closes the connection silently when this many bytes hold no newline.
pub const LINE_LEN_MAX: usize = 2048;

/// Leading spaces that a line longer than [`LINE_LEN_MAX`] may start with (memcached's value).
pub(crate) const LONG_LINE_SPACES_MAX: usize = 100;

/// Longest line of the `get` family unless configured otherwise, in bytes: a multi-get of 10,000
/// keys of 100 bytes. memcached knows no bound, so that one client can take all memory.
pub const LONG_LINE_LEN_DEFAULT: usize = 1 << 20;

/// Longest reply line, in bytes. A key of 250 bytes with all return flags is below 1 KiB; what is
/// longest are paths in `stats settings`.
pub const REPLY_LINE_LEN_MAX: usize = 8192;

/// Longest value that can be announced, in bytes: length and final CRLF fit in an `i32`, as in
/// memcached. Longer ones are not even swallowed.
pub const VALUE_LEN_MAX: i64 = i32::MAX as i64 - 2;

/// Longest opaque, in bytes, with its letter `O` (memcached `MFLAG_MAX_OPAQUE_LENGTH`).
pub const OPAQUE_LEN_MAX: usize = 32;

/// Most flags of `mg`, `md` and `ma` besides those of the extension. memcached counts words: 20,
/// among them the command, the key and an end mark (`MFLAG_MAX_OPT_LENGTH`).
pub const FLAG_COUNT_MAX: usize = 17;

/// Most flags of `ms`, which has the data length among its words.
pub const FLAG_COUNT_MAX_MS: usize = FLAG_COUNT_MAX - 1;

/// What memcached adds to key and value to get an item's size, in bytes: header 48, CAS unique 8, a
/// NUL after the key, CRLF after the value. Non-zero client flags cost 4 more.
pub const ITEM_OVERHEAD: usize = 48 + 8 + 1 + 2;

/// What non-zero client flags add to an item's size, in bytes.
pub(crate) const CLIENT_FLAGS_LEN: usize = 4;

/// Longest name of a SASL mechanism, in bytes (memcached's value).
pub const SASL_MECHANISM_LEN_MAX: usize = 32;

/// Longest token of a step of SASL, in bytes: RFC 4616 gives each of the three parts of PLAIN 255.
/// memcached takes as much as an item may have from clients that nobody knows yet.
pub const SASL_TOKEN_LEN_MAX: usize = 3 * 255 + 2;

/// Longest `user password` of text authentication, in bytes. memcached's file has lines of at most
/// 256 bytes; older versions take as much as a `set` may announce.
pub const AUTH_TOKEN_LEN_MAX: usize = 1024;

// A legal classic or meta line must always fit: command, key, and every flag at its longest.
const _: () =
    assert!(KEY_LEN_MAX + (FLAG_COUNT_MAX + 3) * (OPAQUE_LEN_MAX + 1) + 32 < LINE_LEN_MAX);
const _: () = assert!(LINE_LEN_MAX < LONG_LINE_LEN_DEFAULT && LINE_LEN_MAX < REPLY_LINE_LEN_MAX);

/// What a peer may make us buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest item in bytes, counted as memcached's `-I` counts it: key, value and
    /// [`ITEM_OVERHEAD`]. Larger ones are refused before their data is buffered.
    pub item_size_max: usize,
    /// Longest line of the `get` family in bytes; other lines have [`LINE_LEN_MAX`].
    pub line_len_max: usize,
    /// Whether a command line with a zero byte is refused: where it is passed on to a memcached, which takes the zero for the line's end
    /// and, where it refuses the rest, the data block for commands.
    pub nul_refused: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            item_size_max: evenkeel_types::limits::ITEM_SIZE_DEFAULT,
            line_len_max: LONG_LINE_LEN_DEFAULT,
            nul_refused: false,
        }
    }
}

impl Limits {
    /// Whether an item of this shape would exceed `item_size_max`.
    #[inline]
    pub fn is_too_large(&self, key_len: usize, value_len: usize, client_flags: u32) -> bool {
        let flags = if client_flags == 0 {
            0
        } else {
            CLIENT_FLAGS_LEN
        };
        value_len.saturating_add(key_len + ITEM_OVERHEAD + flags) > self.item_size_max
    }
}
