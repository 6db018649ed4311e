//! `evenkeel bench relay`: network paths in user space, between any clients and any servers.
//!
//! TCP goes in at one end of a path and comes out at the other later, by [`Path`]: delay, jitter, the pauses that losses
//! cause, resets, a bound on bytes a second, and the time that a slower server would take for each request line and each key. No rights
//! are needed, and the seed fixes what happens to the n-th connection, as far as its bytes come in the same pieces.
//!
//! One thread, one event loop, a timer of the kernel, for any number of paths: each direction of a connection is a queue of pieces with
//! the times at which they are due.

mod keys;
mod path;

pub use keys::Asked;
pub use path::Path;

use crate::timer::Timer;
use crate::units::parse_duration;
use crate::{BadUsage, Target};
use anyhow::Context;
use keys::KeyCounter;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use path::{Fate, Lane, Line};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of one direction of a connection that may be under way; then its sender has to wait. Over a path
/// of 10 ms it allows 400 MB/s.
const UNDER_WAY_MAX: usize = 4 << 20;

/// Bytes read at a time: a few segments, so that losses and the line's speed see pieces of a network's size.
const READ_LEN: usize = 16 << 10;

/// Most events of one turn.
const EVENTS_MAX: usize = 1024;

const TIMER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);
/// The token of the first path's beginning; the others' are below it.
const FIRST_DOOR: usize = usize::MAX - 2;

/// Puts a network path in front of a server: delay, jitter, losses, resets, a bound on bytes a second.
#[derive(Clone, Debug, clap::Args)]
pub struct RelayArgs {
    /// The server behind it: host:port
    #[arg(long, value_name = "ADDR")]
    pub to: Target,

    /// Address to listen on; port 0 takes a free one and prints it
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub listen: SocketAddr,

    /// Time from one end to the other, in each direction
    #[arg(long, default_value = "0s", value_parser = parse_duration, value_name = "DURATION")]
    pub delay: Duration,

    /// Up to this much more, at random; order is kept
    #[arg(long, default_value = "0s", value_parser = parse_duration, value_name = "DURATION")]
    pub jitter: Duration,

    /// Probability with which a segment of 1460 bytes is lost and sent again
    #[arg(long, default_value_t = 0.0, value_name = "PROBABILITY")]
    pub loss: f64,

    /// What a loss costs; twice that if it is lost again
    #[arg(long, default_value = "200ms", value_parser = parse_duration, value_name = "DURATION")]
    pub retransmit: Duration,

    /// Probability with which a segment resets its connection
    #[arg(long, default_value_t = 0.0, value_name = "PROBABILITY")]
    pub reset: f64,

    /// Bytes a second of each direction, all connections together; 0 for no limit
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    pub bytes_per_second: u64,

    /// Time that the server takes for each key that it is asked for in the text protocol, one after the other: a hard capacity
    #[arg(long, default_value = "0s", value_parser = parse_duration, value_name = "DURATION")]
    pub service_time: Duration,

    /// Time that it takes for each request line that is for keys, besides: a multi-get is one line
    #[arg(long, default_value = "0s", value_parser = parse_duration, value_name = "DURATION")]
    pub service_time_line: Duration,

