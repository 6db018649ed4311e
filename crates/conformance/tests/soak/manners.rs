//! What a client may do with a connection.

use std::net::Shutdown;
use std::time::Duration;

use super::client::{Peer, SentAway, Visitor, check, value};

/// A step of somebody slow.
const PAUSE: Duration = Duration::from_millis(3);

/// How long nonsense is listened to.
const NONSENSE_PATIENCE: Duration = Duration::from_millis(20);

/// One connection from its beginning to its end.
pub fn visit(visitor: &mut Visitor) {
    type Manner = (&'static str, fn(&mut Visitor));
    const MANNERS: [Manner; 16] = [
        ("classic", classic),
        ("classic", classic),
        ("meta", meta),
        ("meta", meta),
        ("pipeline", pipeline),
        ("binary", binary),
        ("killed", killed),
        ("killed", killed),
        ("half-closed", half_closed),
        ("slow reader", slow_reader),
        ("slow writer", slow_writer),
        ("crowd that does not read", crowd_that_does_not_read),
        ("crowd of half stores", crowd_of_half_stores),
        ("nonsense", nonsense),
        ("too large", too_large),
        ("idle", idle),
    ];
    let (name, manner) = MANNERS[visitor.below(MANNERS.len() as u64) as usize];
    if name == "binary" && !visitor.binary {
        return;
    }
    let visit = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| manner(visitor)));
    if let Err(end) = visit {
        match end.downcast::<SentAway>() {
            Ok(_) => visitor.tally.sent_away += 1,
            Err(failure) => std::panic::resume_unwind(failure),
        }
    }
    *visitor.tally.visits.entry(name).or_default() += 1;
}

/// One polite command after the other.
fn classic(visitor: &mut Visitor) {
    let mut peer = visitor.connect();
    for _ in 0..visitor.below(60) {
        command(visitor, &mut peer);
    }
    if visitor.one_in(2) {
        peer.send(b"quit\r\n");
        assert!(peer.rest().is_empty(), "nothing comes after quit");
    }
}

fn command(visitor: &mut Visitor, peer: &mut Peer) {
    let key = visitor.key();
    let one_of = |line: String, allowed: &[&str]| {
        let known = allowed.iter().any(|answer| line.starts_with(answer));
        assert!(known, "'{line}' is not one of {allowed:?}");
    };
    match visitor.below(100) {
        0..=39 => {
            let mut keys = vec![key];
            while visitor.one_in(2) {
                keys.push(visitor.key());
            }
            let verb = ["get", "gets", "gat 100", "gats 0"][visitor.below(4) as usize];
            peer.send(format!("{verb} {}\r\n", keys.join(" ")).as_bytes());
            peer.values(&keys);
            visitor.tally.gets += keys.len() as u64;
        }
        40..=69 => {
            let verb = ["set", "set", "set", "add", "replace"][visitor.below(5) as usize];
            let exptime = [0, 0, 0, 1, 1000, -1][visitor.below(6) as usize];
            let len = visitor.value_len();
            peer.send(&store(verb, &key, exptime, len));
            let line = peer.line();
            visitor.tally.sets += u64::from(line == "STORED");
            one_of(line, &["STORED", "NOT_STORED"]);
        }
        70..=74 => {
            // By a unique that is nobody's, mostly.
            let unique = visitor.below(1000);
            peer.send(format!("cas {key} 0 0 5 {unique}\r\n").as_bytes());
            peer.send(&value(&key, 5));
            peer.send(b"\r\n");
            one_of(peer.line(), &["STORED", "EXISTS", "NOT_FOUND"]);
        }
        75..=80 => {
            peer.send(format!("delete {key}\r\n").as_bytes());
            one_of(peer.line(), &["DELETED", "NOT_FOUND"]);
        }
        81..=84 => {
            peer.send(format!("touch {key} 1000\r\n").as_bytes());
            one_of(peer.line(), &["TOUCHED", "NOT_FOUND"]);
        }
        85..=90 => {
            // Keys of their own: what they hold is no value of the others.
            let key = format!("number:{}", visitor.below(50));
            let verb = ["incr", "decr"][visitor.below(2) as usize];
            peer.send(format!("add {key} 0 0 1\r\n7\r\n{verb} {key} 3\r\n").as_bytes());
            one_of(peer.line(), &["STORED", "NOT_STORED"]);
            let line = peer.line();
            let number = line.trim_end().parse::<u64>();
            assert!(number.is_ok() || line == "NOT_FOUND", "{line}");
        }
        91..=94 => {
            let key = format!("list:{}", visitor.below(50));
            let verb = ["append", "prepend"][visitor.below(2) as usize];
            let add = format!("add {key} 0 5 3\r\nabc\r\n");
            peer.send(format!("{add}{verb} {key} 0 0 2\r\nxy\r\n").as_bytes());
            one_of(peer.line(), &["STORED", "NOT_STORED"]);
            // A list that has grown as large as an item can be takes no more.
            one_of(
                peer.line(),
                &["STORED", "NOT_STORED", "SERVER_ERROR object too large"],
            );
        }
        95 => {
            peer.send(b"flush_all\r\n");
            one_of(peer.line(), &["OK"]);
        }
        96..=97 => {
            let what = ["", " settings", " items", " slabs", " evenkeel"];
            let what = what[visitor.below(what.len() as u64) as usize];
            peer.send(format!("stats{what}\r\n").as_bytes());
            loop {
                let line = peer.line();
                if line == "END" {
                    break;
                }
                one_of(line, &["STAT "]);
            }
        }
        98 => {
            peer.send(b"version\r\n");
            one_of(peer.line(), &["VERSION "]);
        }
        _ => {
            peer.send(b"verbosity 2\r\n");
            one_of(peer.line(), &["OK"]);
        }
    }
}

