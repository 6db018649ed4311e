//! Recorded requests, read as a stream.
//!
//! A trace is read once from front to back, decompressed on the way, and never held in memory: a
//! replay of a year takes no more than one of a second. Names from a trace become keys that
//! memcached takes, different names different keys. Whatever is wrong with a file is told in one
//! line with the file and the place in it, which counts decompressed bytes or lines from 1.

mod format;
mod request;

pub use crate::input::LINE_LEN_MAX;
pub use format::{ARC_RUN_LEN_MAX, OP_COUNT_MAX, TRACE_KEY_LEN_MAX, TraceFormat};
pub use request::TraceRequest;

use crate::input;
use core::fmt;
use format::{Columns, Line, parse_line, write_number};
use request::Fault;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

/// A trace that cannot be read. Displays as one line with the file and the place.
#[derive(Debug, thiserror::Error)]
#[error("trace {}{place}: {fault}", path.display())]
pub struct TraceError {
    /// The file.
    pub path: PathBuf,
    /// Where in it.
    pub place: Place,
    fault: Fault,
}

/// A place in a trace, after decompression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A line, from 1.
    Line(u64),
    /// A byte, from 0.
    Byte(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File => Ok(()),
            Place::Line(line) => write!(f, ", line {line}"),
            Place::Byte(byte) => write!(f, ", byte {byte}"),
        }
    }
}

/// Reads the requests of a trace in their order.
pub struct TraceReader {
    path: PathBuf,
    format: TraceFormat,
    input: Box<dyn BufRead + Send>,
    place: Place,
    line: Vec<u8>,
    columns: Columns,
    /// Blocks of an `arc` line that are still to come.
    blocks: std::ops::Range<u64>,
    /// What the last line says, and how many times it is still to come.
    repeated: TraceRequest,
    repeats: u64,
    requests: u64,
}

impl TraceReader {
    /// Opens a trace; `None` takes the format from the file's name
    /// ([`TraceFormat::of_file_name`]). Compression is seen by the first bytes.
    ///
    /// # Errors
    /// When the file is missing, unreadable, or lacks the header that its format has.
    pub fn open(path: &Path, format: Option<TraceFormat>) -> Result<Self, TraceError> {
        let format = format.unwrap_or_else(|| TraceFormat::of_file_name(path));
        let input = input::open(path).map_err(|error| TraceError {
            path: path.to_owned(),
            place: Place::File,
            fault: error.into(),
        })?;
        let mut reader = TraceReader {
            path: path.to_owned(),
            format,
            input,
            place: if format.record_len().is_some() {
                Place::Byte(0)
            } else {
                Place::Line(0)
            },
            line: Vec::new(),
            columns: Vec::new(),
            blocks: 0..0,
            repeated: TraceRequest::default(),
            repeats: 0,
            requests: 0,
        };
        reader.read_header().map_err(|fault| reader.error(fault))?;
        Ok(reader)
    }

    /// The format in which the file is read.
    pub fn format(&self) -> TraceFormat {
        self.format
    }

    /// Requests read since the start of the file.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Reads the next request; `false` at the end of the trace.
    ///
    /// # Errors
    /// When the file is damaged or malformed here, or ends without a single request.
    pub fn next_request(&mut self, request: &mut TraceRequest) -> Result<bool, TraceError> {
        match self.try_next(request) {
            Ok(true) => {
                self.requests += 1;
                Ok(true)
            }
            Ok(false) if self.requests == 0 => {
                self.place = Place::File;
                Err(self.error(Fault::new("it holds no request")))
            }
            Ok(false) => Ok(false),
            Err(fault) => Err(self.error(fault)),
        }
    }

    /// Starts again at the first request.
    ///
    /// # Errors
    /// When the file cannot be opened any more.
    pub fn rewind(&mut self) -> Result<(), TraceError> {
        *self = TraceReader::open(&self.path, Some(self.format))?;
        Ok(())
    }

    fn try_next(&mut self, request: &mut TraceRequest) -> Result<bool, Fault> {
        if self.repeats > 0 {
            self.repeats -= 1;
            request.clone_from(&self.repeated);
            return Ok(true);
        }
        request.clear();
        if let Some(block) = self.blocks.next() {
            write_number(block, &mut request.key);
            return Ok(true);
        }
        if let Some(len) = self.format.record_len() {
            return self.next_record(len, request);
        }
        while self.read_line()? {
            match parse_line(self.format, &self.line, &self.columns, request)? {
                Line::Nothing => {}
                Line::Requests(count) => {
                    if count > 1 {
                        self.repeats = count - 1;
                        self.repeated.clone_from(request);
                    }
                    return Ok(true);
                }
                Line::Blocks { first, count } => {
                    write_number(first, &mut request.key);
                    self.blocks = first + 1..first + count;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn next_record(&mut self, len: usize, request: &mut TraceRequest) -> Result<bool, Fault> {
        let mut record = [0u8; 8];
        let mut filled = 0;
        while filled < len {
            match self.input.read(&mut record[filled..len]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        match filled {
            0 => return Ok(false),
            _ if filled < len => {
                return Err(Fault::new(format!(
                    "{filled} bytes at the end are no {len}-byte key"
                )));
            }
            4 => {
                let [a, b, c, d, ..] = record;
                write_number(u32::from_be_bytes([a, b, c, d]), &mut request.key);
            }
            _ => write_number(i64::from_be_bytes(record), &mut request.key),
        }
        if let Place::Byte(byte) = &mut self.place {
            *byte += len as u64;
        }
        Ok(true)
    }

    /// Reads a line without its end into `self.line`; `false` at the end of the file.
    fn read_line(&mut self) -> Result<bool, Fault> {
        if let Place::Line(line) = &mut self.place {
            *line += 1;
        }
        self.line.clear();
        let limit = LINE_LEN_MAX as u64 + 1;
        let read = (&mut self.input)
            .take(limit)
            .read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(false);
        }
        if self.line.len() > LINE_LEN_MAX {
            return Err(Fault::new(format!(
                "longer than {LINE_LEN_MAX} bytes: is the file a {} trace?",
                self.format
            )));
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        if self.line.contains(&0) {
            return Err(Fault::new(format!(
                "a zero byte: is the file a {} trace?",
                self.format
            )));
        }
        Ok(true)
    }

    /// Finds the columns that the format needs in the header line.
    fn read_header(&mut self) -> Result<(), Fault> {
        let Some(header) = self.format.header() else {
            return Ok(());
        };
        if !self.read_line()? {
            return Err(Fault::new("the header line is missing"));
        }
        let column = |name: &str| {
            let mut titles = self.line.split(|&b| b == header.separator);
            titles.position(|title| title == name.as_bytes())
        };
        for name in header.required {
            if column(name).is_none() {
                return Err(Fault::new(format!(
                    "the header of a {} trace has no '{name}'",
                    self.format
                )));
            }
        }
        let names = header.required.iter().chain(header.optional);
        self.columns = names.map(|name| column(name)).collect();
        Ok(())
    }

    fn error(&self, fault: Fault) -> TraceError {
        TraceError {
            path: self.path.clone(),
            place: self.place,
            fault,
        }
    }
}

impl fmt::Debug for TraceReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceReader")
            .field("path", &self.path)
            .field("format", &self.format)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}