    /// Fixes what happens to which connection
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Runs a relay as a program until it is killed; prints where it listens. Returns the exit code (1 failed, 2
/// bad usage).
pub fn execute_relay(args: &RelayArgs) -> u8 {
    let path = Path {
        delay: args.delay,
        jitter: args.jitter,
        loss: args.loss,
        retransmit: args.retransmit,
        reset: args.reset,
        bytes_per_second: args.bytes_per_second,
        service_time: args.service_time,
        service_time_line: args.service_time_line,
    };
    let run = || -> anyhow::Result<()> {
        let route = Route {
            listen: args.listen,
            to: args.to.clone(),
            path,
        };
        let relay = Relay::start(vec![route], args.seed)?;
        println!("evenkeel bench relay listening on {}", relay.addresses[0]);
        io::stdout()
            .flush()
            .context("failed to print the address")?;
        relay.wait().context("failed to wait for events")
    };
    match run() {
        Ok(()) => 0,
        Err(error) => crate::run::report_error("relay", &error),
    }
}

/// A path to a server.
#[derive(Clone, Debug)]
pub struct Route {
    /// Where it begins; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where it ends.
    pub to: Target,
    /// What it is like.
    pub path: Path,
}

/// What a path has carried so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Bytes to the server, and from it.
    pub bytes: [u64; 2],
    /// What the server was asked for, if it takes time for that: else it is not counted.
    pub asked: Asked,
}

/// What a path carries, counted before it is passed on: anyone who has received something finds it here.
#[derive(Debug, Default)]
struct Counts {
    bytes: [AtomicU64; 2],
    lines: AtomicU64,
    keys: AtomicU64,
}

impl Counts {
    fn add(&self, way: usize, bytes: usize, asked: Asked) {
        self.bytes[way].fetch_add(bytes as u64, Ordering::Relaxed);
        self.lines.fetch_add(asked.lines, Ordering::Relaxed);
        self.keys.fetch_add(asked.keys, Ordering::Relaxed);
    }

    fn carried(&self) -> Carried {
        Carried {
            bytes: self
                .bytes
                .each_ref()
                .map(|bytes| bytes.load(Ordering::Relaxed)),
            asked: Asked {
                lines: self.lines.load(Ordering::Relaxed),
                keys: self.keys.load(Ordering::Relaxed),
            },
        }
    }
}

/// A running relay. Dropping it ends it, and its connections.
#[derive(Debug)]
pub struct Relay {
    /// Where its paths begin, in the order of the routes.
    pub addresses: Vec<SocketAddr>,
    counts: Arc<[Counts]>,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Relay {
    /// Starts a relay on a thread of its own.
    ///
    /// # Errors
    /// [`BadUsage`] when a path is none; others when it cannot listen.
    pub fn start(routes: Vec<Route>, seed: u64) -> anyhow::Result<Relay> {
        let poll = Poll::new().context("failed to make an event queue")?;
        let doors = routes.into_iter().enumerate();
        let doors = doors.map(|(number, route)| Door::open(&poll, number, route));
        let doors = doors.collect::<anyhow::Result<Vec<_>>>()?;
        let addresses = doors.iter().map(|door| door.listener.local_addr());
        let addresses = addresses.collect::<io::Result<Vec<_>>>()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let stop = Arc::new(AtomicBool::new(false));
        let counts: Arc<[Counts]> = doors.iter().map(|_| Counts::default()).collect();
        let timer = Timer::new(&poll, TIMER).context("failed to make a timer")?;
        let worker = Worker {
            poll,
            timer,
            doors,
            seed,
            begun: Instant::now(),
            pairs: BTreeMap::new(),
            next: 0,
            due: BinaryHeap::new(),
            counts: Arc::clone(&counts),
            stop: stop.clone(),
        };
        let builder = std::thread::Builder::new().name("relay".into());
        let thread = builder.spawn(move || worker.run());
        Ok(Relay {
            addresses,
            counts,
            stop,
            waker,
            thread: Some(thread.context("failed to start a thread")?),
        })
    }

    /// What each path has carried so far, in the order of the routes.
    pub fn carried(&self) -> Vec<Carried> {
        self.counts.iter().map(Counts::carried).collect()
    }

    /// Waits until it ends, which it does only by an error.
    fn wait(mut self) -> io::Result<()> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // It wakes by itself otherwise, when something comes.
        let _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic has been reported by its thread; a drop must not add another.
            let _ = thread.join();
        }
    }
}

/// The relay's thread.
struct Worker {
    poll: Poll,
    timer: Timer,
    doors: Vec<Door>,
    seed: u64,
    begun: Instant,
    pairs: BTreeMap<usize, Pair>,
    /// Number of the next connection.
    next: usize,
    /// When something is due for which connection.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    counts: Arc<[Counts]>,
    stop: Arc<AtomicBool>,
}