fn store(verb: &str, key: &str, exptime: i64, len: usize) -> Vec<u8> {
    let mut bytes = format!("{verb} {key} 0 {exptime} {len}\r\n").into_bytes();
    bytes.extend_from_slice(&value(key, len));
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// Meta commands, one after the other.
fn meta(visitor: &mut Visitor) {
    let mut peer = visitor.connect();
    for _ in 0..visitor.below(60) {
        let key = visitor.key();
        match visitor.below(10) {
            0..=4 => {
                let flags = ["v", "v k O1", "v c t s f", "t", "v h l"][visitor.below(5) as usize];
                peer.send(format!("mg {key} {flags}\r\n").as_bytes());
                meta_answer(&mut peer, &key);
                visitor.tally.gets += 1;
            }
            5..=7 => {
                let len = visitor.value_len();
                peer.send(format!("ms {key} {len} T1000 c\r\n").as_bytes());
                peer.send(&value(&key, len));
                peer.send(b"\r\n");
                let stored = meta_answer(&mut peer, &key) == "HD";
                visitor.tally.sets += u64::from(stored);
            }
            8 => {
                peer.send(format!("md {key} q\r\nmn\r\n").as_bytes());
                let line = peer.line();
                assert!(
                    line == "MN" || (line == "NF" && peer.line() == "MN"),
                    "{line}"
                );
            }
            _ => {
                peer.send(format!("ma number:meta N0 J5 v\r\nme {key}\r\n").as_bytes());
                meta_answer(&mut peer, "");
                let line = peer.line();
                assert!(line == "EN" || line.starts_with("ME "), "{line}");
            }
        }
    }
}

/// Reads one meta answer and returns its code. A value is checked where the key is told.
fn meta_answer(peer: &mut Peer, key: &str) -> String {
    let line = peer.line();
    let mut words = line.split(' ');
    let code = words.next().unwrap_or_default().to_owned();
    match code.as_str() {
        "VA" => {
            let len = words.next().and_then(|len| len.parse().ok());
            let data = peer.block(len.expect("a length"));
            if !key.is_empty() {
                check(key, &data);
            }
        }
        "HD" | "EN" | "NF" | "NS" | "EX" => {}
        _ => panic!("'{line}' in answer to a meta command"),
    }
    code
}

/// Many commands in few pieces, cut anywhere.
fn pipeline(visitor: &mut Visitor) {
    let mut peer = visitor.connect();
    let mut bytes = Vec::new();
    let count = visitor.below(400);
    let mut keys = Vec::new();
    for _ in 0..count {
        let key = visitor.key();
        if visitor.one_in(4) {
            let len = visitor.below(300) as usize;
            bytes.extend_from_slice(&store("set", &key, 0, len));
            keys.push(None);
        } else {
            bytes.extend_from_slice(format!("get {key}\r\n").as_bytes());
            keys.push(Some(key));
        }
    }
    // Answers to this many gets may be more than sockets hold: somebody must read meanwhile.
    let mut sender = peer.socket().try_clone().expect("a socket can be shared");
    let cut = visitor.below(bytes.len() as u64 + 1) as usize;
    let sending = std::thread::spawn(move || {
        use std::io::Write;
        sender.write_all(&bytes[..cut])?;
        std::thread::yield_now();
        sender.write_all(&bytes[cut..])
    });
    for key in keys {
        match key {
            None => {
                assert_eq!(peer.line(), "STORED");
                visitor.tally.sets += 1;
            }
            Some(key) => {
                peer.values(&[key]);
                visitor.tally.gets += 1;
            }
        }
    }
    let sent = sending.join().expect("writing does not panic");
    sent.expect("the server reads to the end");
}

/// Goes in the middle of something, by a close or by a reset.
fn killed(visitor: &mut Visitor) {
    let mut peer = visitor.connect();
    let key = visitor.key();
    let bytes = match visitor.below(6) {
        0 => format!("set {key} 0 0 1000\r\nhalf").into_bytes(),
        1 => b"get a b c".to_vec(),
        2 => store("set", &key, 0, 100_000),
        3 => format!("get {key}\r\n").repeat(200).into_bytes(),
        4 => format!("ms {key} 10 T0\r\n").into_bytes(),
        _ => Vec::new(),
    };
    // A set that goes unanswered may have been done: what it stored is right all the same.
    let cut = match visitor.below(3) {
        0 => visitor.below(bytes.len() as u64 + 1) as usize,
        _ => bytes.len(),
    };
    if peer.try_send(&bytes[..cut]).is_ok() && visitor.one_in(2) {
        peer.sip(visitor.below(2000) as usize, PAUSE);
    }
    if visitor.one_in(2) {
        // A close that waits for nothing is a reset.
        rustix::net::sockopt::set_socket_linger(peer.socket(), Some(Duration::ZERO))
            .expect("a socket takes options");
    }
}

/// Says that nothing more comes, and reads to the end.
fn half_closed(visitor: &mut Visitor) {
    let mut peer = visitor.connect();
    let key = visitor.key();
    let whole = visitor.below(50);
    peer.send(&store("set", &key, 0, 3000));
    for _ in 0..whole {
        peer.send(format!("get {key}\r\n").as_bytes());
    }
    if visitor.one_in(2) {
        peer.send(b"get unfin");
    }
    peer.socket()
        .shutdown(Shutdown::Write)
        .expect("an open socket can be half-closed");
    assert_eq!(peer.line(), "STORED");
    visitor.tally.sets += 1;
    for _ in 0..whole {
        peer.values(std::slice::from_ref(&key));
        visitor.tally.gets += 1;
    }
    assert!(peer.rest().is_empty(), "then the server closes");
}

/// Asks for much and reads little at a time, not always to the end.
fn slow_reader(visitor: &mut Visitor) {
    let mut peer = visitor.connect();
    let keys: Vec<String> = (0..20).map(|_| visitor.key()).collect();
    peer.send(&store("set", &keys[0], 0, 500_000));
    assert_eq!(peer.line(), "STORED");
    visitor.tally.sets += 1;
    let line = format!("get {}\r\n", keys.join(" ")).repeat(10);
    // The server stops reading from who does not read, so this may not go out whole.
    let socket = peer.socket();
    socket
        .set_write_timeout(Some(PAUSE))
        .expect("a socket takes options");
    let _ = peer.try_send(line.as_bytes());
    for _ in 0..visitor.below(40) {
        peer.sip(visitor.below(60_000) as usize, PAUSE);
        pause();
    }
}

/// Connections of a crowd. All threads together stay below the server's limit of 1,024 even if each has one.
const CROWD: usize = 20;

/// Many at once ask for large values, read none of it and stay for a while, unless they are sent away before.
fn crowd_that_does_not_read(visitor: &mut Visitor) {
    let key = visitor.key();
    let mut peer = visitor.connect();
    peer.send(&store("set", &key, 0, 1_000_000));
    assert_eq!(peer.line(), "STORED");
    visitor.tally.sets += 1;
    let line = format!("get {key}\r\n").repeat(20);
    crowd(visitor, line.as_bytes());
}

/// Many at once announce a large value and send a small part of it.
fn crowd_of_half_stores(visitor: &mut Visitor) {
    let key = visitor.key();
    let half = store("set", &key, 0, 1_000_000);
    crowd(visitor, &half[..5_000]);
}

fn crowd(visitor: &mut Visitor, bytes: &[u8]) {
    let mut peers: Vec<Peer> = (0..CROWD).map(|_| visitor.connect()).collect();
    for peer in &mut peers {
        // Who is sent away already hears so here.
        let _ = peer.try_send(bytes);
    }
    for _ in 0..visitor.below(200) {
        pause();
    }
}

/// Sends a byte or a few at a time.
fn slow_writer(visitor: &mut Visitor) {
    let mut peer = visitor.connect();
    let key = visitor.key();
    let mut bytes = store("set", &key, 0, 40);
    bytes.extend_from_slice(format!("get {key}\r\n").as_bytes());
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let count = (1 + visitor.below(12) as usize).min(rest.len());
        peer.send(&rest[..count]);
        rest = &rest[count..];
        pause();
    }
    assert_eq!(peer.line(), "STORED");
    peer.values(&[key]);
    visitor.tally.sets += 1;
    visitor.tally.gets += 1;
}

