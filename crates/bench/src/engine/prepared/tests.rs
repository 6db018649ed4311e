//! Prepared requests beside drawn ones, on whatever a server may answer.

use super::*;
use crate::engine::drawn::Drawn;
use crate::engine::feed::FeedSource;
use crate::engine::stats::Counters;
use crate::{LoadPlan, Source, Target, seed};
use evenkeel_types::KeyHash;
use evenkeel_workload::rng::{self, WorkloadRng};
use evenkeel_workload::{Operation, WorkloadSpec};
use std::io::Read;
use std::time::Instant;

const WORKLOAD: &str = "keys=40 key-size=6..30 value-size=0..90 multiget=geometric(0.6, 5) \
                        mix=mix(get=6, set=3, delete=1, touch=1, add=1)";

/// Requests of a load, and requests in flight.
const REQUESTS: u64 = 60;
const PIPELINE: usize = 20;

/// A server that answers as it likes, and a network that cuts answers and flips bytes.
struct Disturbed {
    rng: WorkloadRng,
    protocol: Protocol,
    /// Of a hundred answers, how many are unusual; of a thousand bytes, how many are flipped.
    unusual: u64,
    flipped: u64,
}

impl Disturbed {
    fn chance(&mut self, of: u64, hundred: u64) -> bool {
        rng::below(&mut self.rng, hundred) < of
    }

    /// Appends the answer to a request.
    fn answer(&mut self, ring: &Ring, index: usize, out: &mut Vec<u8>) {
        let kind = ring.kind(index);
        if self.chance(self.unusual, 100) && self.chance(20, 100) {
            let errors: [&[u8]; 4] = [
                b"ERROR\r\n",
                b"SERVER_ERROR out of memory\r\n",
                b"END\r\n",
                b"VALUE somebody 0 3\r\nabc\r\n",
            ];
            let chosen = rng::below(&mut self.rng, errors.len() as u64);
            out.extend_from_slice(errors[chosen as usize]);
        }
        if !kind.is_read() {
            let words: &[&str] = match (self.protocol, kind.operation()) {
                (Protocol::Meta, _) => &["HD", "NS", "NF"],
                (_, Operation::Set | Operation::Add) => &["STORED", "NOT_STORED"],
                (_, Operation::Delete) => &["DELETED", "NOT_FOUND"],
                _ => &["TOUCHED", "NOT_FOUND"],
            };
            let unusual = self.chance(self.unusual, 100);
            let word = words[usize::from(unusual) * (words.len() - 1)];
            out.extend_from_slice(word.as_bytes());
            return out.extend_from_slice(b"\r\n");
        }
        for key in ring.keys(index) {
            let (is_miss, has_flags, is_wrong) = (
                self.chance(self.unusual, 100),
                self.chance(self.unusual, 100),
                self.chance(self.unusual, 100),
            );
            let mut value = Vec::new();
            // Mostly of one length, as the quickest look expects.
            let len = match self.chance(80, 100) {
                true => 50,
                false => rng::below(&mut self.rng, 90) as usize,
            };
            let hash = KeyHash::of(if is_wrong { b"another" } else { key });
            crate::value::write(hash, 7, len, &mut value);
            let key = String::from_utf8_lossy(key);
            let flags = if has_flags { 12 } else { 0 };
            let line = match (self.protocol, is_miss) {
                (Protocol::Meta, true) => "EN\r\n".to_owned(),
                (Protocol::Meta, false) if has_flags => format!("VA {len} f{flags}\r\n"),
                (Protocol::Meta, false) => format!("VA {len}\r\n"),
                (_, true) => String::new(),
                (_, false) => format!("VALUE {key} {flags} {len}\r\n"),
            };
            out.extend_from_slice(line.as_bytes());
            if !is_miss {
                out.extend_from_slice(&value);
                out.extend_from_slice(b"\r\n");
            }
        }
        if self.protocol == Protocol::Classic {
            out.extend_from_slice(b"END\r\n");
        }
    }

    fn flip(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            if self.chance(self.flipped, 1000) {
                *byte ^= 1 << rng::below(&mut self.rng, 8);
            }
        }
    }
}

