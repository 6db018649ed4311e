//! The binary protocol: every opcode with every odd length, and the laws on random input.

use crate::binary_laws::{check_auth, check_binary_reply, check_binary_request};
use crate::laws::TIGHT;
use crate::random::Random;
use evenkeel_protocol::binary::{
    Command, HEADER_LEN, Opcode, Outcome, Request, RequestHeader, Status, answer, parse_request,
};
use evenkeel_protocol::{
    Direction, KEY_LEN_MAX, Limits, SASL_MECHANISM_LEN_MAX, SASL_TOKEN_LEN_MAX, StoreMode,
};

/// Inputs a random test tries.
const ROUNDS: usize = 20_000;

/// A header with these lengths, and a body of that many bytes at most.
fn frame(opcode: u8, extras_len: u8, key_len: u16, body_len: u32) -> Vec<u8> {
    let mut out = Vec::new();
    RequestHeader {
        opcode: Opcode(opcode),
        extras_len,
        key_len,
        body_len,
        opaque: 0xdead_beef,
        ..RequestHeader::default()
    }
    .write(&mut out);
    out.resize(HEADER_LEN + body_len.min(70_000) as usize, b'x');
    out
}

/// What the protocol says of the parts of an opcode: lengths of extras, whether there is a key, whether
/// there may be a value. Written down a second time, to be compared with the parser's table.
fn parts(opcode: u8) -> Option<(&'static [u8], &'static str, bool)> {
    Some(match opcode {
        0x00 | 0x09 | 0x0c | 0x0d | 0x04 | 0x14 | 0x60 => (&[0], "key", false),
        0x01..=0x03 | 0x11..=0x13 => (&[8], "key", true),
        0x0e | 0x0f | 0x19 | 0x1a => (&[0], "key", true),
        0x05 | 0x06 | 0x15 | 0x16 => (&[20], "key", false),
        0x1c..=0x1e | 0x23 | 0x24 => (&[4], "key", false),
        0x08 | 0x18 => (&[0, 4], "none", false),
        0x1b => (&[4], "none", false),
        0x07 | 0x17 | 0x0a | 0x0b | 0x20 => (&[0], "none", false),
        0x10 => (&[0], "maybe", false),
        0x21 | 0x22 => (&[0], "key", true),
        _ => return None,
    })
}

#[test]
fn every_opcode_with_every_odd_length() {
    let limits = Limits::default();
    let key_lens = [0, 1, 5, 32, 33, 249, 250, 251, 1000, u16::MAX];
    let body_lens = |before: u32| {
        let near = [
            before.saturating_sub(1),
            before,
            before + 1,
            before + 100,
            before + SASL_TOKEN_LEN_MAX as u32,
            before + SASL_TOKEN_LEN_MAX as u32 + 1,
        ];
        let far = [0, 1 << 20, (1 << 31) - 1, 1 << 31, u32::MAX];
        near.into_iter().chain(far)
    };
    for opcode in (0..=u8::MAX).filter(|opcode| Opcode(*opcode) != Opcode::HELLO) {
        for extras_len in [0, 1, 3, 4, 5, 7, 8, 9, 16, 19, 20, 21, 24, 255] {
            for key_len in key_lens {
                let before = u32::from(extras_len) + u32::from(key_len);
                for body_len in body_lens(before) {
                    let input = frame(opcode, extras_len, key_len, body_len);
                    let outcome = parse_request(&input, &limits);
                    let expected = expected(opcode, extras_len, key_len, body_len);
                    let found = match outcome {
                        Outcome::Request { consumed, .. } => {
                            assert_eq!(consumed, HEADER_LEN + body_len as usize);
                            Ok(())
                        }
                        Outcome::Refused {
                            refusal,
                            consumed,
                            swallow,
                        } => {
                            assert_eq!(refusal.echo.opaque, 0xdead_beef);
                            assert_eq!(refusal.echo.opcode, Opcode(opcode));
                            if !refusal.close {
                                assert_eq!(consumed + swallow, HEADER_LEN + body_len as usize);
                            }
                            Err((refusal.status, refusal.close))
                        }
                        other => panic!("{other:?}"),
                    };
                    assert_eq!(
                        found, expected,
                        "opcode {opcode:#04x}, extras {extras_len}, key {key_len}, body {body_len}"
                    );
                }
            }
        }
    }
}

