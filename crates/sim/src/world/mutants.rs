//! Wrong on purpose: each breaks one rule, to see that the checks notice.
//!
//! Most are done to bytes and calls on their way; the cores themselves are sound. The promises are
//! held up from two sides, so that one broken rule alone often does no harm: a client compares every
//! replica's version with what it has seen, and asks the home where a replica is older. Faults on the
//! side of the servers therefore make replicas *boast* of a high version.

use super::World;
use super::command::{Change, Command};
use super::fault::Fault;
use super::plan::Cluster;
use super::units::MS;
use crate::history::Nanos;
use evenkeel_control::bundles::BundlePlan;
use evenkeel_coordinator_core::{MigrationReport, MigrationState};
use evenkeel_hotkeys::plain::NAME_PREFIX_LEN;
use evenkeel_schemes::generation::{mask, taken_apart};
use evenkeel_schemes::name::Name;
use evenkeel_schemes::stage::Stage;
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{Epoch, KeyHash, WorkerRef};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Flags of what a source sends to the target of a migration, and nobody else anybody.
const OF_MIGRATIONS: &[u8] = b" G q";

/// A version that no home reaches.
const BOASTED: &str = "9000000000000000000";

impl World {
    pub(super) fn has_fault(&self, fault: Fault) -> bool {
        self.plan.fault == Some(fault)
    }

