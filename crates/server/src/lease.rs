//! The thread that keeps the server's serving lease while no coordinator answers: it asks other servers for
//! their votes. What is asked when, and what it is worth, [`LeaseKeeper`] decides.

use crate::control::{Control, WorkerHandle};
use evenkeel_protocol::compose::request;
use evenkeel_protocol::{Limits, Reply, ReplyOutcome, parse_reply};
use evenkeel_runtime::names::{Resolver, literal};
use evenkeel_runtime::{Clock, InputBuffer, Stream};
use evenkeel_server_core::{LeaseKeeper, ServingLease, Step, Voter};
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{BootId, Epoch, ServerId};
use mio::{Events, Interest, Poll, Registry, Token};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The thread looks around this often at least: the coordinator's answers move its deadline.
const LOOK: Duration = Duration::from_millis(100);

/// Answers of one server are read in pieces of this size; each is a line.
const SCRATCH_BYTES: usize = 4096;

/// Rounds that a server may leave unanswered before another connection is tried.
const UNANSWERED_MAX: usize = 4;

/// A server's serving lease, seen by the thread that hears the coordinator and by the one that asks other servers.
#[derive(Clone, Debug)]
pub struct SharedLease {
    keeper: Arc<Mutex<LeaseKeeper>>,
    clock: Clock,
    boot: BootId,
    workers: Vec<WorkerHandle>,
    resolver: Resolver,
}

impl SharedLease {
    /// Of this life of a server.
    pub fn new(boot: BootId, clock: Clock, workers: Vec<WorkerHandle>, resolver: Resolver) -> Self {
        SharedLease {
            keeper: Arc::new(Mutex::new(LeaseKeeper::new(boot))),
            clock,
            boot,
            workers,
            resolver,
        }
    }

    /// Whether the server serves nothing that it owns without a lease.
    pub fn needs_leases(&self) -> bool {
        lock(&self.keeper).needs_leases()
    }

    /// The coordinator's map, which the workers have been told of.
    pub fn handle_map(&self, map: &Arc<ClusterMap>, me: ServerId) {
        lock(&self.keeper).handle_map(map.clone(), me);
    }

    /// The coordinator has answered what was sent at that time.
    pub fn handle_answer(&self, sent: Instant, epoch: Epoch, lease: Option<Duration>) {
        // In this order: a stop in between makes it earlier, not later.
        let now = self.clock.monotonic();
        let sent = now - sent.elapsed();
        let lease = lock(&self.keeper).handle_answer(sent, epoch, lease);
        self.tell(lease);
    }

    /// Asks other servers whenever that is needed, until `stop` is set.
    ///
    /// # Errors
    /// Those of the poll.
    pub fn run(&self, stop: &AtomicBool) -> io::Result<()> {
        let mut asker = Asker::new(self.resolver.clone())?;
        let mut events = Events::with_capacity(64);
        let mut seen = Epoch(0);
        while !stop.load(Ordering::Acquire) {
            let known = lock(&self.keeper).map();
            if let Some((map, me)) = known.filter(|(map, _)| map.epoch() != seen) {
                seen = map.epoch();
                asker.handle_map(&map, me);
            }
            asker.take_addresses();
            let now = self.clock.monotonic();
            let deadline = lock(&self.keeper).poll_deadline();
            if now >= deadline {
                self.step(&mut asker);
            }
            let wait = deadline.since(now).clamp(Duration::from_millis(1), LOOK);
            match asker.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                for (round, server) in asker.serve(event.token()) {
                    let lease = lock(&self.keeper).handle_vote(round, server);
                    lease.into_iter().for_each(|lease| self.tell(lease));
                }
            }
        }
        Ok(())
    }

    fn step(&self, asker: &mut Asker) {
        let applied = self.workers.iter().map(|worker| worker.gauges.epoch());
        let applied = applied.min().unwrap_or(Epoch(0));
        let (step, me) = {
            let mut keeper = lock(&self.keeper);
            let step = keeper.handle_timeout(self.clock.monotonic(), applied);
            (step, keeper.map().map(|(_, me)| me))
        };
        match (step, me) {
            (Step::Lease(lease), _) => self.tell(lease),
            (
                Step::Ask {
                    round,
                    epoch,
                    voters,
                },
                Some(me),
            ) => {
                let mut line = Vec::new();
                request::ask_for_vote(&mut line, epoch, me, self.boot);
                asker.ask(round, &line, &voters);
            }
            _ => {}
        }
    }

    fn tell(&self, lease: ServingLease) {
        for worker in &self.workers {
            worker.say(Control::Lease(lease));
        }
    }
}

/// A panic under the lock has been told of; leases end by themselves.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a server listens for others, as the map says it.
type Place = (String, u16);

/// The connections to other servers.
struct Asker {
    poll: Poll,
    peers: BTreeMap<Token, Peer>,
    /// The other servers of the map.
    places: BTreeMap<ServerId, Place>,
    /// Found out while the coordinator still answers: names may not be known when it does not.
    addresses: BTreeMap<Place, SocketAddr>,
    resolver: Resolver,
    /// Addresses that were found.
    found: (Sender<Found>, Receiver<Found>),
    next_token: usize,
}

/// Where a place is.
type Found = (Place, SocketAddr);

