//! What is refused, in which words, and where the next request then starts. Unless a case says
//! otherwise the expectation is what memcached 1.6.18 answered to the same bytes.

use evenkeel_protocol::{
    LINE_LEN_MAX, LONG_LINE_LEN_DEFAULT, Limits, RequestOutcome, parse_request, text,
};

use crate::describe;

const ERROR: &str = "\"ERROR\"";
const BAD_FORMAT: &str = "\"CLIENT_ERROR bad command line format\"";
const BAD_DATA: &str = "\"CLIENT_ERROR bad data chunk\"";
const BAD_EXPTIME: &str = "\"CLIENT_ERROR invalid exptime argument\"";
const BAD_DELETE: &str = "\"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\"";
const BAD_DELTA: &str = "\"CLIENT_ERROR invalid numeric delta argument\"";
const TOO_LARGE: &str = "\"SERVER_ERROR object too large for cache\"";
const INVALID_FLAG: &str = "\"CLIENT_ERROR invalid flag\"";
const DUPLICATE_FLAG: &str = "\"CLIENT_ERROR duplicate flag\"";
const BAD_TOKEN: &str = "\"CLIENT_ERROR bad token in command line format\"";
const BAD_KEY: &str = "\"CLIENT_ERROR error decoding key\"";
const BAD_MODE_LEN: &str = "\"CLIENT_ERROR incorrect length for M token\"";
const INVALID_OR_DUPLICATE: &str = "\"CLIENT_ERROR invalid or duplicate flag\"";
/// A refusal that the client does not hear of.
const SILENT: &str = "\"\"";

/// What a server that executes nothing would see and say on a connection that receives `input`
/// and no more: requests in words, refusals as what is answered, in quotes.
fn session(input: &[u8]) -> Vec<String> {
    let limits = Limits::default();
    let mut told = Vec::new();
    let mut rest = input;
    while !rest.is_empty() {
        let (line, taken) = match parse_request(rest, &limits) {
            RequestOutcome::Request { request, consumed } => {
                (describe::request(&request), consumed)
            }
            RequestOutcome::Refused {
                refusal,
                consumed,
                swallow,
            } => {
                let reply = String::from_utf8_lossy(refusal.reply.trim_ascii_end());
                (format!("\"{reply}\""), consumed + swallow)
            }
            RequestOutcome::Incomplete { .. } => ("wait".into(), rest.len()),
            RequestOutcome::Close { reply } => {
                assert_eq!(reply, b"");
                ("close".into(), rest.len())
            }
        };
        told.push(line);
        rest = rest.get(taken..).unwrap_or_default();
    }
    told
}

#[track_caller]
fn check(input: impl AsRef<[u8]>, expected: &[&str]) {
    let input = input.as_ref();
    assert_eq!(session(input), expected, "for {}", describe::text(input));
}

/// Checks that `input`, followed by `mn`, is refused with `reply` and nothing else is lost.
#[track_caller]
fn check_then_mn(input: impl AsRef<[u8]>, reply: &str) {
    let mut input = input.as_ref().to_vec();
    input.extend_from_slice(b"mn\r\n");
    check(input, &[reply, "mn"]);
}

fn key(len: usize) -> String {
    "k".repeat(len)
}

#[test]
fn lines_that_are_no_command() {
    for line in [
        "\r\n",
        "\n",
        " \r\n",
        "a\r\n",
        "m\r\n",
        "mx\r\n",
        "mgx a\r\n",
        "GET a\r\n",
        "\0\r\n",
    ] {
        check(line, &[ERROR]);
    }
    check("get\ta\r\nmn\r\n", &[ERROR, "mn"]);
    check("getx a\r\n", &[ERROR]);
    check("foo noreply\r\nmn\r\n", &[ERROR, "mn"]);
    check("config cluster\r\n", &[ERROR]);
    check("misbehave\r\nslap\r\n", &[ERROR, ERROR]);
    check("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nmn\r\n", &[ERROR, "mn"]);
    // 1.6.18 would end the word at the NUL.
    check("get a\0b\r\n", &["get a\\x00b"]);
    check("get\0 a\r\n", &[ERROR]);
    // An undocumented word that later versions dropped.
    check("bget a\r\n", &[ERROR]);
}

