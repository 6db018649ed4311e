//! Replies: every form, and what is no reply.

use evenkeel_protocol::{Limits, MetaStatus, REPLY_LINE_LEN_MAX, Reply, ReplyOutcome, parse_reply};
use evenkeel_types::Version;

use crate::describe;

fn parse(input: &[u8]) -> Reply<'_> {
    match parse_reply(input, &Limits::default()) {
        ReplyOutcome::Reply { reply, consumed } => {
            assert_eq!(consumed, input.len());
            reply
        }
        other => panic!("{other:?} for {}", describe::text(input)),
    }
}

#[track_caller]
fn check(input: &str, expected: &str) {
    assert_eq!(describe::reply(&parse(input.as_bytes())), expected);
}

#[track_caller]
fn check_malformed(input: impl AsRef<[u8]>) {
    let input = input.as_ref();
    let outcome = parse_reply(input, &Limits::default());
    assert_eq!(
        outcome,
        ReplyOutcome::Malformed,
        "for {}",
        describe::text(input)
    );
}

#[test]
fn single_words() {
    for (line, expected) in [
        ("END\r\n", Reply::End),
        ("STORED\r\n", Reply::Stored),
        ("NOT_STORED\r\n", Reply::NotStored),
        ("EXISTS\r\n", Reply::Exists),
        ("NOT_FOUND\r\n", Reply::NotFound),
        ("DELETED\r\n", Reply::Deleted),
        ("TOUCHED\r\n", Reply::Touched),
        ("OK\r\n", Reply::Ok),
        ("OK\n", Reply::Ok),
        ("RESET\r\n", Reply::Reset),
        ("MN\r\n", Reply::MetaNoop),
        ("ERROR\r\n", Reply::Error),
    ] {
        assert_eq!(parse(line.as_bytes()), expected);
    }
}

#[test]
fn values() {
    check("VALUE a 7 3\r\nabc\r\n", "VALUE a 7 [abc] None");
    check(
        "VALUE a 7 3 99\r\nabc\r\n",
        "VALUE a 7 [abc] Some(Version(99))",
    );
    check("VALUE a 4294967295 0\r\n\r\n", "VALUE a 4294967295 [] None");
    check(
        "VALUE a 0 4\r\n\r\n\r\n\r\n",
        "VALUE a 0 [\\r\\n\\r\\n] None",
    );
}

#[test]
fn numbers_and_texts() {
    check("18446744073709551615\r\n", "Number(18446744073709551615)");
    // Servers that shorten a number in place leave spaces behind it.
    check("9   \r\n", "Number(9)");
    check("VERSION 1.6.45\r\n", "VERSION [1.6.45]");
    check("STAT pid 1\r\n", "STAT pid=[1]");
    check("STAT empty \r\n", "STAT empty=[]");
    check("STAT a b c\r\n", "STAT a=[b c]");
    check(
        "CLIENT_ERROR bad data chunk\r\n",
        "CLIENT_ERROR [bad data chunk]",
    );
    check(
        "SERVER_ERROR out of memory\r\n",
        "SERVER_ERROR [out of memory]",
    );
    check("SERVER_ERROR\r\n", "SERVER_ERROR []");
    check("ME a exp=-1 la=0\r\n", "ME a [exp=-1 la=0]");
    check("key=a exp=-1\n", "other [key=a exp=-1]");
    check(
        "ERROR: shutdown not enabled\r\n",
        "other [ERROR: shutdown not enabled]",
    );
    check("STORED please\r\n", "other [STORED please]");
}

#[test]
fn meta_replies() {
    check("HD\r\n", "Done None ");
    check("HD  c1 O9 \r\n", "Done None c1 O9");
    check("VA 2 f1 W\r\nhi\r\n", "Value Some(\"hi\") f1 W");
    check("VA 0\r\n\r\n", "Value Some(\"\") ");
    check("EN\r\n", "Miss None ");
    check("NF k1\r\n", "NotFound None k1");
    check("NS\r\n", "NotStored None ");
    check("EX c9\r\n", "Exists None c9");
    let Reply::Meta(meta) = parse(b"VA 1 t-1 c18446744073709551615 s1 h0 kYQ== b W ?x c2\r\nx\r\n")
    else {
        panic!("not a meta reply");
    };
    assert_eq!(meta.status, MetaStatus::Value);
    assert_eq!(meta.flags.exptime(b't'), Some(-1));
    // What stands first counts; bytes that are no letters are carried along.
    assert_eq!(meta.flags.unsigned(b'c'), Some(u64::MAX));
    assert_eq!(meta.flags.token(b'k'), Some(b"YQ==".as_slice()));
    assert!(meta.flags.has(b'W') && !meta.flags.has(b'X'));
    assert_eq!(meta.gamma(), None);
    assert_eq!(meta.newest_version(), None);
}

#[test]
fn grants_and_versions() {
    let facts = |line: &str| match parse(line.as_bytes()) {
        Reply::Meta(meta) => (meta.gamma(), meta.newest_version()),
        other => panic!("{other:?}"),
    };
    assert_eq!(facts("VA 1 c5 G3\r\nx\r\n"), (Some(3), None));
    assert_eq!(facts("HD G255 L7\r\n"), (Some(255), None));
    assert_eq!(facts("EN V77\r\n"), (None, Some(Version(77))));
    assert_eq!(facts("EN G0 V0\r\n"), (None, Some(Version(0))));
    assert_eq!(facts("EN G256 Vx\r\n"), (None, None));
    let left = |line: &str| match parse(line.as_bytes()) {
        Reply::Meta(meta) => meta.lease_left_ms(),
        other => panic!("{other:?}"),
    };
    assert_eq!(left("HD G3\r\n"), None, "it is whole");
    assert_eq!(left("HD G3 L0\r\n"), Some(0));
    assert_eq!(left("HD G3 L70\r\n"), Some(70));
    assert_eq!(left("HD G3 Lx\r\n"), Some(0), "not taken for a whole one");
}

