//! What a command can end in (Talaga and Chapin, Figure 1), in each architecture over real memcacheds and by each protocol: what it is answered, and
//! how many requests it takes in which rack. Where one rack holds each item these are the round trips of docs/locality.md.

use crate::patience::PATIENCE;
use evenkeel_schemes::locality::Outcome;
use evenkeel_schemes::locality::holder::Kind;
use evenkeel_schemes::locality::model::held::{Held, rounds};
use evenkeel_testkit::racks::{Architecture, Racks, RacksOptions};
use evenkeel_testkit::{Client, IO_TIMEOUT, Memcached, Process, evenkeel, poll_until};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

/// What a memcached takes of one item at most, as a flag; what the proxy lets pass.
const ITEM_MAX: &str = "512k";

/// A value that is larger.
const LARGE_LEN: usize = 600_000;

/// The proxy that is asked stands in the first rack.
const RACKS: [&str; 3] = ["a", "b", "c"];

/// The rack that holds what is elsewhere.
const ELSEWHERE: usize = 1;

/// Requests to each rack, and to what is central behind them.
type Requests = [u64; RACKS.len() + 1];

/// A command in three protocols, with what it is answered. `KEY`, `UNIQUE` and `LARGE` stand for a key, for a CAS unique of its item, and for a value.
struct Case {
    outcome: Outcome,
    text: (&'static str, &'static str),
    /// `flush_all` has no meta command.
    meta: Option<(&'static str, &'static str)>,
    /// Opcode, extras and value; status, and value of the answer.
    binary: ((u8, &'static [u8], &'static str), (u16, &'static str)),
}

/// Client flags and exptime of a binary store.
const STORE: &[u8] = &[0; 8];

/// Delta 1, initial value 0, and no item is made of nothing.
const BY_ONE: &[u8] = &[
    0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
];

const GET: u8 = 0x00;
const SET: u8 = 0x01;
const ADD: u8 = 0x02;
const REPLACE: u8 = 0x03;
const DELETE: u8 = 0x04;
const INCREMENT: u8 = 0x05;
const DECREMENT: u8 = 0x06;
const FLUSH: u8 = 0x08;
const APPEND: u8 = 0x0e;
const PREPEND: u8 = 0x0f;

const OK: u16 = 0;
const NOT_FOUND: u16 = 1;
const EXISTS: u16 = 2;
const TOO_LARGE: u16 = 3;
const NOT_STORED: u16 = 5;

/// What is there has the value `5`.
const CASES: &[Case] = &[
    Case {
        outcome: Outcome::SetHit,
        text: ("set KEY 0 0 1\r\n7", "STORED"),
        meta: Some(("ms KEY 1\r\n7", "HD")),
        binary: ((SET, STORE, "7"), (OK, "")),
    },
    Case {
        outcome: Outcome::SetMiss,
        text: (
            "set KEY 0 0 600000\r\nLARGE",
            "SERVER_ERROR object too large for cache",
        ),
        meta: Some((
            "ms KEY 600000\r\nLARGE",
            "SERVER_ERROR object too large for cache",
        )),
        binary: ((SET, STORE, "LARGE"), (TOO_LARGE, "Too large.")),
    },
    Case {
        outcome: Outcome::AddHit,
        text: ("add KEY 0 0 1\r\n7", "STORED"),
        meta: Some(("ms KEY 1 ME\r\n7", "HD")),
        binary: ((ADD, STORE, "7"), (OK, "")),
    },
    Case {
        outcome: Outcome::AddMiss,
        text: ("add KEY 0 0 1\r\n7", "NOT_STORED"),
        meta: Some(("ms KEY 1 ME\r\n7", "NS")),
        binary: ((ADD, STORE, "7"), (EXISTS, "Data exists for key.")),
    },
    Case {
        outcome: Outcome::ReplaceHit,
        text: ("replace KEY 0 0 1\r\n7", "STORED"),
        meta: Some(("ms KEY 1 MR\r\n7", "HD")),
        binary: ((REPLACE, STORE, "7"), (OK, "")),
    },
    Case {
        outcome: Outcome::ReplaceMiss,
        text: ("replace KEY 0 0 1\r\n7", "NOT_STORED"),
        meta: Some(("ms KEY 1 MR\r\n7", "NS")),
        binary: ((REPLACE, STORE, "7"), (NOT_FOUND, "Not found")),
    },
    Case {
        outcome: Outcome::DeleteHit,
        text: ("delete KEY", "DELETED"),
        meta: Some(("md KEY", "HD")),
        binary: ((DELETE, b"", ""), (OK, "")),
    },
    Case {
        outcome: Outcome::DeleteMiss,
        text: ("delete KEY", "NOT_FOUND"),
        meta: Some(("md KEY", "NF")),
        binary: ((DELETE, b"", ""), (NOT_FOUND, "Not found")),
    },
    Case {
        outcome: Outcome::IncrHit,
        text: ("incr KEY 1", "6"),
        meta: Some(("ma KEY v", "VA 1\r\n6")),
        binary: ((INCREMENT, BY_ONE, ""), (OK, "6")),
    },
    Case {
        outcome: Outcome::IncrMiss,
        text: ("incr KEY 1", "NOT_FOUND"),
        meta: Some(("ma KEY v", "NF")),
        binary: ((INCREMENT, BY_ONE, ""), (NOT_FOUND, "Not found")),
    },
    Case {
        outcome: Outcome::DecrHit,
        text: ("decr KEY 1", "4"),
        meta: Some(("ma KEY MD v", "VA 1\r\n4")),
        binary: ((DECREMENT, BY_ONE, ""), (OK, "4")),
    },
    Case {
        outcome: Outcome::DecrMiss,
        text: ("decr KEY 1", "NOT_FOUND"),
        meta: Some(("ma KEY MD v", "NF")),
        binary: ((DECREMENT, BY_ONE, ""), (NOT_FOUND, "Not found")),
    },
    Case {
        outcome: Outcome::GetHit,
        text: ("get KEY", "VALUE KEY 0 1\r\n5\r\nEND"),
        meta: Some(("mg KEY v", "VA 1\r\n5")),
        binary: ((GET, b"", ""), (OK, "5")),
    },
    Case {
        outcome: Outcome::GetMiss,
        text: ("get KEY", "END"),
        meta: Some(("mg KEY v", "EN")),
        binary: ((GET, b"", ""), (NOT_FOUND, "Not found")),
    },
    Case {
        outcome: Outcome::AppendHit,
        text: ("append KEY 0 0 1\r\n7", "STORED"),
        meta: Some(("ms KEY 1 MP\r\n7", "HD")),
        binary: ((PREPEND, b"", "7"), (OK, "")),
    },
    Case {
        outcome: Outcome::AppendMiss,
        text: ("prepend KEY 0 0 1\r\n7", "NOT_STORED"),
        meta: Some(("ms KEY 1 MA\r\n7", "NS")),
        binary: ((APPEND, b"", "7"), (NOT_STORED, "Not stored.")),
    },
    Case {
        outcome: Outcome::CasStored,
        text: ("cas KEY 0 0 1 UNIQUE\r\n7", "STORED"),
        meta: Some(("ms KEY 1 CUNIQUE\r\n7", "HD")),
        binary: ((SET, STORE, "7"), (OK, "")),
    },
    Case {
        outcome: Outcome::CasExists,
        text: ("cas KEY 0 0 1 UNIQUE\r\n7", "EXISTS"),
        meta: Some(("ms KEY 1 CUNIQUE\r\n7", "EX")),
        binary: ((SET, STORE, "7"), (EXISTS, "Data exists for key.")),
    },
    Case {
        outcome: Outcome::CasNotFound,
        text: ("cas KEY 0 0 1 UNIQUE\r\n7", "NOT_FOUND"),
        meta: Some(("ms KEY 1 CUNIQUE\r\n7", "NF")),
        binary: ((SET, STORE, "7"), (NOT_FOUND, "Not found")),
    },
    Case {
        outcome: Outcome::Flush,
        text: ("flush_all", "OK"),
        meta: None,
        binary: ((FLUSH, b"", ""), (OK, "")),
    },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Text,
    Meta,
    Binary,
}

impl Case {
    /// Whether it has to do with one key and finds its item.
    fn finds(&self) -> bool {
        use Outcome::{
            AddHit, AppendMiss, CasNotFound, DecrMiss, DeleteMiss, GetMiss, IncrMiss, ReplaceMiss,
        };
        !matches!(
            self.outcome,
            AddHit
                | ReplaceMiss
                | DeleteMiss
                | IncrMiss
                | DecrMiss
                | GetMiss
                | AppendMiss
                | CasNotFound
        )
    }

    /// Where the item can be for it to end so.
    fn held(&self) -> &'static [Held] {
        match self.outcome {
            Outcome::SetHit | Outcome::SetMiss => &[Held::Here, Held::Elsewhere, Held::Nowhere],
            Outcome::Flush => &[Held::Nowhere],
            _ if self.finds() => &[Held::Here, Held::Elsewhere],
            _ => &[Held::Nowhere],
        }
    }

    /// What it takes, by docs/locality.md.
    fn requests(&self, architecture: Architecture, held: Held, by: Protocol) -> Requests {
        let is_flush = self.outcome == Outcome::Flush;
        match architecture {
            Architecture::Sdc if is_flush => [0, 0, 0, RACKS.len() as u64],
            // Twice: a copy that is being filled is not there any more, either.
            Architecture::Sdr if is_flush => [2, 2, 0, 0],
            _ if is_flush => [1, 1, 1, 0],
            Architecture::Sdc => [0, 0, 0, 1],
            // Home, and the copy in the other rack.
            Architecture::Sdr if !self.outcome.is_read() => [1, 1, 0, 0],
            // The copy in the own rack has nothing: home is asked. Behind the answer a placeholder is put, home asked again, and the copy stored.
            Architecture::Sdr if by == Protocol::Text && held == Held::Elsewhere => [3, 2, 0, 0],
            Architecture::Sds | Architecture::Sdr if held == Held::Elsewhere => [0, 1, 0, 0],
            Architecture::Sds | Architecture::Sdr => [1, 0, 0, 0],
            Architecture::Snoop => of_table(Kind::Snoop, self.outcome, held),
            Architecture::Dir => of_table(Kind::Directory, self.outcome, held),
        }
    }
}

/// The requests of a row of the table of round trips.
fn of_table(kind: Kind, outcome: Outcome, held: Held) -> Requests {
    let rounds = rounds(kind, outcome, held).expect("it can end so");
    let is_set = matches!(outcome, Outcome::SetHit | Outcome::SetMiss);
    // What nobody is known to hold is looked for in all racks, and notes go to all.
    let to_all = held == Held::Nowhere || kind == Kind::Snoop && is_set;
    // What is not found is deleted in the own rack as well.
    let deletes_here = u8::from(outcome == Outcome::DeleteMiss);
    let third = if to_all { rounds.other } else { 0 };
    let own = rounds.own + deletes_here;
    [own, rounds.other, third, rounds.directory].map(u64::from)
}

/// The connections of an application, one for each way to ask.
struct Application {
    lines: Client,
    packets: TcpStream,
}

impl Application {
    fn new(address: SocketAddr) -> Self {
        let packets = TcpStream::connect(address).expect("it listens");
        packets.set_nodelay(true).expect("a socket");
        packets
            .set_read_timeout(Some(IO_TIMEOUT))
            .expect("a socket");
        Application {
            lines: Client::connect(address),
            packets,
        }
    }

