//! What the sockets themselves cost: an echo server by epoll and one by io_uring, in turn, under the
//! same load. Each request of fixed size is answered by a reply of fixed size, and nothing is done in
//! between.
//!
//! ```text
//! cargo run --release -p evenkeel-runtime --example echo -- \
//!     connections=16 pipeline=1 rounds=5 seconds=1 server-core=0 load-core=1
//! ```
//!
//! Prints, for each round: requests a second, the server thread's CPU time for each request, and its
//! system calls for each request as it counts them itself.

use evenkeel_runtime::uring::{Event, Ring, RingConfig, RingStats, Socket, Urgency};
use evenkeel_runtime::{Listener, Stream, bind_tcp, pin_to_core};
use mio::{Events, Interest, Poll, Token};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A `get` of a key of 32 bytes, and its answer with a value of 100.
const REQUEST_BYTES: usize = 38;
const REPLY_BYTES: usize = 145;

const LISTENER: Token = Token(usize::MAX);

#[derive(Clone, Copy)]
struct Load {
    connections: usize,
    pipeline: usize,
    rounds: usize,
    seconds: f64,
    server_core: usize,
    load_core: usize,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    requests: AtomicU64,
    calls: AtomicU64,
    cpu_nanos: AtomicU64,
}

fn main() {
    let load = arguments();
    println!(
        "{:>6} {:>12} {:>14} {:>14}",
        "io", "requests/s", "CPU us/request", "calls/request"
    );
    let mut results = [Vec::new(), Vec::new()];
    for _ in 0..load.rounds {
        for (io, results) in ["epoll", "uring"].into_iter().zip(&mut results) {
            let (rate, cpu, calls) = measure(io, load);
            println!("{io:>6} {rate:>12.0} {cpu:>14.3} {calls:>14.3}");
            results.push((rate, cpu));
        }
    }
    let median = |results: &[(f64, f64)], what: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = results.iter().map(what).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let ratio = |what| median(&results[1], what) / median(&results[0], what);
    println!(
        "io_uring over epoll, medians: requests/s {:.3}, CPU {:.3}",
        ratio(|r| r.0),
        ratio(|r| r.1)
    );
}

fn arguments() -> Load {
    let mut load = Load {
        connections: 16,
        pipeline: 1,
        rounds: 5,
        seconds: 1.0,
        server_core: 0,
        load_core: 1,
    };
    for argument in std::env::args().skip(1) {
        let (name, value) = argument.split_once('=').expect("name=value");
        let value: f64 = value.parse().expect("a number");
        match name {
            "connections" => load.connections = value as usize,
            "pipeline" => load.pipeline = value as usize,
            "rounds" => load.rounds = value as usize,
            "seconds" => load.seconds = value,
            "server-core" => load.server_core = value as usize,
            "load-core" => load.load_core = value as usize,
            _ => panic!("unknown argument {name}"),
        }
    }
    load
}

fn measure(io: &str, load: Load) -> (f64, f64, f64) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = bind_tcp(any, 1024).expect("a free port");
    let address = listener.address().expect("a TCP listener");
    let shared = Arc::new(Shared::default());
    let server = {
        let (shared, uring) = (shared.clone(), io == "uring");
        std::thread::spawn(move || {
            pin_to_core(load.server_core).expect("the server's core");
            match uring {
                true => serve_uring(listener, &shared),
                false => serve_epoll(listener, &shared),
            }
        })
    };
    let generator = {
        let shared = shared.clone();
        std::thread::spawn(move || {
            pin_to_core(load.load_core).expect("the generator's core");
            generate(address, load, &shared);
        })
    };
    let read = || {
        (
            shared.requests.load(Ordering::Relaxed) as f64,
            shared.cpu_nanos.load(Ordering::Relaxed) as f64,
            shared.calls.load(Ordering::Relaxed) as f64,
        )
    };
    std::thread::sleep(Duration::from_millis(100));
    let (start, before) = (Instant::now(), read());
    std::thread::sleep(Duration::from_secs_f64(load.seconds));
    let (elapsed, after) = (start.elapsed().as_secs_f64(), read());
    shared.stop.store(true, Ordering::Relaxed);
    server.join().expect("the server ends");
    generator.join().expect("the generator ends");
    let requests = (after.0 - before.0).max(1.0);
    (
        requests / elapsed,
        (after.1 - before.1) / requests / 1000.0,
        (after.2 - before.2) / requests,
    )
}

/// Nanoseconds that the calling thread has spent on a processor.
fn cpu_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|nanos| nanos.parse().ok())
        .unwrap_or(0)
}

/// How many requests pass between two looks at the CPU time, which costs three system calls.
const REQUESTS_PER_LOOK: u64 = 1000;

