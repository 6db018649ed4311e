//! Lists of every item: `lru_crawler metadump|mgdump`, `stats cachedump`, `stats sizes`.
//!
//! A list may be as long as the memory, so it is made in steps. The command stays at the front of its
//! connection's input and is shown again as long as there is room for more output (as a multi-get
//! is); the connection keeps where the walk has come to. A step asks one worker for some shards of
//! one cachelet's index: here at once, elsewhere by a message, and the connection waits for the
//! answer. A client that does not read is left where it is until it is closed for making no
//! progress. Items that come and go during the walk may be shown or not; others are shown once.

use crate::shard::classes::class_of;
use crate::shard::engine::{Engine, shown_cas};
use crate::shard::time::{NEVER, TimeBase};
use evenkeel_protocol::admin::{Classes, DumpForm};
use evenkeel_protocol::{base64, text};
use evenkeel_storage::{Item, WalkCursor};
use evenkeel_types::uri_encode;
use evenkeel_types::{CacheletId, Now};
use std::collections::BTreeMap;
use std::io::Write;

/// A step ends once it has this many bytes of output. What a shard adds at most, some hundred items
/// of a kilobyte, comes on top.
const STEP_BYTES: usize = 64 << 10;

/// Most shards, of some hundred items each, that a step looks at.
const STEP_SHARDS: usize = 32;

/// Items of one line of the histogram of `stats sizes` differ by less than this, in bytes.
const SIZE_STEP: usize = 32;

/// What a list shows of each item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListForm {
    /// `lru_crawler metadump` or `mgdump`.
    Dump(DumpForm),
    /// `stats cachedump`.
    Cachedump,
    /// `stats sizes`: how many there are of each size.
    Sizes,
}

/// Where a list has come to, and what is wanted of the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListStep {
    pub(crate) form: ListForm,
    pub(crate) classes: Classes,
    /// Most items that are still to be shown.
    pub(crate) left: u64,
    /// The worker whose items are shown.
    pub(crate) worker: u16,
    /// Where to go on there; `None` when it has no more.
    pub(crate) at: Option<(CacheletId, WalkCursor)>,
}

/// A connection's list.
#[derive(Debug)]
pub struct Listing {
    pub(crate) step: ListStep,
    /// Bytes shown.
    pub(crate) bytes: usize,
    /// `stats sizes`: number of items by size.
    pub(crate) sizes: BTreeMap<u64, u64>,
}

/// The start of a worker's items.
pub(crate) const START: Option<(CacheletId, WalkCursor)> = Some((CacheletId(0), WalkCursor::START));

/// One step at the worker that has the items. Gives where it has come to.
pub fn list_share(engine: &Engine, mut step: ListStep, now: Now, out: &mut Vec<u8>) -> ListStep {
    let seconds = TimeBase::seconds(now);
    let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
    for _ in 0..STEP_SHARDS {
        let Some((cachelet, cursor)) = step.at.filter(|_| out.len() < STEP_BYTES) else {
            break;
        };
        let next = engine.store.walk(cachelet, cursor, seconds, |item| {
            if step.left == 0 || !step.classes.contains(class_of(item.size())) {
                return;
            }
            step.left -= 1;
            match step.form {
                ListForm::Dump(DumpForm::Meta) => metadump_line(engine, &item, out),
                ListForm::Dump(DumpForm::MetaGet) => mgdump_line(item.key(), out),
                ListForm::Cachedump => cachedump_line(engine, &item, out),
                ListForm::Sizes => {
                    let size = item.size().next_multiple_of(SIZE_STEP) as u64;
                    *sizes.entry(size).or_default() += 1;
                }
            }
        });
        step.at = match next {
            Some(cursor) => Some((cachelet, cursor)),
            None => engine
                .store
                .cachelet_ids()
                .filter(|id| *id > cachelet)
                .min()
                .map(|id| (id, WalkCursor::START)),
        };
    }
    for number in sizes.into_iter().flat_map(|(size, count)| [size, count]) {
        out.extend_from_slice(&number.to_le_bytes());
    }
    step
}

impl Listing {
    /// A step was made: `step` is where it has come to. Gives what is to be shown.
    pub fn advance<'b>(&mut self, step: ListStep, bytes: &'b [u8]) -> &'b [u8] {
        self.step = step;
        if step.form != ListForm::Sizes {
            self.bytes += bytes.len();
            return bytes;
        }
        let mut numbers = bytes
            .chunks_exact(8)
            .map(|number| number.try_into().map_or(0, u64::from_le_bytes));
        while let (Some(size), Some(count)) = (numbers.next(), numbers.next()) {
            *self.sizes.entry(size).or_default() += count;
        }
        b""
    }
}

/// Writing into memory cannot fail, so the results below carry nothing.
fn metadump_line(engine: &Engine, item: &Item<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"key=");
    uri_encode(item.key(), out);
    let exp = match item.expires_at() {
        NEVER => -1,
        at => engine.time.unix(at),
    };
    let _ = writeln!(
        out,
        " exp={exp} la={} cas={} fetch={} cls={} size={} flags={} ",
        engine.time.unix(item.last_access()),
        shown_cas(engine.cas_shown, item.version()),
        if item.fetched() { "yes" } else { "no" },
        class_of(item.size()),
        item.size(),
        item.flags()
    );
}

/// A key that would not be one word in the text protocol goes in base64, as it may have come.
fn mgdump_line(key: &[u8], out: &mut Vec<u8>) {
    let plain = key.iter().all(|&byte| byte > b' ' && byte != 0x7f);
    out.extend_from_slice(b"mg ");
    if plain {
        out.extend_from_slice(key);
    } else {
        base64::encode(key, out);
        out.extend_from_slice(b" b");
    }
    out.extend_from_slice(text::CRLF);
}

fn cachedump_line(engine: &Engine, item: &Item<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"ITEM ");
    out.extend_from_slice(item.key());
    let exp = match item.expires_at() {
        NEVER => 0,
        at => engine.time.unix(at),
    };
    let _ = write!(out, " [{} b; {exp} s]\r\n", item.value().len());
}