/// Where a path begins.
struct Door {
    listener: TcpListener,
    to: SocketAddr,
    path: Path,
    /// To the server, and from it.
    lines: [Line; 2],
}

impl Door {
    fn open(poll: &Poll, number: usize, route: Route) -> anyhow::Result<Door> {
        let Route { listen, to, path } = route;
        path.validate()?;
        let Some(to) = to.address() else {
            let what = format!("a relay goes to host:port, which {to} is not");
            return Err(BadUsage(what).into());
        };
        let mut listener =
            TcpListener::bind(listen).with_context(|| format!("failed to listen on {listen}"))?;
        let token = Token(FIRST_DOOR - number);
        poll.registry()
            .register(&mut listener, token, Interest::READABLE)?;
        Ok(Door {
            listener,
            to,
            path,
            lines: [Line::new(&path), Line::new(&path)],
        })
    }
}

/// A connection: its client's socket and its server's.
struct Pair {
    /// Number of the path that it goes.
    door: usize,
    sockets: [TcpStream; 2],
    /// To the server, and from it.
    ways: [Way; 2],
}

/// One direction of a connection.
struct Way {
    lane: Lane,
    /// What is under way, with its time; the end of the stream is an empty piece.
    pieces: VecDeque<(u64, Vec<u8>)>,
    /// The last time for which it was put down to be served.
    awaited_ns: u64,
    /// How much of the first piece has been written.
    written: usize,
    under_way: usize,
    /// The sender has sent everything.
    ended: bool,
    /// Everything has arrived.
    over: bool,
    /// Counts what is asked for, towards a server that takes its time for it.
    counter: Option<KeyCounter>,
}

/// The connection is over.
struct Over;

impl Worker {
    fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut scratch = vec![0; READ_LEN];
        while !self.stop.load(Ordering::Relaxed) {
            if let Err(error) = self.poll.poll(&mut events, None)
                && error.kind() != ErrorKind::Interrupted
            {
                return Err(error);
            }
            for event in &events {
                let door = FIRST_DOOR.wrapping_sub(event.token().0);
                match event.token() {
                    TIMER | WAKER => {}
                    _ if door < self.doors.len() => self.accept(door),
                    Token(token) => self.serve(token / 2, &mut scratch),
                }
            }
            self.deliver(&mut scratch)?;
        }
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    fn accept(&mut self, door: usize) {
        // It fails when there are no more, when one was gone before it was accepted, or without a descriptor for it: others may
        // follow.
        while let Ok((client, _)) = self.doors[door].listener.accept() {
            // Anyone who cannot be connected is closed, as a server that is gone would.
            let _ = self.open(door, client);
        }
    }

    fn open(&mut self, door: usize, mut client: TcpStream) -> io::Result<()> {
        let Door { to, path, .. } = self.doors[door];
        let mut server = TcpStream::connect(to)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let id = self.next;
        self.next += 1;
        let both = Interest::READABLE | Interest::WRITABLE;
        let registry = self.poll.registry();
        registry.register(&mut client, Token(2 * id), both)?;
        registry.register(&mut server, Token(2 * id + 1), both)?;
        let way = |number: usize| Way {
            lane: Lane::new(path, self.seed, number as u64),
            pieces: VecDeque::new(),
            awaited_ns: 0,
            written: 0,
            under_way: 0,
            ended: false,
            over: false,
            counter: (number.is_multiple_of(2) && path.has_service_time())
                .then(KeyCounter::default),
        };
        let pair = Pair {
            door,
            sockets: [client, server],
            ways: [way(2 * id), way(2 * id + 1)],
        };
        self.pairs.insert(id, pair);
        Ok(())
    }