#[test]
fn other_protocols_are_shown_the_door() {
    check("GET / HTTP/1.1\r\nHost: x\r\n\r\n", &["close"]);
    check("HTTP/1.1\r\nmn\r\n", &["close"]);
    check("zzz a HTTP/1 \r\nmn\r\n", &["close"]);
    check("get / HTTP/1.1\r\nmn\r\n", &["get /,HTTP/1.1", "mn"]);
    check_then_mn("delete / HTTP/1.1\r\n", BAD_DELETE);
    // A binary client would wait for ever.
    check(b"\x80\0\0\0", &["wait"]);
    check(b"mn\r\n\x80\0\n", &["mn", "\"ERROR\""]);
    // A TLS hello looks like the start of a line.
    check(b"\x16\x03\x01\0\xa5\x01\0\0\xa1\x03\x03", &["wait"]);
}

#[test]
fn lines_without_end() {
    let line = |len: usize| vec![b'x'; len];
    check(line(LINE_LEN_MAX), &["wait"]);
    check(line(LINE_LEN_MAX + 1), &["close"]);
    for command in ["get ", "gets ", "gat ", "gats "] {
        let mut line = command.as_bytes().to_vec();
        line.resize(LONG_LINE_LEN_DEFAULT, b'x');
        check(&line, &["wait"]);
        line.push(b'x');
        check(&line, &["close"]);
        let mut line = vec![b' '; 100];
        line.extend_from_slice(command.as_bytes());
        line.resize(3000, b'x');
        check(&line, &["wait"]);
        line.insert(0, b' ');
        check(&line, &["close"]);
    }
    check(
        [b"mg ".as_slice(), &line(LINE_LEN_MAX - 3)].concat(),
        &["wait"],
    );
    check(
        [b"mg ".as_slice(), &line(LINE_LEN_MAX - 2)].concat(),
        &["close"],
    );
    check([b"getx ".as_slice(), &line(3000)].concat(), &["close"]);
    check(" ".repeat(LINE_LEN_MAX), &["wait"]);
    check(" ".repeat(LINE_LEN_MAX + 1), &["close"]);
    check(format!("get {}a\r\n", " ".repeat(100_000)), &["get a"]);
}

#[test]
fn too_few_or_too_many_words() {
    for line in [
        "get\r\n",
        "get \r\n",
        "gets\r\n",
        "gat\r\n",
        "gats \r\n",
        "set\r\n",
        "set a\r\n",
        "set a 0 0\r\n",
        "set noreply\r\n",
        "append a 0 0\r\n",
        "cas a 0 0 1\r\n",
        "delete\r\n",
        "delete  \r\n",
        "incr a\r\n",
        "touch a\r\n",
        "verbosity\r\n",
        "mg\r\n",
        "mg \r\n",
        "ms\r\n",
        "md\r\n",
        "ma\r\n",
        "cache_memlimit\r\n",
        "config\r\n",
        "config get\r\n",
        "config set cluster\r\n",
        "set a 0 0 1 noreply x\r\n",
        "cas a 0 0 1 1 2 3\r\n",
        "delete a 0 0 0\r\n",
        "incr a 1 2 3\r\n",
        "touch a 1 2 3\r\n",
        "flush_all 0 0 0\r\n",
        "verbosity 0 0 0\r\n",
        "cache_memlimit 64 a b\r\n",
    ] {
        check_then_mn(line, ERROR);
    }
    check_then_mn(format!("verbosity {}\r\n", "1 ".repeat(100)), ERROR);
}