#[test]
fn the_extension() {
    check(
        "MOVED 7 3 1\r\n",
        "Moved(Moved { epoch: Epoch(7), owner: WorkerRef { server: ServerId(3), worker: 1 }, mark: 0 })",
    );
    check(
        "MOVED 7 3 1 12 more\r\n",
        "Moved(Moved { epoch: Epoch(7), owner: WorkerRef { server: ServerId(3), worker: 1 }, mark: 12 })",
    );
    check(
        "MOVED 7 3 1 more\r\n",
        "Moved(Moved { epoch: Epoch(7), owner: WorkerRef { server: ServerId(3), worker: 1 }, mark: 0 })",
    );
    let Reply::Hello(hello) =
        parse(b"EVENKEEL 1 server=3 worker=2 boot=18446744073709551615 colour=blue epoch=7 lease_ms=1000\r\n")
    else {
        panic!("not a hello");
    };
    assert_eq!(
        (
            hello.version,
            hello.worker.server.0,
            hello.worker.worker,
            hello.boot.0,
            hello.epoch.0,
            hello.lease_ms
        ),
        (1, 3, 2, u64::MAX, 7, 1000)
    );
    for line in [
        "MOVED\r\n",
        "MOVED 1 2\r\n",
        "MOVED 1 2 65536\r\n",
        "MOVED 1 65536 2\r\n",
        "MOVED x 1 2\r\n",
    ] {
        check_malformed(line);
    }
    for line in [
        "EVENKEEL\r\n",
        "EVENKEEL x\r\n",
        "EVENKEEL 1 server\r\n",
        "EVENKEEL 1 server=x\r\n",
        "EVENKEEL 1 worker=65536\r\n",
        "EVENKEEL 1 boot=\r\n",
        "EVENKEEL 1 epoch=-1\r\n",
        "EVENKEEL 1 lease_ms=1s\r\n",
    ] {
        check_malformed(line);
    }
}

#[test]
fn what_is_no_reply() {
    for line in [
        "\r\n",
        "   \r\n",
        "VALUE\r\n",
        "VALUE a\r\n",
        "VALUE a 1\r\n",
        "VALUE a 1 2 3 4\r\nab\r\n",
        "VALUE a x 2\r\nab\r\n",
        "VALUE a 4294967296 2\r\nab\r\n",
        "VALUE a -1 2\r\nab\r\n",
        "VALUE a 1 -2\r\nab\r\n",
        "VALUE a 1 +2\r\nab\r\n",
        "VALUE a 1 2 x\r\nab\r\n",
        "VALUE a 1 2\r\nabcd",
        "VALUE a 1 2\r\nab\n\r",
        "VA\r\n",
        "VA x\r\n",
        "VA -1\r\n",
        "VA 2\r\nabXX",
        "VA 99999999999999999999\r\n",
        "12x\r\n",
        "18446744073709551616\r\n",
        "STAT\r\n",
        "ME\r\n",
    ] {
        check_malformed(line);
    }
    check_malformed(format!("VALUE {} 0 1\r\nx\r\n", "k".repeat(251)));
}

/// A peer cannot make us wait for more than we take from our own clients.
#[test]
fn bounds() {
    let limits = Limits {
        item_size_max: 1000,
        ..Limits::default()
    };
    for line in ["VALUE a 0 1001\r\n", "VA 1001\r\n"] {
        assert_eq!(
            parse_reply(line.as_bytes(), &limits),
            ReplyOutcome::Malformed
        );
    }
    let line = "VALUE a 0 1000\r\n";
    let total = line.len() + 1002;
    assert_eq!(
        parse_reply(line.as_bytes(), &limits),
        ReplyOutcome::Incomplete { total }
    );

    assert_eq!(
        parse_reply(b"", &limits),
        ReplyOutcome::Incomplete { total: 1 }
    );
    let mut line = vec![b'x'; REPLY_LINE_LEN_MAX];
    let total = line.len() + 1;
    assert_eq!(
        parse_reply(&line, &limits),
        ReplyOutcome::Incomplete { total }
    );
    line.push(b'x');
    check_malformed(&line);
    line.push(b'\n');
    check_malformed(&line);
}

/// The words of refusals are replies, and the parser knows them for errors.
#[test]
fn pipelined_replies_are_read_one_by_one() {
    let mut rest: &[u8] =
        b"VALUE a 0 1\r\nx\r\nVALUE b 0 1\r\ny\r\nEND\r\nSTORED\r\nCLIENT_ERROR no\r\n";
    let mut told = Vec::new();
    while let ReplyOutcome::Reply { reply, consumed } = parse_reply(rest, &Limits::default()) {
        told.push(describe::reply(&reply));
        rest = &rest[consumed..];
    }
    assert_eq!(rest, b"");
    assert_eq!(
        told,
        [
            "VALUE a 0 [x] None",
            "VALUE b 0 [y] None",
            "End",
            "Stored",
            "CLIENT_ERROR [no]"
        ]
    );
}
