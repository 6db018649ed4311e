//! Lanes: each a thread with a memcached and a server of its own, which run session after session.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evenkeel_testkit::{IO_TIMEOUT, Memcached, Process, evenkeel};

use super::differences::{DIFFERENCES, Difference};
use super::minimise::minimise;
use super::{Session, Speech, Uniques, compare};
use crate::exchange::{Split, exchange};
use crate::transcript::escape;

/// A session that differs is run so often again; one that then agrees was a matter of time.
const CONFIRMATIONS: usize = 2;

/// A run ends after so many findings: more of them are rarely different ones.
const FINDINGS_MAX: usize = 5;

/// One worker and no background threads: those hold items at times, and memcached counts in place
/// (and pads the number) only while nobody does.
const MEMCACHED_FLAGS: [&str; 4] = ["-t", "1", "-o", "no_lru_maintainer,no_lru_crawler"];

/// What a run does.
#[derive(Clone, Debug)]
pub struct Options {
    /// The protocols.
    pub speech: Speech,
    /// The seed; sessions are numbered from 0.
    pub seed: u64,
    /// No session begins later.
    pub duration: Duration,
    /// No more sessions than these.
    pub sessions_max: u64,
    /// How many lanes work at the same time.
    pub lanes: usize,
    /// The memcached to compare with; the one on `PATH` if none is named.
    pub reference: Option<std::path::PathBuf>,
}

/// What a run came to.
#[derive(Debug, Default)]
pub struct Report {
    /// Sessions compared.
    pub sessions: u64,
    /// Connections of these.
    pub connections: u64,
    /// Bytes that each side was sent.
    pub bytes: u64,
    /// Sessions whose answers differed once and agreed when run again.
    pub unconfirmed: u64,
    /// How often a difference on purpose explained a session, by name.
    pub explained: BTreeMap<&'static str, u64>,
    /// What nothing explains.
    pub findings: Vec<Finding>,
}

/// A session whose answers differ, as small as it gets.
#[derive(Debug)]
pub struct Finding {
    /// Number of the session it comes from.
    pub number: u64,
    /// As a case for the transcripts.
    pub transcript: String,
    /// Both answers, or what went wrong.
    pub answers: String,
}

impl Report {
    fn add(&mut self, other: Report) {
        self.sessions += other.sessions;
        self.connections += other.connections;
        self.bytes += other.bytes;
        self.unconfirmed += other.unconfirmed;
        for (name, count) in other.explained {
            *self.explained.entry(name).or_default() += count;
        }
        self.findings.extend(other.findings);
    }
}

/// Runs sessions on all lanes until the time is over, or too much is found.
///
/// # Panics
/// When a process cannot be started, or memcached dies.
pub fn run(options: &Options) -> Report {
    let (next, found) = (AtomicU64::new(0), AtomicU64::new(0));
    let end = Instant::now() + options.duration;
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..options.lanes)
            .map(|_| {
                scope.spawn(|| {
                    let mut lane = Lane::start(options);
                    let mut report = Report::default();
                    while Instant::now() < end
                        && found.load(Ordering::Relaxed) < FINDINGS_MAX as u64
                    {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= options.sessions_max {
                            break;
                        }
                        lane.session(options, number, &mut report);
                        found.fetch_max(report.findings.len() as u64, Ordering::Relaxed);
                    }
                    report
                })
            })
            .collect();
        let mut report = Report::default();
        for lane in lanes {
            report.add(lane.join().expect("a lane does not panic"));
        }
        report
    })
}

/// One of the two servers of a lane.
struct Side {
    address: SocketAddr,
    control: TcpStream,
}

impl Side {
    fn new(address: SocketAddr) -> Side {
        let control = TcpStream::connect_timeout(&address, IO_TIMEOUT).expect("it accepts");
        control
            .set_nodelay(true)
            .and_then(|()| control.set_read_timeout(Some(IO_TIMEOUT)))
            .expect("a socket can be set up");
        Side { address, control }
    }

    /// Forgets everything of the session before.
    fn reset(&mut self) -> Result<(), String> {
        let mut answer = [0; 8];
        self.control
            .write_all(b"flush_all\r\nverbosity 0\r\n")
            .and_then(|()| self.control.read_exact(&mut answer))
            .map_err(|error| format!("no answer to flush_all: {error}"))?;
        match &answer == b"OK\r\nOK\r\n" {
            true => Ok(()),
            false => Err(format!("{} in answer to flush_all", escape(&answer))),
        }
    }

    fn run(&mut self, session: &Session, split: Split) -> Result<Vec<Vec<u8>>, String> {
        self.reset()?;
        let mut uniques = Uniques::default();
        let answers = session.connections.iter().map(|bytes| {
            let answer = exchange(self.address, &uniques.fill_in(bytes), split)?;
            uniques.take(bytes, &answer);
            Ok(answer)
        });
        answers.collect()
    }
}