fn expected(opcode: u8, extras_len: u8, key_len: u16, body_len: u32) -> Result<(), (Status, bool)> {
    let (extras, key) = (usize::from(extras_len), usize::from(key_len));
    let Some(value) = (body_len as usize).checked_sub(extras + key) else {
        return Err((Status::UnknownCommand, true));
    };
    if key > KEY_LEN_MAX {
        return Err((Status::InvalidArguments, true));
    }
    let endless = body_len > 1 << 30;
    let Some((extras_lens, needs, may_have_value)) = parts(opcode) else {
        return Err((Status::UnknownCommand, endless));
    };
    let key_fits = match needs {
        "key" => key > 0,
        "none" => key == 0,
        _ => true,
    };
    if !extras_lens.contains(&extras_len) || !key_fits || (value > 0 && !may_have_value) {
        return Err((Status::InvalidArguments, true));
    }
    let is_sasl = matches!(opcode, 0x21 | 0x22);
    if is_sasl && endless {
        return Err((Status::UnknownCommand, true));
    }
    if is_sasl && key > SASL_MECHANISM_LEN_MAX {
        return Err((Status::InvalidArguments, false));
    }
    if is_sasl && value > SASL_TOKEN_LEN_MAX {
        return Err((Status::AuthError, false));
    }
    if endless {
        return Err((Status::InvalidArguments, true));
    }
    // The extras are `xxxxxxxx`, so that client flags are not zero where there are some.
    let flags = u32::from(extras_len == 8);
    if may_have_value && Limits::default().is_too_large(key, value, flags) {
        return Err((Status::TooLarge, false));
    }
    Ok(())
}

#[test]
fn only_set_gives_up_the_old_item_and_only_for_size() {
    for opcode in 0..=u8::MAX {
        let extras_len = parts(opcode).map_or(0, |(extras, ..)| extras[0]);
        let input = frame(opcode, extras_len, 3, u32::from(extras_len) + 3 + (2 << 20));
        if let Outcome::Refused { refusal, .. } = parse_request(&input, &Limits::default()) {
            let gives_up = matches!(opcode, 0x01 | 0x11);
            assert_eq!(refusal.invalidates, gives_up.then_some(&b"xxx"[..]));
        }
    }
}

#[test]
fn other_first_bytes_are_another_protocol() {
    for first in (0..=u8::MAX).filter(|first| *first != 0x80) {
        assert_eq!(parse_request(&[first], &TIGHT), Outcome::Close);
        assert_eq!(parse_request(&[first; 40], &TIGHT), Outcome::Close);
    }
    assert_eq!(
        parse_request(b"", &TIGHT),
        Outcome::Incomplete { total: HEADER_LEN }
    );
}