struct Peer {
    server: ServerId,
    address: SocketAddr,
    stream: Stream,
    input: InputBuffer,
    out: Vec<u8>,
    /// Rounds in which it was asked and has not answered.
    asked: VecDeque<u64>,
}

impl Asker {
    fn new(resolver: Resolver) -> io::Result<Self> {
        Ok(Asker {
            poll: Poll::new()?,
            peers: BTreeMap::new(),
            places: BTreeMap::new(),
            addresses: BTreeMap::new(),
            resolver,
            found: channel(),
            next_token: 0,
        })
    }

    /// Has it found out where all other servers of a map are. What was known stays known until there is something newer.
    fn handle_map(&mut self, map: &ClusterMap, me: ServerId) {
        let others = map.servers_up().filter(|server| server.id != me);
        let place = |host: &str, port: u16| (host.to_owned(), port);
        self.places = others
            .map(|server| (server.id, place(&server.host, server.worker_ports[0])))
            .collect();
        let used: BTreeSet<&Place> = self.places.values().collect();
        self.addresses.retain(|place, _| used.contains(place));
        self.places.values().for_each(|place| self.look_up(place));
    }

    /// Has it found out where a server is; see [`take_addresses`](Self::take_addresses).
    fn look_up(&self, place: &Place) {
        let (host, port) = place;
        let (found, place) = (self.found.0.clone(), place.clone());
        // Nobody hears it any more once the server has stopped.
        match literal(host, *port) {
            Some(address) => drop(found.send((place, address))),
            None => self.resolver.look_up(host, move |ip| {
                if let Some(ip) = ip {
                    let address = SocketAddr::new(ip, place.1);
                    let _ = found.send((place, address));
                }
            }),
        }
    }

    /// Takes over what was found, and gives up connections to other addresses.
    fn take_addresses(&mut self) {
        self.addresses.extend(self.found.1.try_iter());
        let (places, addresses) = (&self.places, &self.addresses);
        self.peers.retain(|_, peer| {
            let place = places.get(&peer.server);
            place.and_then(|place| addresses.get(place)) == Some(&peer.address)
        });
    }

    fn ask(&mut self, round: u64, line: &[u8], voters: &[Voter]) {
        self.peers
            .retain(|_, peer| peer.asked.len() < UNANSWERED_MAX);
        let mut connected: BTreeMap<ServerId, Token> = self
            .peers
            .iter()
            .map(|(token, peer)| (peer.server, *token))
            .collect();
        for voter in voters {
            let Some(place) = self.places.get(&voter.server) else {
                continue;
            };
            let Some(&address) = self.addresses.get(place) else {
                // For a later round.
                self.look_up(place);
                continue;
            };
            let token = match connected.remove(&voter.server) {
                Some(token) => token,
                None => match self.connect(voter.server, address) {
                    Ok(token) => token,
                    // It does not vote in this round.
                    Err(_) => continue,
                },
            };
            if let Some(peer) = self.peers.get_mut(&token) {
                peer.out.extend_from_slice(line);
                peer.asked.push_back(round);
                if peer.write().is_err() {
                    self.peers.remove(&token);
                }
            }
        }
    }

    fn connect(&mut self, server: ServerId, address: SocketAddr) -> io::Result<Token> {
        let mut stream = Stream::connect(address)?;
        let token = Token(self.next_token);
        self.next_token += 1;
        register(self.poll.registry(), &mut stream, token)?;
        let peer = Peer {
            server,
            address,
            stream,
            input: InputBuffer::default(),
            out: Vec::new(),
            asked: VecDeque::new(),
        };
        self.peers.insert(token, peer);
        Ok(token)
    }

    /// Moves what can be moved; gives the rounds in which this server has voted for us.
    fn serve(&mut self, token: Token) -> Vec<(u64, ServerId)> {
        let Some(peer) = self.peers.get_mut(&token) else {
            return Vec::new();
        };
        let mut votes = Vec::new();
        if peer.write().and_then(|()| peer.read(&mut votes)).is_err() {
            self.peers.remove(&token);
        }
        votes
    }
}

fn register(registry: &Registry, stream: &mut Stream, token: Token) -> io::Result<()> {
    registry.register(stream, token, Interest::READABLE | Interest::WRITABLE)
}

impl Peer {
    fn write(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => drop(self.out.drain(..count)),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::NotConnected => return Ok(()),
                    ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }

    /// Answers come in the order of the questions.
    fn read(&mut self, votes: &mut Vec<(u64, ServerId)>) -> io::Result<()> {
        let mut scratch = [0; SCRATCH_BYTES];
        loop {
            match self.input.fill(&mut self.stream, &mut scratch) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::NotConnected => return Ok(()),
                    ErrorKind::Interrupted => continue,
                    _ => return Err(error),
                },
            }
            loop {
                let (reply, consumed) = match parse_reply(self.input.as_slice(), &Limits::default())
                {
                    ReplyOutcome::Reply { reply, consumed } => (reply, consumed),
                    ReplyOutcome::Incomplete { .. } => break,
                    ReplyOutcome::Malformed => return Err(ErrorKind::InvalidData.into()),
                };
                let round = self.asked.pop_front().ok_or(ErrorKind::InvalidData)?;
                if matches!(reply, Reply::Hello(hello)
                    if hello.vote == Some(true) && hello.worker.server == self.server)
                {
                    votes.push((round, self.server));
                }
                self.input.consume(consumed);
            }
        }
    }
}