    /// Asks, and compares the answer.
    fn ask(&mut self, case: &Case, by: Protocol, key: &str, unique: Option<u64>) {
        let large = "x".repeat(LARGE_LEN);
        let told = format!("{by:?} {:?} {key}", case.outcome);
        let lines = match by {
            Protocol::Text => Some(case.text),
            Protocol::Meta => case.meta,
            Protocol::Binary => {
                let ((opcode, extras, value), expected) = case.binary;
                let key = if opcode == FLUSH { "" } else { key };
                let value = value.replace("LARGE", &large);
                self.send_packet((opcode, unique.unwrap_or(0)), extras, key, &value);
                let (status, value) = self.packet();
                assert_eq!((status, &*value), expected, "{told}");
                None
            }
        };
        if let Some((request, expected)) = lines {
            let unique = unique.unwrap_or(0).to_string();
            let request = request.replace("KEY", key).replace("UNIQUE", &unique);
            let request = request.replace("LARGE", &large) + "\r\n";
            self.lines.send(request.as_bytes());
            for line in expected.replace("KEY", key).split("\r\n") {
                assert_eq!(self.lines.line(), line, "{told}");
            }
        }
    }

    fn send_packet(&mut self, (opcode, cas): (u8, u64), extras: &[u8], key: &str, value: &str) {
        let body = extras.len() + key.len() + value.len();
        let mut packet = vec![0x80, opcode];
        packet.extend((key.len() as u16).to_be_bytes());
        packet.extend([extras.len() as u8, 0, 0, 0]);
        packet.extend((body as u32).to_be_bytes());
        packet.extend([0; 4]);
        packet.extend(cas.to_be_bytes());
        packet.extend([extras, key.as_bytes(), value.as_bytes()].concat());
        self.packets.write_all(&packet).expect("it reads");
    }

