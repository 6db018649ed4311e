//! The formats that traces of caches come in.

use super::Fault;
use crate::Operation;
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

/// Format of a trace file. Any of them may be gzip-compressed.
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
    /// Tab-separated with a header; the columns `wiki` and `page` make the key.
    WikipediaEdits,
    /// Tab-separated with a header; the column `url` is the key.
    NasaHttp,
}

/// Every format with its name on the command line.
const NAMES: [(TraceFormat, &str); 8] = [
    (TraceFormat::Text, "text"),
    (TraceFormat::Be32, "be32"),
    (TraceFormat::Be64, "be64"),
    (TraceFormat::Lirs, "lirs"),
    (TraceFormat::Arc, "arc"),
    (TraceFormat::CloudPhysics, "cloudphysics"),
    (TraceFormat::WikipediaEdits, "wikipedia-edits"),
    (TraceFormat::NasaHttp, "nasa-http"),
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
    /// The format that a file's name tells: its suffix before `.gz`; for `.csv` and `.tsv` its
    /// header line decides between the formats known; any other is text. A file in a folder
    /// `lirs` is a LIRS trace.
    pub fn of_file_name(path: &Path) -> TraceFormat {
        let name = path
            .file_name()
            .map(|n| n.to_string_lossy().to_lowercase())
            .unwrap_or_default();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        let folder = path.parent().and_then(Path::file_name);
        match name.rsplit('.').next() {
            Some("be32") => TraceFormat::Be32,
            Some("be64") => TraceFormat::Be64,
            Some("lis") => TraceFormat::Arc,
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

    /// Separator and name of each column that must stand in the header line.
    pub(super) fn header(self) -> Option<(u8, &'static [&'static str])> {
        match self {
            TraceFormat::CloudPhysics => Some((b',', &["op", "size", "lbn"])),
            TraceFormat::WikipediaEdits => Some((b'\t', &["wiki", "page"])),
            TraceFormat::NasaHttp => Some((b'\t', &["url"])),
            _ => None,
        }
    }
}

/// What a line says: its requests are for keys that come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// No request.
    Nothing,
    /// One request; its key has been written.
    One(Operation, Option<u32>),
    /// Gets of `count` blocks from `first`.
    Blocks { first: u64, count: u64 },
}

/// Reads one line of a line format; `columns` are where the header's columns stand.
pub(super) fn parse_line(
    format: TraceFormat,
    line: &[u8],
    columns: &[usize],
    key: &mut Vec<u8>,
) -> Result<Line, Fault> {
    let get = Ok(Line::One(Operation::Get, None));
    match format {
        TraceFormat::Text => {
            if line.is_empty() {
                return Err(Fault::new("an empty line where a key should stand"));
            }
            write_key(line, key);
            get
        }
        TraceFormat::Lirs => {
            if line == b"*" {
                return Ok(Line::Nothing);
            }
            let block = number(line, "a block number")?;
            write_number(block, key);
            get
        }
        TraceFormat::Arc => {
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
        TraceFormat::CloudPhysics => {
            let [op, size, lbn] = fields(line, b',', columns)?;
            let operation = scsi_operation(op)?;
            let size = u32::try_from(number(size, "a size")?)
                .map_err(|_| Fault::new("the size does not fit 32 bits"))?;
            write_number(number(lbn, "a block address")?, key);
            Ok(Line::One(operation, Some(size)))
        }
        TraceFormat::WikipediaEdits => {
            let [wiki, page] = fields(line, b'\t', columns)?;
            let mut name = Vec::with_capacity(wiki.len() + 1 + page.len());
            name.extend_from_slice(wiki);
            name.push(b':');
            // As MediaWiki itself names pages.
            name.extend(page.iter().map(|&b| if b == b' ' { b'_' } else { b }));
            write_key(&name, key);
            get
        }
        TraceFormat::NasaHttp => {
            let [url] = fields(line, b'\t', columns)?;
            if url.is_empty() {
                return Err(Fault::new("an empty url"));
            }
            write_key(url, key);
            get
        }
        TraceFormat::Be32 | TraceFormat::Be64 => Err(Fault::new("a binary format has no lines")),
    }
}

/// The fields of a line at these columns.
fn fields<'a, const N: usize>(
    line: &'a [u8],
    separator: u8,
    columns: &[usize],
) -> Result<[&'a [u8]; N], Fault> {
    let mut found = [&b""[..]; N];
    for (slot, &column) in found.iter_mut().zip(columns) {
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
            let shown: String = String::from_utf8_lossy(text).chars().take(40).collect();
            Fault::new(format!("'{}' is not {what}", shown.escape_debug()))
        })
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
