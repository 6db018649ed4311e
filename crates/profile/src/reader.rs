//! A profile, read from front to back and never held in memory.

use crate::head::{Head, HeadError};
use crate::record::{RECORD_LEN, Record, RecordError};
use std::io::{self, Chain, Cursor, Read};

/// Why a profile cannot be read on.
#[derive(Debug)]
pub enum ReadError {
    /// It cannot be read at all.
    Io(io::Error),
    /// Its head is none.
    Head(HeadError),
    /// A record is none.
    Record {
        /// Its number, from 0 on.
        number: u64,
        /// Where it begins in the file, in bytes.
        at: u64,
        /// Why.
        error: RecordError,
    },
}

impl core::fmt::Display for ReadError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ReadError::Io(error) => error.fmt(f),
            ReadError::Head(error) => error.fmt(f),
            ReadError::Record { number, at, error } => {
                write!(f, "record {number}, at byte {at}: {error}")
            }
        }
    }
}

impl std::error::Error for ReadError {}

/// Reads the records of a profile in their order. Wants a buffered source: it reads 48 bytes at a time.
#[derive(Debug)]
pub struct Reader<R> {
    /// What was read with the head, and the rest.
    source: Chain<Cursor<Vec<u8>>, R>,
    head: Head,
    head_len: usize,
    records: u64,
    left_over: usize,
}

impl<R: Read> Reader<R> {
    /// Reads the head.
    ///
    /// # Errors
    /// The source cannot be read, or does not begin as a profile.
    pub fn new(mut source: R) -> Result<Self, ReadError> {
        let mut bytes = Vec::new();
        let mut first = source.by_ref().take(Head::LEN_MAX as u64);
        first.read_to_end(&mut bytes).map_err(ReadError::Io)?;
        let (head, head_len) = Head::of_bytes(&bytes).map_err(ReadError::Head)?;
        let mut read = Cursor::new(bytes);
        read.set_position(head_len as u64);
        Ok(Reader {
            source: read.chain(source),
            head,
            head_len,
            records: 0,
            left_over: 0,
        })
    }

    /// What the profile begins with.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The next record; `None` at the end, be that in the middle of a record: see [`Reader::left_over`].
    ///
    /// # Errors
    /// The source cannot be read, or these bytes are no record. There is no reading on then.
    pub fn next_record(&mut self) -> Result<Option<Record>, ReadError> {
        let mut bytes = [0; RECORD_LEN];
        let mut filled = 0;
        while filled < RECORD_LEN {
            match self.source.read(&mut bytes[filled..]) {
                Ok(0) => {
                    self.left_over = filled;
                    return Ok(None);
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ReadError::Io(error)),
            }
        }
        let number = self.records;
        self.records += 1;
        let record = Record::of_bytes(&bytes).map_err(|error| ReadError::Record {
            number,
            at: self.head_len as u64 + number * RECORD_LEN as u64,
            error,
        })?;
        Ok(Some(record))
    }

    /// Bytes behind the last whole record, once the end was reached: the file is cut off if there are any.
    pub fn left_over(&self) -> usize {
        self.left_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{head, record};

    #[test]
    fn records_are_read_in_order_and_what_is_cut_off_is_counted() {
        let records: Vec<Record> = (0..3000).map(record).collect();
        let mut bytes = head().to_bytes().expect("its names are short");
        let head_len = bytes.len();
        bytes.extend(records.iter().flat_map(Record::to_bytes));
        for cut in [0, 1, 47, 48, 100] {
            let whole = &bytes[..bytes.len() - cut];
            let mut reader = Reader::new(whole).expect("it begins as a profile");
            assert_eq!(*reader.head(), head());
            let mut read = Vec::new();
            while let Some(record) = reader.next_record().expect("records") {
                read.push(record);
            }
            assert_eq!(read, records[..(whole.len() - head_len) / RECORD_LEN]);
            assert_eq!(reader.left_over(), (whole.len() - head_len) % RECORD_LEN);
        }
        assert!(matches!(
            Reader::new(&bytes[..head_len - 1]),
            Err(ReadError::Head(HeadError::CutOff))
        ));
    }

    #[test]
    fn a_record_that_is_none_is_named_with_its_place() {
        let mut bytes = head().to_bytes().expect("its names are short");
        let head_len = bytes.len();
        bytes.extend((0..3).map(record).flat_map(|record| record.to_bytes()));
        bytes[head_len + 2 * RECORD_LEN + 46] = 99;
        let mut reader = Reader::new(&bytes[..]).expect("it begins as a profile");
        for _ in 0..2 {
            assert!(reader.next_record().expect("a record").is_some());
        }
        let error = reader
            .next_record()
            .expect_err("no outcome has this number");
        let place = head_len + 2 * RECORD_LEN;
        assert_eq!(
            error.to_string(),
            format!("record 2, at byte {place}: no outcome has the number 99")
        );
    }
}