    /// Status and value of an answer; that of a count as its digits.
    fn packet(&mut self) -> (u16, String) {
        let mut head = [0; 24];
        self.packets.read_exact(&mut head).expect("an answer");
        let len = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
        let mut body = vec![0; len as usize];
        self.packets.read_exact(&mut body).expect("all of it");
        let status = u16::from_be_bytes([head[6], head[7]]);
        let value = &body[usize::from(head[4])..];
        let is_count = status == OK && matches!(head[1], INCREMENT | DECREMENT);
        let value = match <[u8; 8]>::try_from(value) {
            Ok(count) if is_count => u64::from_be_bytes(count).to_string(),
            _ => String::from_utf8_lossy(value).into_owned(),
        };
        (status, value)
    }
}

/// What an application of the first rack sees, and what others have done before.
struct World {
    architecture: Architecture,
    racks: Racks,
    application: Application,
    /// Another proxy of the first rack, so that the one that is asked has set nothing itself; and one of each other rack.
    writers: Vec<Client>,
    _beside: Process,
    keys: usize,
    /// What the application's proxy is to have asked so far.
    expected: Requests,
}

impl World {
    fn new(architecture: Architecture) -> Self {
        let racks = Racks::start(&RacksOptions {
            // With a copy in the other one.
            racks: if architecture == Architecture::Sdr {
                2
            } else {
                RACKS.len()
            },
            flags: vec!["-I".to_owned(), ITEM_MAX.to_owned()],
            architecture,
            ..RacksOptions::default()
        });
        let config = racks.config.display().to_string();
        let beside = evenkeel::proxy(&["--config", &config, "--name", "beside", "--rack", "a"]);
        let others = racks.proxies[1..].iter().map(Process::address);
        let writers = [beside.address()].into_iter().chain(others);
        World {
            architecture,
            writers: writers.map(Client::connect).collect(),
            application: Application::new(racks.address(0)),
            _beside: beside,
            racks,
            keys: 0,
            expected: Requests::default(),
        }
    }

