//! Several profiles read as one: those of all proxies of a site, for instance.
//!
//! Racks and pools are the same if their names are; they get new numbers. Records come in the order of their times as far as each file is
//! in order. The files must be sampled alike: anyone who mixes one page in ten with one in a hundred knows neither.

use crate::head::{Head, RackOfHead};
use crate::reader::{ReadError, Reader};
use crate::record::{NO_RACK, Record};
use std::io::Read;

/// Most racks that records can tell apart: a number of theirs is none.
const RACKS_MAX: usize = NO_RACK as usize;

/// Why profiles cannot be read as one.
#[derive(Debug)]
pub enum JoinError {
    /// They are sampled differently: the first and the one with this position.
    Sampling(usize),
    /// This rack is on the backbone by one and in a rack by another.
    Central(String),
    /// They have more racks than records can tell apart.
    Racks,
    /// The profile with this position cannot be read.
    Read(usize, ReadError),
}

impl core::fmt::Display for JoinError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            JoinError::Sampling(_) => {
                f.write_str("sampled differently than the first: another seed, or another part of pages or keys")
            }
            JoinError::Central(rack) => {
                write!(f, "rack {rack} is on the backbone by one and not by another")
            }
            JoinError::Racks => write!(f, "more than {RACKS_MAX} racks"),
            JoinError::Read(_, error) => error.fmt(f),
        }
    }
}

impl std::error::Error for JoinError {}

/// The records of several profiles, the earliest first.
#[derive(Debug)]
pub struct Joined<R> {
    head: Head,
    files: Vec<File<R>>,
}

#[derive(Debug)]
struct File<R> {
    reader: Reader<R>,
    /// New numbers by the old ones.
    racks: Vec<u8>,
    pools: Vec<u8>,
    /// Its next record, numbered anew.
    next: Option<Record>,
}

impl<R: Read> Joined<R> {
    /// Joins the heads, and reads the first record of each.
    ///
    /// # Errors
    /// The heads do not fit together, or a first record cannot be read.
    pub fn new(first: Reader<R>, others: Vec<Reader<R>>) -> Result<Self, JoinError> {
        let mut head = Head {
            racks: Vec::new(),
            pools: Vec::new(),
            ..first.head().clone()
        };
        let mut files = Vec::new();
        for (position, reader) in [first].into_iter().chain(others).enumerate() {
            let of_file = reader.head();
            if head.sampling != of_file.sampling {
                return Err(JoinError::Sampling(position));
            }
            if head.own_rack != of_file.own_rack {
                head.own_rack = None;
            }
            if position > 0 {
                head.proxy = format!("{}, {}", head.proxy, of_file.proxy);
            }
            let racks = of_file.racks.iter();
            let racks = racks.map(|rack| place_rack(&mut head, rack));
            let racks = racks.collect::<Result<_, _>>()?;
            let pools = of_file.pools.iter();
            let pools = pools.map(|pool| place_pool(&mut head, pool)).collect();
            let mut file = File {
                reader,
                racks,
                pools,
                next: None,
            };
            file.advance()
                .map_err(|error| JoinError::Read(position, error))?;
            files.push(file);
        }
        Ok(Joined { head, files })
    }

    /// The head of them all.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The next record; `None` at the end of all. O(files).
    ///
    /// # Errors
    /// The next record of this one's file cannot be read. There is no reading on then.
    pub fn next_record(&mut self) -> Result<Option<Record>, JoinError> {
        let first = self.files.iter_mut().enumerate();
        let first = first.filter_map(|(position, file)| Some((file.next?.unix_us, position, file)));
        let Some((_, position, file)) = first.min_by_key(|(time, position, _)| (*time, *position))
        else {
            return Ok(None);
        };
        let record = file.next;
        file.advance()
            .map_err(|error| JoinError::Read(position, error))?;
        Ok(record)
    }

    /// Of each file, the bytes behind its last whole record, once the end was reached.
    pub fn left_over(&self) -> impl Iterator<Item = usize> {
        self.files.iter().map(|file| file.reader.left_over())
    }
}

