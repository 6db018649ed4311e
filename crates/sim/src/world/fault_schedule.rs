//! How the network is at the moment: where hosts stand, who reaches whom, and how long it takes.
//!
//! Packets are lost and come twice; what *connections* show of that is only time, since TCP sends
//! again, in order, and drops what it has already. So a lost packet makes its bytes later by TCP's
//! timer, and no byte of a connection ever comes twice. Heartbeats are small exchanges on their own:
//! they are lost, come twice and overtake each other.

use super::report::Report;
use super::swarm::Swarm;
use super::units::MS;
use crate::history::Nanos;
use crate::random::Random;

/// How long TCP waits before it sends a lost packet again; twice as long each further time.
const RETRANSMISSION: Nanos = 200 * MS;

/// The same for the first packet of a connection.
const RETRANSMISSION_OF_CONNECT: Nanos = 1_000 * MS;

/// A packet that is lost this often in a row arrives the next time, and the first packet of a
/// connection: up to 3 s, and no longer than it may take for everything to come to rest.
const LOSSES_MAX: u32 = 4;
const LOSSES_OF_CONNECT_MAX: u32 = 2;

/// Bytes of a packet, about.
const PACKET: usize = 1460;

/// How long a byte takes on a host of 1 Mbit/s.
const NARROW_PER_BYTE: Nanos = 8_000;

/// How long a delivery takes at most once faults are over: a new connection, which takes four of them,
/// stands before proxies give it up.
const SLOW_WHEN_SETTLED: Nanos = 10 * MS;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packet {
    /// The beginning of a connection.
    Connect,
    /// This many bytes of one.
    Bytes(usize),
}

/// What is the matter with one host.
#[derive(Clone, Copy, Debug, Default)]
struct HostFaults {
    lossy_until: Nanos,
    /// Of a thousand packets.
    loss: u64,
    slow_until: Nanos,
    slow_by: Nanos,
    narrow_until: Nanos,
    duplicates_until: Nanos,
}

/// The state of the network.
#[derive(Debug)]
pub(super) struct FaultSchedule {
    hosts: usize,
    racks: usize,
    switch_latency: Nanos,
    tail: u64,
    /// Hosts from here on stand in no rack of their own: they are everywhere.
    racked: usize,
    /// Until when one host (row) does not reach another (column).
    cuts: Vec<Nanos>,
    host_faults: Vec<HostFaults>,
    /// When the last host fault ends.
    over_from: Nanos,
    /// Faults are over for good.
    settled: bool,
    /// When the newest of what one host has sent another arrives.
    newest: Vec<Nanos>,
}

impl FaultSchedule {
    /// No faults among `hosts` hosts, of which the first `racked` stand in racks.
    pub fn new(hosts: usize, racked: usize, swarm: &Swarm) -> Self {
        FaultSchedule {
            hosts,
            racks: swarm.racks,
            switch_latency: swarm.switch_latency,
            tail: swarm.tail,
            racked,
            cuts: vec![0; hosts * hosts],
            host_faults: vec![HostFaults::default(); hosts],
            over_from: 0,
            settled: false,
            newest: vec![0; hosts * hosts],
        }
    }

    /// Which rack a host stands in.
    pub fn rack(&self, host: usize) -> Option<usize> {
        (host < self.racked).then_some(host % self.racks)
    }

    /// Until when `from` does not reach `to`.
    pub fn cut_until(&self, from: usize, to: usize) -> Nanos {
        self.cuts[from * self.hosts + to]
    }

    /// `from` does not reach `to` until then.
    pub fn cut(&mut self, from: usize, to: usize, until: Nanos) {
        let cut = &mut self.cuts[from * self.hosts + to];
        *cut = until.max(*cut);
    }

    /// A host loses this many of a thousand packets until then.
    pub fn lose(&mut self, host: usize, loss: u64, until: Nanos) {
        self.over_from = self.over_from.max(until);
        let faults = &mut self.host_faults[host];
        (faults.loss, faults.lossy_until) = (loss, until);
    }