#[test]
fn keys_that_are_too_long() {
    let long = key(251);
    check(
        format!("get {}\r\n", key(250)),
        &[&format!("get {}", key(250))],
    );
    check_then_mn(format!("get {long}\r\n"), BAD_FORMAT);
    // Not even the keys before it are answered.
    check_then_mn(format!("get a b {long} c\r\n"), BAD_FORMAT);
    check_then_mn(format!("gat 0 {long}\r\n"), BAD_FORMAT);
    for line in [
        "delete K\r\n",
        "incr K 1\r\n",
        "touch K 0\r\n",
        "mg K v q\r\n",
        "md K\r\n",
        "ma K\r\n",
        "me K\r\n",
    ] {
        check_then_mn(line.replace('K', &long), BAD_FORMAT);
    }
    for line in [
        "delete K noreply\r\n",
        "incr K 1 noreply\r\n",
        "touch K 0 noreply\r\n",
    ] {
        check_then_mn(line.replace('K', &long), SILENT);
    }
    // The data block is not swallowed.
    check(
        format!("set {long} 0 0 1\r\nx\r\nmn\r\n"),
        &[BAD_FORMAT, ERROR, "mn"],
    );
    check(
        format!("set {long} 0 0 1 noreply\r\nx\r\nmn\r\n"),
        &[SILENT, ERROR, "mn"],
    );
    check(
        format!("ms {long} 1\r\nx\r\nmn\r\n"),
        &[BAD_FORMAT, ERROR, "mn"],
    );
    check(format!("ms {long}\r\nmn\r\n"), &[BAD_FORMAT, "mn"]);
}

#[test]
fn numbers_that_are_none() {
    for number in [
        "x",
        "5x",
        "0x5",
        "1.5",
        "-",
        "+",
        "+-5",
        "18446744073709551616",
        &"9".repeat(300),
    ] {
        check(
            format!("set a 0 0 {number}\r\nhello\r\nmn\r\n"),
            &[BAD_FORMAT, ERROR, "mn"],
        );
        check(
            format!("set a 0 {number} 5\r\nhello\r\nmn\r\n"),
            &[BAD_FORMAT, ERROR, "mn"],
        );
        check(
            format!("set a {number} 0 5\r\nhello\r\nmn\r\n"),
            &[BAD_FORMAT, ERROR, "mn"],
        );
        check(
            format!("cas a 0 0 5 {number}\r\nhello\r\nmn\r\n"),
            &[BAD_FORMAT, ERROR, "mn"],
        );
        check(
            format!("ms a {number}\r\nhello\r\nmn\r\n"),
            &[BAD_FORMAT, ERROR, "mn"],
        );
        check_then_mn(format!("incr a {number}\r\n"), BAD_DELTA);
        check_then_mn(format!("incr a {number} noreply\r\n"), SILENT);
        check_then_mn(format!("touch a {number}\r\n"), BAD_EXPTIME);
        check_then_mn(format!("touch a {number} noreply\r\n"), SILENT);
        check_then_mn(format!("gat {number} a\r\n"), BAD_EXPTIME);
        check_then_mn(format!("flush_all {number}\r\n"), BAD_EXPTIME);
        check_then_mn(format!("flush_all {number} noreply\r\n"), SILENT);
        check_then_mn(format!("verbosity {number}\r\n"), BAD_FORMAT);
        check_then_mn(format!("verbosity {number} noreply\r\n"), SILENT);
    }
    // Negative where only positive makes sense.
    check(
        "set a -1 0 5\r\nhello\r\nmn\r\n",
        &[BAD_FORMAT, ERROR, "mn"],
    );
    check(
        "cas a 0 0 5 -1\r\nhello\r\nmn\r\n",
        &[BAD_FORMAT, ERROR, "mn"],
    );
    check_then_mn("incr a -1\r\n", BAD_DELTA);
    check_then_mn("incr a -9223372036854775808\r\n", BAD_DELTA);
    check_then_mn("verbosity -1\r\n", BAD_FORMAT);
}