impl<R: Read> File<R> {
    fn advance(&mut self) -> Result<(), ReadError> {
        self.next = self.reader.next_record()?;
        if let Some(record) = &mut self.next {
            let anew = |numbers: &[u8], old: u8| numbers.get(usize::from(old)).copied();
            record.own_rack = anew(&self.racks, record.own_rack).unwrap_or(NO_RACK);
            record.answering_rack = anew(&self.racks, record.answering_rack).unwrap_or(NO_RACK);
            record.pool = anew(&self.pools, record.pool).unwrap_or(u8::MAX);
        }
        Ok(())
    }
}

fn place_rack(head: &mut Head, rack: &RackOfHead) -> Result<u8, JoinError> {
    let known = head.racks.iter().position(|other| other.name == rack.name);
    let number = known.unwrap_or_else(|| {
        head.racks.push(rack.clone());
        head.racks.len() - 1
    });
    if head.racks[number].is_central != rack.is_central {
        return Err(JoinError::Central(rack.name.clone()));
    }
    match u8::try_from(number) {
        Ok(number) if usize::from(number) < RACKS_MAX => Ok(number),
        _ => Err(JoinError::Racks),
    }
}

/// Those beyond 255 are told from none of each other, as in a record.
fn place_pool(head: &mut Head, pool: &String) -> u8 {
    let known = head.pools.iter().position(|other| other == pool);
    let number = known.unwrap_or_else(|| {
        head.pools.push(pool.clone());
        head.pools.len() - 1
    });
    u8::try_from(number).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{head, record};
    use crate::sampling::Sampling;

    fn profile(head: &Head, records: impl Iterator<Item = u64>) -> Vec<u8> {
        let mut bytes = head.to_bytes().expect("its names are short");
        bytes.extend(records.flat_map(|number| record(number).to_bytes()));
        bytes
    }

    fn join(files: &[Vec<u8>]) -> Result<Joined<&[u8]>, JoinError> {
        let mut readers = files
            .iter()
            .map(|file| Reader::new(&file[..]).expect("it begins as a profile"));
        let first = readers.next().expect("there is a file");
        Joined::new(first, readers.collect())
    }

    #[test]
    fn records_come_by_time_with_the_numbers_of_the_joined_head() {
        let mut other = head();
        other.proxy = "proxy-2".to_owned();
        other.own_rack = Some("b".to_owned());
        other.racks.remove(0);
        other.pools = vec!["third".to_owned(), "main".to_owned()];
        let files = [
            profile(&head(), (0..100).filter(|n| n % 3 == 0)),
            profile(&other, (0..100).filter(|n| n % 3 != 0)),
        ];
        let mut joined = join(&files).expect("they fit");
        let expected = Head {
            proxy: "proxy-1, proxy-2".to_owned(),
            own_rack: None,
            pools: ["main", "other", "third"].map(str::to_owned).to_vec(),
            ..head()
        };
        assert_eq!(*joined.head(), expected);
        for number in 0..100 {
            let read = joined.next_record().expect("records").expect("one more");
            let mut expected = record(number);
            if number % 3 != 0 {
                let anew = |rack: u8| if rack < 2 { rack + 1 } else { NO_RACK };
                expected.own_rack = anew(expected.own_rack);
                expected.answering_rack = anew(expected.answering_rack);
                expected.pool = [2, 0][usize::from(expected.pool)];
            }
            assert_eq!(read, expected);
        }
        assert!(joined.next_record().expect("the end").is_none());
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let none = std::iter::empty::<u64>;
        let first = profile(&head(), none());
        let mut other = head();
        other.sampling = Sampling {
            keys: 2,
            ..Sampling::FULL
        };
        let files = [first.clone(), profile(&other, none())];
        assert!(matches!(join(&files), Err(JoinError::Sampling(1))));
        let mut other = head();
        other.racks[0].is_central = true;
        let files = [first, profile(&other, none())];
        let error = join(&files).expect_err("a is in two places");
        assert_eq!(
            error.to_string(),
            "rack a is on the backbone by one and not by another"
        );
        let mut broken = profile(&head(), 0..2);
        let at = broken.len() - 2;
        broken[at] = 99;
        let files = [broken.clone()];
        let mut joined = join(&files).expect("the first record is whole");
        assert!(matches!(
            joined.next_record(),
            Err(JoinError::Read(0, ReadError::Record { number: 1, .. }))
        ));
    }
}
