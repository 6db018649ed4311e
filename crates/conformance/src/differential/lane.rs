//! Lanes: each a thread with a memcached and a server or a proxy of its own, which run batch after batch.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evenkeel_testkit::{IO_TIMEOUT, Memcached, Process, evenkeel};

use super::batch::{self, Answers};
use super::differences::{DIFFERENCES, Difference, is_sociable};
use super::minimise::minimise;
use super::{Choices, Protocols, Session, Subject, compare, split};
use crate::exchange::Split;
use crate::transcript::escape;

/// Sessions are taken, and share connections, this many at a time.
const BATCH: u64 = 64;

/// Of this many batches one is sent as it was made, and the others without what we differ in on purpose:
/// a session that meets such a difference shows little of what it has behind it, and takes several runs
/// to be explained.
const RAW_EVERY: u64 = 8;

/// Added to the seed for how batches are cut, which no session shall share.
const BATCH_SEED: u64 = 0x0062_6174_6368;

/// A session that differs is run alone so often again; one that then agrees was a matter of time.
const CONFIRMATIONS: usize = 2;

/// A run ends after this many findings: more of them are rarely different ones.
const FINDINGS_MAX: usize = 5;

/// One worker, and little memory, for that is what takes time to forget.
const SERVER_FLAGS: [&str; 4] = ["-t", "1", "-m", "16"];

/// One worker and no background threads: those hold items at times, and memcached counts in place
/// (and pads the number) only while nobody does.
const MEMCACHED_FLAGS: [&str; 4] = ["-t", "1", "-o", "no_lru_maintainer,no_lru_crawler"];

/// What a run does.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is compared.
    pub subject: Subject,
    /// The protocols.
    pub protocols: Protocols,
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
    /// Sessions that shared connections with others.
    pub shared: u64,
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
    fn explain(&mut self, differences: &[&Difference]) {
        for difference in differences {
            *self.explained.entry(difference.name).or_default() += 1;
        }
    }

    fn add(&mut self, other: Report) {
        self.sessions += other.sessions;
        self.connections += other.connections;
        self.bytes += other.bytes;
        self.shared += other.shared;
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
                        let first = next.fetch_add(BATCH, Ordering::Relaxed);
                        let end = options.sessions_max.min(first.saturating_add(BATCH));
                        if first >= end {
                            break;
                        }
                        lane.batch(options, first..end, &mut report);
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
        const BOTH: &[u8] = b"OK\r\nOK\r\n";
        let mut answer = Vec::new();
        let mut asked = self.control.write_all(b"flush_all\r\nverbosity 0\r\n");
        while asked.is_ok() && answer.iter().filter(|byte| **byte == b'\n').count() < 2 {
            let mut part = [0; 256];
            asked = match self.control.read(&mut part) {
                Ok(0) => Err(std::io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    answer.extend_from_slice(&part[..count]);
                    Ok(())
                }
                Err(error) => Err(error),
            };
        }
        asked.map_err(|error| format!("no answer to flush_all: {error}"))?;
        match answer == BOTH {
            true => Ok(()),
            false => Err(format!("{} in answer to flush_all", escape(&answer))),
        }
    }

    /// Runs sessions, after which nothing is left of those before.
    fn run(&mut self, sessions: &[&Session], split: Split) -> Result<Vec<Answers>, String> {
        self.reset()?;
        batch::run(self.address, sessions, split)
    }
}

/// A session, and the differences on purpose that its answers may show.
struct Trial {
    /// Number of the session it is, or comes from.
    number: u64,
    session: Session,
    but_for: Vec<&'static Difference>,
}

impl Trial {
    /// Answers without what is no matter here.
    fn blind(&self, answers: Answers) -> Answers {
        let blind = |answers, difference: &&Difference| difference.blind(answers);
        self.but_for.iter().fold(answers, blind)
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
    subject: Subject,
    // End with the lane.
    _memcached: Memcached,
    _behind: Option<Memcached>,
    _ours: Process,
}

impl Lane {
    fn start(options: &Options) -> Lane {
        let start = || match &options.reference {
            Some(program) => Memcached::spawn_program(program, &MEMCACHED_FLAGS),
            None => Memcached::spawn(&MEMCACHED_FLAGS),
        };
        let memcached = start();
        let behind = (options.subject == Subject::Proxy).then(start);
        let ours = match &behind {
            None => evenkeel::server(&SERVER_FLAGS),
            Some(behind) => {
                let address = behind.address().to_string();
                let flags = ["-t", "1", "--allow-flush", "-s", &address];
                evenkeel::proxy(&[&flags[..], &evenkeel::LONG_TIMEOUTS].concat())
            }
        };
        Lane {
            reference: Side::new(memcached.address()),
            patch: patch(&memcached),
            ours: Side::new(ours.address()),
            subject: options.subject,
            _memcached: memcached,
            _behind: behind,
            _ours: ours,
        }
    }

