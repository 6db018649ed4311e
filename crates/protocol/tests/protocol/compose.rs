//! The composers' bytes, literally.

use evenkeel_protocol::compose::{self, answer, request};
use evenkeel_protocol::{
    Direction, HelloReply, Limits, Meta, MetaStatus, Migrate, Moved, Request, RequestOutcome,
    SentKey, Store, StoreVerb, parse_request, text,
};
use evenkeel_types::{BootId, CacheletId, Epoch, ServerId, Version, WorkerRef};

#[track_caller]
fn check(write: impl FnOnce(&mut Vec<u8>), expected: &str) {
    // Composers append.
    let mut out = b"before ".to_vec();
    write(&mut out);
    assert_eq!(String::from_utf8_lossy(&out), format!("before {expected}"));
}

fn meta(line: &[u8]) -> Meta<'_> {
    match parse_request(line, &Limits::default()) {
        RequestOutcome::Request {
            request: Request::MetaGet(meta),
            ..
        } => meta,
        other => panic!("{other:?}"),
    }
}

#[test]
fn classic_answers() {
    check(
        |out| answer::value(out, b"k", 7, b"abc", None),
        "VALUE k 7 3\r\nabc\r\n",
    );
    check(
        |out| answer::value(out, b"k", 0, b"", Some(Version(u64::MAX))),
        "VALUE k 0 0 18446744073709551615\r\n\r\n",
    );
    check(|out| answer::number_line(out, 5), "5\r\n");
    check(|out| answer::stat(out, b"pid", b"1"), "STAT pid 1\r\n");
    check(
        |out| answer::stat_number(out, b"ttl", -1),
        "STAT ttl -1\r\n",
    );
    check(|out| answer::version(out, "1.6.45"), "VERSION 1.6.45\r\n");
    check(
        |out| answer::server_error(out, "no such worker"),
        "SERVER_ERROR no such worker\r\n",
    );
    check(|out| compose::number(out, 12), "12");
}

#[test]
fn meta_answers() {
    check(|out| answer::meta(out, MetaStatus::Done).end(), "HD\r\n");
    check(|out| answer::meta(out, MetaStatus::Miss).end(), "EN\r\n");
    check(
        |out| answer::meta(out, MetaStatus::NotFound).end(),
        "NF\r\n",
    );
    check(
        |out| answer::meta(out, MetaStatus::NotStored).end(),
        "NS\r\n",
    );
    check(
        |out| answer::meta(out, MetaStatus::Exists).number(b'c', 9).end(),
        "EX c9\r\n",
    );
    check(
        |out| answer::meta_value(out, 2).flag(b'W').end_with(b"hi"),
        "VA 2 W\r\nhi\r\n",
    );
}

#[test]
fn return_flags_stand_in_the_order_requested() {
    let facts = answer::ItemFacts {
        value_len: 3,
        version: Version(99),
        flags: 7,
        ttl: Some(60),
        last_access: 5,
        fetched: true,
        ..answer::ItemFacts::default()
    };
    let write = |line: &'static [u8], facts: answer::ItemFacts| {
        move |out: &mut Vec<u8>| {
            answer::item_flags(
                answer::meta(out, MetaStatus::Done),
                &meta(line),
                b"key",
                &facts,
            )
            .end();
        }
    };
    check(
        write(b"mg key O1 k s c f t l h q v u T30\r\n", facts),
        "HD O1 kkey s3 c99 f7 t60 l5 h1\r\n",
    );
    check(
        write(b"mg key h l t f c s k O1\r\n", facts),
        "HD h1 l5 t60 f7 c99 s3 kkey O1\r\n",
    );
    check(
        write(b"mg key t\r\n", answer::ItemFacts { ttl: None, ..facts }),
        "HD t-1\r\n",
    );
    check(
        write(
            b"mg key h\r\n",
            answer::ItemFacts {
                fetched: false,
                ..facts
            },
        ),
        "HD h0\r\n",
    );
    let special = answer::ItemFacts {
        win_sent: true,
        stale: true,
        won: true,
        ..facts
    };
    check(write(b"mg key s\r\n", special), "HD s3 Z X W\r\n");
    check(write(b"mg a2V5 b k s\r\n", facts), "HD ka2V5 b s3\r\n");
}

#[test]
fn a_miss_returns_opaque_and_key_alone() {
    check(
        |out| {
            let line = answer::meta(out, MetaStatus::Miss);
            answer::echo_flags(line, &meta(b"mg key s O9 v k t\r\n"), b"key").end();
        },
        "EN O9 kkey\r\n",
    );
}