#[test]
fn data_lengths_out_of_bounds() {
    // The last two are taken modulo 2^32 by 1.6.18.
    for len in [
        "-1",
        "2147483646",
        "2147483647",
        "2147483648",
        "4294967295",
        "4294967296",
        "-9223372036854775808",
    ] {
        check(
            format!("set a 0 0 {len}\r\nhello\r\nmn\r\n"),
            &[BAD_FORMAT, ERROR, "mn"],
        );
        check(
            format!("ms a {len}\r\nhello\r\nmn\r\n"),
            &[BAD_FORMAT, ERROR, "mn"],
        );
        check(format!("ms a {len} q\r\nmn\r\n"), &[BAD_FORMAT, "mn"]);
    }
    check("ms a\r\nmn\r\n", &[BAD_FORMAT, "mn"]);
    check("ms a S5\r\nhello\r\nmn\r\n", &[BAD_FORMAT, ERROR, "mn"]);
}

#[test]
fn data_blocks_that_do_not_end_where_they_should() {
    check("set a 0 0 5\r\nhelloXX\r\nmn\r\n", &[BAD_DATA, ERROR, "mn"]);
    check(
        "set a 0 0 5\r\nhelloworld\r\nmn\r\n",
        &[BAD_DATA, ERROR, "mn"],
    );
    check(
        "set a 0 0 5\r\nhel\r\nmn\r\nmn\r\n",
        &[BAD_DATA, ERROR, "mn"],
    );
    check("set a 0 0 5\r\nhello\nmn\r\n", &[BAD_DATA, ERROR]);
    check("set a 0 0 5\r\nhello\n\nmn\r\n", &[BAD_DATA, "mn"]);
    check("set a 0 0 5\r\nhello\rmn\r\n", &[BAD_DATA, ERROR]);
    check(
        "set a 0 0 5 noreply\r\nhelloworld\r\nmn\r\n",
        &[SILENT, ERROR, "mn"],
    );
    check("ms a 5\r\nhelloworld\r\nmn\r\n", &[BAD_DATA, ERROR, "mn"]);
    // Being quiet does not cover errors.
    check("ms a 5 q\r\nhelloworld\r\nmn\r\n", &[BAD_DATA, ERROR, "mn"]);
    check("set a 0 0 5\r\nhello\r", &["wait"]);
}

#[test]
fn values_over_the_item_size_limit_are_swallowed() {
    let value = "x".repeat(2_000_000);
    check(
        format!("set a 0 0 2000000\r\n{value}\r\nmn\r\n"),
        &[TOO_LARGE, "mn"],
    );
    check(
        format!("set a 0 0 2000000 noreply\r\n{value}\r\nmn\r\n"),
        &[SILENT, "mn"],
    );
    check(
        format!("add a 0 0 2000000\r\n{value}\r\nmn\r\n"),
        &[TOO_LARGE, "mn"],
    );
    check(
        format!("ms a 2000000 q\r\n{value}\r\nmn\r\n"),
        &[TOO_LARGE, "mn"],
    );
    check("set a 0 0 2147483645\r\nhello\r\nmn\r\n", &[TOO_LARGE]);

    // memcached counts key, header, client flags and final CRLF.
    for (line, largest) in [
        ("set a 0 0 N", 1_048_516),
        ("set a 1 0 N", 1_048_512),
        ("append abc 0 0 N", 1_048_514),
    ] {
        let fits = line.replace('N', &largest.to_string());
        check(format!("{fits}\r\n"), &["wait"]);
        let exceeds = line.replace('N', &(largest + 1).to_string());
        check(format!("{exceeds}\r\n"), &[TOO_LARGE]);
    }
    // A base64 key counts as decoded: 3 bytes here.
    check("ms YWFh 1048514 b\r\n", &["wait"]);
    check("ms YWFh 1048515 b\r\n", &[TOO_LARGE]);
    check("ms a 1048512 F1\r\n", &["wait"]);
    check("ms a 1048513 F1\r\n", &[TOO_LARGE]);
}

