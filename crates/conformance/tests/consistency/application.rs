//! One application connection after another, asking at random and noting everything.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evenkeel_sim::history::{Action, Effect, Found, History, NEVER, Operation, WriteId};
use evenkeel_testkit::poll_until;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The keys, before the number of the round is added; the first is the hottest.
pub const KEYS: [&str; 8] = [
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta",
];

/// Most commands sent before their answers are read.
const PIPELINE_MAX: u64 = 8;

/// Of a thousand commands, this many write unless something else is said.
const WRITES_PER_MILLE: u64 = 20;

/// Anyone who waits longer for an answer takes the proxy to hang: several times its request timeout, or twice the longest.
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);

/// A value that names no write.
const ALIEN: WriteId = WriteId(u64::MAX);

/// What all applications of a history share.
pub struct Shared {
    pub stop: AtomicBool,
    seed: u64,
    keys: [String; KEYS.len()],
    writes_per_mille: u64,
    /// Reads are plain: what copies may answer that have no versions.
    reads_plainly: bool,
    /// Microseconds between the answers to one burst of commands and the next.
    thinking_us: AtomicU64,
    /// When the clock of the history began.
    start: Instant,
    clients: AtomicU32,
    writes: AtomicU64,
    /// Values that were read.
    values: AtomicU64,
    /// Keys whose versions do not grow through the whole history.
    incomparable: Mutex<BTreeSet<u16>>,
}

impl Shared {
    pub fn new(seed: u64) -> Self {
        Shared {
            stop: AtomicBool::new(false),
            seed,
            keys: KEYS.map(str::to_owned),
            writes_per_mille: WRITES_PER_MILLE,
            reads_plainly: false,
            thinking_us: AtomicU64::new(0),
            start: Instant::now(),
            clients: AtomicU32::new(0),
            writes: AtomicU64::new(0),
            values: AtomicU64::new(0),
            incomparable: Mutex::default(),
        }
    }

    /// With keys that no other round has.
    pub fn in_round(self, round: u64) -> Self {
        Shared {
            keys: KEYS.map(|key| format!("{key}-{round}")),
            ..self
        }
    }

    /// Of a thousand commands, this many write.
    pub fn writing(self, writes_per_mille: u64) -> Self {
        Shared {
            writes_per_mille,
            ..self
        }
    }

    /// With reads that ask for no versions.
    pub fn reading_plainly(self) -> Self {
        Shared {
            reads_plainly: true,
            ..self
        }
    }

    /// With this much time between the answers to one burst of commands and the next.
    pub fn thinking(self, thinking: Duration) -> Self {
        self.think(thinking);
        self
    }

    /// From now on there is this much time between them.
    pub fn think(&self, thinking: Duration) {
        let thinking = u64::try_from(thinking.as_micros()).expect("nobody thinks for this long");
        self.thinking_us.store(thinking, Ordering::Relaxed);
    }

    pub fn key(&self, key: usize) -> &str {
        &self.keys[key]
    }

    pub fn hottest(&self) -> &str {
        &self.keys[0]
    }

    /// The clock of the history.
    pub fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).expect("a test is shorter than 584 years")
    }

    /// How many values were read so far.
    pub fn values(&self) -> u64 {
        self.values.load(Ordering::Relaxed)
    }

    /// The name of a connection in the history.
    pub fn new_client(&self) -> u32 {
        self.clients.fetch_add(1, Ordering::Relaxed)
    }

    /// From now on versions of these keys may begin anew.
    pub fn forget_versions(&self, keys: &[u16]) {
        let mut incomparable = self.incomparable.lock().expect("nobody panics with it");
        incomparable.extend(keys);
    }

    /// The history without the versions that cannot be compared.
    pub fn comparable(&self, mut history: History) -> History {
        let incomparable = self.incomparable.lock().expect("nobody panics with it");
        history
            .operations
            .iter_mut()
            .filter(|operation| incomparable.contains(&operation.key))
            .for_each(forget_version);
        history
    }
}

fn forget_version(operation: &mut Operation) {
    match &mut operation.action {
        Action::Read(Found::Value { version, .. })
        | Action::Write {
            effect: Effect::Done { version },
            ..
        }
        | Action::Delete(Effect::Done { version }) => *version = None,
        _ => {}
    }
}

/// How the answer to a command looks.
enum Kind {
    /// Values and an end.
    Get,
    /// A meta command's line, with a value for a hit.
    MetaGet,
    Store,
    Delete,
}

struct Pending {
    kind: Kind,
    /// Positions of its operations, one for each key.
    operations: Vec<usize>,
}

/// An application: one connection, and another one whenever it ends.
pub struct Application<'a> {
    shared: &'a Shared,
    proxy: SocketAddr,
    random: Xoshiro256PlusPlus,
    client: u32,
    operations: Vec<Operation>,
    pending: VecDeque<Pending>,
    /// The newest version that this connection was shown of each key.
    versions: [Option<(WriteId, u64)>; KEYS.len()],
}

