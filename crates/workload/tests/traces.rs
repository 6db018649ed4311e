//! Every trace format from small files made here: plain, compressed, and damaged in every way that
//! has its own message.

use evenkeel_workload::Operation::{self, Add, Cas, Delete, Get, Set};
use evenkeel_workload::trace::{TRACE_KEY_LEN_MAX, TraceFormat, TraceReader, TraceRequest};
use flate2::{Compression, write::GzEncoder};
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder with one trace in it.
struct Fixture {
    _folder: TempDir,
    path: PathBuf,
}

fn fixture(name: &str, content: &[u8]) -> Fixture {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    Fixture {
        _folder: folder,
        path,
    }
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zstd(content: &[u8]) -> Vec<u8> {
    zstd::encode_all(content, 3).unwrap()
}

type Row = (Operation, String, Option<u32>);

fn read_all(path: &Path, format: Option<TraceFormat>) -> Result<Vec<Row>, String> {
    let mut reader = TraceReader::open(path, format).map_err(|error| error.to_string())?;
    let mut request = TraceRequest::default();
    let mut rows = Vec::new();
    while reader
        .next_request(&mut request)
        .map_err(|error| error.to_string())?
    {
        let key = String::from_utf8(request.key.clone()).unwrap();
        rows.push((request.operation, key, request.value_len));
    }
    assert_eq!(reader.requests(), rows.len() as u64);
    Ok(rows)
}

/// Reads a trace under its own name, plain and compressed, and by explicit format under another.
fn rows(name: &str, content: &[u8], format: TraceFormat) -> Vec<Row> {
    let plain = read_all(&fixture(name, content).path, None).unwrap();
    let packed = fixture(&format!("{name}.gz"), &gzip(content));
    assert_eq!(read_all(&packed.path, None).unwrap(), plain);
    let packed = fixture(&format!("{name}.zst"), &zstd(content));
    assert_eq!(read_all(&packed.path, None).unwrap(), plain);
    let renamed = fixture("data", &gzip(content));
    assert_eq!(read_all(&renamed.path, Some(format)).unwrap(), plain);
    plain
}

fn gets(keys: &[&str]) -> Vec<Row> {
    keys.iter()
        .map(|key| (Get, key.to_string(), None))
        .collect()
}

fn error(name: &str, content: &[u8]) -> String {
    let fixture = fixture(name, content);
    let message = read_all(&fixture.path, None).unwrap_err();
    assert!(!message.contains('\n'), "one line: {message}");
    let file = fixture.path.display().to_string();
    message
        .strip_prefix(&format!("trace {file}"))
        .expect("the file is named")
        .to_string()
}

#[test]
fn text_has_one_key_a_line() {
    let content = b"v2\nv2/47cbd874/manifests\r\nv2\n10%\nlast";
    let keys = ["v2", "v2/47cbd874/manifests", "v2", "10%25", "last"];
    assert_eq!(rows("t.txt", content, TraceFormat::Text), gets(&keys));
}

#[test]
fn binary_integers_become_decimal_keys() {
    let be32 = [0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff];
    assert_eq!(
        rows("t.be32", &be32, TraceFormat::Be32),
        gets(&["1", "4294967295"])
    );
    let be64 = [[0, 0, 0, 0, 0, 0, 1, 0], [0xff; 8]].concat();
    assert_eq!(
        rows("t.be64", &be64, TraceFormat::Be64),
        gets(&["256", "-1"])
    );
}

#[test]
fn lirs_skips_breakpoints() {
    let content = b"5\r\n*\r\n7\r\n*\r\n";
    assert_eq!(
        rows("lirs/t.txt", content, TraceFormat::Lirs),
        gets(&["5", "7"])
    );
    assert_eq!(rows("t.trc", content, TraceFormat::Lirs), gets(&["5", "7"]));
}

#[test]
fn arc_lines_are_runs_of_blocks() {
    let content = b"10 3 0 0\n7 1 0 1\n";
    assert_eq!(
        rows("t.lis", content, TraceFormat::Arc),
        gets(&["10", "11", "12", "7"])
    );
}

#[test]
fn cloudphysics_tells_operation_and_size() {
    let content = b"version,time,op,size,lbn\n1,5,2a,512,42\n1,6,28,4096,43\n";
    assert_eq!(
        rows("t.csv", content, TraceFormat::CloudPhysics),
        [
            (Set, "42".into(), Some(512)),
            (Get, "43".into(), Some(4096))
        ]
    );
}

#[test]
fn edits_are_named_by_wiki_and_page() {
    let content =
        "time_ms\twiki\tnamespace\tpage\tuser_id\n1\tvi.wikipedia\tMain\tA b\u{1ea1}\t1\n";
    assert_eq!(
        rows(
            "wikipedia.tsv",
            content.as_bytes(),
            TraceFormat::WikipediaEdits
        ),
        [(Delete, "vi.wikipedia:A_b\u{1ea1}".into(), None)]
    );
}

#[test]
fn web_logs_are_named_by_url() {
    let content = b"time_s\tclient_id\tmethod\turl\tstatus\tbytes\n1\t1\tGET\t/a b\t200\t9\n";
    assert_eq!(
        rows("nasa.tsv", content, TraceFormat::NasaHttp),
        gets(&["/a%20b"])
    );
}

#[test]
fn clusters_of_twitter_tell_everything() {
    let content = b"0,q:q:1:8WTfjZU14ee,17,213,7,get,0\n\
        1,yDqF:3q:1AJrrJ1nnCJ,19,27,1,gets,0\n\
        1,a,b,5,4,1,set,3600\n\
        2,k,1,0,1,add,9000000\n\
        2,k,1,8,1,cas,0\n";
    assert_eq!(
        rows("cluster001", content, TraceFormat::Twitter),
        [
            (Get, "q:q:1:8WTfjZU14ee".into(), Some(213)),
            (Get, "yDqF:3q:1AJrrJ1nnCJ".into(), Some(27)),
            (Set, "a,b%%".into(), Some(4)),
            (Add, "k".into(), Some(0)),
            (Cas, "k".into(), Some(8)),
        ]
    );
    let mut reader = TraceReader::open(&fixture("cluster52.sort", content).path, None).unwrap();
    let mut request = TraceRequest::default();
    let mut told = Vec::new();
    while reader.next_request(&mut request).unwrap() {
        told.push((request.time_ns, request.ttl_s));
    }
    let second = 1_000_000_000;
    assert_eq!(
        told,
        [
            (Some(0), None),
            (Some(second), None),
            (Some(second), Some(3600)),
            // Above 30 days memcached would take it for a point in time.
            (Some(2 * second), Some(2_592_000)),
            (Some(2 * second), None),
        ]
    );
}

#[test]
fn a_line_of_meta_stands_for_several_operations() {
    let content = b"op_time,key,key_size,op,op_count,size,cache_hits,ttl,usecase,sub_usecase\n\
        604038471,82131353f9ddc8c6,20,GET,2,87,2,0,366387042,3003229276\n\
        604038471,a54f,4,GET_LEASE,1,0,0,0,699950563,699950563\n\
        604038472,a54f,4,SET,1,10,0,60,699950563,699950563\n\
        604038472,a54f,4,DELETE,1,0,0,0,699950563,699950563\n";
    let hot = (Get, "82131353f9ddc8c6%%%%".to_string(), Some(87));
    assert_eq!(
        rows("kvcache-202401.csv", content, TraceFormat::Meta),
        [
            hot.clone(),
            hot,
            (Get, "a54f".into(), None),
            (Set, "a54f".into(), Some(10)),
            (Delete, "a54f".into(), Some(0)),
        ]
    );
    // An older one has fewer columns, in another order.
    assert_eq!(
        rows(
            "kvcache.csv",
            b"key,op,size,op_count\nk,GET,5,1\n",
            TraceFormat::Meta
        ),
        [(Get, "k".into(), Some(5))]
    );
}

#[test]
fn activity_asks_for_whom_it_is_about() {
    assert_eq!(
        rows(
            "higgs-activity-0701-0703.txt",
            b"223789 213163 1341100972 MT\n1 2 1341100973 RT\n",
            TraceFormat::Higgs
        ),
        gets(&["213163", "2"])
    );
}

#[test]
fn a_line_that_cannot_be_read_ends_the_trace() {
    let content = b"0,a,1,5,1,get,0\nnonsense\n2,c,1,5,1,get,0\n";
    let fixture = fixture("cluster9", content);
    let message = read_all(&fixture.path, None).unwrap_err();
    assert!(
        message.ends_with(", line 2: not the seven columns of a Twitter trace"),
        "{message}"
    );
}

#[test]
fn concatenated_zstd_frames_are_one_trace_and_skippable_ones_none() {
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let content = [&skippable[..], &zstd(b"a\n"), &zstd(b"b\n")].concat();
    assert_eq!(
        read_all(&fixture("t.txt.zst", &content).path, None).unwrap(),
        gets(&["a", "b"])
    );
    let mut damaged = zstd(&b"0123456789abcdef\n".repeat(10_000));
    damaged.truncate(damaged.len() - 5);
    assert!(read_all(&fixture("t.txt.zst", &damaged).path, None).is_err());
}

#[test]
fn long_names_stay_apart() {
    let (one, two) = ("k".repeat(400) + "1", "k".repeat(400) + "2");
    let read = rows(
        "t.txt",
        format!("{one}\n{two}\n").as_bytes(),
        TraceFormat::Text,
    );
    assert_ne!(read[0], read[1]);
    assert!(
        read.iter()
            .all(|(_, key, _)| key.len() == TRACE_KEY_LEN_MAX)
    );
}

#[test]
fn concatenated_gzip_members_are_one_trace() {
    let content = [gzip(b"a\n"), gzip(b"b\n")].concat();
    assert_eq!(
        read_all(&fixture("t.txt.gz", &content).path, None).unwrap(),
        gets(&["a", "b"])
    );
}

#[test]
fn a_rewound_trace_starts_again() {
    let fixture = fixture("t.lis.gz", &gzip(b"10 3 0 0\n"));
    let mut reader = TraceReader::open(&fixture.path, None).unwrap();
    let mut request = TraceRequest::default();
    for _ in 0..3 {
        assert!(reader.next_request(&mut request).unwrap());
        assert!(reader.next_request(&mut request).unwrap());
        assert_eq!(request.key, b"11");
        reader.rewind().unwrap();
    }
}

#[test]
fn a_fault_is_told_with_its_place() {
    assert_eq!(error("t.txt", b""), ": it holds no request");
    assert_eq!(error("lirs/t.txt", b"*\n"), ": it holds no request");
    assert_eq!(
        error("t.txt", b"a\n\nb\n"),
        ", line 2: an empty line where a key should stand"
    );
    assert_eq!(
        error("t.txt", b"a\nb\0c\n"),
        ", line 2: a zero byte: is the file a text trace?"
    );
    assert_eq!(
        error("t.txt", &[b'k'; 70_000]),
        ", line 1: longer than 65536 bytes: is the file a text trace?"
    );
    assert_eq!(
        error("lirs/t.txt", b"1\nx\n"),
        ", line 2: 'x' is not a block number"
    );
    assert_eq!(
        error("t.be32", &[0; 6]),
        ", byte 4: 2 bytes at the end are no 4-byte key"
    );
    assert_eq!(
        error("t.be64", &[0; 23]),
        ", byte 16: 7 bytes at the end are no 8-byte key"
    );
    assert_eq!(
        error("t.lis", b"1 2 3\n"),
        ", line 1: not the four numbers of an arc trace"
    );
    assert_eq!(
        error("t.lis", b"1 x 0 0\n"),
        ", line 1: 'x' is not a count of blocks"
    );
    assert_eq!(
        error("t.lis", b"1 0 0 0\n"),
        ", line 1: 0 blocks, not 1 to 1048576"
    );
    assert!(error("t.lis", b"1 99999999999 0 0\n").starts_with(", line 1: 99999999999 blocks"));
    assert_eq!(
        error("t.csv", b"a,b,c\n"),
        ", line 1: the header of a cloudphysics trace has no 'op'"
    );
    assert_eq!(error("t.csv", b""), ", line 1: the header line is missing");
    let header = "version,time,op,size,lbn\n";
    assert_eq!(
        error("t.csv", format!("{header}1,2,35,512,4\n").as_bytes()),
        ", line 2: SCSI command '35' neither reads nor writes"
    );
    assert_eq!(
        error("t.csv", format!("{header}1,2,28\n").as_bytes()),
        ", line 2: column 4 is missing"
    );
    for (line, expected) in [
        ("x,a,1,5,1,get,0", "'x' is not a time"),
        ("1,,1,5,1,get,0", "an empty key"),
        ("1,a,1,-5,1,get,0", "'-5' is not a value size"),
        (
            "1,a,1,5000000000,1,get,0",
            "a value size that does not fit 32 bits",
        ),
        ("1,a,1,5,1,rmw,0", "'rmw' is not an operation"),
        (
            "99999999999,a,1,5,1,get,0",
            "a time later than 64 bits of nanoseconds hold",
        ),
    ] {
        assert_eq!(
            error("cluster1", line.as_bytes()),
            format!(", line 1: {expected}")
        );
    }
    let meta = |row: &str| {
        error(
            "kvcache.csv",
            format!("key,op,size,op_count\n{row}\n").as_bytes(),
        )
    };
    assert_eq!(
        meta("k,GET,5,0"),
        ", line 2: 0 operations, not 1 to 1048576"
    );
    assert_eq!(meta("k,FLY,5,1"), ", line 2: 'fly' is not an operation");
    assert_eq!(
        error("higgs-activity", b"1 2 3 XX\n"),
        ", line 1: not a retweet, a mention or a reply"
    );
    assert!(error("none/../../missing", b"").contains("it holds no request"),);
}

#[test]
fn damaged_compression_is_an_error_where_it_shows() {
    let lines: String = (0..100_000)
        .map(|n| format!("{}\n", n * 7919 % 100_003))
        .collect();
    let mut content = gzip(lines.as_bytes());
    content.truncate(content.len() / 2);
    let message = error("t.txt.gz", &content);
    let line: u64 = message
        .strip_prefix(", line ")
        .and_then(|rest| rest.split(':').next())
        .and_then(|line| line.parse().ok())
        .expect("a line is named");
    assert!((20_000..80_000).contains(&line), "{message}");
}

#[test]
fn a_missing_file_is_named() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("no-such.txt");
    let message = TraceReader::open(&path, None).unwrap_err().to_string();
    assert!(
        message.starts_with(&format!("trace {}: ", path.display())),
        "{message}"
    );
    assert!(message.contains("No such file"), "{message}");
    let message = TraceReader::open(folder.path(), None)
        .unwrap_err()
        .to_string();
    assert!(message.contains("directory"), "{message}");
}

#[test]
fn format_names_are_read_and_written() {
    for name in [
        "text",
        "be32",
        "be64",
        "lirs",
        "arc",
        "cloudphysics",
        "wikipedia-edits",
        "nasa-http",
        "twitter",
        "meta",
        "higgs",
    ] {
        assert_eq!(name.parse::<TraceFormat>().unwrap().to_string(), name);
    }
    assert!(
        "csv"
            .parse::<TraceFormat>()
            .unwrap_err()
            .contains("cloudphysics")
    );
}