    /// Which of the trials' answers differ. Those that can share connections.
    fn differ(&mut self, trials: &[Trial], split: Split) -> Vec<bool> {
        let (sociable, others): (Vec<usize>, Vec<usize>) =
            (0..trials.len()).partition(|n| is_sociable(&trials[*n].session));
        let mut differ = vec![false; trials.len()];
        for group in sociable.chunks(BATCH as usize).chain(others.chunks(1)) {
            let sessions: Vec<&Session> = group.iter().map(|n| &trials[*n].session).collect();
            let split = match &sessions[..] {
                [alone] => alone.split,
                _ => split,
            };
            let reference = self.reference_answers(&sessions);
            let Ok(ours) = self.ours.run(&sessions, split) else {
                group.iter().for_each(|n| differ[*n] = true);
                continue;
            };
            for ((n, reference), ours) in group.iter().zip(reference).zip(ours) {
                let trial = &trials[*n];
                let (reference, ours) = (trial.blind(reference), trial.blind(ours));
                differ[*n] = compare(&trial.session, &reference, &ours).is_err();
            }
        }
        differ
    }

    /// # Panics
    /// When memcached does not answer: without it there is nothing to compare with.
    fn reference_answers(&mut self, sessions: &[&Session]) -> Vec<Answers> {
        let answers = self.reference.run(sessions, Split::Whole);
        answers.unwrap_or_else(|error| {
            let all: Vec<String> = sessions.iter().map(|some| some.transcript()).collect();
            panic!("memcached: {error}\n{}", all.join("\n"))
        })
    }

    /// Runs sessions and judges them.
    fn batch(&mut self, options: &Options, numbers: std::ops::Range<u64>, report: &mut Report) {
        let split = split(&mut Choices::of_session(
            options.seed ^ BATCH_SEED,
            numbers.start,
        ));
        let is_raw = (numbers.start / BATCH).is_multiple_of(RAW_EVERY);
        let trials: Vec<Trial> = numbers
            .map(|number| {
                let made = Session::generate(options.protocols, options.seed, number);
                let (session, but_for) = match is_raw {
                    true => (made, Vec::new()),
                    false => self.without_differences(&made, Difference::is_avoidable),
                };
                Trial {
                    number,
                    session,
                    but_for,
                }
            })
            .collect();
        for Trial { session, .. } in &trials {
            report.sessions += 1;
            report.shared += u64::from(is_sociable(session));
            report.connections += session.connections.len() as u64;
            report.bytes += session.len() as u64;
        }
        let suspects = self.suspects(trials, split);
        let count = suspects.len();
        let suspects = self.suspects(suspects, split);
        report.unconfirmed += (count - suspects.len()) as u64;
        for number in self.unexplained(&suspects, split, report) {
            let suspect = suspects.iter().find(|trial| trial.number == number);
            let session = &suspect.expect("it is one of these").session;
            self.investigate(number, session, report);
        }
    }

    /// The trials that differ.
    fn suspects(&mut self, trials: Vec<Trial>, split: Split) -> Vec<Trial> {
        let differ = self.differ(&trials, split);
        let trials = trials.into_iter().zip(differ);
        trials
            .filter_map(|(trial, differs)| differs.then_some(trial))
            .collect()
    }