#[test]
fn an_old_value_must_go_when_set_or_ms_is_too_large() {
    let invalidates = |input: &str| match parse_request(input.as_bytes(), &Limits::default()) {
        RequestOutcome::Refused {
            refusal,
            swallow: 2_000_002,
            ..
        } if refusal.reply != text::BAD_DATA => refusal
            .invalidates
            .map(|key| key.decode(&mut Default::default()).to_vec()),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        invalidates("set key 0 0 2000000\r\n"),
        Some(b"key".to_vec())
    );
    assert_eq!(
        invalidates("set key 0 0 2000000 noreply\r\n"),
        Some(b"key".to_vec())
    );
    assert_eq!(
        invalidates("ms YWI= 2000000 b MA\r\n"),
        Some(b"ab".to_vec())
    );
    for line in ["add", "replace", "append", "prepend"] {
        assert_eq!(invalidates(&format!("{line} key 0 0 2000000\r\n")), None);
    }
    assert_eq!(invalidates("cas key 0 0 2000000 1\r\n"), None);
    assert_eq!(invalidates("ms key 2000000 z\r\n"), None);
}

#[test]
fn delete_with_words_behind_the_key() {
    for line in [
        "delete a 1\r\n",
        "delete a foo\r\n",
        "delete a 00\r\n",
        "delete a 0 0\r\n",
    ] {
        check_then_mn(line, BAD_DELETE);
    }
    check_then_mn("delete a 1 noreply\r\n", SILENT);
    check_then_mn("delete a noreply noreply\r\n", SILENT);
}

/// `noreply` counts as the last word, even where it stands for something that is missing.
#[test]
fn noreply_silences_refusals() {
    check("set a 0 0 noreply\r\nmn\r\n", &[SILENT, "mn"]);
    check("cas a 0 0 1 noreply\r\nx\r\nmn\r\n", &[SILENT, ERROR, "mn"]);
    check(
        "cas a 0 0 1 x noreply\r\nx\r\nmn\r\n",
        &[SILENT, ERROR, "mn"],
    );
    check_then_mn("incr a noreply\r\n", SILENT);
    check_then_mn("touch a noreply\r\n", SILENT);
    check_then_mn("flush_all noreply noreply\r\n", SILENT);
    check_then_mn("flush_all noreply 0\r\n", BAD_EXPTIME);
    check_then_mn("verbosity noreply\r\n", SILENT);
    check_then_mn("cache_memlimit noreply\r\n", SILENT);
}

#[test]
fn memory_limits_that_cannot_be_meant() {
    check_then_mn("cache_memlimit x\r\n", ERROR);
    check_then_mn("cache_memlimit 18446744073709551616\r\n", ERROR);
    check_then_mn(
        "cache_memlimit 0\r\n",
        "\"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\"",
    );
    check_then_mn(
        "cache_memlimit 1000000001\r\n",
        "\"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\"",
    );
    check_then_mn("cache_memlimit 7 noreply\r\n", SILENT);
}

#[test]
fn words_of_a_source_that_are_wrong() {
    for words in [
        "",
        " begin 1 2",
        " begin 65536 2 3",
        " begin 1 2 3 4",
        " activate x",
        " stop",
    ] {
        check_then_mn(format!("migrate{words}\r\n"), ERROR);
    }
}

#[test]
fn meta_flags_that_are_wrong() {
    for flag in [
        "z", "zz", "S5", "Z", "X1", "W", "Wx", "A1", "B", "H", "K", "Q", "V", "a", "\0", "-", "1",
    ] {
        check_then_mn(format!("mg a {flag}\r\n"), INVALID_FLAG);
        check_then_mn(format!("ms a 2 {flag}\r\nhi\r\n"), INVALID_FLAG);
        check_then_mn(format!("md a {flag}\r\n"), INVALID_OR_DUPLICATE);
        check_then_mn(format!("ma a {flag}\r\n"), INVALID_OR_DUPLICATE);
    }
    for flags in ["v v", "s s", "O1 O2", "v z v", "\u{7f}", "\u{ff}"] {
        let expected = if flags == "v z v" {
            INVALID_FLAG
        } else {
            DUPLICATE_FLAG
        };
        check_then_mn(format!("mg a {flags}\r\n"), expected);
        check_then_mn(format!("ms a 2 {flags}\r\nhi\r\n"), expected);
        check_then_mn(format!("md a q {flags}\r\n"), INVALID_OR_DUPLICATE);
    }
    check_then_mn("ms a 2 noreply\r\nhi\r\n", INVALID_FLAG);
}

