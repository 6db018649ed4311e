//! What a profile says: the quantities of the paper's Figure 2, and more.
//!
//! A [`Report`] is told record after record and keeps sums, so that a profile may be longer than memory. What is kept for each key and for
//! each page is bounded ([`KEYS_MAX`], [`PAGES_MAX`]): beyond that a part of them is followed (`followed.rs`), and the summary says so.
//!
//! **Which sample says what.** What a command is, how large and how fast, is counted in the sample of pages, or, if there is none, in
//! that of keys; a sample of keys has the hottest key a hundred times or not at all. Whose a key is, is counted over both samples
//! (`keys.rs`).
//!
//! **How sure it is.** All sums are kept for 64 groups of sessions. The spread of a quantity is that of 100 resamples of the groups
//! (bootstrap): sessions are what is independent, not commands. It does not know of what no resample shows: hours that were not recorded.
//!
//! Rejected: histograms of latencies for each group, which take a hundred times the memory of some drawn by chance (`network.rs`).

mod groups;
mod keys;
mod measured;
mod network;
mod remarks;
mod summary;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use groups::{group_of, object_bytes};
pub use keys::KEYS_MAX;
pub use measured::Measured;
pub use summary::{Distance, Figure, RackLatency, Section, Share, Summary};

use crate::followed::Followed;
use crate::head::Head;
use crate::record::{Flags, Record};
use groups::Groups;
use keys::Keys;
use measured::Sums;
use network::Latencies;
use remarks::{OneOf, Seen};

/// Most pages that are followed at once, of all pools. 32 bytes each, and half of the table may be empty: some 66 MiB.
pub const PAGES_MAX: usize = 1 << 20;

/// Most sessions that are followed at once, which takes half of that.
const SESSIONS_MAX: usize = 1 << 20;

/// The section of all pools; that of a pool is its number and one.
const ALL: u16 = 0;

/// A page as far as it was seen.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    commands: u32,
    requests: u32,
    /// When the last get was answered, and one: gets of one request are answered together.
    last_get_us: u64,
}

/// What is summed up for all pools, or for one.
#[derive(Debug, Default)]
struct Part {
    groups: Groups,
    latencies: Latencies,
}

/// Sums over the records of a profile.
#[derive(Debug)]
pub struct Report {
    head: Head,
    /// All pools, and then each if there are several.
    parts: Vec<Part>,
    keys: Keys,
    pages: Followed<(u16, u64, u32), Page>,
    sessions: Followed<(u16, u64), ()>,
    seen: Seen,
}

impl Report {
    /// Nothing yet of a profile with this head.
    pub fn new(head: Head) -> Self {
        Self::bounded(head, KEYS_MAX, PAGES_MAX)
    }

    fn bounded(head: Head, keys_max: usize, pages_max: usize) -> Self {
        let pools = head.pools.len();
        let parts = if pools > 1 { 1 + pools } else { 1 };
        Report {
            head,
            parts: (0..parts).map(|_| Part::default()).collect(),
            keys: Keys::new(keys_max),
            pages: Followed::new(pages_max),
            sessions: Followed::new(SESSIONS_MAX),
            seen: Seen::default(),
        }
    }

    /// Takes a record. O(1), but O(keys) when the followed ones are halved.
    pub fn add(&mut self, record: &Record) {
        self.seen.note(record, &self.head);
        self.keys.add(record);
        let distance = network::distance(record, &self.head.racks);
        let sections = [ALL, u16::from(record.pool) + 1];
        for section in sections {
            let Some(part) = self.parts.get_mut(usize::from(section)) else {
                continue;
            };
            part.latencies.add(record, distance);
            if !record.flags.has(sample_of_commands(&self.head)) {
                continue;
            }
            part.groups.add(record);
            self.sessions.follow((section, record.session));
            // Of other pages some commands are missing.
            let is_whole = record.flags.has(Flags::OF_PAGES);
            let page = (section, record.session, record.page);
            if let Some(page) = is_whole.then(|| self.pages.follow(page)).flatten() {
                page.add(record);
            }
        }
    }

    /// Everything that the records said so far. O(keys + pages + sessions).
    pub fn summary(&self) -> Summary {
        let mut groups: Vec<Groups> = self.parts.iter().map(|part| part.groups.clone()).collect();
        self.keys.put_into(&mut groups);
        for (&(section, session, _), page) in self.pages.iter() {
            if let Some(groups) = groups.get_mut(usize::from(section)) {
                groups.0[group_of(session)].add_page(page.commands, page.requests);
            }
        }
        let sections = groups.iter().enumerate().map(|(section, groups)| {
            let sums = Sums {
                groups,
                latencies: self.parts[section].latencies.sorted(),
                sampling: self.head.sampling,
            };
            let sessions = self.sessions.iter().map(|((of, _), ())| *of);
            let pages = self.pages.iter().map(|((of, ..), _)| *of);
            let count = |all: &mut dyn Iterator<Item = u16>| {
                all.filter(|of| usize::from(*of) == section).count() as u64
            };
            let sessions = count(&mut { sessions }).saturating_mul(self.sessions.one_of());
            let pages = count(&mut { pages }).saturating_mul(self.pages.one_of());
            summary::section(self.name(section), &sums, (sessions, pages), &self.head)
        });
        let sections: Vec<Section> = sections.collect();
        let one_of = OneOf {
            keys: self.keys.one_of(),
            pages: self.pages.one_of(),
        };
        Summary {
            proxy: self.head.proxy.clone(),
            sampling: self.head.sampling,
            records: self.seen.records,
            seconds: self.seen.seconds(),
            remarks: self.seen.remarks(&self.head, one_of, &sections[0]),
            sections,
        }
    }
}

impl Report {
    /// The pool of a section; `None` for all of several.
    fn name(&self, section: usize) -> Option<String> {
        let pools = &self.head.pools;
        match section.checked_sub(1) {
            Some(pool) => pools.get(pool).cloned(),
            None if pools.len() == 1 => pools.first().cloned(),
            None => None,
        }
    }
}

impl Page {
    fn add(&mut self, record: &Record) {
        self.commands = self.commands.saturating_add(1);
        let at = record.unix_us + 1;
        let goes_on = record.outcome.is_read() && self.last_get_us == at;
        self.requests = self.requests.saturating_add(u32::from(!goes_on));
        if record.outcome.is_read() {
            self.last_get_us = at;
        }
    }
}

/// The sample in which commands are counted.
fn sample_of_commands(head: &Head) -> Flags {
    match head.sampling.pages {
        0 => Flags::OF_KEYS,
        _ => Flags::OF_PAGES,
    }
}
