//! The formats that traces of caches come in.

use super::request::{Fault, TraceRequest};
use crate::{Operation, TTL_S_MAX};
use core::fmt;
use core::str::FromStr;
use evenkeel_types::KeyHash;
use evenkeel_types::limits::KEY_LEN_MAX;
use std::path::Path;

/// Longest key of a trace, in bytes: memcached's longest less what a replay may put behind a key, one
/// mark and a number. Longer ones are cut, and their hash keeps them apart.
pub const TRACE_KEY_LEN_MAX: usize = KEY_LEN_MAX - 21;

/// Most blocks that one line of an `arc` trace may stand for. The published traces stop at 128; the
/// limit keeps a damaged line from standing for billions.
pub const ARC_RUN_LEN_MAX: u64 = 1 << 20;

/// Most operations that one line of a `meta` trace may stand for, for the same reason.
pub const OP_COUNT_MAX: u64 = 1 << 20;

/// Format of a trace file. Any of them may be compressed by gzip or zstd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TraceFormat {
    /// One key a line.
    Text,
    /// Consecutive 4-byte big-endian unsigned integers.
    Be32,
    /// Consecutive 8-byte big-endian signed integers.
    Be64,
    /// One block number a line; lines `*` are breakpoints of the LIRS tool and no requests.
    Lirs,
    /// `first_block count ignored request_number`: a line stands for `count` blocks.
    Arc,
    /// CSV with header `version,time,op,size,lbn`; `op` is a SCSI command, `lbn` the key.
    CloudPhysics,
    /// Tab-separated with a header; the columns `wiki` and `page` make the key. An edit makes void what a
    /// cache holds of the page: a delete.
    WikipediaEdits,
    /// Tab-separated with a header; the column `url` is the key.
    NasaHttp,
    /// Cache clusters at Twitter (Yang, Yue and Rashmi, OSDI 2020): CSV without header,
    /// `time,key,key_size,value_size,client,operation,ttl`.
    Twitter,
    /// Key-value caches at Meta (CacheLib's trace replay): CSV with a header that has `key`, `op`, `size`
    /// and `op_count`, and mostly `op_time`, `key_size` and `ttl`. A line stands for `op_count`
    /// operations.
    Meta,
    /// Activity on a social network (SNAP, higgs-twitter): `user_a user_b unix_time kind`. Who acts on a
    /// user asks for that user's item: the key is `user_b`.
    Higgs,
}

/// Every format with its name on the command line.
const NAMES: [(TraceFormat, &str); 11] = [
    (TraceFormat::Text, "text"),
    (TraceFormat::Be32, "be32"),
    (TraceFormat::Be64, "be64"),
    (TraceFormat::Lirs, "lirs"),
    (TraceFormat::Arc, "arc"),
    (TraceFormat::CloudPhysics, "cloudphysics"),
    (TraceFormat::WikipediaEdits, "wikipedia-edits"),
    (TraceFormat::NasaHttp, "nasa-http"),
    (TraceFormat::Twitter, "twitter"),
    (TraceFormat::Meta, "meta"),
    (TraceFormat::Higgs, "higgs"),
];

impl FromStr for TraceFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        NAMES
            .iter()
            .find(|(_, name)| *name == text)
            .map(|&(format, _)| format)
            .ok_or_else(|| {
                let names: Vec<&str> = NAMES.iter().map(|&(_, name)| name).collect();
                format!("'{text}' is not a trace format: {}", names.join(", "))
            })
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES
            .iter()
            .find(|(format, _)| format == self)
            .map_or("", |&(_, name)| name);
        f.write_str(name)
    }
}