/// Speaks what is no protocol, or nearly one.
fn nonsense(visitor: &mut Visitor) {
    let mut peer = visitor.connect();
    let mut bytes = match visitor.below(6) {
        0 => Vec::new(),
        1 => b"GET / HTTP/1.1\r\nHost: cache\r\n\r\n".to_vec(),
        2 => vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3],
        3 => vec![b' '; 5000],
        4 => b"set k 0 0 99999999999999999999\r\nget \r\nmg\r\nms k S9 q\r\n".to_vec(),
        _ => [0x80; 64].to_vec(),
    };
    for _ in 0..visitor.below(300) {
        bytes.push(visitor.below(256) as u8);
        if visitor.one_in(30) {
            bytes.extend_from_slice(b"\r\n");
        }
    }
    // The server may close at any byte.
    let _ = peer.try_send(&bytes);
    peer.sip(usize::MAX, NONSENSE_PATIENCE);
}

/// A value above the limit is refused and swallowed; what comes behind it is served.
fn too_large(visitor: &mut Visitor) {
    let mut peer = visitor.connect();
    let key = visitor.key();
    let len = (1 << 20) + visitor.below(100_000) as usize;
    let mut bytes = store("set", &key, 0, len);
    bytes.extend_from_slice(b"version\r\n");
    peer.send(&bytes);
    assert_eq!(peer.line(), "SERVER_ERROR object too large for cache");
    let line = peer.line();
    assert!(line.starts_with("VERSION "), "{line}");
}