    /// A host's packets take up to `by` longer until then.
    pub fn slow_down(&mut self, host: usize, by: Nanos, until: Nanos) {
        self.over_from = self.over_from.max(until);
        let faults = &mut self.host_faults[host];
        (faults.slow_by, faults.slow_until) = (by, until);
    }

    /// A host has 1 Mbit/s until then.
    pub fn narrow(&mut self, host: usize, until: Nanos) {
        self.over_from = self.over_from.max(until);
        self.host_faults[host].narrow_until = until;
    }

    /// What a host sends on its own comes twice at times until then.
    pub fn duplicate(&mut self, host: usize, until: Nanos) {
        self.over_from = self.over_from.max(until);
        self.host_faults[host].duplicates_until = until;
    }

    /// Everything is well again at once, and stays so.
    pub fn end(&mut self, now: Nanos) {
        for cut in &mut self.cuts {
            *cut = now.min(*cut);
        }
        self.host_faults.fill(HostFaults::default());
        self.over_from = now;
        self.settled = true;
    }

    /// How long something sent now is under way on a connection: mostly a fraction of a millisecond,
    /// at times much longer.
    pub fn delay(
        &self,
        random: &mut Random,
        report: &mut Report,
        now: Nanos,
        (from, to): (usize, usize),
        packet: Packet,
    ) -> Nanos {
        let near = match random.below(self.tail) {
            0 if self.settled => random.below(SLOW_WHEN_SETTLED),
            0 => random.below(120 * MS),
            1 | 2 => random.below(SLOW_WHEN_SETTLED),
            _ => MS / 20 + random.below(MS / 2),
        };
        let far = match (self.rack(from), self.rack(to)) {
            (Some(one), Some(other)) if one != other => self.switch_latency,
            _ => 0,
        };
        if now >= self.over_from {
            return near + far;
        }
        near + far + self.foul(random, report, now, (from, to), packet)
    }

    /// What host faults add to it.
    fn foul(
        &self,
        random: &mut Random,
        report: &mut Report,
        now: Nanos,
        (from, to): (usize, usize),
        packet: Packet,
    ) -> Nanos {
        let (bytes, timer, losses_max) = match packet {
            Packet::Connect => (0, RETRANSMISSION_OF_CONNECT, LOSSES_OF_CONNECT_MAX),
            Packet::Bytes(bytes) => (bytes, RETRANSMISSION, LOSSES_MAX),
        };
        let mut longer = 0;
        for host in [from, to] {
            let faults = self.host_faults[host];
            if faults.slow_until > now {
                longer += random.between(faults.slow_by / 2, faults.slow_by + 1);
                report.tell("deliveries slowed", 1);
            }
            if faults.narrow_until > now {
                longer += bytes as Nanos * NARROW_PER_BYTE;
            }
            if faults.lossy_until > now {
                // The packets of a chunk are sent together: the unluckiest decides.
                let mut lost_most = 0;
                for _ in 0..bytes.div_ceil(PACKET).max(1) {
                    let lost = (0..losses_max)
                        .take_while(|_| random.chance(faults.loss, 1000))
                        .count() as u32;
                    lost_most = lost.max(lost_most);
                    report.tell("packets lost", u64::from(lost));
                }
                longer += timer * ((1 << lost_most) - 1);
            }
        }
        longer
    }

    /// After how long a message of its own arrives: never, once or twice.
    pub fn deliveries(
        &self,
        random: &mut Random,
        report: &mut Report,
        now: Nanos,
        (from, to): (usize, usize),
    ) -> Vec<Nanos> {
        if self.cut_until(from, to) > now {
            report.tell("heartbeats cut off", 1);
            return Vec::new();
        }
        let once = random.between(MS / 10, 5 * MS);
        let mut arrivals = vec![once];
        for faults in [self.host_faults[from], self.host_faults[to]] {
            if faults.lossy_until > now && random.chance(faults.loss, 1000) {
                report.tell("heartbeats lost", 1);
                return Vec::new();
            }
            if faults.slow_until > now {
                arrivals[0] += faults.slow_by;
            }
            if faults.duplicates_until > now && random.chance(1, 2) {
                arrivals.push(once + random.below(300 * MS));
                report.tell("heartbeats duplicated", 1);
            }
        }
        arrivals
    }