    /// Reads what can be read, and writes what is due.
    fn serve(&mut self, id: usize, scratch: &mut [u8]) {
        let now_ns = self.now_ns();
        let Some(pair) = self.pairs.get_mut(&id) else {
            return;
        };
        let (door, counts) = (&mut self.doors[pair.door], &self.counts[pair.door]);
        for way in 0..2 {
            let passed = pair.pass(way, now_ns, (&mut door.lines, counts), scratch);
            if passed.is_err() {
                self.pairs.remove(&id);
                return;
            }
            let way = &mut pair.ways[way];
            if let Some(&(at, _)) = way.pieces.front()
                && at > now_ns
                && at != way.awaited_ns
            {
                way.awaited_ns = at;
                self.due.push(Reverse((at, id)));
            }
        }
        if pair.ways.iter().all(|way| way.over) {
            self.pairs.remove(&id);
        }
    }

    /// Serves those for whom something is due, and sets the timer for the next.
    fn deliver(&mut self, scratch: &mut [u8]) -> io::Result<()> {
        loop {
            let now_ns = self.now_ns();
            match self.due.peek() {
                Some(&Reverse((at, id))) if at <= now_ns => {
                    self.due.pop();
                    self.serve(id, scratch);
                }
                Some(&Reverse((at, _))) => return self.timer.arm(at, now_ns),
                None => return Ok(()),
            }
        }
    }
}

impl Pair {
    /// Reads what there is room for and writes what is due.
    fn pass(
        &mut self,
        index: usize,
        now_ns: u64,
        (lines, counts): (&mut [Line; 2], &Counts),
        scratch: &mut [u8],
    ) -> Result<(), Over> {
        loop {
            self.read(index, now_ns, (&mut *lines, counts), scratch)?;
            let was_full = self.ways[index].under_way >= UNDER_WAY_MAX;
            self.write(index, now_ns)?;
            // What there was no room for will not be announced again.
            if !was_full || self.ways[index].under_way >= UNDER_WAY_MAX {
                return Ok(());
            }
        }
    }

