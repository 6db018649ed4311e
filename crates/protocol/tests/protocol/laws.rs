//! Laws that hold for any bytes. The fuzz targets check the same ones.

use evenkeel_protocol::{
    Admin, Hello, KEY_LEN_MAX, Limits, Reply, ReplyOutcome, Request, RequestOutcome, ShutdownMode,
    compose, parse_reply, parse_request, scan_get, scan_set,
};

use super::describe;

/// Small limits, so that small inputs reach them.
pub const TIGHT: Limits = Limits {
    item_size_max: 400,
    line_len_max: 4096,
};

/// Most places at which an input is cut.
const CUTS_MAX: usize = 48;

/// Checks every law of the request parser on `input`.
pub fn check_request(input: &[u8], limits: &Limits) {
    let outcome = parse_request(input, limits);
    // How many bytes the outcome rests on.
    let decided = match &outcome {
        RequestOutcome::Request { request, consumed } => {
            assert!((1..=input.len()).contains(consumed));
            check_limits(request, limits);
            check_request_again(request, limits);
            *consumed
        }
        RequestOutcome::Incomplete { total } => {
            assert!(*total > input.len());
            input.len()
        }
        RequestOutcome::Refused {
            refusal,
            consumed,
            swallow,
        } => {
            assert!((1..=input.len()).contains(consumed));
            assert!(*swallow < 1 << 31);
            assert!(refusal.reply.is_empty() || refusal.reply.ends_with(b"\r\n"));
            *consumed
        }
        RequestOutcome::Close { .. } => input.len(),
    };
    check_quick_looks(input, &outcome, limits);
    // What follows a request does not matter, ...
    if !matches!(outcome, RequestOutcome::Close { .. }) {
        assert_eq!(parse_request(&input[..decided], limits), outcome);
    }
    // ... nor how the bytes arrive.
    for cut in cuts(&input[..decided]) {
        match parse_request(&input[..cut], limits) {
            RequestOutcome::Incomplete { total } => {
                assert!(cut < total);
                let needed = match &outcome {
                    RequestOutcome::Incomplete { total } => *total,
                    _ => decided,
                };
                assert!(total <= needed, "waits for {total} bytes of {needed}");
            }
            RequestOutcome::Close { .. } => {
                assert!(
                    matches!(outcome, RequestOutcome::Close { .. }),
                    "closed after {cut} bytes"
                );
            }
            other => panic!("{other:?} after {cut} bytes of {decided}"),
        }
    }
}

/// Checks every law of the reply parser on `input`.
pub fn check_reply(input: &[u8], limits: &Limits) {
    let outcome = parse_reply(input, limits);
    let decided = match &outcome {
        ReplyOutcome::Reply { reply, consumed } => {
            assert!((1..=input.len()).contains(consumed));
            check_reply_again(reply, limits);
            *consumed
        }
        ReplyOutcome::Incomplete { total } => {
            assert!(*total > input.len());
            input.len()
        }
        ReplyOutcome::Malformed => input.len(),
    };
    if outcome != ReplyOutcome::Malformed {
        assert_eq!(parse_reply(&input[..decided], limits), outcome);
    }
    for cut in cuts(&input[..decided]) {
        match parse_reply(&input[..cut], limits) {
            ReplyOutcome::Incomplete { total } => {
                assert!(cut < total);
                let needed = match &outcome {
                    ReplyOutcome::Incomplete { total } => *total,
                    _ => decided,
                };
                assert!(total <= needed, "waits for {total} bytes of {needed}");
            }
            ReplyOutcome::Malformed => {
                assert_eq!(
                    outcome,
                    ReplyOutcome::Malformed,
                    "malformed after {cut} bytes"
                );
            }
            other => panic!("{other:?} after {cut} bytes of {decided}"),
        }
    }
}

/// Places to cut an input: all of them if it is short, otherwise others for each input.
pub fn cuts(input: &[u8]) -> impl Iterator<Item = usize> {
    let step = input.len().div_ceil(CUTS_MAX).max(1);
    let sum = input.iter().map(|&byte| usize::from(byte)).sum::<usize>();
    (sum % step..input.len()).step_by(step)
}

/// What the quick looks take, the parser takes as the same request.
fn check_quick_looks(input: &[u8], outcome: &RequestOutcome<'_>, limits: &Limits) {
    let mut keys = Vec::new();
    if let Some(end) = scan_get(input, 0, limits, &mut keys) {
        let RequestOutcome::Request {
            request:
                Request::Get {
                    keys: parsed,
                    with_cas: false,
                },
            consumed,
        } = outcome
        else {
            panic!("a get by a quick look is {outcome:?}");
        };
        assert_eq!(*consumed, end);
        assert!(keys.iter().map(|key| key.of(input)).eq(parsed.iter()));
    }
    if let Some(set) = scan_set(input, 0, limits) {
        let RequestOutcome::Request { request, consumed } = outcome else {
            panic!("a set by a quick look is {outcome:?}");
        };
        assert_eq!(*request, Request::Store(set.of(input)));
        assert_eq!(*consumed, set.end());
    }
}