    /// The numbers of the suspects that do not agree without the differences on purpose that they have
    /// something of. For the others, these are counted.
    fn unexplained(&mut self, suspects: &[Trial], split: Split, report: &mut Report) -> Vec<u64> {
        let variants: Vec<Trial> = suspects
            .iter()
            .map(|suspect| {
                let cut_short = !is_sociable(&suspect.session);
                let (session, but_for) = self.without_differences(&suspect.session, |some| {
                    cut_short || !some.is_about_the_end()
                });
                Trial {
                    number: suspect.number,
                    session,
                    but_for,
                }
            })
            .collect();
        let differ = self.differ(&variants, split);
        let mut unexplained = Vec::new();
        for (variant, differs) in variants.iter().zip(differ) {
            match differs {
                true => unexplained.push(variant.number),
                false => report.explain(&variant.but_for),
            }
        }
        unexplained
    }

    /// The session without the differences on purpose that are chosen, and those that it had something of.
    fn without_differences(
        &self,
        session: &Session,
        chosen: impl Fn(&Difference) -> bool,
    ) -> (Session, Vec<&'static Difference>) {
        let (mut session, mut found) = (session.clone(), Vec::new());
        for difference in self.differences().filter(|some| chosen(some)) {
            if let Some(without) = difference.without(&session) {
                session = without;
                found.push(difference);
            }
        }
        (session, found)
    }

    /// Judges a session without neighbours.
    fn investigate(&mut self, number: u64, session: &Session, report: &mut Report) {
        if !self.differs_surely(session) {
            report.unconfirmed += 1;
            return;
        }
        if let Some(differences) = self.explanation(session) {
            report.explain(&differences);
            return;
        }
        let small = minimise(session, |session| {
            self.mismatch(session).is_some() && self.explanation(session).is_none()
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

    fn mismatch(&mut self, session: &Session) -> Option<Mismatch> {
        self.mismatch_of(&Trial {
            number: 0,
            session: session.clone(),
            but_for: Vec::new(),
        })
    }

    /// How a trial's answers differ when it is alone.
    fn mismatch_of(&mut self, trial: &Trial) -> Option<Mismatch> {
        let session = &trial.session;
        let reference = self.reference_answers(&[session]).remove(0);
        let ours = match self.ours.run(&[session], session.split) {
            Ok(mut ours) => ours.remove(0),
            Err(error) => return Some(Mismatch::Ours(error)),
        };
        let (reference, ours) = (trial.blind(reference), trial.blind(ours));
        let connection = compare(session, &reference, &ours).err()?;
        Some(Mismatch::Answers {
            connection,
            reference: reference[connection].clone(),
            ours: ours[connection].clone(),
        })
    }

    fn differs_surely(&mut self, session: &Session) -> bool {
        (0..CONFIRMATIONS).all(|_| self.mismatch(session).is_some())
    }

    /// The differences on purpose without which the session agrees when it is alone.
    fn explanation(&mut self, session: &Session) -> Option<Vec<&'static Difference>> {
        let variants: Vec<_> = variants_of(session, self.differences()).collect();
        variants.into_iter().find_map(|(session, but_for)| {
            let trial = Trial {
                number: 0,
                session,
                but_for,
            };
            self.mismatch_of(&trial).is_none().then_some(trial.but_for)
        })
    }

    /// The differences on purpose from the memcached of this lane.
    fn differences(&self) -> impl Iterator<Item = &'static Difference> + use<> {
        let (patch, subject) = (self.patch, self.subject);
        DIFFERENCES
            .iter()
            .filter(move |some| some.patches.contains(&patch) && some.subjects.contains(&subject))
    }
}

/// The session without each of the differences that it has something of, and without all of them.
fn variants_of(
    session: &Session,
    differences: impl Iterator<Item = &'static Difference>,
) -> impl Iterator<Item = (Session, Vec<&'static Difference>)> {
    let (mut together, mut all, mut variants) = (session.clone(), Vec::new(), Vec::new());
    for difference in differences {
        if let Some(without) = difference.without(session) {
            variants.push((without, vec![difference]));
            together = difference.without(&together).unwrap_or(together);
            all.push(difference);
        }
    }
    if all.len() > 1 {
        variants.push((together, all));
    }
    variants.into_iter()
}

/// The last number of a memcached's version 1.6.x.
fn patch(memcached: &Memcached) -> u32 {
    let version = memcached.client().command("version");
    version
        .strip_prefix("VERSION 1.6.")
        .and_then(|patch| patch.parse().ok())
        .unwrap_or_else(|| panic!("`{version}` is no memcached 1.6"))
}