    /// What a home answers to a command that it does not execute.
    pub(super) fn swallow(&mut self, command: &Command, input: &[u8]) -> Option<&'static [u8]> {
        let fault = self.plan.fault?;
        let line = input
            .split(|&byte| byte == b'\r')
            .next()
            .unwrap_or_default();
        // Only a source of a migration asks for no answer to these.
        if line
            .windows(OF_MIGRATIONS.len())
            .any(|words| words == OF_MIGRATIONS)
        {
            let is_lost = match fault {
                Fault::MigrationsLoseItems => {
                    command.is_replica_store() && self.random.chance(1, 3)
                }
                Fault::MigrationsKeepDeleted => command.change == Change::ReplicaRemove,
                _ => false,
            };
            return is_lost.then_some(b"");
        }
        let is_swallowed = match fault {
            Fault::ReplicaStoresDropped => command.is_replica_store() && self.random.chance(1, 2),
            Fault::ShadowsServeOn => command.change == Change::ReplicaBlock,
            Fault::WritesDropped => command.is_set() && self.random.chance(1, 20),
            Fault::FlushIgnored => command.change == Change::Flush,
            Fault::MissesInvented => command.change == Change::Read && self.random.chance(1, 50),
            _ => false,
        };
        is_swallowed.then_some(match command.change {
            Change::Read => b"EN\r\n",
            Change::Flush => b"OK\r\n",
            _ if self.plan.cluster == Cluster::Plain => b"STORED\r\n",
            _ => b"HD\r\n",
        })
    }

    /// What a worker is shown instead of a command; `None` when it is shown what was sent.
    pub(super) fn forge(&self, command: &Command, input: &[u8]) -> Option<Vec<u8>> {
        let Change::Store {
            value,
            exptime,
            expects,
            ..
        } = &command.change
        else {
            return None;
        };
        if self.has_fault(Fault::SwapsAlways) && input.starts_with(b"cas ") {
            // In classic words: a `set`.
            let line = format!(" 0 {exptime} {}\r\n", value.len());
            let key = &self.keys[usize::from(command.key)];
            return Some([b"set ", &key[..], line.as_bytes(), value, b"\r\n"].concat());
        }
        let letter = match self.plan.fault? {
            Fault::SwapsAlways if expects.is_some() => 'C',
            Fault::ExpiryForgotten if *exptime > 0 => 'T',
            _ => return None,
        };
        Some(edit_line(&input[..command.len], |words| {
            // Behind the command, the key and the length.
            let mut place = 0;
            words.retain(|word| {
                place += 1;
                place <= 3 || !word.starts_with(letter)
            });
        }))
    }

    /// With a fault that does so: an older value for a shadow server to take once more, after this
    /// one.
    pub(super) fn old_fill(&mut self, command: &Command, input: &[u8]) -> Option<Vec<u8>> {
        if !self.has_fault(Fault::OldFillsTaken) || !command.is_replica_store() {
            return None;
        }
        let filled = self
            .old_fills
            .insert(command.key, input[..command.len].to_vec())?;
        if !self.random.chance(1, 2) {
            return None;
        }
        Some(edit_line(&filled, |words| {
            for word in words.iter_mut().filter(|word| word.starts_with('E')) {
                *word = format!("E{BOASTED}");
            }
        }))
    }

    /// What a member is told instead of a map.
    pub(super) fn forged_map(&mut self, host: usize, map: &Arc<ClusterMap>) -> Arc<ClusterMap> {
        if !self.has_fault(Fault::TwoHomes) {
            return map.clone();
        }
        let cachelet = map.locate(KeyHash::of(&self.keys[0])).cachelet;
        let owner = map.owner(cachelet).map(|worker| worker.server);
        let Some(other) = map.servers().iter().find(|server| Some(server.id) != owner) else {
            return map.clone();
        };
        let server = other.id;
        let is_told = host == self.servers.len()
            || self.servers.get(host).is_some_and(|s| s.id == Some(server));
        let mut document = map.document().clone();
        document.cachelets[usize::from(cachelet.0)] = Some(WorkerRef { server, worker: 0 });
        match ClusterMap::new(document) {
            Ok(forged) if is_told => Arc::new(forged),
            _ => map.clone(),
        }
    }

    /// What a server tells of its migrations.
    pub(super) fn forge_reports(&self, reports: &mut [MigrationReport]) {
        if self.has_fault(Fault::FlipsEarly) {
            let copying = reports
                .iter_mut()
                .filter(|report| report.state == MigrationState::Copying);
            copying.for_each(|report| report.state = MigrationState::Moved);
        }
    }

    /// The epoch of the map that a server says it works by.
    pub(super) fn forged_epoch(&self, server: usize) -> Epoch {
        let server = &self.servers[server];
        match self.has_fault(Fault::MapsConfirmedEarly) {
            true => server.told,
            false => server.applied(),
        }
    }

    /// How long it may take until a worker is handed a map.
    pub(super) fn forged_delay_of_maps(&self) -> Nanos {
        match self.has_fault(Fault::MapsConfirmedEarly) {
            true => 2_000 * MS,
            false => 4 * MS,
        }
    }

    /// With a fault: a command whose items are called as if no plan of a ring had a generation of its own.
    pub(super) fn reuse_generations(&self, input: &[u8]) -> Option<Renamed> {
        if !self.has_fault(Fault::GenerationsReused) {
            return None;
        }
        // A server remembers how much of a line it has seen, so that it is shown no part of one that will be shorter.
        let Some(end) = input.windows(2).position(|pair| pair == b"\r\n") else {
            return Some(Renamed::default());
        };
        let words = input[..end].split(|byte| *byte == b' ');
        let names = words.clone().filter(|word| taken_apart(word).0 > 0);
        let names: Vec<_> = names.map(<[u8]>::to_vec).collect();
        let line = words.map(|word| taken_apart(word).1);
        let line = line.collect::<Vec<_>>().join(&b' ');
        (!names.is_empty()).then(|| Renamed {
            input: [&line, &input[end..]].concat(),
            names,
        })
    }

    /// With a fault: the unique that an application names to swap a key, as if uniques were shown as they are and taken as they come.
    pub(super) fn unmasked(&self, key: usize, unique: u64) -> u64 {
        let led = self
            .led
            .as_ref()
            .filter(|_| self.has_fault(Fault::MasksLeftOut));
        let known = led.and_then(|led| led.ring.as_ref()?.known.as_ref());
        let (Some(led), Some(known)) = (led, known) else {
            return unique;
        };
        let has_moved = led.stage() >= Stage::Warming;
        let place = &known.places(&self.keys[key])[usize::from(has_moved)];
        (unique % mask(1)) ^ mask(place.generation)
    }

    /// With a fault: the plan of copies that a proxy works by, as if all had one token.
    pub(super) fn forged_plan(&self, plan: BundlePlan) -> BundlePlan {
        match self.has_fault(Fault::TokensReused) {
            true => BundlePlan { token: 1, ..plan },
            false => plan,
        }
    }

    /// A choice that another run makes otherwise.
    pub(super) fn undetermined(&self) -> u64 {
        if self.has_fault(Fault::Undetermined) {
            RandomState::new().hash_one(self.time) % 1000
        } else {
            0
        }
    }
}

/// A command that calls items otherwise than its sender did.
#[derive(Default)]
pub(super) struct Renamed {
    pub input: Vec<u8>,
    /// As its sender calls them.
    names: Vec<Vec<u8>>,
}