    fn read(
        &mut self,
        index: usize,
        now_ns: u64,
        (lines, counts): (&mut [Line; 2], &Counts),
        scratch: &mut [u8],
    ) -> Result<(), Over> {
        let (socket, way) = (&mut self.sockets[index], &mut self.ways[index]);
        while !way.ended && way.under_way < UNDER_WAY_MAX {
            let count = match socket.read(scratch) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // Not connected yet.
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Err(Over),
            };
            way.ended = count == 0;
            let counter = way.counter.as_mut();
            let asked = counter.map_or_else(Asked::default, |it| it.count(&scratch[..count]));
            counts.add(index, count, asked);
            match way.lane.enter(now_ns, count, asked, &mut lines[index]) {
                Fate::Arrives(at) => {
                    way.pieces.push_back((at, scratch[..count].to_vec()));
                    way.under_way += count;
                }
                Fate::Resets => {
                    for socket in &self.sockets {
                        // Closing it then sends a reset. Where it cannot be had, it is closed in order.
                        let _ = socket2::SockRef::from(socket).set_linger(Some(Duration::ZERO));
                    }
                    return Err(Over);
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, index: usize, now_ns: u64) -> Result<(), Over> {
        let (socket, way) = (&mut self.sockets[1 - index], &mut self.ways[index]);
        while let Some((at, piece)) = way.pieces.front() {
            if *at > now_ns {
                return Ok(());
            }
            if piece.is_empty() {
                way.over = true;
                way.pieces.pop_front();
                // Anyone who has closed its other half already needs not be told.
                let _ = socket.shutdown(std::net::Shutdown::Write);
                continue;
            }
            match socket.write(&piece[way.written..]) {
                Ok(0) => return Err(Over),
                Ok(count) => {
                    way.written += count;
                    if way.written == piece.len() {
                        way.under_way -= piece.len();
                        way.written = 0;
                        way.pieces.pop_front();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Over),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;
    use std::io::prelude::*;
    use std::net::{Shutdown, TcpListener as StdListener, TcpStream as StdStream};

    const ANYWHERE: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

    /// A server that sends back what it gets.
    fn echo() -> Target {
        let listener = StdListener::bind(SocketAddr::from(ANYWHERE)).expect("a port");
        let address = listener.local_addr().expect("its address");
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut reader = stream.try_clone().expect("a descriptor");
                    // A reset ends it early.
                    let _ = io::copy(&mut reader, &mut &stream);
                    let _ = stream.shutdown(Shutdown::Write);
                });
            }
        });
        Target::from(address)
    }

    /// A relay with these paths, each to a server of its own.
    fn relay<const N: usize>(paths: [Path; N]) -> Relay {
        let routes = paths.map(|path| Route {
            listen: ANYWHERE.into(),
            to: echo(),
            path,
        });
        Relay::start(routes.into(), 1).expect("a relay")
    }

    /// Sends a line there and back.
    fn send(address: SocketAddr, line: &str) -> StdStream {
        let mut stream = StdStream::connect(address).expect("it listens");
        stream.write_all(line.as_bytes()).expect("room");
        let mut back = String::new();
        BufReader::new(&stream)
            .read_line(&mut back)
            .expect("an answer");
        assert_eq!(back, line);
        stream
    }

    #[test]
    fn each_path_is_what_it_is_and_counts_what_it_carries() {
        let delay = Duration::from_millis(20);
        let far = Path {
            delay,
            ..Path::default()
        };
        let slowed = Path {
            service_time: Duration::from_micros(1),
            ..Path::default()
        };
        let relay = relay([far, slowed]);
        let begun = Instant::now();
        let _far = send(relay.addresses[0], "get a b\r\n");
        assert!(begun.elapsed() >= 2 * delay, "there and back");
        let _near = send(relay.addresses[1], "get a b c\r\n");
        let [far, slowed] = relay.carried()[..] else {
            panic!("there are two");
        };
        assert_eq!((far.bytes, far.asked), ([9, 9], Asked::default()));
        let asked = Asked { lines: 1, keys: 3 };
        assert_eq!((slowed.bytes, slowed.asked), ([11, 11], asked));
    }

    #[test]
    fn what_goes_in_comes_out_after_the_delay() {
        let delay = Duration::from_millis(30);
        let relay = relay([Path {
            delay,
            ..Path::default()
        }]);
        let begun = Instant::now();
        let mut stream = send(relay.addresses[0], "hello\n");
        assert!(begun.elapsed() >= 2 * delay, "there and back");
        stream.shutdown(Shutdown::Write).expect("open");
        assert_eq!(stream.read(&mut [0; 8]).expect("the end comes through"), 0);
    }

    #[test]
    fn more_than_fits_comes_through_whole() {
        let relay = relay([Path {
            delay: Duration::from_millis(1),
            jitter: Duration::from_millis(1),
            ..Path::default()
        }]);
        let stream = StdStream::connect(relay.addresses[0]).expect("it listens");
        let bytes: Vec<u8> = (0..3 * UNDER_WAY_MAX)
            .map(|n| (n / 7 % 251) as u8)
            .collect();
        let sender = {
            let (stream, bytes) = (stream.try_clone().expect("a descriptor"), bytes.clone());
            std::thread::spawn(move || {
                (&stream).write_all(&bytes).expect("room in the end");
                stream.shutdown(Shutdown::Write).expect("open");
            })
        };
        let mut back = Vec::new();
        (&stream).read_to_end(&mut back).expect("all of it");
        sender.join().expect("it sent all");
        assert!(back == bytes, "{} of {} bytes", back.len(), bytes.len());
    }

    #[test]
    fn resets_reach_the_client() {
        let relay = relay([Path {
            reset: 1.0,
            ..Path::default()
        }]);
        let mut stream = StdStream::connect(relay.addresses[0]).expect("it listens");
        stream.write_all(b"hello\n").expect("room");
        let error = stream.read(&mut [0; 8]).expect_err("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
}
