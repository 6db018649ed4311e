//! Whose a key is: `ps` and `ps_rack`.
//!
//! `ps` is the share of the commands of pages whose key one session alone used, in all of the profile (the paper's section 2.3: how many
//! requests of a page "are for data pertinent only to that session"). It is weighed by commands, as the paper weighs: a key that is asked
//! for a thousand times counts a thousand times, so that two keys, one of a session and one of all, asked for once on each page, give
//! 0.5.
//!
//! If all is recorded, this is a matter of counting. If not, neither sample says it alone: in the pages' sample a key looks as if fewer
//! sessions used it, and in the keys' sample a hot shared key is there or is not by chance, which bends the share by all of its commands.
//! So each says what it knows:
//!
//! * In the pages' sample a command is *seen shared* if a page of another session in this sample used its key. Hot keys all are. Their
//!   share of the sample's commands is `a`: all of them less those whose key one session used, which are counted by keys that are
//!   followed.
//! * Of the rest, the keys' sample knows which belong to one session, for it has all commands of its keys. Its commands are counted by
//!   the same rule: those whose key a page of another session in the pages' sample used are left out. Of what is left a share `b` has
//!   keys that one session used.
//! * `ps = (1 − a) · b`. Where both samples are all, `b` is 1 and `1 − a` is what is counted.
//!
//! `ps_rack` is the share of commands whose key was last written from the rack that they come from: what is near if an item is kept where
//! it was written. A key that was not written yet counts to the rack that first used it, since a get that misses is mostly followed by a
//! store. A write, a delete among them, is judged by the write before it. It is counted in the keys' sample in the order of the file,
//! apart for keys of one session and for shared ones, and both are weighed by `ps`. Of a small sample it depends on which hot keys are in
//! it, and its spread is wide.
//!
//! The keys of different pools are different keys.

use super::groups::{Groups, group_of};
use crate::followed::Followed;
use crate::record::{Flags, NO_RACK, Record};
use evenkeel_schemes::locality::Outcome;

/// Most keys that are followed at once, of all pools. About 64 bytes each, and half of the table may be empty: some 130 MiB.
pub const KEYS_MAX: usize = 1 << 20;

/// How a key was used.
#[derive(Clone, Copy, Debug, Default)]
struct Key {
    of_pages: Users,
    of_keys: Users,
    /// Of the commands in the keys' sample, those of the session that the pages' sample saw first.
    first_seen: u32,
    /// Of them, those whose rack is known, and those that came from the rack of the last write.
    racked: u32,
    here: u32,
    /// Rack of the last write, or of the first use. Only if something is racked.
    rack: u8,
}

/// Which sessions used a key, as far as one sample shows.
#[derive(Clone, Copy, Debug, Default)]
struct Users {
    commands: u32,
    /// The first of them.
    session: u64,
    /// There are others.
    is_shared: bool,
}

impl Users {
    fn add(&mut self, session: u64) {
        if self.commands == 0 {
            self.session = session;
        }
        self.is_shared |= session != self.session;
        self.commands = self.commands.saturating_add(1);
    }

    /// The group to which a key of the keys' sample counts.
    fn group(&self, hash: u64) -> usize {
        group_of(if self.is_shared { hash } else { self.session })
    }
}

/// All keys that are followed.
#[derive(Debug)]
pub(super) struct Keys(Followed<(u8, u64), Key>);

impl Keys {
    pub fn new(keys_max: usize) -> Self {
        Keys(Followed::new(keys_max))
    }

    /// How many were seen for each that is followed.
    pub fn one_of(&self) -> u64 {
        self.0.one_of()
    }

    pub fn add(&mut self, record: &Record) {
        // A flush has no key.
        if record.outcome == Outcome::Flush {
            return;
        }
        let Some(key) = self.0.follow((record.pool, record.key)) else {
            return;
        };
        if record.flags.has(Flags::OF_PAGES) {
            key.of_pages.add(record.session);
        }
        if record.flags.has(Flags::OF_KEYS) {
            key.add_of_keys(record);
        }
    }

    /// Adds what is known of keys to the groups of all pools and of each. What one session used counts to that session's; a shared key of
    /// the keys' sample to one of its own, for there it is keys that are drawn by chance.
    pub fn put_into(&self, parts: &mut [Groups]) {
        for (&(pool, hash), key) in self.0.iter() {
            for section in [0, usize::from(pool) + 1] {
                if let Some(groups) = parts.get_mut(section) {
                    key.put_into(hash, self.one_of(), groups);
                }
            }
        }
    }
}

impl Key {
    fn add_of_keys(&mut self, record: &Record) {
        self.of_keys.add(record.session);
        if self.of_pages.commands > 0 && record.session == self.of_pages.session {
            self.first_seen = self.first_seen.saturating_add(1);
        }
        if record.own_rack == NO_RACK {
            return;
        }
        if self.racked == 0 {
            self.rack = record.own_rack;
        }
        self.racked = self.racked.saturating_add(1);
        let is_here = u32::from(self.rack == record.own_rack);
        self.here = self.here.saturating_add(is_here);
        if writes(record.outcome) {
            self.rack = record.own_rack;
        }
    }

    fn put_into(&self, hash: u64, one_of: u64, groups: &mut Groups) {
        let Key {
            of_pages, of_keys, ..
        } = self;
        if !of_pages.is_shared {
            let group = &mut groups.0[group_of(of_pages.session)];
            let commands = u64::from(of_pages.commands).saturating_mul(one_of);
            group.not_seen_shared = group.not_seen_shared.saturating_add(commands);
        }
        let group = &mut groups.0[of_keys.group(hash)];
        if of_keys.is_shared {
            group.unseen += u64::from(match of_pages {
                Users { commands: 0, .. } => of_keys.commands,
                Users {
                    is_shared: false, ..
                } => self.first_seen,
                Users {
                    is_shared: true, ..
                } => 0,
            });
            group.shared_racked += u64::from(self.racked);
            group.shared_here += u64::from(self.here);
        } else {
            group.private += u64::from(of_keys.commands);
            group.unseen += u64::from(of_keys.commands);
            group.private_racked += u64::from(self.racked);
            group.private_here += u64::from(self.here);
        }
    }
}

/// Whether it changed what is there.
fn writes(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::SetHit
            | Outcome::AddHit
            | Outcome::ReplaceHit
            | Outcome::DeleteHit
            | Outcome::IncrHit
            | Outcome::DecrHit
            | Outcome::AppendHit
            | Outcome::CasStored
    )
}