impl<'a> Application<'a> {
    /// The connections of a history differ in their number.
    pub fn new(shared: &'a Shared, proxy: SocketAddr, number: u64) -> Self {
        let seed = shared.seed.wrapping_add(number << 32);
        Application {
            shared,
            proxy,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            client: shared.new_client(),
            operations: Vec::new(),
            pending: VecDeque::new(),
            versions: [None; KEYS.len()],
        }
    }

    /// Asks until it is told to stop, and gives what it was told.
    pub fn run(mut self) -> Vec<Operation> {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let stream = poll_until(ANSWER_DEADLINE, "the proxy to listen", || {
                TcpStream::connect(self.proxy).ok()
            });
            stream.set_nodelay(true).expect("a socket has no delay");
            stream
                .set_read_timeout(Some(ANSWER_DEADLINE))
                .expect("a socket takes a deadline");
            let error = self.converse(&mut BufReader::new(stream)).err();
            if let Some(error) = error {
                let is_late = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(
                    !is_late,
                    "no answer for {ANSWER_DEADLINE:?}: the proxy hangs"
                );
            }
            self.pending.clear();
            self.client = self.shared.new_client();
            self.versions = [None; KEYS.len()];
        }
        self.operations
    }

    fn converse(&mut self, stream: &mut BufReader<TcpStream>) -> io::Result<()> {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let mut bytes = Vec::new();
            let first = self.operations.len();
            for _ in 0..=self.below(PIPELINE_MAX) {
                self.compose(&mut bytes);
            }
            let now = self.shared.now();
            for operation in &mut self.operations[first..] {
                operation.invoked = now;
            }
            stream.get_mut().write_all(&bytes)?;
            while let Some(pending) = self.pending.pop_front() {
                self.answer(stream, &pending)?;
            }
            let thinking = self.shared.thinking_us.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_micros(thinking));
        }
        Ok(())
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    fn some_key(&mut self) -> usize {
        match self.below(10) {
            0..5 => 0,
            5..7 => 1,
            _ => self.below(KEYS.len() as u64) as usize,
        }
    }

    fn begin(&mut self, key: usize, action: Action) -> usize {
        self.operations.push(Operation {
            client: self.client,
            key: key as u16,
            invoked: 0,
            completed: NEVER,
            action,
        });
        self.operations.len() - 1
    }

    fn compose(&mut self, out: &mut Vec<u8>) {
        let key = self.some_key();
        let name = self.shared.key(key).to_owned();
        if self.below(1000) >= self.shared.writes_per_mille {
            let read = Action::Read(Found::Unknown);
            let is_plain = self.shared.reads_plainly;
            let (kind, keys) = match self.below(10) {
                0..4 => (Kind::Get, vec![key]),
                4..8 if is_plain => (Kind::Get, vec![key]),
                4..8 => (Kind::MetaGet, vec![key]),
                _ => (Kind::Get, (0..KEYS.len()).collect()),
            };
            match kind {
                Kind::MetaGet => out.extend(format!("mg {name} v c\r\n").bytes()),
                _ => {
                    let names: Vec<_> = keys.iter().map(|&key| self.shared.key(key)).collect();
                    let word = if is_plain { "get" } else { "gets" };
                    out.extend(format!("{word} {}\r\n", names.join(" ")).bytes());
                }
            }
            let operations = keys
                .iter()
                .map(|&key| self.begin(key, read.clone()))
                .collect();
            self.pending.push_back(Pending { kind, operations });
            return;
        }
        let choice = self.below(10);
        let (kind, action) = match (choice, self.versions[key]) {
            (0, _) => {
                out.extend(format!("delete {name}\r\n").bytes());
                (Kind::Delete, Action::Delete(Effect::Unknown))
            }
            (1 | 2, Some((old, version))) => {
                let (id, value) = self.new_value();
                let len = value.len();
                out.extend(format!("cas {name} 0 0 {len} {version}\r\n{value}\r\n").bytes());
                let (expects, effect) = (Some(old), Effect::Unknown);
                (
                    Kind::Store,
                    Action::Write {
                        id,
                        expects,
                        effect,
                    },
                )
            }
            _ => {
                // The answer tells the version.
                let (id, value) = self.new_value();
                out.extend(format!("ms {name} {} c\r\n{value}\r\n", value.len()).bytes());
                let (expects, effect) = (None, Effect::Unknown);
                (
                    Kind::Store,
                    Action::Write {
                        id,
                        expects,
                        effect,
                    },
                )
            }
        };
        let operations = vec![self.begin(key, action)];
        self.pending.push_back(Pending { kind, operations });
    }

    fn new_value(&mut self) -> (WriteId, String) {
        let id = WriteId(self.shared.writes.fetch_add(1, Ordering::Relaxed));
        (id, value_of(id))
    }

    fn answer(&mut self, stream: &mut BufReader<TcpStream>, pending: &Pending) -> io::Result<()> {
        match pending.kind {
            Kind::Get => self.values(stream, pending),
            Kind::MetaGet => {
                let line = line(stream)?;
                let found = match line.split_once(' ') {
                    Some(("VA", rest)) => {
                        let (len, flags) = rest.split_once(' ').ok_or_else(|| bad(&line))?;
                        let data = data(stream, len.parse().map_err(|_| bad(&line))?)?;
                        let version = flags.strip_prefix('c').and_then(|c| c.parse().ok());
                        self.found(pending.operations[0], &data, version)
                    }
                    _ if line == "EN" => Found::Miss,
                    _ if line.starts_with("SERVER_ERROR ") => Found::Unknown,
                    _ => return Err(bad(&line)),
                };
                self.end(pending.operations[0], Action::Read(found));
                Ok(())
            }
            Kind::Store | Kind::Delete => {
                let line = line(stream)?;
                let effect = match line.split(' ').next().unwrap_or_default() {
                    "HD" => {
                        let version = line.strip_prefix("HD c").and_then(|c| c.parse().ok());
                        Effect::Done { version }
                    }
                    "STORED" | "DELETED" => Effect::Done { version: None },
                    "EXISTS" | "NOT_FOUND" => Effect::None,
                    "SERVER_ERROR" => Effect::Unknown,
                    _ => return Err(bad(&line)),
                };
                let action = match self.operations[pending.operations[0]].action {
                    Action::Write { id, expects, .. } => Action::Write {
                        id,
                        expects,
                        effect,
                    },
                    _ => Action::Delete(effect),
                };
                self.end(pending.operations[0], action);
                Ok(())
            }
        }
    }

    /// Values until the end, in the order of the keys asked for. Those that are left out are not there; after an
    /// error nothing is known of them, wherever they stand.
    fn values(&mut self, stream: &mut BufReader<TcpStream>, pending: &Pending) -> io::Result<()> {
        let mut rest = pending.operations.iter().copied();
        let mut left_out = Vec::new();
        let otherwise = loop {
            let line = line(stream)?;
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                ["VALUE", key, _, len, ref version @ ..] => {
                    let data = data(stream, len.parse().map_err(|_| bad(&line))?)?;
                    let version = version.first().map(|version| version.parse());
                    let version = version.transpose().map_err(|_| bad(&line))?;
                    let operation = loop {
                        let operation = rest.next().ok_or_else(|| bad(&line))?;
                        if self.shared.key(usize::from(self.operations[operation].key)) == key {
                            break operation;
                        }
                        left_out.push(operation);
                    };
                    let found = self.found(operation, &data, version);
                    self.end(operation, Action::Read(found));
                }
                ["END"] => break Found::Miss,
                ["SERVER_ERROR", ..] => break Found::Unknown,
                _ => return Err(bad(&line)),
            }
        };
        for operation in left_out.into_iter().chain(rest) {
            self.end(operation, Action::Read(otherwise));
        }
        Ok(())
    }

    fn found(&mut self, operation: usize, data: &[u8], version: Option<u64>) -> Found {
        let id = core::str::from_utf8(data).ok().and_then(|text| {
            let id = WriteId(text.split('.').next()?.parse().ok()?);
            (value_of(id) == text).then_some(id)
        });
        let key = usize::from(self.operations[operation].key);
        if let (Some(id), Some(version)) = (id, version) {
            self.versions[key] = Some((id, version));
        }
        self.shared.values.fetch_add(1, Ordering::Relaxed);
        let write = id.unwrap_or(ALIEN);
        Found::Value { write, version }
    }

    fn end(&mut self, operation: usize, action: Action) {
        let operation = &mut self.operations[operation];
        operation.completed = self.shared.now();
        operation.action = action;
    }
}

/// The value that a write stores; its length varies.
fn value_of(id: WriteId) -> String {
    let padding = (id.0 % 97) as usize * (id.0 % 13) as usize;
    format!("{}.{:x<padding$}", id.0, "")
}

fn bad(line: &str) -> io::Error {
    // Not an error of the connection, but of what was said on it.
    panic!("a command was answered {line:?}");
}

/// A line without its end.
pub fn line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    match line.strip_suffix("\r\n") {
        Some(line) => Ok(line.to_owned()),
        None => Err(ErrorKind::UnexpectedEof.into()),
    }
}

/// A value of this many bytes, and the end of its line.
pub fn data(stream: &mut BufReader<TcpStream>, len: usize) -> io::Result<Vec<u8>> {
    let mut data = vec![0; len + 2];
    stream.read_exact(&mut data)?;
    data.truncate(len);
    Ok(data)
}
