//! What is accepted, and what it is taken for.

use evenkeel_protocol::{
    Admin, Direction, KeyScratch, Limits, Meta, Request, RequestOutcome, ShutdownMode, StoreMode,
    compose, parse_request, text,
};

use crate::describe;

fn parse(input: &[u8]) -> Request<'_> {
    match parse_request(input, &Limits::default()) {
        RequestOutcome::Request { request, consumed } => {
            assert_eq!(consumed, input.len());
            request
        }
        other => panic!("{other:?} for {}", describe::text(input)),
    }
}

fn meta(input: &[u8]) -> Meta<'_> {
    match parse(input) {
        Request::MetaGet(meta)
        | Request::MetaSet(meta)
        | Request::MetaDelete(meta)
        | Request::MetaArithmetic(meta) => meta,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn check(input: &str, expected: &str) {
    assert_eq!(describe::request(&parse(input.as_bytes())), expected);
}

#[test]
fn the_get_family() {
    check("get a\r\n", "get a");
    check("get a\n", "get a");
    check("  get   a  b a \r\n", "get a,b,a");
    check("gets a\r\n", "gets a");
    check("get noreply\r\n", "get noreply");
    // Only spaces separate, and only the last carriage return belongs to the line's end.
    check("get a\tb\r\n", "get a\\tb");
    check("get a\r\r\n", "get a\\r");
    check("get a\rb\r\n", "get a\\rb");
    check("gat 100 a b\r\n", "gat 100 a,b");
    check("gats -1 a\r\n", "gats -1 a");
    check("gat 0\r\n", "gat 0 ");
}

#[test]
fn a_multi_get_of_ten_thousand_keys() {
    let keys: Vec<String> = (0..10_000)
        .map(|number| format!("key:{number:032}"))
        .collect();
    let line = format!("get {}\r\n", keys.join(" "));
    let Request::Get {
        keys: parsed,
        with_cas: false,
    } = parse(line.as_bytes())
    else {
        panic!("not a get");
    };
    assert_eq!(parsed.len(), keys.len());
    assert!(!parsed.is_empty());
    assert!(parsed.into_iter().eq(keys.iter().map(String::as_bytes)));
    assert_eq!(parsed.iter().size_hint(), (10_000, Some(10_000)));
}

#[test]
fn the_storage_commands() {
    check("set a 1 2 5\r\nhello\r\n", "Set a 1 2 [hello]");
    check(
        "set a 1 2 5 noreply\r\nhello\r\n",
        "Set a 1 2 [hello] noreply",
    );
    check(
        "set  a  1  2  5  noreply  \r\nhello\r\n",
        "Set a 1 2 [hello] noreply",
    );
    check("set a 1 2 5\nhello\r\n", "Set a 1 2 [hello]");
    check("set a 0 0 0\r\n\r\n", "Set a 0 0 []");
    check("set a 0 0 4\r\n\r\n\r\n\r\n", "Set a 0 0 [\\r\\n\\r\\n]");
    check("add a 0 0 1\r\nx\r\n", "Add a 0 0 [x]");
    check("replace a 0 0 1\r\nx\r\n", "Replace a 0 0 [x]");
    check("append a 0 0 1\r\nx\r\n", "Append a 0 0 [x]");
    check("prepend a 0 0 1\r\nx\r\n", "Prepend a 0 0 [x]");
    check(
        "cas a 0 0 1 18446744073709551615\r\nx\r\n",
        "Cas(18446744073709551615) a 0 0 [x]",
    );
    check("cas a 0 0 1 0 noreply\r\nx\r\n", "Cas(0) a 0 0 [x] noreply");
    // A word that is not noreply in its place means nothing.
    check("set a 0 0 1 foo\r\nx\r\n", "Set a 0 0 [x]");
    check("cas a 0 0 1 7 foo\r\nx\r\n", "Cas(7) a 0 0 [x]");
}

#[test]
fn a_waiting_value_says_how_many_bytes_it_needs() {
    let start = b"set a 0 0 1000\r\nhel";
    let total = "set a 0 0 1000\r\n".len() + 1000 + 2;
    assert_eq!(
        parse_request(start, &Limits::default()),
        RequestOutcome::Incomplete { total }
    );
    let start = b"ms a 1000 q\r\n";
    let total = start.len() + 1000 + 2;
    assert_eq!(
        parse_request(start, &Limits::default()),
        RequestOutcome::Incomplete { total }
    );
    assert_eq!(
        parse_request(b"", &Limits::default()),
        RequestOutcome::Incomplete { total: 1 }
    );
    assert_eq!(
        parse_request(b"set", &Limits::default()),
        RequestOutcome::Incomplete { total: 4 }
    );
}

/// memcached's `strtol` sees numbers where a strict reader would not.
#[test]
fn numbers_as_memcached_reads_them() {
    for (number, exptime) in [
        ("0", 0),
        ("-1", -1),
        ("+5", 5),
        ("05", 5),
        ("-0", 0),
        ("5\t", 5),
        ("5\tx", 5),
        ("\t5", 5),
        ("\x0b5", 5),
        ("2147483647", 2_147_483_647),
        ("2147483648", -2_147_483_648),
        ("4294967295", -1),
        ("4294967296", 0),
        ("9223372036854775807", -1),
        ("-9223372036854775808", 0),
        ("2592001", 2_592_001),
    ] {
        check(
            &format!("touch a {number}\r\n"),
            &format!("touch a {exptime}"),
        );
        check(
            &format!("set a 0 {number} 1\r\nx\r\n"),
            &format!("Set a 0 {exptime} [x]"),
        );
        check(&format!("gat {number} a\r\n"), &format!("gat {exptime} a"));
        check(
            &format!("flush_all {number}\r\n"),
            &format!("flush_all Some({exptime})"),
        );
        assert_eq!(
            meta(format!("mg a T{number}\r\n").as_bytes())
                .flags
                .exptime(b'T'),
            Some(exptime)
        );
    }
    for (number, flags) in [
        ("4294967295", 4_294_967_295_u32),
        ("4294967296", 0),
        ("+7", 7),
        ("-0", 0),
        ("-18446744073709551615", 1),
    ] {
        check(
            &format!("set a {number} 0 1\r\nx\r\n"),
            &format!("Set a {flags} 0 [x]"),
        );
        let line = format!("ms a 1 F{number}\r\nx\r\n");
        assert_eq!(meta(line.as_bytes()).flags.client_flags(), Some(flags));
    }
    check(
        "incr a 18446744073709551615\r\n",
        "Incr a 18446744073709551615",
    );
    // Negated modulo 2^64, as in C, unless the result looks negative.
    check(
        "incr a -9223372036854775809\r\n",
        "Incr a 9223372036854775807",
    );
    check("set a 0 0 +5\r\nhello\r\n", "Set a 0 0 [hello]");
    check("set a 0 0 5\rx\r\nhello\r\n", "Set a 0 0 [hello]");
}

#[test]
fn delete_arithmetic_touch() {
    check("delete a\r\n", "delete a");
    check("delete a noreply\r\n", "delete a noreply");
    check("delete a 0\r\n", "delete a");
    check("delete a 0 noreply\r\n", "delete a noreply");
    check("delete noreply\r\n", "delete noreply");
    check("incr a 1\r\n", "Incr a 1");
    check("decr a 1 noreply\r\n", "Decr a 1 noreply");
    check("incr a 1 foo\r\n", "Incr a 1");
    check("touch a 10 noreply\r\n", "touch a 10 noreply");
    check("touch a 10 foo\r\n", "touch a 10");
}

#[test]
fn flush_all_with_and_without_delay() {
    check("flush_all\r\n", "flush_all None");
    check("flush_all noreply\r\n", "flush_all None noreply");
    check("flush_all 10\r\n", "flush_all Some(10)");
    check("flush_all 10 noreply\r\n", "flush_all Some(10) noreply");
    check("flush_all 0 0\r\n", "flush_all Some(0)");
    check("flush_all -1\r\n", "flush_all Some(-1)");
}

#[test]
fn words_for_the_operator() {
    check("version x y\r\n", "version");
    check("quit now\r\n", "quit");
    check("verbosity 2\r\n", "verbosity 2");
    check("verbosity 4294967297 noreply\r\n", "verbosity 1 noreply");
    check("stats\r\n", "stats []");
    check("stats  cachedump 1 2  \r\n", "stats [cachedump 1 2]");
    check("shutdown\r\n", "Shutdown(Immediate)");
    check("shutdown graceful\r\n", "Shutdown(Graceful)");
    check("shutdown a b\r\n", "Shutdown(Unknown)");
    check(
        "cache_memlimit 64\r\n",
        "CacheMemlimit { mebibytes: 64, noreply: false }",
    );
    check(
        "cache_memlimit 1000000000 noreply\r\n",
        "CacheMemlimit { mebibytes: 1000000000, noreply: true }",
    );
    check(
        "cache_memlimit 8 foo\r\n",
        "CacheMemlimit { mebibytes: 8, noreply: false }",
    );
    check("lru_crawler metadump all\r\n", "lru_crawler [metadump all]");
    check("watch fetchers\r\n", "watch [fetchers]");
    check("slabs reassign 1 2\r\n", "slabs [reassign 1 2]");
    check("lru mode flat\r\n", "lru [mode flat]");
    check("refresh_certs\r\n", "RefreshCerts");
    check("config get cluster\r\n", "config get [cluster]");
    check("debugtime  61 \r\n", "debugtime [61]");
}

#[test]
fn what_memcached_says_without_the_feature() {
    for (admin, answer) in [
        (
            Admin::Shutdown(ShutdownMode::Graceful),
            text::SHUTDOWN_NOT_ENABLED,
        ),
        (
            Admin::CacheMemlimit {
                mebibytes: 64,
                noreply: false,
            },
            text::MEMLIMIT_ADJUST_FAILED,
        ),
        (
            Admin::CacheMemlimit {
                mebibytes: 64,
                noreply: true,
            },
            b"",
        ),
        (Admin::LruCrawler(b"enable"), text::ERROR),
        (Admin::Slabs(b""), text::ERROR),
        (Admin::Lru(b""), text::ERROR),
        (Admin::Watch(b""), text::WATCH_NOT_ALLOWED),
        (Admin::ConfigGet(b"cluster"), text::ERROR),
        (Admin::DebugTime(b"p"), text::ERROR),
        (Admin::RefreshCerts, text::TLS_NOT_ENABLED),
    ] {
        assert_eq!(admin.answer_without_feature(), answer);
    }
}

#[test]
fn the_meta_commands() {
    check("mg a\r\n", "mg a ");
    // Raw flags are as raw as they came.
    check("mg a  v  k   s  \r\n", "mg a v  k   s");
    check("mg a vv\r\n", "mg a vv");
    check("mg a P1 L2\r\n", "mg a P1 L2");
    check("ms a 2\r\nhi\r\n", "ms a  [hi]");
    check("ms  a  2  q T0 \r\nhi\r\n", "ms a q T0 [hi]");
    check("ms a 0\r\n\r\n", "ms a  []");
    check("ms a +5 F+7\r\nhello\r\n", "ms a F+7 [hello]");
    check("md a q I T30 x E9 C7\r\n", "md a q I T30 x E9 C7");
    check("ma a N0 J13 D2 MD v\r\n", "ma a N0 J13 D2 MD v");
    check("mn\r\n", "mn");
    check("mn a b c d\r\n", "mn");
    check("me a\r\n", "me a");
    check("me a q\r\n", "me a");
    check("me YQ== b\r\n", "me base64(a)");
    check("me YQ== b x\r\n", "me base64(a)");
    // Only right behind the key does the flag count, and only alone.
    check("me YQ== x b\r\n", "me YQ==");
    check("me YQ== bb\r\n", "me YQ==");
}

#[test]
fn base64_keys_as_memcached_decodes_them() {
    for (text, key) in [
        ("YQ==", "a"),
        ("YWI=", "ab"),
        ("YWJj", "abc"),
        ("YR==", "a"),
        ("YQ==YQ==", "a"),
        ("YWJj\tYWJj", "abcabc"),
        ("YWJj-_", "abc"),
        ("Y=Q=", "`"),
        ("AAAA", "\\x00\\x00\\x00"),
        ("Cg==", "\\n"),
        ("IA==", " "),
    ] {
        check(
            &format!("mg {text} b k\r\n"),
            &format!("mg base64({key}) b k"),
        );
    }
    let longest = format!("mg {}YQ b\r\n", "YWJj".repeat(62));
    assert!(matches!(
        parse_request(longest.as_bytes(), &Limits::default()),
        RequestOutcome::Refused { .. }
    ));
    let longest = format!("mg {} b\r\n", "YWJj".repeat(62));
    assert_eq!(
        meta(longest.as_bytes())
            .key(&mut KeyScratch::default())
            .len(),
        186
    );
}

#[test]
fn meta_flags_by_letter_and_in_order() {
    let line = b"mg key O123 v T30 k N5 R-1 C18446744073709551615 q\r\n";
    let meta = meta(line);
    assert_eq!(meta.key(&mut KeyScratch::default()), b"key");
    let flags = meta.flags;
    let letters: Vec<u8> = flags.into_iter().map(|(letter, _)| letter).collect();
    assert_eq!(letters, b"OvTkNRCq");
    assert!(
        flags.has(b'v') && flags.has(b'q') && !flags.has(b'b') && !flags.has(b' ') && !flags.has(0)
    );
    assert_eq!(flags.token(b'O'), Some(b"123".as_slice()));
    assert_eq!(flags.token(b'v'), Some(b"".as_slice()));
    assert_eq!(flags.token(b'c'), None);
    assert_eq!(flags.exptime(b'T'), Some(30));
    assert_eq!(flags.exptime(b'N'), Some(5));
    assert_eq!(flags.exptime(b'R'), Some(-1));
    assert_eq!(flags.exptime(b'F'), None);
    assert_eq!(flags.unsigned(b'C'), Some(u64::MAX));
    assert_eq!(flags.unsigned(b'E'), None);
    assert_eq!(flags.client_flags(), None);
    assert_eq!(flags.raw(), &line[7..line.len() - 2]);
    assert!(!flags.is_empty());
    assert!(!flags.uses_extension());
    assert_eq!(
        format!("{:?}", self::meta(b"mg a v k\r\n").flags),
        "MetaFlags(\"v k\")"
    );
    assert!(self::meta(b"mg a \r\n").flags.is_empty());
}

#[test]
fn modes() {
    for (mode, expected) in [
        ("", StoreMode::Set),
        (" MS", StoreMode::Set),
        (" ME", StoreMode::Add),
        (" MR", StoreMode::Replace),
        (" MA", StoreMode::Append),
        (" MP", StoreMode::Prepend),
    ] {
        let line = format!("ms a 1{mode}\r\nx\r\n");
        assert_eq!(meta(line.as_bytes()).flags.store_mode(), expected);
    }
    for (mode, expected) in [
        ("", Direction::Incr),
        (" MI", Direction::Incr),
        (" M+", Direction::Incr),
        (" MD", Direction::Decr),
        (" M-", Direction::Decr),
    ] {
        assert_eq!(
            meta(format!("ma a{mode}\r\n").as_bytes()).flags.direction(),
            expected
        );
    }
    // Where the mode means nothing, any single byte will do.
    assert_eq!(
        meta(b"mg a Mx\r\n").flags.token(b'M'),
        Some(b"x".as_slice())
    );
}

#[test]
fn the_extension() {
    check(
        "migrate begin 65535 9 3\r\n",
        "Begin { cachelet: CacheletId(65535), began: Epoch(9), since: Epoch(3) }",
    );
    check("migrate confirm\r\n", "Confirm");
    check("evenkeel 1\r\n", "hello 1 0 None");
    check("evenkeel 1 epoch=7\r\n", "hello 1 7 None");
    check(
        "evenkeel 1 from=3/65535 epoch=7\r\n",
        "hello 1 7 Some(WorkerRef { server: ServerId(3), worker: 65535 })",
    );
    check("evenkeel 2 colour=blue epoch=7 x=\r\n", "hello 2 7 None");
    let flags = meta(b"mg a v Y18446744073709551615 W65535 G\r\n").flags;
    assert!(flags.uses_extension());
    assert_eq!(flags.unsigned(b'Y'), Some(u64::MAX));
    assert_eq!(flags.unsigned(b'W'), Some(65_535));
    assert!(flags.has(b'G'));
    assert!(meta(b"md a G\r\n").flags.uses_extension());
    assert!(meta(b"ms a 1 W1\r\nx\r\n").flags.uses_extension());
}

/// A peer that did not say hello must see what memcached would say.
#[test]
fn without_a_hello_the_extension_is_an_unknown_flag() {
    for (line, answer) in [
        ("mg a Y1\r\n", text::INVALID_FLAG),
        ("ms a 1 Y1\r\nx\r\n", text::INVALID_FLAG),
        ("md a Y1\r\n", text::INVALID_OR_DUPLICATE_FLAG),
        ("ma a Y1\r\n", text::INVALID_OR_DUPLICATE_FLAG),
    ] {
        assert_eq!(
            compose::answer::unknown_flag(&parse(line.as_bytes())),
            answer
        );
    }
}
