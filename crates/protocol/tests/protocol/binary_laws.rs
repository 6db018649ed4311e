//! Laws of the binary protocol's parsers that hold for any bytes. The fuzz target checks the same ones.

use crate::laws::cuts;
use evenkeel_protocol::binary::{
    HEADER_LEN, Outcome, ReplyHeader, ReplyOutcome, Request, parse_reply, parse_request,
};
use evenkeel_protocol::{AuthOutcome, KEY_LEN_MAX, Limits, parse_auth};

/// Checks every law of the request parser on `input`.
pub fn check_binary_request(input: &[u8], limits: &Limits) {
    let outcome = parse_request(input, limits);
    let decided = match outcome {
        Outcome::Request { request, consumed } => {
            assert!((HEADER_LEN..=input.len()).contains(&consumed));
            if let Some(key) = request.command.key() {
                assert!((1..=KEY_LEN_MAX).contains(&key.len()));
            }
            check_again(&request, &input[..consumed], limits);
            consumed
        }
        Outcome::Incomplete { total } => {
            assert!(total > input.len());
            input.len()
        }
        Outcome::Refused {
            refusal,
            consumed,
            swallow,
        } => {
            assert!((HEADER_LEN..=input.len()).contains(&consumed));
            assert!(swallow < 1 << 31);
            assert!(refusal.status.code() != 0);
            consumed
        }
        Outcome::Close => input.len().min(1),
    };
    // What follows does not matter, nor how the bytes arrive.
    if outcome != Outcome::Close {
        assert_eq!(parse_request(&input[..decided], limits), outcome);
    }
    for cut in cuts(&input[..decided]) {
        match parse_request(&input[..cut], limits) {
            Outcome::Incomplete { total } => {
                assert!(cut < total && total <= decided.max(needed(&outcome)))
            }
            other => panic!("{other:?} after {cut} bytes of {decided}"),
        }
    }
}

/// The length that an undecided outcome waits for.
fn needed(outcome: &Outcome<'_>) -> usize {
    match outcome {
        Outcome::Incomplete { total } => *total,
        Outcome::Close => HEADER_LEN,
        _ => 0,
    }
}

/// A request that is written anew is the same bytes, but for the data type that nobody looks at.
fn check_again(request: &Request<'_>, frame: &[u8], limits: &Limits) {
    let mut again = Vec::new();
    request.write(&mut again);
    let parsed = parse_request(&again, limits);
    assert_eq!(
        parsed,
        Outcome::Request {
            request: *request,
            consumed: again.len()
        }
    );
    // The words of a hello may be written otherwise; everything else is byte for byte.
    if !matches!(
        request.command,
        evenkeel_protocol::binary::Command::Hello(_)
    ) {
        let mut same = frame.to_vec();
        same[5] = 0;
        assert_eq!(again, same);
    }
}

/// Checks every law of the reply parser on `input`.
pub fn check_binary_reply(input: &[u8], limits: &Limits) {
    let outcome = parse_reply(input, limits);
    let decided = match outcome {
        ReplyOutcome::Reply { reply, consumed } => {
            assert!((HEADER_LEN..=input.len()).contains(&consumed));
            let mut again = Vec::new();
            ReplyHeader {
                opcode: reply.opcode,
                key_len: reply.key.len() as u16,
                extras_len: reply.extras.len() as u8,
                status: reply.status,
                body_len: (reply.extras.len() + reply.key.len() + reply.value.len()) as u32,
                opaque: reply.opaque,
                cas: reply.cas,
            }
            .write(&mut again);
            for part in [reply.extras, reply.key, reply.value] {
                again.extend_from_slice(part);
            }
            let mut same = input[..consumed].to_vec();
            same[5] = 0;
            assert_eq!(again, same);
            consumed
        }
        ReplyOutcome::Incomplete { total } => {
            assert!(total > input.len());
            return;
        }
        ReplyOutcome::Malformed => return,
    };
    for cut in cuts(&input[..decided]) {
        match parse_reply(&input[..cut], limits) {
            ReplyOutcome::Incomplete { total } => assert!(cut < total && total <= decided),
            other => panic!("{other:?} after {cut} bytes of {decided}"),
        }
    }
}

/// Checks every law of the parser for credentials on `input`.
pub fn check_auth(input: &[u8]) {
    let outcome = parse_auth(input);
    let decided = match outcome {
        AuthOutcome::Attempt { consumed, .. } | AuthOutcome::Refused { consumed, .. } => {
            assert!((1..=input.len()).contains(&consumed));
            assert_eq!(parse_auth(&input[..consumed]), outcome);
            consumed
        }
        AuthOutcome::Incomplete { total } => {
            assert!(total > input.len());
            input.len()
        }
        AuthOutcome::Close => return,
    };
    for cut in cuts(&input[..decided]) {
        match parse_auth(&input[..cut]) {
            AuthOutcome::Incomplete { total } => assert!(cut < total),
            other => panic!("{other:?} after {cut} bytes of {decided}"),
        }
    }
}
