//! The ring against real sockets, and against the plain truth of what was written to them.

use super::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rustix::event::EventfdFlags;
use std::hash::{BuildHasher, RandomState};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Nothing in these tests takes longer, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(60);

const SMALL: RingConfig = RingConfig {
    entries: 8,
    receive_buffers: 4,
    receive_bytes: 64,
};

fn ring(config: RingConfig) -> Ring {
    let mut ring = Ring::new(config).expect("the tests of io_uring need a kernel that allows it");
    ring.enable().expect("this thread uses the ring");
    ring
}

/// A socket for the ring, and its peer.
fn pair() -> (OwnedFd, UnixStream) {
    let (ours, peer) = UnixStream::pair().expect("a pair of sockets");
    peer.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    (ours.into(), peer)
}

fn tcp_pair() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let peer = TcpStream::connect(address).expect("connected");
    peer.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let (ours, _) = listener.accept().expect("accepted");
    (ours.into(), peer)
}

/// What came of one socket, recorded.
#[derive(Debug, Default)]
struct Record {
    received: Vec<u8>,
    ended: bool,
    failed: Option<ErrorKind>,
    sent: usize,
    done: usize,
}

/// Waits until `done` says so, recording everything by tag.
fn run(ring: &mut Ring, records: &mut [Record], mut done: impl FnMut(&[Record]) -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !done(records) {
        assert!(Instant::now() < give_up, "{records:?}");
        ring.wait(Duration::from_millis(100))
            .expect("a ring that works");
        note_all(ring, records);
    }
}

fn note_all(ring: &mut Ring, records: &mut [Record]) {
    while let Some(event) = ring.next_event() {
        let record = &mut records[event.tag() as usize];
        match event {
            Event::Received { piece, .. } => {
                record.received.extend_from_slice(ring.bytes(piece));
                ring.recycle(piece);
            }
            Event::Ended { .. } => record.ended = true,
            Event::Failed { error, .. } => record.failed = Some(error.kind()),
            Event::Sent { bytes, done, .. } => {
                record.sent += bytes;
                record.done += usize::from(done);
            }
        }
    }
}

fn records(count: usize) -> Vec<Record> {
    (0..count).map(|_| Record::default()).collect()
}

#[test]
fn bytes_come_and_go_in_order_until_the_peer_ends() {
    for (ours, mut peer) in [pair(), {
        let (ours, peer) = tcp_pair();
        // Both kinds of socket are the same to the ring; the test speaks to one type of peer.
        (ours, UnixStream::from(OwnedFd::from(peer)))
    }] {
        let mut ring = ring(RingConfig::default());
        let mut seen = records(1);
        let socket = ring.add(ours, 0);
        ring.receive(socket);
        peer.write_all(b"get a\r\n").expect("written");
        run(&mut ring, &mut seen, |seen| seen[0].received.len() == 7);
        ring.send(socket, b"END\r\n".to_vec(), Urgency::AtOnce);
        run(&mut ring, &mut seen, |seen| seen[0].done == 1);
        let mut answer = [0; 5];
        peer.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"END\r\n");
        peer.shutdown(std::net::Shutdown::Write).expect("ended");
        run(&mut ring, &mut seen, |seen| seen[0].ended);
        assert_eq!(seen[0].received, b"get a\r\n");
        // After the peer's end, it can still be sent to.
        ring.send(socket, b"bye".to_vec(), Urgency::AtOnce);
        run(&mut ring, &mut seen, |seen| seen[0].done == 2);
        ring.close(socket);
        let mut rest = Vec::new();
        peer.read_to_end(&mut rest).expect("the end");
        assert_eq!(rest, b"bye");
        assert_eq!((seen[0].failed, ring.sockets()), (None, 0));
    }
}