    /// A key whose item is there, with the value `5`.
    fn key(&mut self, held: Held) -> String {
        loop {
            self.keys += 1;
            let key = format!("key-{}", self.keys);
            let rack = usize::from(held == Held::Elsewhere) * ELSEWHERE;
            let moves = self.architecture.moves_items();
            if moves && held == Held::Nowhere {
                return key;
            }
            let writer = if moves { rack } else { 0 };
            assert_eq!(self.writers[writer].set(&key, b"5"), "STORED");
            let is_there =
                |server: &Memcached| server.client().get(&key).is_some_and(|it| it.flags == 0);
            let at = self.racks.servers.iter().position(is_there);
            if held == Held::Nowhere {
                assert_eq!(self.writers[writer].delete(&key), "DELETED");
            }
            if at == Some(rack) || self.architecture == Architecture::Sdc {
                return key;
            }
            assert!(!moves, "{key} is in rack {at:?}");
        }
    }

    fn check(&mut self, case: &Case, held: Held, by: Protocol) {
        let key = self.key(held);
        let writer = match held {
            Held::Elsewhere if self.architecture.moves_items() => ELSEWHERE,
            _ => 0,
        };
        let unique = case.text.0.contains("UNIQUE").then(|| {
            let seen = self.writers[writer].gets(&key);
            seen.and_then(|value| value.cas).unwrap_or(1)
        });
        if case.outcome == Outcome::CasExists {
            assert_eq!(self.writers[writer].set(&key, b"5"), "STORED");
        }
        self.application.ask(case, by, &key, unique);
        let requests = case.requests(self.architecture, held, by);
        self.takes(requests, &format!("{by:?} {:?} {held:?}", case.outcome));
    }