impl TraceFormat {
    /// The format that a file's name tells: its suffix before `.gz` or `.zst`, and for those that several
    /// formats have, how the published files are named: `cluster…` is Twitter's, `kvcache…` Meta's,
    /// `higgs-activity…` Higgs, a `.tsv` with `wikipedia` in it is of edits. A file in a folder `lirs` is a
    /// LIRS trace; any other is text.
    pub fn of_file_name(path: &Path) -> TraceFormat {
        let name = path
            .file_name()
            .map(|n| n.to_string_lossy().to_lowercase())
            .unwrap_or_default();
        let name = [".gz", ".zst"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .unwrap_or(&name);
        let folder = path.parent().and_then(Path::file_name);
        match name.rsplit('.').next() {
            Some("be32") => TraceFormat::Be32,
            Some("be64") => TraceFormat::Be64,
            Some("lis") => TraceFormat::Arc,
            _ if name.starts_with("cluster") => TraceFormat::Twitter,
            _ if name.starts_with("higgs-activity") => TraceFormat::Higgs,
            Some("csv") if name.starts_with("kvcache") => TraceFormat::Meta,
            Some("csv") => TraceFormat::CloudPhysics,
            Some("tsv") if name.contains("wikipedia") => TraceFormat::WikipediaEdits,
            Some("tsv") => TraceFormat::NasaHttp,
            Some("trc") => TraceFormat::Lirs,
            _ if folder.is_some_and(|folder| folder == "lirs") => TraceFormat::Lirs,
            _ => TraceFormat::Text,
        }
    }

    /// Bytes of a record, for the binary formats.
    pub(super) fn record_len(self) -> Option<usize> {
        match self {
            TraceFormat::Be32 => Some(4),
            TraceFormat::Be64 => Some(8),
            _ => None,
        }
    }

    /// What the header line is to have.
    pub(super) fn header(self) -> Option<Header> {
        let (separator, required, optional): (_, &[_], &[_]) = match self {
            TraceFormat::CloudPhysics => (b',', &["op", "size", "lbn"], &["time"]),
            TraceFormat::WikipediaEdits => (b'\t', &["wiki", "page"], &["time_ms"]),
            TraceFormat::NasaHttp => (b'\t', &["url"], &["time_s"]),
            TraceFormat::Meta => (
                b',',
                &["key", "op", "size", "op_count"],
                &["op_time", "key_size", "ttl"],
            ),
            _ => return None,
        };
        Some(Header {
            separator,
            required,
            optional,
        })
    }
}

/// The header line of a format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) separator: u8,
    /// Columns that must be there.
    pub(super) required: &'static [&'static str],
    /// Columns that are used where they are there.
    pub(super) optional: &'static [&'static str],
}

/// Where a column of the header stands; `None` where it is not there.
pub(super) type Columns = Vec<Option<usize>>;

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// No request.
    Nothing,
    /// The request, this many times.
    Requests(u64),
    /// Gets of `count` blocks from `first`.
    Blocks { first: u64, count: u64 },
}

/// Reads one line of a line format into a request that is empty; `columns` are where the header's
/// columns stand.
pub(super) fn parse_line(
    format: TraceFormat,
    line: &[u8],
    columns: &Columns,
    request: &mut TraceRequest,
) -> Result<Line, Fault> {
    match format {
        TraceFormat::Text => {
            if line.is_empty() {
                return Err(Fault::new("an empty line where a key should stand"));
            }
            write_key(line, &mut request.key);
        }
        TraceFormat::Lirs => {
            if line == b"*" {
                return Ok(Line::Nothing);
            }
            write_number(number(line, "a block number")?, &mut request.key);
        }
        TraceFormat::Arc => return parse_arc(line),
        TraceFormat::CloudPhysics => {
            let [op, size, lbn, time] = fields(line, b',', columns)?;
            request.operation = scsi_operation(op)?;
            request.value_len = Some(number32(size, "a size")?);
            request.time_ns = optional_time(time, NS_PER_S)?;
            write_number(number(lbn, "a block address")?, &mut request.key);
        }
        TraceFormat::WikipediaEdits => {
            let [wiki, page, time] = fields(line, b'\t', columns)?;
            let mut name = Vec::with_capacity(wiki.len() + 1 + page.len());
            name.extend_from_slice(wiki);
            name.push(b':');
            // As MediaWiki itself names pages.
            name.extend(page.iter().map(|&b| if b == b' ' { b'_' } else { b }));
            write_key(&name, &mut request.key);
            request.operation = Operation::Delete;
            request.time_ns = optional_time(time, NS_PER_S / 1000)?;
        }
        TraceFormat::NasaHttp => {
            let [url, time] = fields(line, b'\t', columns)?;
            if url.is_empty() {
                return Err(Fault::new("an empty url"));
            }
            write_key(url, &mut request.key);
            request.time_ns = optional_time(time, NS_PER_S)?;
        }
        TraceFormat::Twitter => return parse_twitter(line, request),
        TraceFormat::Meta => return parse_meta(line, columns, request),
        TraceFormat::Higgs => {
            let mut fields = line.split(|&b| b == b' ');
            let mut next = || fields.next().unwrap_or_default();
            number(next(), "a user")?;
            write_number(number(next(), "a user")?, &mut request.key);
            request.time_ns = optional_time(next(), NS_PER_S)?;
            if !matches!(next(), b"RT" | b"MT" | b"RE") {
                return Err(Fault::new("not a retweet, a mention or a reply"));
            }
        }
        TraceFormat::Be32 | TraceFormat::Be64 => {
            return Err(Fault::new("a binary format has no lines"));
        }
    }
    Ok(Line::Requests(1))
}