#[test]
fn the_extension() {
    let write = |lease, newest| {
        move |out: &mut Vec<u8>| {
            answer::extension_flags(answer::meta(out, MetaStatus::Miss), lease, newest).end();
        }
    };
    check(write(None, None), "EN\r\n");
    check(write(Some((0, Some(1))), None), "EN\r\n");
    check(write(Some((3, None)), Some(Version(8))), "EN G3 V8\r\n");
    check(write(Some((3, Some(70))), None), "EN G3 L70\r\n");
    let worker = WorkerRef {
        server: ServerId(3),
        worker: 1,
    };
    let hello = HelloReply {
        version: 1,
        worker,
        boot: BootId(9),
        epoch: Epoch(7),
        lease_ms: 1000,
        vote: None,
    };
    check(
        |out| answer::hello(out, &hello),
        "EVENKEEL 1 server=3 worker=1 boot=9 epoch=7 lease_ms=1000\r\n",
    );
    for (vote, word) in [(true, "vote=1"), (false, "vote=0")] {
        let vote = HelloReply {
            vote: Some(vote),
            ..hello
        };
        let line = format!("EVENKEEL 1 server=3 worker=1 boot=9 epoch=7 lease_ms=1000 {word}\r\n");
        check(|out| answer::hello(out, &vote), &line);
    }
    check(
        |out| request::ask_for_vote(out, Epoch(7), ServerId(3), BootId(u64::MAX)),
        "evenkeel 1 epoch=7 vote=3/18446744073709551615\r\n",
    );
    check(
        |out| {
            answer::moved(
                out,
                &Moved {
                    epoch: Epoch(7),
                    owner: worker,
                    mark: 0,
                },
            )
        },
        "MOVED 7 3 1\r\n",
    );
    check(
        |out| {
            answer::moved(
                out,
                &Moved {
                    epoch: Epoch(7),
                    owner: worker,
                    mark: 12,
                },
            )
        },
        "MOVED 7 3 1 12\r\n",
    );
    check(
        |out| {
            let began = Epoch(9);
            let (cachelet, since) = (CacheletId(65535), Epoch(0));
            request::migrate(
                out,
                Migrate::Begin {
                    cachelet,
                    began,
                    since,
                },
            );
            let newest = Version(u64::MAX);
            request::migrate(out, Migrate::Activate { newest });
            request::migrate(out, Migrate::Confirm);
        },
        "migrate begin 65535 9 0\r\nmigrate activate 18446744073709551615\r\nmigrate confirm\r\n",
    );
    check(
        |out| request::hello(out, Epoch(7)),
        "evenkeel 1 epoch=7\r\n",
    );
    check(
        |out| request::hello_from(out, Epoch(7), worker),
        "evenkeel 1 epoch=7 from=3/1\r\n",
    );
}

#[test]
fn classic_requests() {
    check(
        |out| request::get(out, [b"a".as_slice(), b"b"], false),
        "get a b\r\n",
    );
    check(
        |out| request::get(out, [b"a".as_slice()], true),
        "gets a\r\n",
    );
    check(
        |out| request::get_and_touch(out, -1, [b"a".as_slice()], false),
        "gat -1 a\r\n",
    );
    check(
        |out| request::get_and_touch(out, 9, [b"a".as_slice()], true),
        "gats 9 a\r\n",
    );
    let store = |verb, noreply| Store {
        verb,
        key: b"a",
        flags: 1,
        exptime: 2,
        value: b"xyz",
        noreply,
    };
    for (verb, word) in [
        (StoreVerb::Set, "set"),
        (StoreVerb::Add, "add"),
        (StoreVerb::Replace, "replace"),
        (StoreVerb::Append, "append"),
        (StoreVerb::Prepend, "prepend"),
    ] {
        check(
            |out| request::store(out, &store(verb, false)),
            &format!("{word} a 1 2 3\r\nxyz\r\n"),
        );
    }
    check(
        |out| request::store(out, &store(StoreVerb::Cas(8), true)),
        "cas a 1 2 3 8 noreply\r\nxyz\r\n",
    );
    check(|out| request::delete(out, b"a", false), "delete a\r\n");
    check(
        |out| request::delete(out, b"a", true),
        "delete a noreply\r\n",
    );
    check(
        |out| request::arithmetic(out, b"a", 5, Direction::Incr, false),
        "incr a 5\r\n",
    );
    check(
        |out| request::arithmetic(out, b"a", 5, Direction::Decr, true),
        "decr a 5 noreply\r\n",
    );
    check(|out| request::touch(out, b"a", 0, false), "touch a 0\r\n");
    check(
        |out| request::flush_all(out, None, true),
        "flush_all noreply\r\n",
    );
    check(
        |out| request::flush_all(out, Some(-1), false),
        "flush_all -1\r\n",
    );
    check(request::version, "version\r\n");
}

#[test]
fn meta_requests() {
    let key = SentKey::plain(b"a");
    check(
        |out| {
            request::meta_get(out, key)
                .flag(b'v')
                .token(b'O', b"1")
                .end()
        },
        "mg a v O1\r\n",
    );
    check(
        |out| {
            request::meta_set(out, key, 2)
                .number(b'T', 30)
                .end_with(b"hi")
        },
        "ms a 2 T30\r\nhi\r\n",
    );
    check(
        |out| request::meta_delete(out, key).raw(b"q k").end(),
        "md a q k\r\n",
    );
    check(
        |out| request::meta_delete(out, key).raw(b"").end(),
        "md a\r\n",
    );
    check(
        |out| request::meta_arithmetic(out, key).number(b'D', 5_u64).end(),
        "ma a D5\r\n",
    );
    let key = SentKey {
        text: b"YQ==",
        base64: true,
    };
    check(
        |out| request::meta_debug(out, key).flag(b'b').end(),
        "me YQ== b\r\n",
    );
    check(request::meta_noop, "mn\r\n");
    check(
        |out| answer::meta(out, MetaStatus::Done).key(b"a b", true).end(),
        "HD kYSBi b\r\n",
    );
}

/// Every fixed line is exactly one line.
#[test]
fn fixed_lines_are_lines() {
    for line in [
        text::STORED,
        text::END,
        text::ERROR,
        text::BAD_FORMAT,
        text::TOO_LARGE,
        text::META_MISS,
    ] {
        assert!(line.ends_with(b"\r\n"));
        assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
    }
}
