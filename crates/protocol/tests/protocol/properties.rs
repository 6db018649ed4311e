//! Laws of both parsers on random input: arbitrary bytes, commands that are right, and commands that
//! are nearly right.

use crate::laws::{TIGHT, check_reply, check_request, compose_request};
use crate::random::Random;
use evenkeel_protocol::{
    Direction, Limits, Meta, Request, RequestOutcome, Store, StoreVerb, base64, compose,
    parse_request,
};

/// Inputs a test tries. The fuzz targets try the same laws without end.
const ROUNDS: usize = 3_000;

#[test]
fn arbitrary_bytes_break_no_law() {
    let mut random = Random::for_test(1);
    for _ in 0..ROUNDS {
        let len = random.below(80);
        let bytes = random.bytes(len);
        check_request(&bytes, &TIGHT);
        check_reply(&bytes, &TIGHT);
    }
}

#[test]
fn nearly_right_requests_break_no_law() {
    let mut random = Random::for_test(2);
    for _ in 0..ROUNDS {
        let mut bytes = request(&mut random);
        random.mutate(&mut bytes);
        check_request(&bytes, &TIGHT);
        check_request(&bytes, &Limits::default());
    }
}

#[test]
fn nearly_right_replies_break_no_law() {
    let mut random = Random::for_test(3);
    for _ in 0..ROUNDS {
        let mut bytes = reply(&mut random);
        check_reply(&bytes, &TIGHT);
        random.mutate(&mut bytes);
        check_reply(&bytes, &TIGHT);
    }
}

#[test]
fn right_requests_are_taken_whole_and_composed_alike() {
    let mut random = Random::for_test(4);
    for _ in 0..ROUNDS {
        let bytes = request(&mut random);
        match parse_request(&bytes, &Limits::default()) {
            RequestOutcome::Request { request, consumed } => {
                assert_eq!(consumed, bytes.len());
                assert_eq!(compose_request(&request), bytes);
            }
            other => panic!("{:?} for {}", other, bytes.escape_ascii()),
        }
        check_request(&bytes, &Limits::default());
    }
}

/// Lines around the bounds, at which waiting, accepting and closing meet.
#[test]
fn long_lines_break_no_law() {
    for start in [
        b"get ".as_slice(),
        b"gats 0 ",
        b"mg ",
        b"   get ",
        b"",
        b"evenkeel 1 ",
    ] {
        for len in [
            2040, 2046, 2047, 2048, 2049, 2050, 4090, 4095, 4096, 4097, 5000,
        ] {
            for end in [b"".as_slice(), b"\n", b"\r\n"] {
                let mut line = start.to_vec();
                line.resize(len, b'x');
                line.extend_from_slice(end);
                check_request(&line, &TIGHT);
                let mut spaces = vec![b' '; len];
                spaces.extend_from_slice(start);
                spaces.extend_from_slice(b"x\r\n");
                check_request(&spaces, &TIGHT);
            }
        }
    }
}

#[test]
fn base64_keys_come_back_as_they_were() {
    let mut random = Random::for_test(5);
    for _ in 0..ROUNDS {
        let len = 1 + random.below(186);
        let key = random.bytes(len);
        let mut text = Vec::new();
        base64::encode(&key, &mut text);
        assert_eq!(text.len(), key.len().div_ceil(3) * 4);
        let mut decoded = [0; 250];
        let len = base64::decode(&text, &mut decoded).expect("what was encoded decodes");
        assert_eq!(&decoded[..len], key);
        // Room for one byte less is too little.
        assert_eq!(base64::decode(&text, &mut decoded[..len - 1]), None);
    }
}

/// A request as the composers write it.
fn request(random: &mut Random) -> Vec<u8> {
    use compose::request as write;
    let mut out = Vec::new();
    let key = random.key();
    let noreply = random.coin();
    let exptime = i64::from(random.number() as u32 as i32);
    match random.below(12) {
        0 => {
            let keys: Vec<_> = (0..1 + random.below(5)).map(|_| random.key()).collect();
            write::get(&mut out, keys.iter().map(Vec::as_slice), random.coin());
        }
        1 => {
            let keys: Vec<_> = (0..random.below(5)).map(|_| random.key()).collect();
            write::get_and_touch(
                &mut out,
                exptime,
                keys.iter().map(Vec::as_slice),
                random.coin(),
            );
        }
        2 | 3 => {
            let verb = match random.below(6) {
                0 => StoreVerb::Set,
                1 => StoreVerb::Add,
                2 => StoreVerb::Replace,
                3 => StoreVerb::Append,
                4 => StoreVerb::Prepend,
                _ => StoreVerb::Cas(random.number()),
            };
            let len = random.below(100);
            let value = random.bytes(len);
            let flags = random.number() as u32;
            write::store(
                &mut out,
                &Store {
                    verb,
                    key: &key,
                    flags,
                    exptime,
                    value: &value,
                    noreply,
                },
            );
        }
        4 => write::delete(&mut out, &key, noreply),
        5 => {
            let direction = if random.coin() {
                Direction::Incr
            } else {
                Direction::Decr
            };
            write::arithmetic(&mut out, &key, random.number(), direction, noreply);
        }
        6 => write::touch(&mut out, &key, exptime, noreply),
        7 => {
            let delay = random.coin().then_some(exptime);
            write::flush_all(&mut out, delay, noreply);
        }
        8 => {
            let level = random.number() as u32;
            let noreply = if noreply { " noreply" } else { "" };
            out.extend_from_slice(format!("verbosity {level}{noreply}\r\n").as_bytes());
        }
        9 => match random.below(5) {
            0 => write::meta_noop(&mut out),
            1 => write::version(&mut out),
            2 => out.extend_from_slice(random.pick(&[
                b"stats\r\n".as_slice(),
                b"stats items\r\n",
                b"stats detail on\r\n",
            ])),
            3 => {
                let epoch = evenkeel_types::Epoch(random.number());
                let server = evenkeel_types::ServerId(random.number() as u16);
                let worker = evenkeel_types::WorkerRef {
                    server,
                    worker: random.number() as u16,
                };
                match random.coin() {
                    true => write::hello(&mut out, epoch),
                    false => write::hello_from(&mut out, epoch, worker),
                }
            }
            _ => out.extend_from_slice(b"quit\r\n"),
        },
        _ => meta_request(random, &mut out),
    }
    out
}