    /// Notes that something will arrive, and whether it overtakes what was sent before it between
    /// the same hosts on another connection.
    pub fn note_arrival(&mut self, from: usize, to: usize, at: Nanos) -> bool {
        let newest = &mut self.newest[from * self.hosts + to];
        let overtakes = at < *newest;
        *newest = at.max(*newest);
        overtakes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(fault_schedule: &FaultSchedule, way: (usize, usize), count: u32) -> (Nanos, Report) {
        let (mut random, mut report) = (Random::new(1), Report::default());
        let packet = Packet::Bytes(1000);
        let total: Nanos = (0..count)
            .map(|_| fault_schedule.delay(&mut random, &mut report, 5, way, packet))
            .sum();
        (total / Nanos::from(count), report)
    }

    #[test]
    fn spells_make_everything_later_and_end() {
        let swarm = Swarm {
            racks: 2,
            switch_latency: MS,
            tail: 1_000_000,
            ..Swarm::of(0)
        };
        let mut fault_schedule = FaultSchedule::new(4, 4, &swarm);
        let (near, _) = delays(&fault_schedule, (0, 2), 1000);
        assert!((MS / 4..MS / 2).contains(&near), "{near}");
        let (far, _) = delays(&fault_schedule, (0, 1), 1000);
        assert!((MS..2 * MS).contains(&far), "{far}: through a switch");
        fault_schedule.lose(0, 100, 10);
        let (lossy, report) = delays(&fault_schedule, (0, 2), 10_000);
        // A tenth is lost once, a hundredth twice: 0.1 · 200 ms + 0.01 · 400 ms + … = 25 ms.
        assert!((20 * MS..30 * MS).contains(&lossy), "{lossy}");
        assert!((900..1300).contains(&report.count("packets lost")));
        fault_schedule.narrow(2, 10);
        let (narrow, _) = delays(&fault_schedule, (0, 2), 10_000);
        assert!(narrow > lossy + 7 * MS, "{narrow}: 1,000 bytes take 8 ms");
        fault_schedule.cut(0, 1, 10);
        assert_eq!(
            (
                fault_schedule.cut_until(0, 1),
                fault_schedule.cut_until(1, 0)
            ),
            (10, 0)
        );
        fault_schedule.end(5);
        assert_eq!(delays(&fault_schedule, (0, 2), 1000).0, near);
        assert_eq!(fault_schedule.cut_until(0, 1), 5, "over now");
    }

    #[test]
    fn messages_of_their_own_are_lost_and_come_twice() {
        let mut fault_schedule = FaultSchedule::new(3, 3, &Swarm::of(0));
        fault_schedule.lose(0, 300, 10);
        fault_schedule.duplicate(1, 10);
        let (mut random, mut report) = (Random::new(1), Report::default());
        let mut counts = [0; 3];
        for _ in 0..1000 {
            counts[fault_schedule
                .deliveries(&mut random, &mut report, 5, (0, 1))
                .len()] += 1;
        }
        assert!((250..350).contains(&counts[0]), "{counts:?}");
        assert!(counts[1] > 250 && counts[2] > 250, "{counts:?}");
        fault_schedule.cut(0, 1, 10);
        assert!(
            fault_schedule
                .deliveries(&mut random, &mut report, 5, (0, 1))
                .is_empty()
        );
        assert!(
            !fault_schedule
                .deliveries(&mut random, &mut report, 5, (1, 2))
                .is_empty()
        );
    }
}