fn check_limits(request: &Request<'_>, limits: &Limits) {
    let mut scratch = evenkeel_protocol::KeyScratch::default();
    let (key, value_len) = match request {
        Request::Get { keys, .. } | Request::GetAndTouch { keys, .. } => {
            assert_eq!(keys.iter().count(), keys.len());
            assert_eq!(keys.iter().len(), keys.len());
            assert!(
                keys.iter()
                    .all(|key| (1..=KEY_LEN_MAX).contains(&key.len()))
            );
            return;
        }
        Request::Store(store) => (store.key, store.value.len()),
        Request::Delete { key, .. }
        | Request::Arithmetic { key, .. }
        | Request::Touch { key, .. } => (*key, 0),
        Request::MetaGet(meta)
        | Request::MetaSet(meta)
        | Request::MetaDelete(meta)
        | Request::MetaArithmetic(meta) => {
            for (letter, token) in meta.flags {
                assert!(meta.flags.has(letter));
                assert_eq!(meta.flags.token(letter), Some(token));
            }
            (meta.key(&mut scratch), meta.value.len())
        }
        Request::MetaDebug { key } => (key.decode(&mut scratch), 0),
        _ => return,
    };
    assert!((1..=KEY_LEN_MAX).contains(&key.len()));
    assert!(value_len <= limits.item_size_max);
}

/// A request that is composed anew is the same request.
fn check_request_again(request: &Request<'_>, limits: &Limits) {
    let bytes = compose_request(request);
    match parse_request(&bytes, limits) {
        RequestOutcome::Request {
            request: again,
            consumed,
        } => {
            assert_eq!(describe::request(&again), describe::request(request));
            assert_eq!(consumed, bytes.len());
        }
        other => panic!("{request:?} became {other:?}"),
    }
}

/// Writes a request with the composers.
pub fn compose_request(request: &Request<'_>) -> Vec<u8> {
    use compose::request as write;
    let mut out = Vec::new();
    match *request {
        Request::Get { keys, with_cas } => write::get(&mut out, keys, with_cas),
        Request::GetAndTouch {
            exptime,
            keys,
            with_cas,
        } => {
            write::get_and_touch(&mut out, exptime, keys, with_cas);
        }
        Request::Store(ref store) => write::store(&mut out, store),
        Request::Delete { key, noreply } => write::delete(&mut out, key, noreply),
        Request::Arithmetic {
            key,
            delta,
            direction,
            noreply,
        } => {
            write::arithmetic(&mut out, key, delta, direction, noreply);
        }
        Request::Touch {
            key,
            exptime,
            noreply,
        } => write::touch(&mut out, key, exptime, noreply),
        Request::FlushAll { delay, noreply } => write::flush_all(&mut out, delay, noreply),
        Request::Version => write::version(&mut out),
        Request::Verbosity { level, noreply } => {
            let noreply = if noreply { " noreply" } else { "" };
            out.extend_from_slice(format!("verbosity {level}{noreply}\r\n").as_bytes());
        }
        Request::Stats { arguments } => {
            let space: &[u8] = if arguments.is_empty() { b"" } else { b" " };
            out.extend_from_slice(&[b"stats", space, arguments, b"\r\n"].concat());
        }
        Request::Quit => out.extend_from_slice(b"quit\r\n"),
        Request::Admin(admin) => compose_admin(&mut out, admin),
        Request::MetaGet(meta) => write::meta_get(&mut out, meta.key)
            .raw(meta.flags.raw())
            .end(),
        Request::MetaSet(meta) => write::meta_set(&mut out, meta.key, meta.value.len())
            .raw(meta.flags.raw())
            .end_with(meta.value),
        Request::MetaDelete(meta) => {
            write::meta_delete(&mut out, meta.key)
                .raw(meta.flags.raw())
                .end();
        }
        Request::MetaArithmetic(meta) => {
            write::meta_arithmetic(&mut out, meta.key)
                .raw(meta.flags.raw())
                .end();
        }
        Request::MetaNoop => write::meta_noop(&mut out),
        Request::MetaDebug { key } if key.base64 => {
            write::meta_debug(&mut out, key).flag(b'b').end()
        }
        Request::MetaDebug { key } => write::meta_debug(&mut out, key).end(),
        // Only the version that this crate speaks is ever offered.
        Request::Hello(hello) if hello.version != Hello::VERSION => {
            let from = hello
                .from
                .map(|from| format!(" from={from}"))
                .unwrap_or_default();
            let line = format!("evenkeel {} epoch={}{from}\r\n", hello.version, hello.epoch);
            out.extend_from_slice(line.as_bytes());
        }
        Request::Hello(hello) => match hello.from {
            Some(worker) => write::hello_from(&mut out, hello.epoch, worker),
            None => write::hello(&mut out, hello.epoch),
        },
        Request::Migrate(migrate) => write::migrate(&mut out, migrate),
    }
    out
}

