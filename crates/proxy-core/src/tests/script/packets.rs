//! Requests and answers in the binary protocol, as words.
//!
//! A request is `get K`, `getk K`, `set K EXPTIME`, `add`, `replace`, `append K`, `prepend K`, `delete K`, `touch K EXPTIME`,
//! `incr K EXPTIME` (`-` where nothing is to be created), `flush`, `noop`, `version`, `stat WORDS`, `config NAME`, `mechanisms`,
//! `login TOKEN`, `login_step TOKEN`, `quit` or `senseless` (lengths that cannot be), with `cas=N`, `cut` (the header alone) or `quiet` behind it. Flags are 5, values `abc`, what is added 2, what
//! is created 40, opaques 7; `_` in a key stands for a space.
//!
//! An answer is `STATUS CAS [EXTRAS] KEY=VALUE`.

use evenkeel_protocol::binary::{
    Command, Opcode, ReplyOutcome, Request, RequestHeader, parse_reply,
};
use evenkeel_protocol::{Direction, Limits, StoreMode};

const OPAQUE: u32 = 7;

const HEADER_LEN: usize = 24;

/// The bytes of a request.
pub fn request(words: &str) -> Result<Vec<u8>, String> {
    let mut words: Vec<&str> = words.split_whitespace().collect();
    let quiet = words.pop_if(|word| *word == "quiet").is_some();
    let is_cut = words.pop_if(|word| *word == "cut").is_some();
    let cas = words.pop_if(|word| word.starts_with("cas="));
    let cas = cas.map_or(Ok(0), |cas| number(&cas[4..]))?;
    let key = words
        .get(1)
        .map_or(String::new(), |key| key.replace('_', " "));
    let key = key.as_bytes();
    let exptime = match words.get(2) {
        None => 0,
        Some(&"-") => Command::CREATE_NOTHING,
        Some(seconds) => number(seconds)?,
    };
    let store = |mode| Command::Store {
        mode,
        key,
        flags: 5,
        exptime,
        value: b"abc",
    };
    let join = |before| Command::Join {
        before,
        key,
        value: b"abc",
    };
    let command = match words[0] {
        "get" | "getk" => Command::Get {
            key,
            with_key: words[0] == "getk",
        },
        "set" => store(StoreMode::Set),
        "add" => store(StoreMode::Add),
        "replace" => store(StoreMode::Replace),
        "append" => join(false),
        "prepend" => join(true),
        "delete" => Command::Delete { key },
        "touch" => Command::Touch { key, exptime },
        "incr" => Command::Arithmetic {
            key,
            direction: Direction::Incr,
            delta: 2,
            initial: 40,
            exptime,
        },
        "flush" => Command::Flush { delay: None },
        "noop" => Command::Noop,
        "version" => Command::Version,
        "stat" => Command::Stat { arguments: key },
        "config" => Command::ConfigGet { name: key },
        "mechanisms" => Command::SaslMechanisms,
        "login" | "login_step" => Command::Sasl {
            is_step: words[0] == "login_step",
            mechanism: b"PLAIN",
            token: key,
        },
        "quit" => Command::Quit,
        "senseless" => return Ok(senseless()),
        other => return Err(format!("what is {other} in binary?")),
    };
    let mut request = Request::new(command);
    (request.quiet, request.cas, request.opaque) = (quiet, cas, OPAQUE);
    let mut out = Vec::new();
    request.write(&mut out);
    if is_cut {
        out.truncate(HEADER_LEN);
    }
    Ok(out)
}

fn number<T: core::str::FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{word:?} is no number"))
}

fn senseless() -> Vec<u8> {
    let mut out = Vec::new();
    let header = RequestHeader {
        opcode: Opcode::SET,
        key_len: 300,
        body_len: 300,
        opaque: OPAQUE,
        ..RequestHeader::default()
    };
    header.write(&mut out);
    out
}

/// Answers in words, one a line.
pub fn told(mut bytes: &[u8]) -> Result<String, String> {
    let mut told = String::new();
    while let ReplyOutcome::Reply { reply, consumed } = parse_reply(bytes, &Limits::default()) {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let extras: Vec<String> = reply.extras.iter().map(u8::to_string).collect();
        let (status, cas, extras) = (reply.status, reply.cas, extras.join(","));
        let (key, value) = (text(reply.key), text(reply.value));
        told += &format!("{status:#x} {cas} [{extras}] {key}={value}\r\n");
        if reply.opaque != OPAQUE {
            return Err("another opaque".to_owned());
        }
        bytes = &bytes[consumed..];
    }
    match bytes {
        [] => Ok(told),
        rest => Err(format!("{rest:?} behind {told}")),
    }
}