fn work(plan: &Arc<LoadPlan>) -> Work {
    let feed = FeedSource::open(&plan.source).unwrap().feed(0, 1);
    Work::new(0, Arc::clone(plan), feed, Instant::now())
}

/// Drawn requests, with nothing but the general parser.
#[derive(Default)]
struct Plain {
    in_flight: VecDeque<Request>,
    refills: VecDeque<Request>,
}

impl Plain {
    fn fill(&mut self, work: &mut Work, now_ns: u64) {
        while self.in_flight.len() < PIPELINE {
            let mut request = Request::default();
            if !work.draw(now_ns, &mut request) {
                return;
            }
            self.in_flight.push_back(request);
        }
    }

    fn take_answers(&mut self, bytes: &[u8], work: &mut Work, now_ns: u64) -> Result<Taken, Loss> {
        let mut taken = 0;
        let mut wanted = 0;
        while taken < bytes.len() {
            let parsed = next_answer(work.plan.protocol, &bytes[taken..], &work.limits);
            let (answer, consumed) = match parsed {
                Parsed::Answer { answer, consumed } => (answer, consumed),
                Parsed::Incomplete { total } => {
                    wanted = total;
                    break;
                }
                Parsed::Malformed => return Err(out_of_step("an answer that is none".into())),
            };
            let Some(request) = self.in_flight.front_mut() else {
                return Err(out_of_step(format!("{answer:?} without a request")));
            };
            taken += consumed;
            match request.take(answer, work) {
                Progress::More => {}
                Progress::OutOfStep(what) => return Err(out_of_step(what)),
                Progress::Done => {
                    work.finish(request, now_ns, &mut self.refills);
                    self.in_flight.pop_front();
                }
            }
        }
        work.book();
        Ok(Taken { taken, wanted })
    }
}

/// What a side of the comparison has counted, and its latencies.
fn booked(work: &Work) -> (Counters, [(u64, u64); 2], Option<&str>) {
    let stats = &work.stats;
    let counters = Counters {
        // Not every side writes here.
        sent_bytes: 0,
        ..stats.counters
    };
    let latencies = [&stats.get_latency, &stats.set_latency];
    let latencies = latencies.map(|latency| (latency.len(), latency.max()));
    (counters, latencies, work.first_error.as_deref())
}