/// How a session's answers differ.
enum Mismatch {
    /// The answers to this connection do.
    Answers {
        connection: usize,
        reference: Vec<u8>,
        ours: Vec<u8>,
    },
    /// Ours does not answer to the end, or is gone.
    Ours(String),
}

struct Lane {
    reference: Side,
    ours: Side,
    /// Of the memcached, without `1.6.`.
    patch: u32,
    // End with the lane.
    _memcached: Memcached,
    _server: Process,
}

impl Lane {
    fn start(options: &Options) -> Lane {
        let memcached = match &options.reference {
            Some(program) => Memcached::spawn_program(program, &MEMCACHED_FLAGS),
            None => Memcached::spawn(&MEMCACHED_FLAGS),
        };
        let server = evenkeel::server(&["-t", "1"]);
        Lane {
            reference: Side::new(memcached.address()),
            patch: patch(&memcached),
            ours: Side::new(server.address()),
            _memcached: memcached,
            _server: server,
        }
    }

    fn mismatch(&mut self, session: &Session) -> Option<Mismatch> {
        self.mismatch_but_for(session, &[])
    }

    /// As [`Self::mismatch`], with both sides' answers changed before they are compared.
    fn mismatch_but_for(
        &mut self,
        session: &Session,
        differences: &[&Difference],
    ) -> Option<Mismatch> {
        let reference = self
            .reference
            .run(session, Split::Whole)
            .unwrap_or_else(|error| panic!("memcached: {error}\n{}", session.transcript()));
        let ours = match self.ours.run(session, session.split) {
            Ok(ours) => ours,
            Err(error) => return Some(Mismatch::Ours(error)),
        };
        let blind = |answers| {
            differences
                .iter()
                .fold(answers, |answers, difference| difference.blind(answers))
        };
        let (reference, ours) = (blind(reference), blind(ours));
        let connection = compare(session, &reference, &ours).err()?;
        Some(Mismatch::Answers {
            connection,
            reference: reference[connection].clone(),
            ours: ours[connection].clone(),
        })
    }

    /// Runs one session and judges it.
    fn session(&mut self, options: &Options, number: u64, report: &mut Report) {
        let session = Session::generate(options.speech, options.seed, number);
        report.sessions += 1;
        report.connections += session.connections.len() as u64;
        report.bytes += session.len() as u64;
        if self.mismatch(&session).is_none() {
            return;
        }
        if !self.differs_surely(&session) {
            report.unconfirmed += 1;
            return;
        }
        let explained = self.explanation(&session);
        if !explained.is_empty() {
            for name in explained {
                *report.explained.entry(name).or_default() += 1;
            }
            return;
        }
        let small = minimise(&session, |session| {
            self.mismatch(session).is_some() && self.explanation(session).is_empty()
        });
        let answers = match self.mismatch(&small) {
            Some(Mismatch::Answers {
                connection,
                reference,
                ours,
            }) => format!(
                "connection {connection}\n  memcached {}\n  ours      {}",
                escape(&reference),
                escape(&ours)
            ),
            Some(Mismatch::Ours(error)) => error,
            None => "agrees when run once more".to_owned(),
        };
        report.findings.push(Finding {
            number,
            transcript: small.transcript(),
            answers,
        });
    }

    fn differs_surely(&mut self, session: &Session) -> bool {
        (0..CONFIRMATIONS).all(|_| self.mismatch(session).is_some())
    }

    /// The differences on purpose without which the session agrees: one alone if that is enough, else
    /// all that it has something of, if these are enough together.
    fn explanation(&mut self, session: &Session) -> Vec<&'static str> {
        let (mut together, mut all) = (session.clone(), Vec::new());
        let patch = self.patch;
        for difference in DIFFERENCES
            .iter()
            .filter(|some| some.patches.contains(&patch))
        {
            let Some(alone) = difference.without(session) else {
                continue;
            };
            if self.mismatch_but_for(&alone, &[difference]).is_none() {
                return vec![difference.name];
            }
            all.push(difference);
            together = difference.without(&together).unwrap_or(together);
        }
        match all.len() > 1 && self.mismatch_but_for(&together, &all).is_none() {
            true => all.iter().map(|difference| difference.name).collect(),
            false => Vec::new(),
        }
    }
}

/// The last number of a memcached's version 1.6.x.
fn patch(memcached: &Memcached) -> u32 {
    let version = memcached.client().command("version");
    version
        .strip_prefix("VERSION 1.6.")
        .and_then(|patch| patch.parse().ok())
        .unwrap_or_else(|| panic!("`{version}` is no memcached 1.6"))
}
