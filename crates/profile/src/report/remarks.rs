//! What a profile cannot say, in words.

use super::summary::Section;
use crate::head::Head;
use crate::record::{Flags, NO_RACK, Record};

/// Times of records that several workers write are never in perfect order. Beyond this they say that parts of the file are.
const BACKWARDS_MAX_US: u64 = 1_000_000;

/// What is seen of the records as such.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub records: u64,
    first_us: u64,
    last_us: u64,
    backwards_us: u64,
    of_pages: u64,
    of_keys: u64,
    with_session: u64,
    with_rack: u64,
    /// Bit by number: racks that commands came from.
    own_racks: u128,
    of_unknown_pool: u64,
}

impl Seen {
    pub fn note(&mut self, record: &Record, head: &Head) {
        if self.records == 0 {
            (self.first_us, self.last_us) = (record.unix_us, record.unix_us);
        }
        self.records += 1;
        self.first_us = self.first_us.min(record.unix_us);
        self.backwards_us = self
            .backwards_us
            .max(self.last_us.saturating_sub(record.unix_us));
        self.last_us = self.last_us.max(record.unix_us);
        self.of_pages += u64::from(record.flags.has(Flags::OF_PAGES));
        self.of_keys += u64::from(record.flags.has(Flags::OF_KEYS));
        self.with_session += u64::from(has_session(record));
        if usize::from(record.own_rack) < head.racks.len() {
            self.with_rack += u64::from(record.answering_rack != NO_RACK);
            self.own_racks |= 1u128.checked_shl(record.own_rack.into()).unwrap_or(0);
        }
        let pools = head.pools.len();
        self.of_unknown_pool += u64::from(usize::from(record.pool) >= pools);
    }

    pub fn seconds(&self) -> f64 {
        (self.last_us - self.first_us) as f64 / 1e6
    }
}

/// Whether the application named the session: else it is the whole of the hash of where the client comes from, of which 24 bits are in
/// the record.
fn has_session(record: &Record) -> bool {
    record.session & 0xff_ffff != u64::from(record.client)
}

/// What is followed: one of this many keys, and one of this many pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct OneOf {
    pub keys: u64,
    pub pages: u64,
}

impl Seen {
    /// A sentence for each thing. `all` is the section of all pools.
    pub fn remarks(&self, head: &Head, one_of: OneOf, all: &Section) -> Vec<String> {
        if self.records == 0 {
            return vec!["there are no records: nothing is known".to_owned()];
        }
        let mut remarks = self.of_samples(head, all);
        remarks.extend(self.of_sessions(all));
        remarks.extend(self.of_racks(head, all));
        remarks.extend(self.of_bounds(one_of));
        remarks
    }

    /// What is not known since it was not recorded.
    fn of_samples(&self, head: &Head, all: &Section) -> Vec<String> {
        let mut remarks = Vec::new();
        if all.hits.is_some_and(|hits| hits.value == 0.0) {
            remarks.push(
                "no get found anything: the size of objects is that of stores alone".to_owned(),
            );
        }
        if self.of_pages == 0 {
            remarks.push(
                "no pages were recorded: their size is not known, and commands are those of the keys' sample, in which hot keys are there by chance"
                    .to_owned(),
            );
        }
        if self.of_keys == 0 && head.sampling.pages != 1 {
            remarks.push("no keys were recorded: ps and ps_rack are not known".to_owned());
        }
        if self.of_unknown_pool > 0 {
            remarks.push(format!(
                "{} records are of pools that the head does not name",
                self.of_unknown_pool
            ));
        }
        remarks
    }

    /// Who the sessions are.
    fn of_sessions(&self, all: &Section) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.with_session == 0 {
            remarks.push(
                "no session was named: sessions are clients' addresses, and pages are what lies between pauses of 50 ms"
                    .to_owned(),
            );
        } else if self.with_session < self.records {
            let named = self.with_session as f64 / self.records as f64 * 100.0;
            remarks.push(format!(
                "{named:.0} % of the commands have a session that was named; those of others are clients' addresses"
            ));
        }
        if all.sessions == 1 {
            remarks.push(
                "there is one session: every key is its own, and there is no spread".to_owned(),
            );
        }
        remarks
    }

    /// What is not known of racks and distances.
    fn of_racks(&self, head: &Head, all: &Section) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.with_rack == 0 {
            remarks.push(
                "no racks are known: neither is ps_rack, nor what a switch costs; latencies are those of all servers"
                    .to_owned(),
            );
            return remarks;
        }
        if self.with_rack < self.records {
            let known = self.with_rack as f64 / self.records as f64 * 100.0;
            remarks.push(format!(
                "both racks are known of {known:.0} % of the commands"
            ));
        }
        if self.own_racks.count_ones() == 1 {
            let name = &head.racks[self.own_racks.trailing_zeros() as usize].name;
            remarks.push(format!(
                "all commands come from rack {name}: ps_rack is of this rack alone; give the profiles of the others, too"
            ));
        }
        if let (None, [distance]) = (all.switch_ms, &all.distances[..]) {
            let n = distance.switches;
            remarks.push(format!(
                "all commands passed {n} switch{}: base and switch cannot be told apart, and {n}·switch + base is {:.3} ms",
                if n == 1 { "" } else { "es" },
                distance.median_ms
            ));
        }
        remarks
    }

    /// What is not exact since memory is bounded, or the file is out of order.
    fn of_bounds(&self, one_of: OneOf) -> Vec<String> {
        let mut remarks = Vec::new();
        for (what, one_of) in [("keys", one_of.keys), ("pages", one_of.pages)] {
            if one_of > 1 {
                remarks.push(format!(
                    "there are too many {what} to follow: one of {one_of} is"
                ));
            }
        }
        if self.backwards_us > BACKWARDS_MAX_US {
            remarks.push(format!(
                "times run backwards by up to {:.1} s: ps_rack goes by the order of the records",
                self.backwards_us as f64 / 1e6
            ));
        }
        remarks
    }
}