#[test]
fn meta_tokens_that_are_wrong() {
    for flag in [
        "T",
        "N",
        "R",
        "Tx",
        "N1.5",
        "R18446744073709551616",
        "C-1",
        "C",
        "Ex",
    ] {
        check_then_mn(format!("mg a {flag}\r\n"), BAD_TOKEN);
        check_then_mn(format!("ms a 2 {flag} q\r\nhi\r\n"), BAD_TOKEN);
        check_then_mn(format!("md a {flag}\r\n"), INVALID_OR_DUPLICATE);
    }
    check_then_mn(
        "mg a Jx\r\n",
        "\"CLIENT_ERROR invalid numeric initial value\"",
    );
    check_then_mn(
        "mg a D-1\r\n",
        "\"CLIENT_ERROR invalid numeric delta value\"",
    );
    check_then_mn("mg a Fx\r\n", BAD_FORMAT);
    check_then_mn("ms a 2 F-1\r\nhi\r\n", BAD_FORMAT);
    // Of several faults the last is named, but one without words of its own names none.
    check_then_mn(
        "mg a Cx Jx\r\n",
        "\"CLIENT_ERROR invalid numeric initial value\"",
    );
    check_then_mn("mg a Jx Cx\r\n", BAD_TOKEN);
    check_then_mn("mg a Fx Cx\r\n", BAD_TOKEN);
    check_then_mn("mg a Cx Fx\r\n", BAD_TOKEN);
    check_then_mn("mg a Cx z\r\n", INVALID_FLAG);
    check_then_mn("mg a Cx v v\r\n", DUPLICATE_FLAG);
    check_then_mn("mg ! b Cx\r\n", BAD_TOKEN);
    check_then_mn("mg ! Cx b\r\n", BAD_KEY);
    check_then_mn("mg a M Cx\r\n", BAD_TOKEN);
    check_then_mn("mg a Cx M\r\n", BAD_MODE_LEN);
}

#[test]
fn modes_that_are_wrong() {
    for mode in ["X", "s", "e", "a", "p", "r", "I"] {
        let expected = "\"CLIENT_ERROR invalid mode for ms M token\"";
        check_then_mn(format!("ms a 2 M{mode}\r\nhi\r\n"), expected);
        check_then_mn(format!("ms a 2 M{mode} q\r\nhi\r\n"), expected);
    }
    for mode in ["X", "i", "d", "S"] {
        check_then_mn(
            format!("ma n M{mode}\r\n"),
            "\"CLIENT_ERROR invalid mode for ma M token\"",
        );
    }
    for mode in ["", "SS", "set", "++"] {
        check_then_mn(format!("ms a 2 M{mode}\r\nhi\r\n"), BAD_MODE_LEN);
        check_then_mn(format!("mg a M{mode}\r\n"), BAD_MODE_LEN);
        check_then_mn(format!("ma a M{mode}\r\n"), INVALID_OR_DUPLICATE);
    }
}

#[test]
fn opaques_that_are_too_long() {
    let too_long = "\"CLIENT_ERROR opaque token too long\"";
    let (longest, longer) = ("x".repeat(31), "x".repeat(32));
    check(
        format!("mg a O{longest}\r\n"),
        &[&format!("mg a O{longest}")],
    );
    for verb in ["mg", "md", "ma"] {
        check_then_mn(format!("{verb} a O{longer} q\r\n"), too_long);
    }
    check_then_mn(format!("ms a 2 O{longer}\r\nhi\r\n"), too_long);
    // Other faults are named first.
    check_then_mn(format!("mg a O{longer} z\r\n"), INVALID_FLAG);
    check_then_mn(format!("ms a 2 O{longer} v v\r\nhi\r\n"), DUPLICATE_FLAG);
    let bad_mode = "\"CLIENT_ERROR invalid mode for ms M token\"";
    check_then_mn(format!("ms a 2 O{longer} MX\r\nhi\r\n"), bad_mode);
}

