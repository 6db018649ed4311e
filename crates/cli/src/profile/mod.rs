//! `evenkeel profile`: what profiles and logs of requests say of how applications use a cache.

mod log;
mod show;

use crate::ask::Format;
use anyhow::Context;
use clap::Subcommand;
use evenkeel_profile::{Curve, Curves, Head, JoinError, Joined, Reader, Record, Report, Summary};
use evenkeel_runtime::{UsageError, parse_size};
use serde::Serialize;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Shows how applications use a cache, as proxies have recorded it.
///
/// A profile is what a proxy writes with --profile FILE.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Table, global = true)]
    pub format: Format,

    /// What to do
    #[command(subcommand)]
    pub command: What,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum What {
    /// Shows what profiles say: commands, sizes, whose keys are, what distance costs
    Report {
        /// Profiles; several are read as one, such as those of all proxies
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Memory of a pool for items, as its servers have it together: 64m, or sessions=2g where there are several pools. Hits are
        /// shown for a quarter of it to four times as much then
        #[arg(long, value_name = "[POOL=]SIZE", value_parser = memory)]
        memory: Vec<Memory>,
    },
    /// Makes one profile of several that are sampled alike; racks and pools are joined by their names
    Merge {
        /// Profiles
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The file to make, which is not there yet
        #[arg(long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Shows what a proxy's log of requests says, as far as a log can
    FromLog {
        /// The log, which is to have every request: --request-log-sample 1
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// What a pool has.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Every pool if there is none.
    pool: Option<String>,
    bytes: u64,
}

fn memory(text: &str) -> Result<Memory, String> {
    let (pool, size) = match text.rsplit_once('=') {
        Some((pool, size)) => (Some(pool.to_owned()), size),
        None => (None, text),
    };
    match parse_size(size)? {
        0 => Err("there is no cache without memory".to_owned()),
        bytes => Ok(Memory {
            pool,
            bytes: bytes as u64,
        }),
    }
}

/// A report, and what more or less memory would make of it.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    summary: Summary,
    curves: Vec<Curve>,
}

/// What has become of a merge.
#[derive(Debug, Serialize)]
struct Merged {
    output: String,
    files: usize,
    records: u64,
    /// Of files that are cut off: what was left out.
    remarks: Vec<String>,
}

/// Does it, and prints what it says.
///
/// # Errors
/// A file is not what it should be, or cannot be read or made.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        What::Report { files, memory } => args.format.print(&report(files, memory)?, show::table),
        What::Merge { files, output } => args.format.print_done(&merge(files, output)?, merged),
        What::FromLog { file } => args.format.print(&log::report(file)?, show::table),
    }
}

fn report(paths: &[PathBuf], memory: &[Memory]) -> anyhow::Result<Shown> {
    let profiles = Profiles::open(paths)?;
    let head = profiles.joined.head();
    check(memory, head)?;
    let of_pool = |pool: &str| {
        let said = |memory: &&Memory| memory.pool.as_ref().is_none_or(|name| name == pool);
        memory.iter().find(said).map(|memory| memory.bytes)
    };
    let mut curves = Curves::new(head, of_pool);
    let (_, summary) = profiles.summary(|record| curves.add(record))?;
    Ok(Shown {
        summary,
        curves: curves.curves(),
    })
}

/// What profiles say that are read as one, and what stands before them.
///
/// # Errors
/// A file is no profile, or cannot be read.
pub fn summary(paths: &[PathBuf]) -> anyhow::Result<(Head, Summary)> {
    Profiles::open(paths)?.summary(|_| ())
}

/// Memory is said of pools that are there, and of each once.
fn check(memory: &[Memory], head: &Head) -> Result<(), UsageError> {
    for Memory { pool, .. } in memory {
        let fault = match pool {
            None if head.pools.len() > 1 => format!(
                "--memory is to name one of the pools: {}",
                head.pools.join(", ")
            ),
            Some(pool) if !head.pools.contains(pool) => {
                format!("--memory: the profile has no pool {pool:?}")
            }
            _ if memory.iter().filter(|other| other.pool == *pool).count() > 1 => {
                "--memory: the same pool twice".to_owned()
            }
            _ => continue,
        };
        return Err(UsageError(fault));
    }
    Ok(())
}

