//! `evenkeel locality`: which architecture pools over racks have, how they go from one to another while they serve, and how their keys stand.

mod check;
mod document;
mod plan;
mod steps;
mod switch;

use crate::ask::{self, CoordinatorArgs, Format};
use anyhow::Context;
use clap::{Subcommand, ValueEnum};
use document::Document;
use evenkeel_coordinator_core::ChangesView;
use evenkeel_proxy::KeyCheckArgs;
use evenkeel_schemes::locality::model::Architecture;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Shows which architecture pools over racks have, and has one take the place of another while the pool serves.
///
/// What a pool is stands in the file of its proxies. A switch edits that file, waits until all proxies work by it, has the coordinator lead
/// them from one architecture to the other, and edits the file again. It can be left at any time: the same command goes on with it.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The coordinator to ask
    #[command(flatten)]
    pub coordinator: CoordinatorArgs,

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
    /// Shows the pools of a file with their architectures and, of a coordinator, how far switches are
    Show {
        /// The file of the proxies
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Has another architecture take the place of a pool's, while it serves
    Switch {
        /// What is switched, and where that stands
        #[command(flatten)]
        pool: PoolArgs,
        /// The architecture
        #[arg(long, value_enum)]
        to: To,
        /// In how many racks items are to be, with --to sdr [default: as in the file, or 2]
        #[arg(long, value_name = "K", value_parser = clap::value_parser!(u8).range(2..))]
        rack_copies: Option<u8>,
        /// The pool that is to have the notes, with --to dir
        #[arg(long, value_name = "POOL")]
        directory: Option<String>,
        /// Other servers than the pool has, as in the file
        #[arg(long, value_name = "SERVER[,SERVER]", value_delimiter = ',')]
        servers: Vec<String>,
        /// Longest time to wait until the former architecture answers less than 0.1 % of what reads find, in seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 86_400)]
        at_most: u64,
        /// Say what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Takes a switch back that has not begun to move items
    Withdraw {
        /// What is switched, and where that stands
        #[command(flatten)]
        pool: PoolArgs,
    },
    /// Says where keys stand, which of them two racks hold, and which notes lead nowhere
    ///
    /// The exit code is 1 where two racks hold a key, a note leads to no item, or a server cannot be asked. A key with a fault is looked at five
    /// times within a second; what each look has shown alike is a fault.
    Check(Box<KeyCheckArgs>),
}

/// A pool, and who serves it.
#[derive(Clone, Debug, clap::Args)]
pub struct PoolArgs {
    /// The pool, with or without the -g and number of the switches before
    pub pool: String,
    /// The file of the proxies. It is edited in place
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// How many proxies have the file, as you know: one that the coordinator does not know of would be left behind
    #[arg(long, value_name = "N")]
    pub proxies: usize,
}

/// What a pool can be switched to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum To {
    /// Items are on a server of the backbone
    Sdc,
    /// Items are in the rack that their key says
    Sds,
    /// Items are in the rack that their key says, with copies in others
    Sdr,
    /// Items are in the rack that wrote them last, and notes in all others
    Snoop,
    /// Items are in the rack that wrote them last, and notes in a directory
    Dir,
}

impl From<To> for Architecture {
    fn from(to: To) -> Self {
        match to {
            To::Sdc => Architecture::Sdc,
            To::Sds => Architecture::Sds,
            To::Sdr => Architecture::Sdr,
            To::Snoop => Architecture::Snoop,
            To::Dir => Architecture::Dir,
        }
    }
}

/// A pool of a file.
#[derive(Debug, Serialize)]
struct PoolRow<'a> {
    pool: &'a str,
    /// Absent for a pool without one.
    architecture: Option<&'a str>,
    generation: u64,
    /// The pool whose place it takes.
    from: Option<&'a str>,
    stage: Option<String>,
    /// In warming: of a million reads that found something, this many were answered by the former pool.
    former_hits_ppm: Option<u32>,
}

/// Does what is wanted, and prints what came of it.
///
/// # Errors
/// When the file or an option cannot be used, or the coordinator refuses or does not answer.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        What::Show { config } => show(args, config),
        What::Switch {
            pool,
            to,
            rack_copies,
            directory,
            servers,
            at_most,
            dry_run,
        } => {
            let wish = document::Wish {
                architecture: (*to).into(),
                rack_copies: *rack_copies,
                directory: directory.clone(),
                servers: servers.clone(),
                coordinator: args.coordinator.address(),
            };
            let client = args.coordinator.client()?;
            match dry_run {
                true => switch::dry_run(pool, &wish, args.format),
                false => switch::switch(&client, pool, &wish, *at_most, args.format),
            }
        }
        What::Check(of) => check::run(of, args.format),
        What::Withdraw { pool } => switch::withdraw(&args.coordinator.client()?, pool, args.format),
    }
}

/// Reads the file of proxies.
fn read(path: &Path) -> anyhow::Result<Document> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("failed to read {}", path.display()))?;
    Ok(Document::read(&text)?)
}

fn show(args: &Args, config: &Path) -> anyhow::Result<()> {
    let document = read(config)?;
    let changes = match args.coordinator.coordinator {
        Some(_) => args.coordinator.client()?.changes()?,
        None => ChangesView { changes: vec![] },
    };
    let names = document.names().into_iter();
    let rows: Vec<_> = names.map(|pool| row(&document, &changes, pool)).collect();
    args.format.print(&rows, |rows| table(rows))
}

fn row<'a>(document: &'a Document, changes: &ChangesView, pool: &'a str) -> PoolRow<'a> {
    let change = changes.changes.iter().find(|change| change.pool == *pool);
    let from = document.said(pool, "warm_from");
    PoolRow {
        pool,
        architecture: document.said(pool, "architecture"),
        generation: document.generation(pool),
        from,
        stage: change
            .filter(|_| from.is_some())
            .map(|it| it.stage.to_string()),
        former_hits_ppm: change.and_then(|it| it.former_hits_ppm),
    }
}

fn table(rows: &[PoolRow<'_>]) -> String {
    let rows = rows.iter().map(|row| {
        let share = row.former_hits_ppm;
        let share = share.map(|ppm| format!("{:.2} %", f64::from(ppm) / 10_000.0));
        [
            row.pool.to_owned(),
            row.architecture.unwrap_or("-").to_owned(),
            row.generation.to_string(),
            row.from.unwrap_or("-").to_owned(),
            row.stage.clone().unwrap_or_else(|| "-".to_owned()),
            share.unwrap_or_else(|| "-".to_owned()),
        ]
    });
    let heads = "pool|architecture|generation|takes the place of|stage|hits of that one";
    ask::plain_table(heads.split('|'), rows).to_string()
}