/// A random request that is right.
fn request(random: &mut Random, out: &mut Vec<u8>) {
    let key_len_max = if random.below(8) == 0 { KEY_LEN_MAX } else { 9 };
    let key_len = 1 + random.below(key_len_max);
    let key = random.bytes(key_len);
    let value_len = random.below(60);
    let value = random.bytes(value_len);
    let (key, value) = (key.as_slice(), value.as_slice());
    let number = random.number() as u32;
    let coin = random.coin();
    let command = match random.below(16) {
        0 => Command::Get {
            key,
            with_key: coin,
        },
        1 => Command::GetAndTouch {
            key,
            with_key: coin,
            exptime: number,
        },
        2 => Command::Touch {
            key,
            exptime: number,
        },
        3..=5 => Command::Store {
            mode: [StoreMode::Set, StoreMode::Add, StoreMode::Replace][random.below(3)],
            key,
            flags: number,
            exptime: random.number() as u32,
            value,
        },
        6 => Command::Join {
            before: coin,
            key,
            value,
        },
        7 => Command::Delete { key },
        8 => Command::Arithmetic {
            key,
            direction: if coin {
                Direction::Incr
            } else {
                Direction::Decr
            },
            delta: random.number(),
            initial: random.number(),
            exptime: number,
        },
        9 => Command::Flush {
            delay: coin.then_some(number),
        },
        10 => [Command::Noop, Command::Version, Command::SaslMechanisms][random.below(3)],
        11 => Command::Quit,
        12 => Command::Stat {
            arguments: if coin { b"" } else { key },
        },
        13 => Command::Sasl {
            is_step: coin,
            mechanism: &key[..key.len().min(SASL_MECHANISM_LEN_MAX)],
            token: value,
        },
        14 => Command::ConfigGet { name: key },
        _ => Command::Verbosity { level: number },
    };
    let request = Request {
        command,
        quiet: false,
        vbucket: number as u16,
        opaque: random.next() as u32,
        cas: random.number(),
    };
    let has_quiet = request.echo().opcode.quiet() != request.echo().opcode;
    Request {
        quiet: has_quiet && random.coin(),
        ..request
    }
    .write(out);
}

#[test]
fn right_requests_come_back_as_they_were_written() {
    let mut random = Random::for_test(11);
    for _ in 0..ROUNDS {
        let mut input = Vec::new();
        request(&mut random, &mut input);
        match parse_request(&input, &Limits::default()) {
            Outcome::Request { consumed, .. } => assert_eq!(consumed, input.len()),
            other => panic!("{other:?} for {}", input.escape_ascii()),
        }
        check_binary_request(&input, &Limits::default());
    }
}

#[test]
fn nearly_right_requests_and_arbitrary_bytes_break_no_law() {
    let mut random = Random::for_test(12);
    for _ in 0..ROUNDS {
        let mut input = Vec::new();
        request(&mut random, &mut input);
        // Mostly the header, which decides everything.
        let at = random.below(HEADER_LEN);
        input[at] = random.next() as u8;
        check_binary_request(&input, &TIGHT);
        random.mutate(&mut input);
        check_binary_request(&input, &TIGHT);
        check_auth(&input);
        let len = random.below(60);
        let mut bytes = random.bytes(len);
        check_binary_request(&bytes, &TIGHT);
        check_binary_reply(&bytes, &TIGHT);
        if let Some(first) = bytes.first_mut() {
            *first = 0x81;
        }
        check_binary_reply(&bytes, &TIGHT);
    }
}

/// Found by fuzzing: it is the whole of a hello that says that it is none.
#[test]
fn a_wrong_hello_is_refused_by_all_of_its_bytes() {
    let words = b"no words of a hello";
    let mut input = vec![0x80, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0, 0, words.len() as u8];
    input.extend_from_slice(&[0; 12]);
    input.extend_from_slice(words);
    let Outcome::Refused { consumed, .. } = parse_request(&input, &Limits::default()) else {
        panic!("it is no hello");
    };
    assert_eq!(consumed, input.len());
    check_binary_request(&input, &Limits::default());
}

#[test]
fn answers_are_replies() {
    let echo = Request::new(Command::Noop).echo();
    let mut out = Vec::new();
    answer::done(&mut out, echo, 7);
    answer::hit(&mut out, echo, 5, b"key", b"value", 7);
    answer::miss_with_key(&mut out, echo, b"key");
    answer::number(&mut out, echo, u64::MAX, 7);
    answer::stat(&mut out, echo, b"", b"");
    answer::error(&mut out, echo, Status::NonNumeric);
    for _ in 0..6 {
        check_binary_reply(&out, &TIGHT);
        let header = evenkeel_protocol::binary::ReplyHeader::parse(&out).expect("a header");
        out.drain(..HEADER_LEN + header.body_len as usize);
    }
    assert!(out.is_empty());
}