fn parse_arc(line: &[u8]) -> Result<Line, Fault> {
    let mut fields = line.split(|&b| b == b' ').filter(|field| !field.is_empty());
    let first = number(fields.next().unwrap_or_default(), "a first block")?;
    let count = number(fields.next().unwrap_or_default(), "a count of blocks")?;
    if fields.count() != 2 {
        return Err(Fault::new("not the four numbers of an arc trace"));
    }
    if !(1..=ARC_RUN_LEN_MAX).contains(&count) || first.checked_add(count).is_none() {
        return Err(Fault::new(format!(
            "{count} blocks, not 1 to {ARC_RUN_LEN_MAX}"
        )));
    }
    Ok(Line::Blocks { first, count })
}

fn parse_twitter(line: &[u8], request: &mut TraceRequest) -> Result<Line, Fault> {
    // A key may have commas: one field stands before it and five behind.
    let malformed = || Fault::new("not the seven columns of a Twitter trace");
    let mut from_end = line.rsplitn(6, |&b| b == b',');
    let mut next = || from_end.next().ok_or_else(malformed);
    let (ttl, op, _client, size, key_len, front) =
        (next()?, next()?, next()?, next()?, next()?, next()?);
    let comma = front
        .iter()
        .position(|&b| b == b',')
        .ok_or_else(malformed)?;
    let (time, key) = (&front[..comma], &front[comma + 1..]);
    if key.is_empty() {
        return Err(Fault::new("an empty key"));
    }
    request.operation = match op {
        // What a `gets` reads, a get reads; the version is for a `cas` of its own line.
        b"get" | b"gets" => Operation::Get,
        other => named_operation(other)?,
    };
    request.time_ns = optional_time(time, NS_PER_S)?;
    told(
        request,
        number32(size, "a value size")?,
        number(ttl, "a time to live")?,
    );
    write_padded_key(key, number(key_len, "a key size")?, &mut request.key);
    Ok(Line::Requests(1))
}

fn parse_meta(line: &[u8], columns: &Columns, request: &mut TraceRequest) -> Result<Line, Fault> {
    let [key, op, size, count, time, key_len, ttl] = fields(line, b',', columns)?;
    request.operation = match op {
        b"GET" | b"GET_LEASE" => Operation::Get,
        b"SET" | b"SET_LEASE" => Operation::Set,
        other => named_operation(&other.to_ascii_lowercase())?,
    };
    let or_zero = |text: &[u8], what| match text {
        b"" => Ok(0),
        text => number(text, what),
    };
    request.time_ns = optional_time(time, NS_PER_S)?;
    told(
        request,
        number32(size, "a size")?,
        or_zero(ttl, "a time to live")?,
    );
    if key.is_empty() {
        return Err(Fault::new("an empty key"));
    }
    write_padded_key(key, or_zero(key_len, "a key size")?, &mut request.key);
    match number(count, "a count of operations")? {
        count if (1..=OP_COUNT_MAX).contains(&count) => Ok(Line::Requests(count)),
        count => Err(Fault::new(format!(
            "{count} operations, not 1 to {OP_COUNT_MAX}"
        ))),
    }
}

/// Size and time to live as a trace tells them: the size of a value that was read is 0 where there was
/// none, a time to live is 0 where it is not given, and both say nothing then.
fn told(request: &mut TraceRequest, size: u32, ttl_s: u64) {
    let reads = request.operation == Operation::Get;
    request.value_len = Some(size).filter(|&size| size > 0 || !reads);
    request.ttl_s = Some(ttl_s.min(u64::from(TTL_S_MAX)) as u32).filter(|&ttl_s| ttl_s > 0);
}