    /// This much more has been asked; what goes on behind an answer is waited for.
    fn takes(&mut self, requests: Requests, what: &str) {
        let before = self.expected;
        for (expected, more) in self.expected.iter_mut().zip(requests) {
            *expected += more;
        }
        let what = format!("{:?}: {what}: {requests:?}", self.architecture);
        poll_until(PATIENCE, &what, || {
            let asked = self.asked();
            let took: Vec<_> = asked
                .iter()
                .zip(before)
                .map(|(asked, before)| asked - before)
                .collect();
            let is_more = asked
                .iter()
                .zip(self.expected)
                .any(|(asked, expected)| *asked > expected);
            assert!(!is_more, "{what}, but it took {took:?}");
            (asked == self.expected).then_some(())
        });
    }

    /// Requests that the application's proxy has sent to the memcacheds of each rack.
    fn asked(&mut self) -> Requests {
        let stats = self.application.lines.stats("locality");
        let [a, b, c] = RACKS;
        [a, b, c, "core"].map(|rack| {
            let requests = stats.get(&format!("{rack}:requests"));
            requests.map_or(0, |it| it.parse().expect("a number"))
        })
    }
}

fn outcomes_of(architecture: Architecture) {
    let mut world = World::new(architecture);
    for by in [Protocol::Text, Protocol::Meta, Protocol::Binary] {
        for case in CASES
            .iter()
            .filter(|case| by != Protocol::Meta || case.meta.is_some())
        {
            for held in case.held() {
                world.check(case, *held, by);
            }
        }
    }
    // What a proxy of one rack has done makes the next command shorter: a set, whose unique it remembers; a read, which has filled a copy.
    let (again, held) = match architecture {
        Architecture::Snoop | Architecture::Dir => (Outcome::SetHit, Held::Nowhere),
        Architecture::Sdr => (Outcome::GetHit, Held::Elsewhere),
        Architecture::Sdc | Architecture::Sds => return,
    };
    let mut cases = CASES.iter();
    let case = cases.find(|case| case.outcome == again).expect("it is one");
    let key = world.key(held);
    for requests in [
        case.requests(architecture, held, Protocol::Text),
        [1, 0, 0, 0],
    ] {
        world.application.ask(case, Protocol::Text, &key, None);
        world.takes(requests, "again");
    }
}

#[test]
fn each_outcome_is_answered_and_asked_for_in_racks_as_the_page_of_locality_says() {
    let figure_1 = Outcome::ALL
        .into_iter()
        .filter(|outcome| *outcome != Outcome::Other);
    assert!(figure_1.eq(CASES.iter().map(|case| case.outcome)));
    thread::scope(|scope| {
        for architecture in Architecture::ALL {
            scope.spawn(move || outcomes_of(architecture));
        }
    });
}

#[test]
fn memcached_answers_as_these_cases_say() {
    let memcached = Memcached::spawn(&["-t", "1", "-I", ITEM_MAX]);
    let mut application = Application::new(memcached.address());
    let mut writer = memcached.client();
    for by in [Protocol::Text, Protocol::Meta, Protocol::Binary] {
        for case in CASES {
            let key = format!("{by:?}-{:?}", case.outcome);
            if case.finds() {
                assert_eq!(writer.set(&key, b"5"), "STORED");
            }
            let unique = case.text.0.contains("UNIQUE").then(|| {
                let seen = writer.gets(&key).and_then(|value| value.cas);
                seen.map_or(1, |unique| {
                    unique - u64::from(case.outcome == Outcome::CasExists)
                })
            });
            application.ask(case, by, &key, unique);
        }
    }
}