fn serve_epoll(mut listener: Listener, shared: &Shared) {
    let mut poll = Poll::new().expect("a poll");
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)
        .expect("registered");
    let mut events = Events::with_capacity(512);
    let mut streams: Vec<(Stream, usize)> = Vec::new();
    let mut scratch = vec![0; 64 * 1024];
    let mut replies = Vec::new();
    let (mut calls, mut requests, mut next_look) = (0, 0, 0);
    while !shared.stop.load(Ordering::Relaxed) {
        let _ = poll.poll(&mut events, Some(Duration::from_millis(100)));
        calls += 1;
        for event in &events {
            if event.token() == LISTENER {
                while let Ok(mut stream) = listener.accept() {
                    poll.registry()
                        .register(
                            &mut stream,
                            Token(streams.len()),
                            Interest::READABLE | Interest::WRITABLE,
                        )
                        .expect("registered");
                    streams.push((stream, 0));
                }
            }
            let Some((stream, left)) = streams.get_mut(event.token().0) else {
                continue;
            };
            // A short read has emptied the socket.
            loop {
                calls += 1;
                let Ok(count) = stream.read(&mut scratch) else {
                    break;
                };
                let whole = answer(left, count, &mut replies);
                requests += whole;
                if whole > 0 {
                    calls += 1;
                    stream.write_all(&replies).expect("room for the replies");
                }
                if count < scratch.len() {
                    break;
                }
            }
        }
        publish(shared, requests, calls, &mut next_look);
    }
}

fn serve_uring(mut listener: Listener, shared: &Shared) {
    let mut poll = Poll::new().expect("a poll");
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)
        .expect("registered");
    let mut events = Events::with_capacity(16);
    let mut ring = Ring::new(RingConfig::default()).expect("io_uring");
    ring.enable().expect("enabled");
    ring.watch(poll.registry().as_fd()).expect("watched");
    let mut sockets: Vec<(Socket, usize)> = Vec::new();
    let mut replies = Vec::new();
    let (mut requests, mut next_look, mut accepts) = (0, 0, 0);
    while !shared.stop.load(Ordering::Relaxed) {
        ring.wait(Duration::from_millis(100))
            .expect("the ring works");
        if ring.take_watched() {
            let _ = poll.poll(&mut events, Some(Duration::ZERO));
            while let Ok(stream) = listener.accept() {
                accepts += 1;
                let socket = ring.add(OwnedFd::from(stream), sockets.len() as u32);
                ring.receive(socket);
                sockets.push((socket, 0));
            }
        }
        while let Some(event) = ring.next_event() {
            match event {
                Event::Received { tag, piece } => {
                    let count = ring.bytes(piece).len();
                    ring.recycle(piece);
                    let (socket, left) = &mut sockets[tag as usize];
                    let whole = answer(left, count, &mut replies);
                    requests += whole;
                    let spare = ring.spare();
                    let replies = core::mem::replace(&mut replies, spare);
                    ring.send(*socket, replies, Urgency::Whenever);
                }
                Event::Ended { tag } | Event::Failed { tag, .. } => {
                    ring.close(sockets[tag as usize].0);
                }
                Event::Sent { .. } => {}
            }
        }
        let RingStats { enters, .. } = ring.stats();
        publish(shared, requests, enters + accepts, &mut next_look);
    }
}

/// Composes the replies to what `count` more bytes complete; tells how many.
fn answer(left: &mut usize, count: usize, replies: &mut Vec<u8>) -> u64 {
    *left += count;
    let whole = *left / REQUEST_BYTES;
    *left %= REQUEST_BYTES;
    replies.clear();
    replies.resize(whole * REPLY_BYTES, b'r');
    whole as u64
}

fn publish(shared: &Shared, requests: u64, calls: u64, next_look: &mut u64) {
    if requests >= *next_look {
        *next_look = requests + REQUESTS_PER_LOOK;
        shared.requests.store(requests, Ordering::Relaxed);
        shared.calls.store(calls, Ordering::Relaxed);
        shared.cpu_nanos.store(cpu_nanos(), Ordering::Relaxed);
    }
}

/// Keeps `pipeline` requests of each connection under way.
fn generate(address: SocketAddr, load: Load, shared: &Shared) {
    let mut poll = Poll::new().expect("a poll");
    let mut events = Events::with_capacity(512);
    let batch = vec![b'q'; load.pipeline * REQUEST_BYTES];
    let mut scratch = vec![0; 64 * 1024];
    let mut streams: Vec<(Stream, usize)> = (0..load.connections)
        .map(|i| {
            let mut stream = Stream::connect(address).expect("the server listens");
            poll.registry()
                .register(
                    &mut stream,
                    Token(i),
                    Interest::READABLE | Interest::WRITABLE,
                )
                .expect("registered");
            (stream, 0)
        })
        .collect();
    while !shared.stop.load(Ordering::Relaxed) {
        let _ = poll.poll(&mut events, Some(Duration::from_millis(100)));
        for event in &events {
            let (stream, missing) = &mut streams[event.token().0];
            if *missing == 0 && event.is_writable() && stream.take_error().is_ok() {
                stream.write_all(&batch).expect("room for a batch");
                *missing = load.pipeline * REPLY_BYTES;
                continue;
            }
            loop {
                match stream.read(&mut scratch) {
                    Ok(0) => return,
                    Ok(count) => {
                        *missing -= count;
                        if *missing == 0 {
                            stream.write_all(&batch).expect("room for a batch");
                            *missing = load.pipeline * REPLY_BYTES;
                        }
                        if count < scratch.len() {
                            break;
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => return,
                }
            }
        }
    }
}