/// One load on a connection: plain, drawn and prepared; what they counted, and whether the connection was lost.
fn compare(disturbed: &mut Disturbed) -> (Counters, bool) {
    let spec: WorkloadSpec = WORKLOAD.parse().unwrap();
    let workload = spec.build().unwrap();
    let target: Target = "127.0.0.1:1".parse().unwrap();
    let mut plan = LoadPlan::new(target, Source::Generated(spec));
    plan.protocol = disturbed.protocol;
    plan.pipeline = PIPELINE;
    plan.stop.requests = Some(REQUESTS);
    let plan = Arc::new(plan);
    let ring = Arc::new(Ring::new(&plan, &workload));
    let [mut plain_work, mut drawn_work, mut prepared_work] = [0; 3].map(|_| work(&plan));
    let mut plain = Plain::default();
    let mut drawn = Drawn::new(0, PIPELINE);
    let mut prepared = Prepared::new(Arc::clone(&ring), 0, PIPELINE);
    let (ours, mut theirs) = mio::net::UnixStream::pair().unwrap();
    let mut socket = Socket::Unix(ours);
    let mut sent = vec![0; ring.bytes().len() + 1];
    let (mut answered, mut pending, mut now_ns) = (0, Vec::new(), 0);
    loop {
        now_ns += 1000;
        plain.fill(&mut plain_work, now_ns);
        drawn.fill(&mut drawn_work, now_ns, true);
        prepared
            .send(&mut socket, &mut prepared_work, now_ns)
            .unwrap();
        let in_flight = prepared.in_flight;
        if in_flight == 0 {
            assert!(plain.in_flight.is_empty() && drawn.is_idle() && prepared.is_idle());
            assert!(plain_work.ended && drawn_work.ended && prepared_work.ended);
            assert_eq!(theirs.read(&mut sent).unwrap(), ring.bytes().len());
            assert_eq!(&sent[..ring.bytes().len()], ring.bytes());
            return (prepared_work.stats.counters, false);
        }
        let mut answers = Vec::new();
        for index in answered..answered + in_flight {
            disturbed.answer(&ring, index % ring.len(), &mut answers);
        }
        answered += in_flight;
        disturbed.flip(&mut answers);
        let mut rest = &answers[..];
        while !rest.is_empty() {
            let piece = 1 + rng::below(&mut disturbed.rng, 200) as usize;
            let (piece, behind) = rest.split_at(piece.min(rest.len()));
            rest = behind;
            pending.extend_from_slice(piece);
            now_ns += 1000;
            let by_plain = plain.take_answers(&pending, &mut plain_work, now_ns);
            let by_drawn = drawn.take_answers(&pending, &mut drawn_work, now_ns);
            let by_prepared = prepared.take_answers(&pending, &mut prepared_work, now_ns);
            let place = format!("after {:?}", String::from_utf8_lossy(&pending));
            assert_eq!(drawn.waits_since(), prepared.waits_since(), "{place}");
            // A lost connection books when it is closed.
            let is_lost = by_plain.is_err();
            if is_lost {
                plain_work.book();
                drawn_work.book();
                prepared_work.book();
            }
            let outcome = |result: Result<Taken, Loss>| match result {
                Ok(taken) => Ok((taken.taken, taken.wanted)),
                Err(loss) => Err(loss.to_string()),
            };
            let wanted = outcome(by_plain);
            for (result, work) in [(by_drawn, &drawn_work), (by_prepared, &prepared_work)] {
                assert_eq!(outcome(result), wanted, "{place}");
                assert_eq!(booked(work), booked(&plain_work), "{place}");
            }
            match wanted {
                Ok((taken, _)) => drop(pending.drain(..taken)),
                Err(_) => {
                    let lost = plain.in_flight.len();
                    assert_eq!(drawn.close(&mut drawn_work), lost, "{place}");
                    assert_eq!(prepared.close(), lost, "{place}");
                    assert!(prepared.is_idle() && prepared.waits_since().is_none());
                    return (plain_work.stats.counters, true);
                }
            }
        }
    }
}

#[test]
fn answers_count_as_the_general_parser_has_them() {
    let seed = seed();
    let (mut sum, mut lost) = (Counters::default(), 0);
    for round in 0..100 {
        for (protocol, unusual, flipped) in [
            (Protocol::Classic, 0, 0),
            (Protocol::Meta, 0, 0),
            (Protocol::Classic, 10, 0),
            (Protocol::Meta, 10, 0),
            (Protocol::Classic, 2, 1),
            (Protocol::Meta, 2, 1),
        ] {
            let mut disturbed = Disturbed {
                rng: rng::stream(seed, round),
                protocol,
                unusual,
                flipped,
            };
            let (counters, is_lost) = compare(&mut disturbed);
            if (unusual, flipped) == (0, 0) {
                assert_eq!((counters.requests, counters.misses), (REQUESTS, 0));
                assert_eq!((counters.errors, counters.wrong_values), (0, 0));
                assert!(!is_lost);
            }
            sum += counters;
            lost += u32::from(is_lost);
        }
    }
    let seen = [
        sum.misses,
        sum.errors,
        sum.wrong_values,
        sum.others,
        lost.into(),
    ];
    assert!(
        seen.iter().all(|&count| count > 100),
        "{sum:?}, {lost} lost"
    );
}

#[test]
fn lengths_are_read_as_they_are_written_alone() {
    let both = |text: &'static str| value(text.as_bytes(), 20);
    assert_eq!(both("3\r\nabc\r\nrest"), Some((&b"abc"[..], &b"rest"[..])));
    assert_eq!(both("0\r\n\r\n"), Some((&b""[..], &b""[..])));
    for none in [
        "",
        "3",
        "3\r\nab",
        "3\r\nabc",
        "3\r\nabcd\r\n",
        "03\r\nabc\r\n",
        "-3\r\nabc\r\n",
        "3 7\r\nabc\r\n",
        "\r\n\r\n",
        "21\r\nabcdefghijklmnopqrstu\r\n",
        "99999999999999999999999\r\nabc\r\n",
    ] {
        assert_eq!(both(none), None, "{none:?}");
    }
}