#[test]
fn too_many_flags() {
    let flags = "s k c f t q v h l u T0 F1 I O1 N1 R1 C0";
    let mg = "\"CLIENT_ERROR options flags are too long\"";
    let others = "\"CLIENT_ERROR options flags too long\"";
    check(format!("mg a {flags}\r\n"), &[&format!("mg a {flags}")]);
    check_then_mn(format!("mg a {flags} D1\r\n"), mg);
    check_then_mn(format!("md a {flags} D1\r\n"), others);
    check_then_mn(format!("ma a {flags} D1\r\n"), others);
    check_then_mn(format!("mg a {}\r\n", "v ".repeat(30)), mg);
    // The length is one of the words of ms, and the data block is not swallowed.
    check(
        format!("ms a 2 {flags}\r\nhi\r\nmn\r\n"),
        &[others, ERROR, "mn"],
    );
    // Those of the extension come on top.
    check(
        format!("mg a {flags} Y1 W2 G\r\n"),
        &[&format!("mg a {flags} Y1 W2 G")],
    );
}

#[test]
fn keys_that_are_not_base64() {
    for key in ["!!!", "YQ", "a", "Y", "YQ=", "YQ===", "====", "YWJjYQ"] {
        check_then_mn(format!("mg {key} b k\r\n"), BAD_KEY);
        check_then_mn(format!("ms {key} 2 k b\r\nhi\r\n"), BAD_KEY);
        check_then_mn(format!("md {key} b\r\n"), INVALID_OR_DUPLICATE);
        check_then_mn(format!("me {key} b\r\n"), BAD_FORMAT);
    }
    check_then_mn("me\r\n", BAD_FORMAT);
}

/// The extension's flags with tokens that make no sense are as unknown as to memcached.
#[test]
fn flags_of_the_extension_that_are_wrong() {
    for flag in [
        "Y",
        "Y-1",
        "Y+1",
        "Yx",
        "U",
        "U1",
        "Wx",
        "G1",
        "Gx",
        "Y18446744073709551616",
    ] {
        check_then_mn(format!("mg a {flag}\r\n"), INVALID_FLAG);
        check_then_mn(format!("ms a 2 {flag}\r\nhi\r\n"), INVALID_FLAG);
        check_then_mn(format!("md a {flag}\r\n"), INVALID_OR_DUPLICATE);
    }
}

#[test]
fn hellos_that_are_wrong() {
    for hello in [
        "evenkeel\r\n",
        "evenkeel x\r\n",
        "evenkeel 1 epoch\r\n",
        "evenkeel 1 epoch=x\r\n",
        "evenkeel 1 epoch=\r\n",
        "evenkeel 1 from=3\r\n",
        "evenkeel 1 from=3/\r\n",
        "evenkeel 1 from=x/1\r\n",
        "evenkeel 1 from=1/65536\r\n",
    ] {
        check_then_mn(hello, ERROR);
    }
}

/// A memcached takes a zero byte for the end of the line: what it then does not store it takes for commands.
#[test]
fn lines_with_a_zero_byte_are_refused_where_a_memcached_would_read_them() {
    let strict = Limits {
        nul_refused: true,
        ..Limits::default()
    };
    for line in [
        &b"get a\0b\r\n"[..],
        b"gets a b\0\r\n",
        b"set a\0 0 0 8\r\nget b\r\n\r\n\r\n",
        b"ms a\0 1\r\nx\r\n",
        b"mg a k O\0 v\r\n",
        b"delete \0\r\n",
    ] {
        let head = line.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
        let refused = match parse_request(line, &strict) {
            RequestOutcome::Refused {
                refusal,
                consumed,
                swallow,
            } => (refusal.reply, consumed, swallow),
            other => panic!("{other:?}"),
        };
        assert_eq!(refused, (text::BAD_FORMAT, head, 0));
    }
    let value = b"set a 0 0 3\r\n\0\0\0\r\n";
    let taken = parse_request(value, &strict);
    assert!(
        matches!(taken, RequestOutcome::Request { .. }),
        "values may have any"
    );
}
