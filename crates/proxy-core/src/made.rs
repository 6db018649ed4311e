//! Counters that an arithmetic command makes where none is: `ma` with `N` and `J`, and the binary protocol's initial value. Between racks it is
//! an add that makes it, with words of its own. Pure text to text.

use crate::composed::{announced, parse_own};
use evenkeel_protocol::compose::answer::ItemFacts;
use evenkeel_protocol::compose::{answer, request as ask};
use evenkeel_protocol::{KeyScratch, Meta, MetaReply, MetaStatus, Request};
use evenkeel_types::Version;

/// What an arithmetic command makes of nothing.
pub(crate) struct Made<'q> {
    meta: Meta<'q>,
    /// Its digits.
    value: itoa::Buffer,
    initial: u64,
    exptime: i64,
}

impl<'q> Made<'q> {
    /// What a command makes of nothing, if it makes anything.
    pub fn of(question: &'q [u8]) -> Option<Self> {
        let Some(Request::MetaArithmetic(meta)) = parse_own(question) else {
            return None;
        };
        Some(Made {
            exptime: {
                let made = meta.flags.exptime(b'N')?;
                meta.flags.exptime(b'T').unwrap_or(made)
            },
            initial: meta.flags.unsigned(b'J').unwrap_or(0),
            value: itoa::Buffer::new(),
            meta,
        })
    }

    /// Appends the store that makes it, in place of what has this unique.
    pub fn store(&mut self, out: &mut Vec<u8>, unique: u64) {
        let value = self.value.format(self.initial).as_bytes();
        let key = self.meta.key;
        let line = announced(ask::meta_set(out, key, value.len()), key).flag(b'c');
        let line = line.number(b'T', self.exptime).number(b'C', unique);
        line.end_with(value);
    }

    /// Appends what the command is answered when it was made, as this reply says.
    pub fn answer(&mut self, out: &mut Vec<u8>, stored: &MetaReply<'_>) {
        let value = self.value.format(self.initial).as_bytes();
        let mut scratch = KeyScratch::default();
        let key = self.meta.key(&mut scratch);
        let facts = ItemFacts {
            version: Version(stored.flags.unsigned(b'c').unwrap_or(0)),
            ttl: u32::try_from(self.exptime).ok().filter(|ttl| *ttl > 0),
            ..ItemFacts::default()
        };
        let flags = &self.meta;
        match self.meta.flags.has(b'v') {
            true => {
                let line = answer::meta_value(out, value.len());
                answer::item_flags(line, flags, key, &facts).end_with(value);
            }
            false => {
                let line = answer::meta(out, MetaStatus::Done);
                answer::item_flags(line, flags, key, &facts).end();
            }
        }
    }
}