fn merge(paths: &[PathBuf], output: &Path) -> anyhow::Result<Merged> {
    let mut profiles = Profiles::open(paths)?;
    let head = profiles.joined.head().to_bytes();
    let head = head.map_err(|error| UsageError(error.to_string()))?;
    let failed = || format!("failed to write {}", output.display());
    // Under its name it is whole, and takes nobody's place.
    let folder = output.parent().filter(|it| !it.as_os_str().is_empty());
    let file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")));
    let mut file = BufWriter::new(file.with_context(failed)?);
    file.write_all(&head).with_context(failed)?;
    let mut records = 0;
    profiles.each(|record| {
        records += 1;
        file.write_all(&record.to_bytes()).with_context(failed)
    })?;
    let file = file.into_inner().map_err(|error| error.into_error());
    let file = file.with_context(failed)?;
    file.persist_noclobber(output)
        .map_err(|error| UsageError(format!("{}: {}", output.display(), error.error)))?;
    Ok(Merged {
        output: output.display().to_string(),
        files: paths.len(),
        records,
        remarks: profiles.remarks(),
    })
}

fn merged(done: &Merged) -> String {
    let Merged {
        output,
        files,
        records,
        remarks,
    } = done;
    let done = format!("{output} has the {records} records of {files} profiles");
    let lines = [done].into_iter().chain(remarks.iter().cloned());
    lines.collect::<Vec<_>>().join("\n")
}

/// Profiles that are read as one.
struct Profiles<'p> {
    paths: &'p [PathBuf],
    joined: Joined<BufReader<File>>,
}

impl<'p> Profiles<'p> {
    fn open(paths: &'p [PathBuf]) -> anyhow::Result<Self> {
        let mut readers = Vec::new();
        for path in paths {
            let file = open(path)?;
            let reader = Reader::new(BufReader::new(file)).map_err(|error| wrong(path, &error))?;
            readers.push(reader);
        }
        let others = readers.split_off(1);
        let first = readers.remove(0);
        let joined = Joined::new(first, others).map_err(|error| of_join(paths, &error))?;
        Ok(Profiles { paths, joined })
    }

    /// Shows each record, the earliest first.
    fn each(&mut self, mut show: impl FnMut(&Record) -> anyhow::Result<()>) -> anyhow::Result<()> {
        loop {
            match self.joined.next_record() {
                Ok(Some(record)) => show(&record)?,
                Ok(None) => return Ok(()),
                Err(error) => return Err(of_join(self.paths, &error).into()),
            }
        }
    }

    /// What all records say; each is shown on the way.
    fn summary(mut self, mut show: impl FnMut(&Record)) -> anyhow::Result<(Head, Summary)> {
        let head = self.joined.head().clone();
        let mut report = Report::new(head.clone());
        self.each(|record| {
            report.add(record);
            show(record);
            Ok(())
        })?;
        let mut summary = report.summary();
        summary.remarks.extend(self.remarks());
        Ok((head, summary))
    }

    /// A sentence for each file that is cut off.
    fn remarks(&self) -> Vec<String> {
        let files = self.paths.iter().zip(self.joined.left_over());
        let cut_off = files.filter(|(_, left_over)| *left_over > 0);
        let remarks = cut_off.map(|(path, left_over)| {
            let path = path.display();
            format!("{path} is cut off: {left_over} bytes at its end are no whole record")
        });
        remarks.collect()
    }
}

fn of_join(paths: &[PathBuf], error: &JoinError) -> UsageError {
    match error {
        JoinError::Sampling(position) | JoinError::Read(position, _) => {
            wrong(&paths[*position], error)
        }
        JoinError::Central(_) | JoinError::Racks => UsageError(error.to_string()),
    }
}

fn open(path: &Path) -> Result<File, UsageError> {
    File::open(path).map_err(|error| wrong(path, &error))
}

fn wrong(path: &Path, error: &dyn std::error::Error) -> UsageError {
    UsageError(format!("{}: {error}", path.display()))
}