const NS_PER_S: u64 = 1_000_000_000;

/// A time in units of this many nanoseconds, if it is given.
fn optional_time(text: &[u8], unit_ns: u64) -> Result<Option<u64>, Fault> {
    if text.is_empty() {
        return Ok(None);
    }
    match number(text, "a time")?.checked_mul(unit_ns) {
        Some(ns) => Ok(Some(ns)),
        None => Err(Fault::new("a time later than 64 bits of nanoseconds hold")),
    }
}

fn named_operation(name: &[u8]) -> Result<Operation, Fault> {
    Operation::ALL
        .into_iter()
        .find(|operation| operation.name().as_bytes() == name)
        .filter(|&operation| operation != Operation::ReadModifyWrite)
        .ok_or_else(|| {
            let shown: String = String::from_utf8_lossy(name)
                .chars()
                .take(SHOWN_MAX)
                .collect();
            Fault::new(format!("'{}' is not an operation", shown.escape_debug()))
        })
}

/// Characters of a wrong field in a message.
const SHOWN_MAX: usize = 40;

/// The fields of a line at these columns; those of columns that are not there are empty.
fn fields<'a, const N: usize>(
    line: &'a [u8],
    separator: u8,
    columns: &Columns,
) -> Result<[&'a [u8]; N], Fault> {
    let mut found = [&b""[..]; N];
    for (slot, column) in found.iter_mut().zip(columns) {
        let Some(column) = *column else { continue };
        *slot = line
            .split(|&b| b == separator)
            .nth(column)
            .ok_or_else(|| Fault::new(format!("column {} is missing", column + 1)))?;
    }
    Ok(found)
}

/// Reads and writes of the SCSI block commands (6, 10, 12 and 16 byte forms).
fn scsi_operation(op: &[u8]) -> Result<Operation, Fault> {
    match op.to_ascii_lowercase().as_slice() {
        b"08" | b"8" | b"28" | b"a8" | b"88" => Ok(Operation::Get),
        b"0a" | b"a" | b"2a" | b"aa" | b"8a" => Ok(Operation::Set),
        other => Err(Fault::new(format!(
            "SCSI command '{}' neither reads nor writes",
            String::from_utf8_lossy(other).escape_debug()
        ))),
    }
}

fn number(text: &[u8], what: &str) -> Result<u64, Fault> {
    core::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| {
            let shown: String = String::from_utf8_lossy(text)
                .chars()
                .take(SHOWN_MAX)
                .collect();
            Fault::new(format!("'{}' is not {what}", shown.escape_debug()))
        })
}

fn number32(text: &[u8], what: &str) -> Result<u32, Fault> {
    u32::try_from(number(text, what)?)
        .map_err(|_| Fault::new(format!("{what} that does not fit 32 bits")))
}

/// Writes a name whose key had another length when the trace was made, at that length: behind it stand
/// percent signs. No other name becomes such a key, since [`write_key`] puts two digits behind each.
fn write_padded_key(name: &[u8], len: u64, key: &mut Vec<u8>) {
    write_key(name, key);
    let len = usize::try_from(len).map_or(TRACE_KEY_LEN_MAX, |len| len.min(TRACE_KEY_LEN_MAX));
    if key.len() < len {
        key.resize(len, b'%');
    }
}

/// Writes a number as a key: in decimal.
pub(super) fn write_number(number: impl itoa::Integer, key: &mut Vec<u8>) {
    key.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes a name from a trace as a key that memcached takes. Different names stay different keys:
/// spaces, control characters and the percent sign itself are percent-encoded, and names above
/// [`TRACE_KEY_LEN_MAX`] end in their hash.
pub(super) fn write_key(name: &[u8], key: &mut Vec<u8>) {
    for &byte in name {
        if byte <= b' ' || byte == 0x7f || byte == b'%' {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            key.extend([
                b'%',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]);
        } else {
            key.push(byte);
        }
    }
    if key.len() > TRACE_KEY_LEN_MAX {
        let hash = format!("#{:016x}", KeyHash::of(key).0);
        key.truncate(TRACE_KEY_LEN_MAX - hash.len());
        key.extend_from_slice(hash.as_bytes());
    }
}