/// Stays for a moment without a word.
fn idle(visitor: &mut Visitor) {
    let mut peers: Vec<Peer> = (0..1 + visitor.below(20))
        .map(|_| visitor.connect())
        .collect();
    pause();
    if let Some(peer) = peers.last_mut() {
        peer.send(b"mn\r\n");
        assert_eq!(peer.line(), "MN");
    }
}

/// The manner of somebody slow, not a way to wait for anything.
fn pause() {
    std::thread::sleep(PAUSE);
}

/// Binary commands with quiet ones between; a noop ends each batch.
fn binary(visitor: &mut Visitor) {
    const GET: u8 = 0x00;
    const SET: u8 = 0x01;
    const DELETE: u8 = 0x04;
    const NOOP: u8 = 0x0a;
    const GETKQ: u8 = 0x0d;
    const SETQ: u8 = 0x11;
    let mut peer = visitor.connect();
    for batch in 0..visitor.below(20) as u32 {
        let mut bytes = Vec::new();
        for _ in 0..visitor.below(20) {
            let key = visitor.key();
            match visitor.below(4) {
                0 => frame(&mut bytes, GETKQ, &[], &key, &[], batch),
                1 => {
                    let len = visitor.below(3000) as usize;
                    frame(&mut bytes, SETQ, &[0; 8], &key, &value(&key, len), batch);
                }
                2 => frame(&mut bytes, DELETE, &[], &key, &[], batch),
                _ => {
                    let opcode = if visitor.one_in(2) { GET } else { SET };
                    let extras: &[u8] = if opcode == SET { &[0; 8] } else { &[] };
                    let data = if opcode == SET {
                        value(&key, 10)
                    } else {
                        Vec::new()
                    };
                    frame(&mut bytes, opcode, extras, &key, &data, batch);
                }
            }
        }
        frame(&mut bytes, NOOP, &[], "", &[], batch);
        peer.send(&bytes);
        loop {
            let header = peer.bytes(24);
            assert_eq!(header[0], 0x81, "{header:?}");
            let field = |at: usize| {
                u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
            };
            assert_eq!(field(12), batch, "the opaque of this batch");
            let body = peer.bytes(field(8) as usize);
            let status = u16::from_be_bytes([header[6], header[7]]);
            match header[1] {
                NOOP => break,
                GETKQ if status == 0 => {
                    let (extras, keys) = (usize::from(header[4]), usize::from(header[3]));
                    let key = String::from_utf8_lossy(&body[extras..extras + keys]).into_owned();
                    check(&key, &body[extras + keys..]);
                }
                SET if status == 0 => visitor.tally.sets += 1,
                GET => visitor.tally.gets += 1,
                _ => {}
            }
        }
    }
}

fn frame(out: &mut Vec<u8>, opcode: u8, extras: &[u8], key: &str, data: &[u8], opaque: u32) {
    let body = extras.len() + key.len() + data.len();
    out.extend_from_slice(&[0x80, opcode]);
    out.extend_from_slice(&(key.len() as u16).to_be_bytes());
    out.extend_from_slice(&[extras.len() as u8, 0, 0, 0]);
    out.extend_from_slice(&(body as u32).to_be_bytes());
    out.extend_from_slice(&opaque.to_be_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(extras);
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(data);
}