/// With far fewer and smaller buffers than there is traffic, nothing is lost, doubled or reordered.
#[test]
fn random_traffic_through_a_starved_ring_arrives_whole() {
    let seed = match std::env::var("EVENKEEL_SEED") {
        Ok(seed) => seed.parse().expect("EVENKEEL_SEED must be a number"),
        Err(_) => RandomState::new().hash_one(0),
    };
    println!("EVENKEEL_SEED={seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    const SOCKETS: usize = 16;
    const BYTES: usize = 20_000;
    let mut ring = ring(SMALL);
    let mut seen = records(SOCKETS);
    let mut peers = Vec::new();
    for tag in 0..SOCKETS {
        let (ours, peer) = pair();
        peer.set_nonblocking(true).expect("non-blocking");
        let mut bytes = vec![0; BYTES];
        random.fill_bytes(&mut bytes);
        let socket = ring.add(ours, tag as u32);
        ring.receive(socket);
        peers.push((socket, peer, bytes, 0, Vec::new()));
    }
    // What each socket has been given to echo, and whether a send is under way.
    let mut echoed = [0; SOCKETS];
    let mut paused = [false; SOCKETS];
    let give_up = Instant::now() + PATIENCE;
    while peers.iter().any(|(.., back)| back.len() < BYTES) {
        assert!(Instant::now() < give_up, "{seen:?}");
        for (tag, (socket, peer, bytes, written, back)) in peers.iter_mut().enumerate() {
            let end = BYTES.min(*written + (random.next_u32() % 500) as usize);
            match peer.write(&bytes[*written..end]) {
                Ok(count) => *written += count,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            let mut scratch = [0; 700];
            match peer.read(&mut scratch) {
                Ok(count) => back.extend_from_slice(&scratch[..count]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            if random.next_u32() % 8 == 0 {
                paused[tag] = !paused[tag];
                if paused[tag] {
                    ring.pause(*socket);
                } else {
                    ring.receive(*socket);
                }
            }
            let record = &seen[tag];
            if record.sent == echoed[tag] && record.received.len() > echoed[tag] {
                let bytes = record.received[echoed[tag]..].to_vec();
                echoed[tag] = record.received.len();
                let urgency = match random.next_u32() % 2 {
                    0 => Urgency::AtOnce,
                    _ => Urgency::Whenever,
                };
                ring.send(*socket, bytes, urgency);
            }
        }
        ring.wait(Duration::ZERO).expect("a ring that works");
        note_all(&mut ring, &mut seen);
    }
    for (record, (.., bytes, _, back)) in seen.iter().zip(&peers) {
        assert!(&record.received == bytes && back == bytes);
        assert!(!record.ended && record.failed.is_none());
    }
    assert!(ring.stats().starved > 0, "{:?}", ring.stats());
}

#[test]
fn a_send_that_the_peer_reads_slowly_goes_out_in_parts() {
    let (ours, mut peer) = pair();
    let mut ring = ring(RingConfig::default());
    let mut seen = records(1);
    let socket = ring.add(ours, 0);
    let bytes: Vec<u8> = (0..8 << 20).map(|i: u32| (i % 251) as u8).collect();
    ring.send(socket, bytes.clone(), Urgency::Whenever);
    let mut back = vec![0; bytes.len()];
    for part in back.chunks_mut(1 << 20) {
        // There is progress to report long before the end.
        peer.set_nonblocking(true).expect("non-blocking");
        let mut filled = 0;
        run(&mut ring, &mut seen, |_| {
            while filled < part.len() {
                match peer.read(&mut part[filled..]) {
                    Ok(count) => filled += count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                    Err(error) => panic!("{error}"),
                }
            }
            true
        });
    }
    run(&mut ring, &mut seen, |seen| seen[0].done == 1);
    assert!(back == bytes);
    assert_eq!(seen[0].sent, bytes.len());
    assert!(ring.stats().blocked > 1, "{:?}", ring.stats());
}

/// One system call hands over the answers and brings the next requests.
#[test]
fn sends_that_nobody_waits_for_do_not_end_the_wait() {
    let mut ring = ring(RingConfig::default());
    let mut seen = records(2);
    let (first, mut first_peer) = pair();
    let (second, mut second_peer) = pair();
    let sockets = [ring.add(first, 0), ring.add(second, 1)];
    for socket in sockets {
        ring.receive(socket);
    }
    ring.wait(Duration::ZERO).expect("a ring that works");
    for socket in sockets {
        ring.send(socket, b"answer".to_vec(), Urgency::Whenever);
    }
    let client = std::thread::spawn(move || {
        let mut answer = [0; 6];
        first_peer.read_exact(&mut answer).expect("an answer");
        second_peer.read_exact(&mut answer).expect("an answer");
        first_peer.write_all(b"question").expect("written");
        (first_peer, second_peer)
    });
    let before = ring.stats().enters;
    ring.wait(PATIENCE).expect("a ring that works");
    assert_eq!(ring.stats().enters, before + 1);
    note_all(&mut ring, &mut seen);
    assert_eq!((seen[0].sent, seen[1].sent), (6, 6));
    assert_eq!(seen[0].received, b"question");
    // Somebody waits for this one: the wait ends although nothing else happens.
    ring.send(sockets[1], b"last".to_vec(), Urgency::AtOnce);
    ring.wait(PATIENCE).expect("a ring that works");
    note_all(&mut ring, &mut seen);
    assert_eq!((seen[1].sent, seen[1].done), (10, 2));
    client.join().expect("the client is content");
}

/// A silent send whose socket is full must not make the wait miss what others do.
#[test]
fn a_silent_send_that_blocks_does_not_keep_others_waiting() {
    let mut ring = ring(RingConfig::default());
    let mut seen = records(2);
    let (full, full_peer) = pair();
    let (other, mut other_peer) = pair();
    let full = ring.add(full, 0);
    let other = ring.add(other, 1);
    ring.receive(other);
    ring.send(full, vec![1; 4 << 20], Urgency::Whenever);
    ring.wait(Duration::ZERO).expect("a ring that works");
    note_all(&mut ring, &mut seen);
    assert!(seen[0].done == 0 && seen[0].sent > 0, "{seen:?}");
    let start = Instant::now();
    other_peer.write_all(b"x").expect("written");
    run(&mut ring, &mut seen, |seen| seen[1].received == b"x");
    ring.send(other, b"y".to_vec(), Urgency::Whenever);
    other_peer.write_all(b"z").expect("written");
    ring.wait(PATIENCE).expect("a ring that works");
    note_all(&mut ring, &mut seen);
    assert!(start.elapsed() < PATIENCE);
    run(&mut ring, &mut seen, |seen| seen[1].received == b"xz");
    drop(full_peer);
    run(&mut ring, &mut seen, |seen| seen[0].failed.is_some());
}

#[test]
fn a_socket_closed_with_a_send_under_way_goes_and_its_peer_sees_the_end() {
    close_with_a_send_under_way(false);
    close_with_a_send_under_way(true);
}

fn close_with_a_send_under_way(unread: bool) {
    let mut ring = ring(RingConfig::default());
    let mut seen = records(2);
    let (ours, mut peer) = pair();
    let socket = ring.add(ours, 0);
    ring.receive(socket);
    ring.send(socket, vec![7; 4 << 20], Urgency::Whenever);
    run(&mut ring, &mut seen, |seen| seen[0].sent > 0);
    if unread {
        peer.write_all(b"never reported").expect("written");
    }
    ring.close(socket);
    // A place is used again only after all of the former holder's operations have ended.
    let (next, mut next_peer) = pair();
    let next = ring.add(next, 1);
    ring.receive(next);
    next_peer.write_all(b"hello").expect("written");
    run(&mut ring, &mut seen, |seen| seen[1].received == b"hello");
    while ring.sockets() > 1 {
        ring.wait(Duration::from_millis(100))
            .expect("a ring that works");
        note_all(&mut ring, &mut seen);
    }
    let mut got = Vec::new();
    match peer.read_to_end(&mut got) {
        Ok(_) => assert_eq!(got.len(), seen[0].sent),
        // What a socket has not read when it is closed resets its peer.
        Err(error) => assert!(
            unread && error.kind() == ErrorKind::ConnectionReset,
            "{error}"
        ),
    }
    assert!(seen[0].received.is_empty() && seen[0].failed.is_none());
    // The old name means nothing any more, no matter who has the place now.
    let (third, mut third_peer) = pair();
    let third = ring.add(third, 0);
    ring.send(socket, b"lost".to_vec(), Urgency::AtOnce);
    ring.close(socket);
    ring.send(third, b"kept".to_vec(), Urgency::AtOnce);
    run(&mut ring, &mut seen, |seen| seen[0].done == 1);
    let mut kept = [0; 4];
    third_peer.read_exact(&mut kept).expect("sent");
    assert_eq!(&kept, b"kept");
}

#[test]
fn a_paused_socket_leaves_its_bytes_where_they_are() {
    let mut ring = ring(RingConfig::default());
    let mut seen = records(1);
    let (ours, mut peer) = pair();
    let socket = ring.add(ours, 0);
    ring.receive(socket);
    peer.write_all(b"one").expect("written");
    run(&mut ring, &mut seen, |seen| seen[0].received == b"one");
    ring.pause(socket);
    ring.wait(Duration::ZERO).expect("a ring that works");
    note_all(&mut ring, &mut seen);
    peer.write_all(b"two").expect("written");
    ring.wait(Duration::from_millis(1))
        .expect("a ring that works");
    note_all(&mut ring, &mut seen);
    assert_eq!(seen[0].received, b"one");
    // Asked for, refused and asked for again in one turn.
    ring.receive(socket);
    ring.pause(socket);
    ring.receive(socket);
    run(&mut ring, &mut seen, |seen| seen[0].received == b"onetwo");
    ring.pause(socket);
    ring.receive(socket);
    peer.write_all(b"three").expect("written");
    run(&mut ring, &mut seen, |seen| {
        seen[0].received == b"onetwothree"
    });
}

#[test]
fn a_reset_by_the_peer_is_reported_once() {
    let mut ring = ring(RingConfig::default());
    let mut seen = records(1);
    let (ours, peer) = tcp_pair();
    let socket = ring.add(ours, 0);
    ring.receive(socket);
    ring.wait(Duration::ZERO).expect("a ring that works");
    socket2::SockRef::from(&peer)
        .set_linger(Some(Duration::ZERO))
        .expect("closing resets");
    drop(peer);
    run(&mut ring, &mut seen, |seen| seen[0].failed.is_some());
    assert_eq!(seen[0].failed, Some(ErrorKind::ConnectionReset));
    ring.close(socket);
    assert_eq!(ring.sockets(), 0);
}

#[test]
fn a_watched_descriptor_ends_the_wait_until_it_is_empty() {
    let mut ring = ring(RingConfig::default());
    let event = rustix::event::eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
    ring.watch(event.as_fd()).expect("watched");
    ring.wait(Duration::ZERO).expect("a ring that works");
    assert!(!ring.take_watched());
    rustix::io::write(&event, &1u64.to_ne_bytes()).expect("written");
    // Nobody reads it: each wait reports it anew.
    for _ in 0..3 {
        ring.wait(PATIENCE).expect("a ring that works");
        assert!(ring.take_watched());
    }
    rustix::io::read(&event, &mut [0; 8]).expect("read");
    ring.wait(Duration::from_millis(1))
        .expect("a ring that works");
    ring.take_watched();
    ring.wait(Duration::from_millis(1))
        .expect("a ring that works");
    assert!(!ring.take_watched());
}

/// More sockets than one system call can hand over operations for, and more completions than fit.
#[test]
fn many_sockets_share_a_small_ring() {
    const SOCKETS: usize = 200;
    let mut ring = ring(SMALL);
    let mut seen = records(SOCKETS);
    let mut peers = Vec::new();
    let mut sockets = Vec::new();
    for tag in 0..SOCKETS {
        let (ours, mut peer) = pair();
        peer.write_all(&[tag as u8; 100]).expect("written");
        let socket = ring.add(ours, tag as u32);
        ring.receive(socket);
        sockets.push(socket);
        peers.push(peer);
    }
    run(&mut ring, &mut seen, |seen| {
        seen.iter().all(|record| record.received.len() == 100)
    });
    for (tag, socket) in sockets.iter().enumerate() {
        ring.send(*socket, vec![tag as u8; 50], Urgency::Whenever);
    }
    run(&mut ring, &mut seen, |seen| {
        seen.iter().all(|record| record.done == 1)
    });
    for (tag, (record, peer)) in seen.iter().zip(&mut peers).enumerate() {
        assert_eq!(record.received, [tag as u8; 100]);
        let mut back = [0; 50];
        peer.read_exact(&mut back).expect("sent");
        assert_eq!(back, [tag as u8; 50]);
    }
    for socket in sockets {
        ring.close(socket);
    }
    while ring.sockets() > 0 {
        ring.wait(Duration::from_millis(100))
            .expect("a ring that works");
        note_all(&mut ring, &mut seen);
    }
}

/// Under AddressSanitizer this also shows that nothing is freed that the kernel still uses.
#[test]
fn a_ring_dropped_in_the_middle_of_everything_closes_its_sockets() {
    for enabled in [true, false] {
        let mut ring = Ring::new(SMALL).expect("io_uring");
        if enabled {
            ring.enable().expect("this thread uses the ring");
        }
        let event = rustix::event::eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
        ring.watch(event.as_fd()).expect("watched");
        let mut peers = Vec::new();
        for tag in 0..20 {
            let (ours, mut peer) = pair();
            peer.write_all(b"unread").expect("written");
            let socket = ring.add(ours, tag);
            ring.receive(socket);
            ring.send(socket, vec![1; 1 << 20], Urgency::Whenever);
            peers.push(peer);
        }
        if enabled {
            ring.wait(Duration::ZERO).expect("a ring that works");
        }
        drop(ring);
        for mut peer in peers {
            // Everything that had been taken, and then the end, or a reset for what was unread.
            match peer.read_to_end(&mut Vec::new()) {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
            }
        }
    }
}

#[test]
fn a_piece_can_be_recycled_once() {
    let mut ring = ring(SMALL);
    let (ours, mut peer) = pair();
    let socket = ring.add(ours, 0);
    ring.receive(socket);
    peer.write_all(b"x").expect("written");
    ring.wait(PATIENCE).expect("a ring that works");
    let Some(Event::Received { piece, .. }) = ring.next_event() else {
        panic!("a byte has come");
    };
    ring.recycle(piece);
    let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ring.recycle(piece)));
    assert!(again.is_err());
}

#[test]
fn a_refusal_says_what_can_be_done() {
    use rustix::io::Errno;
    for (errno, words) in [
        (Errno::NOSYS, "the kernel has none"),
        (Errno::PERM, "seccomp"),
        (Errno::NOMEM, "ulimit -l"),
        (Errno::MFILE, "ulimit -n"),
        (Errno::INVAL, "6.0"),
        (Errno::IO, "io_uring is not available"),
    ] {
        let refused = Refused::from(std::io::Error::from(errno)).to_string();
        assert!(refused.contains(words), "{refused}");
    }
}
