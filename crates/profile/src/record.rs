//! What is recorded of one key of one command.

use crate::lifetime::Lifetime;
use evenkeel_schemes::locality::Outcome;

/// Bytes of a record.
pub const RECORD_LEN: usize = 48;

/// A rack that is not known. Racks are numbered as in the head.
pub const NO_RACK: u8 = u8::MAX;

/// The latency of a command that no server has answered.
pub const NO_LATENCY: u32 = u32::MAX;

const TIME_BITS: u32 = 64 - Lifetime::BITS;
const CLIENT_BITS: u32 = 24;

/// One key of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was answered: microseconds since 1970, 52 bits of them.
    pub unix_us: u64,
    /// How long the item is to live; of commands that store or prolong.
    pub lifetime: Lifetime,
    /// XXH3 of the key as servers know it (64 bits, seed 0).
    pub key: u64,
    /// XXH3 of the session's name, or of where the client's connection comes from.
    pub session: u64,
    /// Page of the session: its name's hash, or its number.
    pub page: u32,
    /// Hash of where the connection comes from, 24 bits of it.
    pub client: u32,
    /// Position of the pool in the head; of those beyond 255 the last.
    pub pool: u8,
    /// Bytes of the request for this key, as the server was sent it; of a line for several keys the key and a space. 0 where no server has answered.
    pub request_bytes: u32,
    /// Bytes of the answer for this key, as the application was sent it, without the `END` of gets.
    pub answer_bytes: u32,
    /// Microseconds from when it was asked for the first time to the server's answer, or [`NO_LATENCY`].
    pub latency_us: u32,
    /// Rack of the client's side: the proxy's. [`NO_RACK`] if it has none.
    pub own_rack: u8,
    /// Rack of the server that answered. [`NO_RACK`] if it has none.
    pub answering_rack: u8,
    /// What was asked, and what came of it.
    pub outcome: Outcome,
    /// More about it.
    pub flags: Flags,
}

/// More about a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// A replica of a hot key answered.
    pub const REPLICA: Flags = Flags(1);
    /// A copy of the item answered.
    pub const COPY: Flags = Flags(2);
    /// It was put to a server more than once.
    pub const RETRIED: Flags = Flags(4);
    /// It is in the sample of pages.
    pub const OF_PAGES: Flags = Flags(8);
    /// It is in the sample of keys.
    pub const OF_KEYS: Flags = Flags(16);

    /// Both.
    #[must_use]
    pub fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// These, if it is so.
    #[must_use]
    pub fn when(self, is_so: bool) -> Flags {
        if is_so { self } else { Flags(0) }
    }

    /// Whether all of the other's are among these.
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// No outcome has this number.
    Outcome(u8),
}

impl core::fmt::Display for RecordError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            RecordError::Outcome(number) => write!(f, "no outcome has the number {number}"),
        }
    }
}

impl core::error::Error for RecordError {}

impl Record {
    /// As it is written: numbers are little endian.
    pub fn to_bytes(&self) -> [u8; RECORD_LEN] {
        let time =
            self.unix_us & ((1 << TIME_BITS) - 1) | u64::from(self.lifetime.to_bits()) << TIME_BITS;
        let client = self.client & ((1 << CLIENT_BITS) - 1) | u32::from(self.pool) << CLIENT_BITS;
        let mut bytes = [0; RECORD_LEN];
        bytes[0..8].copy_from_slice(&time.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.key.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.session.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.page.to_le_bytes());
        bytes[28..32].copy_from_slice(&client.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.request_bytes.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.answer_bytes.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.latency_us.to_le_bytes());
        bytes[44] = self.own_rack;
        bytes[45] = self.answering_rack;
        bytes[46] = self.outcome.number();
        bytes[47] = self.flags.0;
        bytes
    }

    /// Reads what [`Record::to_bytes`] has written.
    ///
    /// # Errors
    /// A number that no outcome has.
    pub fn of_bytes(bytes: &[u8; RECORD_LEN]) -> Result<Self, RecordError> {
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let (time, client) = (u64_at(0), u32_at(28));
        Ok(Record {
            unix_us: time & ((1 << TIME_BITS) - 1),
            lifetime: Lifetime::of_bits((time >> TIME_BITS) as u16),
            key: u64_at(8),
            session: u64_at(16),
            page: u32_at(24),
            client: client & ((1 << CLIENT_BITS) - 1),
            pool: (client >> CLIENT_BITS) as u8,
            request_bytes: u32_at(32),
            answer_bytes: u32_at(36),
            latency_us: u32_at(40),
            own_rack: bytes[44],
            answering_rack: bytes[45],
            outcome: Outcome::from_number(bytes[46]).ok_or(RecordError::Outcome(bytes[46]))?,
            flags: Flags(bytes[47]),
        })
    }

    /// Microseconds until it was answered; `None` if no server has.
    pub fn latency(&self) -> Option<u32> {
        (self.latency_us != NO_LATENCY).then_some(self.latency_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_types::random::SplitMix64;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut random = SplitMix64::new(7);
        for round in 0..1000 {
            let record = Record {
                unix_us: random.next_u64() >> Lifetime::BITS,
                lifetime: match round % 3 {
                    0 => Lifetime::FOREVER,
                    _ => Lifetime::of_seconds(random.next_u64() as u32),
                },
                key: random.next_u64(),
                session: random.next_u64(),
                page: random.next_u64() as u32,
                client: random.next_u64() as u32 >> 8,
                pool: random.next_u64() as u8,
                request_bytes: random.next_u64() as u32,
                answer_bytes: random.next_u64() as u32,
                latency_us: random.next_u64() as u32,
                own_rack: random.next_u64() as u8,
                answering_rack: random.next_u64() as u8,
                outcome: Outcome::ALL[round % Outcome::ALL.len()],
                flags: Flags::COPY.and(Flags::OF_KEYS.when(round % 2 == 0)),
            };
            assert_eq!(Record::of_bytes(&record.to_bytes()), Ok(record));
        }
    }

    #[test]
    fn any_bytes_are_a_record_or_none() {
        let mut random = SplitMix64::new(8);
        for _ in 0..10_000 {
            let mut bytes = [0; RECORD_LEN];
            bytes.fill_with(|| random.next_u64() as u8);
            match Record::of_bytes(&bytes) {
                Ok(record) => {
                    let again = Record::of_bytes(&record.to_bytes());
                    assert_eq!(again, Ok(record));
                }
                Err(RecordError::Outcome(number)) => assert_eq!(number, bytes[46]),
            }
        }
    }
}