fn compose_admin(out: &mut Vec<u8>, admin: Admin<'_>) {
    let (word, arguments): (&[u8], Vec<u8>) = match admin {
        Admin::Shutdown(mode) => match mode {
            ShutdownMode::Immediate => (b"shutdown", Vec::new()),
            ShutdownMode::Graceful => (b"shutdown", b"graceful".to_vec()),
            ShutdownMode::Unknown => (b"shutdown", b"another way".to_vec()),
        },
        Admin::CacheMemlimit { mebibytes, noreply } => {
            let noreply = if noreply { " noreply" } else { "" };
            (
                b"cache_memlimit",
                format!("{mebibytes}{noreply}").into_bytes(),
            )
        }
        Admin::LruCrawler(arguments) => (b"lru_crawler", arguments.to_vec()),
        Admin::Watch(arguments) => (b"watch", arguments.to_vec()),
        Admin::Slabs(arguments) => (b"slabs", arguments.to_vec()),
        Admin::Lru(arguments) => (b"lru", arguments.to_vec()),
        Admin::RefreshCerts => (b"refresh_certs", Vec::new()),
        Admin::ConfigGet(name) => (b"config get", name.to_vec()),
        Admin::DebugTime(arguments) => (b"debugtime", arguments.to_vec()),
    };
    out.extend_from_slice(word);
    out.push(b' ');
    out.extend_from_slice(&arguments);
    out.extend_from_slice(b"\r\n");
}

/// A reply that is composed anew is the same reply.
fn check_reply_again(reply: &Reply<'_>, limits: &Limits) {
    let bytes = compose_reply(reply);
    match parse_reply(&bytes, limits) {
        ReplyOutcome::Reply {
            reply: again,
            consumed,
        } => {
            assert_eq!(describe::reply(&again), describe::reply(reply));
            assert_eq!(consumed, bytes.len());
        }
        other => panic!("{reply:?} became {other:?}"),
    }
}

/// Writes a reply with the composers.
pub fn compose_reply(reply: &Reply<'_>) -> Vec<u8> {
    use compose::answer;
    use evenkeel_protocol::text;
    let mut out = Vec::new();
    let fixed = match *reply {
        Reply::End => text::END,
        Reply::Stored => text::STORED,
        Reply::NotStored => text::NOT_STORED,
        Reply::Exists => text::EXISTS,
        Reply::NotFound => text::NOT_FOUND,
        Reply::Deleted => text::DELETED,
        Reply::Touched => text::TOUCHED,
        Reply::Ok => text::OK,
        Reply::Reset => text::RESET,
        Reply::MetaNoop => text::META_NOOP,
        Reply::Error => text::ERROR,
        _ => b"",
    };
    out.extend_from_slice(fixed);
    match *reply {
        Reply::Value(value) => {
            answer::value(&mut out, value.key, value.flags, value.data, value.cas);
        }
        Reply::Number(number) => answer::number_line(&mut out, number),
        Reply::Stat { name, value } => answer::stat(&mut out, name, value),
        Reply::Meta(meta) => match meta.value {
            Some(value) => {
                answer::meta_value(&mut out, value.len())
                    .raw(meta.flags.raw())
                    .end_with(value);
            }
            None => answer::meta(&mut out, meta.status)
                .raw(meta.flags.raw())
                .end(),
        },
        Reply::Hello(ref hello) => answer::hello(&mut out, hello),
        Reply::Moved(ref moved) => answer::moved(&mut out, moved),
        Reply::Version(rest) => line(&mut out, &[b"VERSION", rest]),
        Reply::ClientError(rest) => line(&mut out, &[b"CLIENT_ERROR", rest]),
        Reply::ServerError(rest) => line(&mut out, &[b"SERVER_ERROR", rest]),
        Reply::MetaDebug { key, facts } => line(&mut out, &[b"ME", key, facts]),
        Reply::Other(rest) => line(&mut out, &[rest]),
        _ => {}
    }
    out
}

/// Words that only other servers write, and that no composer therefore knows.
fn line(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(&words.join(&b' '));
    out.extend_from_slice(b"\r\n");
}