fn meta_request(random: &mut Random, out: &mut Vec<u8>) {
    let key = random.key();
    let mut encoded = Vec::new();
    base64::encode(&key[..key.len().min(180)], &mut encoded);
    let mut flags = Vec::new();
    let base64 = random.coin();
    if base64 {
        flags.extend_from_slice(b" b");
    }
    let verb = random.below(5);
    let mode = match verb {
        1 => random.pick(&[b" MS", b" ME", b" MR", b" MA", b" MP"]),
        _ => random.pick(&[b" MI", b" MD", b" M+", b" M-"]),
    };
    let candidates: [Vec<u8>; 16] = [
        b" v".to_vec(),
        b" k".to_vec(),
        b" q".to_vec(),
        b" c".to_vec(),
        b" f".to_vec(),
        b" O0123456789012345678901234567890".to_vec(),
        mode.to_vec(),
        format!(" T{}", random.number() as i32).into_bytes(),
        format!(" N{}", random.number() as u16).into_bytes(),
        format!(" C{}", random.number()).into_bytes(),
        format!(" E{}", random.number()).into_bytes(),
        format!(" F{}", random.number() as u32).into_bytes(),
        format!(" D{} J{}", random.number(), random.number()).into_bytes(),
        format!(" Y{}", random.number()).into_bytes(),
        format!(" W{}", random.number()).into_bytes(),
        b" G".to_vec(),
    ];
    for candidate in &candidates {
        if random.below(3) == 0 {
            flags.extend_from_slice(candidate);
        }
    }
    let len = random.below(60);
    let value = random.bytes(len);
    let text = if base64 { &encoded } else { &key };
    match verb {
        0 => out.extend_from_slice(b"mg "),
        1 => out.extend_from_slice(b"ms "),
        2 => out.extend_from_slice(b"md "),
        3 => out.extend_from_slice(b"ma "),
        _ => {
            out.extend_from_slice(b"me ");
            flags.truncate(if base64 { 2 } else { 0 });
        }
    }
    out.extend_from_slice(text);
    if verb == 1 {
        out.push(b' ');
        compose::number(out, value.len());
    }
    out.extend_from_slice(&flags);
    out.extend_from_slice(b"\r\n");
    if verb == 1 {
        out.extend_from_slice(&value);
        out.extend_from_slice(b"\r\n");
    }
}

/// A reply as the composers write it, or as other servers do.
fn reply(random: &mut Random) -> Vec<u8> {
    use compose::answer;
    let mut out = Vec::new();
    let key = random.key();
    let len = random.below(60);
    let data = random.bytes(len);
    match random.below(8) {
        0 | 1 => {
            let cas = random
                .coin()
                .then(|| evenkeel_types::Version(random.number()));
            answer::value(&mut out, &key, random.number() as u32, &data, cas);
        }
        2 | 3 => {
            let request = format!(
                "mg {} k s c f t l h O77 v\r\n",
                String::from_utf8(key.clone()).expect("keys are ASCII")
            );
            let meta = meta_of(request.as_bytes());
            let facts = answer::ItemFacts {
                value_len: data.len(),
                version: evenkeel_types::Version(random.number()),
                flags: random.number() as u32,
                ttl: random.coin().then(|| random.number() as u32),
                last_access: random.number() as u32,
                fetched: random.coin(),
                win_sent: random.coin(),
                stale: random.coin(),
                won: random.coin(),
            };
            let line = answer::meta_value(&mut out, data.len());
            let line = answer::item_flags(line, &meta, &key, &facts);
            let left_ms = random.coin().then(|| random.number());
            let lease = random.coin().then(|| (random.next() as u8, left_ms));
            answer::extension_flags(line, lease, Some(facts.version)).end_with(&data);
        }
        4 => answer::number_line(&mut out, random.number()),
        5 => answer::stat_number(&mut out, &key, random.number()),
        6 => out.extend_from_slice(random.pick(&[
            b"END\r\n".as_slice(),
            b"STORED\r\n",
            b"EN k1 O1\r\n",
            b"HD\n",
            b"ERROR\r\n",
            b"CLIENT_ERROR bad data chunk\r\n",
            b"SERVER_ERROR out of memory storing object\r\n",
            b"MOVED 7 3 1\r\n",
            b"EVENKEEL 1 server=3 worker=1 boot=9 epoch=7 lease_ms=1000\r\n",
            b"ME key exp=-1 la=0 cas=1 fetch=no cls=1 size=64\r\n",
            b"VERSION 1.6.45\r\n",
            b"key=a exp=-1 la=1 cas=1 fetch=no cls=1 size=63\n",
        ])),
        _ => answer::server_error(&mut out, "no such worker"),
    }
    out
}

fn meta_of(request: &[u8]) -> Meta<'_> {
    match parse_request(request, &Limits::default()) {
        RequestOutcome::Request {
            request: Request::MetaGet(meta),
            ..
        } => meta,
        other => panic!("{other:?}"),
    }
}
