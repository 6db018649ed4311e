//! Sums over the commands of 64 groups of sessions.

use crate::record::Record;
use evenkeel_schemes::locality::Outcome;
use evenkeel_types::random::SplitMix64;

/// Groups of sessions: enough that resampling them is like resampling sessions, and few enough to be cheap.
pub(super) const GROUPS: usize = 64;

/// The sums of one group. All of them are counts or bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Group {
    /// Commands by the number of their outcome.
    pub outcomes: [u64; Outcome::ALL.len()],
    /// Commands that a server has answered, and microseconds that this took.
    pub answered: u64,
    pub latency_us: u64,
    pub bytes: u64,
    pub read_bytes: u64,
    /// Commands that carried an object, and their bytes in the direction in which it went.
    pub objects: u64,
    pub object_bytes: u64,
    /// Requests that named a key and carried no object, and their bytes.
    pub messages: u64,
    pub message_bytes: u64,
    pub pages: u64,
    pub page_commands: u64,
    pub page_requests: u64,
    /// See `keys.rs`.
    pub not_seen_shared: u64,
    pub private: u64,
    pub unseen: u64,
    pub private_racked: u64,
    pub private_here: u64,
    pub shared_racked: u64,
    pub shared_here: u64,
}

/// All groups of a pool, or of all.
#[derive(Clone, Debug)]
pub(super) struct Groups(pub [Group; GROUPS]);

impl Default for Groups {
    fn default() -> Self {
        Groups([Group::default(); GROUPS])
    }
}

/// The group of a session, or of a key that several share.
pub(crate) fn group_of(hash: u64) -> usize {
    (SplitMix64::new(hash).next_u64() % GROUPS as u64) as usize
}

impl Groups {
    /// Counts a command to its session's group.
    pub fn add(&mut self, record: &Record) {
        self.0[group_of(record.session)].add_command(record);
    }

    /// The sums of all groups, each taken this many times.
    pub fn sum(&self, times: &[u32; GROUPS]) -> Group {
        let mut sum = Group::default();
        for (group, times) in self.0.iter().zip(times) {
            sum.add(group, u64::from(*times));
        }
        sum
    }
}

impl Group {
    fn add_command(&mut self, record: &Record) {
        let (asked, answered) = (
            u64::from(record.request_bytes),
            u64::from(record.answer_bytes),
        );
        self.outcomes[usize::from(record.outcome.number())] += 1;
        if let Some(us) = record.latency() {
            self.answered += 1;
            self.latency_us += u64::from(us);
        }
        self.bytes += asked + answered;
        if record.outcome.is_read() {
            self.read_bytes += asked + answered;
        }
        if let Some(bytes) = object_bytes(record) {
            self.objects += 1;
            self.object_bytes += bytes;
        }
        if names_a_key_alone(record.outcome) {
            self.messages += 1;
            self.message_bytes += asked;
        }
    }

    pub fn add_page(&mut self, commands: u32, requests: u32) {
        self.pages += 1;
        self.page_commands += u64::from(commands);
        self.page_requests += u64::from(requests);
    }

    /// Commands in the sample, of all outcomes.
    pub fn commands(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    fn add(&mut self, other: &Group, times: u64) {
        let Group {
            outcomes,
            answered,
            latency_us,
            bytes,
            read_bytes,
            objects,
            object_bytes,
            messages,
            message_bytes,
            pages,
            page_commands,
            page_requests,
            not_seen_shared,
            private,
            unseen,
            private_racked,
            private_here,
            shared_racked,
            shared_here,
        } = other;
        for (sum, more) in self.outcomes.iter_mut().zip(outcomes) {
            *sum = sum.saturating_add(more.saturating_mul(times));
        }
        for (sum, more) in [
            (&mut self.answered, answered),
            (&mut self.latency_us, latency_us),
            (&mut self.bytes, bytes),
            (&mut self.read_bytes, read_bytes),
            (&mut self.objects, objects),
            (&mut self.object_bytes, object_bytes),
            (&mut self.messages, messages),
            (&mut self.message_bytes, message_bytes),
            (&mut self.pages, pages),
            (&mut self.page_commands, page_commands),
            (&mut self.page_requests, page_requests),
            (&mut self.not_seen_shared, not_seen_shared),
            (&mut self.private, private),
            (&mut self.unseen, unseen),
            (&mut self.private_racked, private_racked),
            (&mut self.private_here, private_here),
            (&mut self.shared_racked, shared_racked),
            (&mut self.shared_here, shared_here),
        ] {
            *sum = sum.saturating_add(more.saturating_mul(times));
        }
    }
}

/// Bytes that an object took on the wire: the answer of a get that found it, the request of a command that stored it.
pub(crate) fn object_bytes(record: &Record) -> Option<u64> {
    match record.outcome {
        Outcome::GetHit => Some(record.answer_bytes.into()),
        Outcome::SetHit
        | Outcome::AddHit
        | Outcome::ReplaceHit
        | Outcome::AppendHit
        | Outcome::CasStored => Some(record.request_bytes.into()),
        _ => None,
    }
}

/// Whether its request is a key and next to nothing besides: how large a message about a key is.
fn names_a_key_alone(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::GetHit | Outcome::GetMiss | Outcome::DeleteHit | Outcome::DeleteMiss
    )
}
