//! A client's leases as the exhaustive model keeps them: small, without what decides nothing, and the
//! same for clients that cannot be told apart by anything they will ever do.
//!
//! Numbers only order what the client did. One that belongs to a request (of a ticket that is out, or of the
//! one that brought a lease) is compared with others of reads and with the *marks*: what was noted of
//! writes, epochs, entries that were dropped and answers that were shown. Marks are never compared with
//! each other but to take the greater one. So each read's number may be replaced by its rank among them,
//! and each mark by the number of reads that it is not older than: every comparison keeps its result, and
//! those with numbers to come do, because they are above all.

use super::marks::PAIR_CLASSES;
use super::*;
use core::num::NonZeroU64;

/// [`ClientLeases`] in canonical form, without the tables of marks that are mostly empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Canonical {
    entries: Vec<Entry>,
    epoch: Epoch,
    /// In the order of the fields of [`ClientLeases`].
    marks: [u64; 2],
    /// Of each table: class and mark, those that are not older than any read.
    tables: [Vec<(usize, u64)>; 3],
    kept_bytes: usize,
    number: u64,
}

/// Rank of a read's number, or of a mark.
struct Ranks(Vec<u64>);

impl Ranks {
    /// Even for numbers of reads and odd between them.
    fn of(&self, number: u64) -> u64 {
        match self.0.binary_search(&number) {
            Ok(i) => 2 * i as u64 + 2,
            Err(i) => 2 * i as u64 + 1,
        }
    }
}

/// Older than every read: as good as never.
const OLDEST: u64 = 1;

impl Canonical {
    /// Replaces the numbers in the tickets that are out, too.
    pub(crate) fn new<'t>(
        mut leases: ClientLeases,
        now: Instant,
        reads: impl Iterator<Item = &'t mut ReadTicket>,
        writes: impl Iterator<Item = &'t mut WriteTicket>,
    ) -> Self {
        let numbers_of_reads = reads.map(|ticket| &mut ticket.number);
        let mut writes: Vec<_> = writes.collect();
        let mut tickets: Vec<_> = numbers_of_reads.collect();
        let numbers_of_writes = writes.iter().map(|ticket| ticket.number.get());
        let reads = tickets
            .iter()
            .map(|number| **number)
            .chain(numbers_of_writes);
        let granted = leases.entries.iter().filter(|e| e.is_leased(now));
        let mut ranked: Vec<u64> = reads.chain(granted.map(|e| e.granted)).collect();
        ranked.sort_unstable();
        ranked.dedup();
        let ranks = Ranks(ranked);
        for number in &mut tickets {
            **number = ranks.of(**number);
        }
        for ticket in &mut writes {
            let rank = ranks.of(ticket.number.get());
            ticket.number = NonZeroU64::new(rank).expect("ranks begin with one");
        }
        for entry in &mut leases.entries {
            // A lease that is over is replaced by any that comes.
            if !entry.is_leased(now) {
                (entry.lease_until, entry.granted, entry.gamma) = (NEVER, 0, 0);
            } else {
                entry.granted = ranks.of(entry.granted);
            }
            entry.learned = ranks.of(entry.learned);
            entry.overtaken = ranks.of(entry.overtaken);
            entry.fence = ranks.of(entry.fence);
            // The model sets the turn before each read, and ages are statistics.
            (entry.turn, entry.gave, entry.as_of) = (0, false, UNKNOWN);
            // It sends no touches.
            entry.granted_whole = 0;
        }
        let table = |numbers: &[u64]| {
            let marks = numbers.iter().map(|&number| ranks.of(number)).enumerate();
            marks.filter(|(_, mark)| *mark > OLDEST).collect()
        };
        Canonical {
            epoch: leases.epoch,
            marks: [ranks.of(leases.epoch_began), ranks.of(leases.voided)],
            tables: [
                table(&leases.voided_in_class),
                table(leases.writes.marks()),
                table(&leases.shown),
            ],
            kept_bytes: leases.kept_bytes,
            number: 2 * ranks.0.len() as u64 + 1,
            entries: leases.entries,
        }
    }

    /// The client itself.
    pub(crate) fn revive(&self, mutants: &[Mutant]) -> ClientLeases {
        let mut leases = ClientLeases::new(0);
        leases.mutants = mutants.to_vec();
        leases.entries = self.entries.clone();
        leases.epoch = self.epoch;
        leases.number = self.number;
        [leases.epoch_began, leases.voided] = self.marks;
        let table = |marks: &[(usize, u64)], classes| {
            let mut numbers = vec![0; if marks.is_empty() { 0 } else { classes }];
            marks
                .iter()
                .for_each(|&(class, mark)| numbers[class] = mark);
            numbers
        };
        leases.voided_in_class = table(&self.tables[0], CLASSES);
        leases.writes = Writes::of_marks(table(&self.tables[1], PAIR_CLASSES));
        leases.kept_bytes = self.kept_bytes;
        leases.shown = table(&self.tables[2], PAIR_CLASSES);
        leases
    }
}

impl ClientLeases {
    /// γ of a key's lease; 0 if it has none.
    pub(crate) fn leased_gamma(&self, now: Instant, hash: KeyHash) -> u8 {
        let entry = self.position(hash).ok().map(|i| &self.entries[i]);
        entry.filter(|e| e.is_leased(now)).map_or(0, |e| e.gamma)
    }

    /// Makes it a copy's turn.
    pub(crate) fn set_turn(&mut self, hash: KeyHash, turn: u8) {
        if let Ok(i) = self.position(hash) {
            self.entries[i].turn = turn;
        }
    }
}

impl Canonical {
    /// Whether something is remembered of a key.
    pub(crate) fn knows(&self, hash: KeyHash) -> bool {
        self.entries.iter().any(|entry| entry.hash == hash)
    }

    /// Epoch of the map that the leases belong to.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// γ of a key's lease; 0 if it has none.
    pub(crate) fn leased_gamma(&self, now: Instant, hash: KeyHash) -> u8 {
        let entry = self.entries.iter().find(|entry| entry.hash == hash);
        entry.filter(|e| e.is_leased(now)).map_or(0, |e| e.gamma)
    }
}