impl Renamed {
    /// An answer to it, in which items are called as they were by who has asked.
    pub fn as_asked(&self, answer: &[u8]) -> Vec<u8> {
        let mut answer = answer.to_vec();
        for asked in &self.names {
            let shown = [b"VALUE ", taken_apart(asked).1, b" "].concat();
            let at = answer.windows(shown.len()).position(|words| words == shown);
            if let Some(at) = at {
                let meant = [b"VALUE ", &asked[..], b" "].concat();
                answer.splice(at..at + shown.len(), meant);
            }
        }
        answer
    }
}

/// A command with other words in its line, and the same data.
pub(super) fn edit_line(command: &[u8], edit: impl FnOnce(&mut Vec<String>)) -> Vec<u8> {
    let end = command
        .windows(2)
        .position(|pair| pair == b"\r\n")
        .unwrap_or(command.len());
    let line = String::from_utf8_lossy(&command[..end]).into_owned();
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    edit(&mut words);
    [words.join(" ").as_bytes(), &command[end..]].concat()
}

/// Announces another lease than the server's.
pub(super) fn spoil_hello(fault: Option<Fault>, out: &mut Vec<u8>) {
    if fault != Some(Fault::LeasesTooLong) || !out.starts_with(b"EVENKEEL ") {
        return;
    }
    let line = String::from_utf8_lossy(out);
    let (before, lease) = line.split_once("lease_ms=").expect("a hello names a lease");
    let after = lease.trim_start_matches(|c: char| c.is_ascii_digit());
    *out = format!("{before}lease_ms=5000{after}").into_bytes();
}

/// With a fault that does so: adds a lease to a value that was held back.
pub(super) fn spoil_held(fault: Option<Fault>, out: &mut Vec<u8>) {
    if fault == Some(Fault::GrantsWhileHeld) && out.starts_with(b"VA ") {
        *out = edit_line(out, grant);
    }
}

/// Adds a whole lease.
fn grant(words: &mut Vec<String>) {
    let mut at = 0..;
    words.retain(|word| at.next() < Some(2) || !word.starts_with('L'));
    if !words.iter().skip(2).any(|word| word.starts_with('G')) {
        words.push("G1".into());
    }
}

/// With a fault that does so: changes the flags of an answer.
pub(super) fn spoil_answer(fault: Option<Fault>, command: &Command, out: &mut Vec<u8>) {
    let Some(fault) = fault else { return };
    let is_value = out.starts_with(b"VA ");
    let boasts = matches!(
        fault,
        Fault::ReplicaStoresDropped
            | Fault::GrantsAlways
            | Fault::CopiesBoast
            | Fault::OldFillsTaken
    );
    let spoil: fn(&mut Vec<String>) = match fault {
        _ if boasts && is_value && command.is_replica_read() => |words| set_version(words, BOASTED),
        Fault::HomesLookOld if is_value && command.change == Change::Read => {
            |words| set_version(words, "1")
        }
        Fault::GrantsAlways if is_value => grant,
        _ => return,
    };
    *out = edit_line(out, spoil);
}

/// Changes the version that a value is said to have.
fn set_version(words: &mut [String], version: &str) {
    let flags = words.iter_mut().skip(2);
    for word in flags.filter(|word| word.starts_with('c')) {
        *word = format!("c{version}");
    }
}

/// Where the name of a content stands in the name of a replica: between the letter of its kind and the colon.
const CONTENT: core::ops::Range<usize> = 2..NAME_PREFIX_LEN - 1;

/// What stands for every content.
const ANY_CONTENT: u8 = b'A';

/// A command about a replica with a name that is the same for all contents of the key, and the content
/// that it asked for.
pub(super) fn without_name(input: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let at = 1 + input.iter().position(|&byte| byte == b' ')?;
    let name = Name::parse(input.get(at..)?)?;
    let content = name.token.to_vec();
    let mut unnamed = input.to_vec();
    unnamed[at..][CONTENT].fill(ANY_CONTENT);
    Some((unnamed, content))
}

/// The answer as if the replica had been found under the name that it was asked by.
pub(super) fn with_name(mut answer: Vec<u8>, content: &[u8]) -> Vec<u8> {
    let is_named = answer.starts_with(b"VALUE \x01");
    if is_named {
        answer[b"VALUE ".len()..][CONTENT].copy_from_slice(content);
    }
    answer
}
