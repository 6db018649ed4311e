//! `evenkeel sim replay`: the story of one run.

use super::{ClusterArgs, EXIT_FAILED, EXIT_FINE};
use crate::world::{Line, World};
use clap::Args;
use std::cell::RefCell;
use std::io::{self, BufWriter, Write};
use std::rc::Rc;

/// Tells the story of one run, line by line
#[derive(Clone, Debug, Args)]
pub struct ReplayArgs {
    /// The seed
    pub seed: u64,

    /// What is simulated
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Only lines that name a key (or any other text)
    #[arg(long, value_name = "TEXT")]
    pub key: Option<String>,

    /// Only lines that concern a node: s0, p0, app0, coordinator
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,

    /// Only from this virtual second on
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub from: f64,

    /// Only up to this virtual second
    #[arg(long, value_name = "SECONDS", default_value_t = f64::INFINITY)]
    pub to: f64,
}

impl ReplayArgs {
    fn wants(&self, line: &Line) -> bool {
        let at = line.at as f64 / super::SECOND as f64;
        (self.from..=self.to).contains(&at)
            && self.key.as_ref().is_none_or(|key| line.text.contains(key))
            && (self.node.as_ref()).is_none_or(|node| line.nodes.contains(node))
    }
}

/// Runs and prints; the exit code is 0 when all is well and 1 when the run went wrong.
pub fn execute_replay(args: &ReplayArgs) -> u8 {
    let out = Rc::new(RefCell::new(BufWriter::new(io::stdout())));
    let (told, wanted) = (out.clone(), args.clone());
    // A reader that has read enough (`head`) ends the story, not the run.
    let mut is_read = true;
    let listener = Box::new(move |line: &Line| {
        if is_read && wanted.wants(line) {
            is_read = writeln!(told.borrow_mut(), "{line}").is_ok();
        }
    });
    let outcome = World::new(args.cluster.plan(args.seed))
        .told_to(listener)
        .run();
    let (verdict, code) = match outcome.violations.as_slice() {
        [] => ("no violation was found".to_owned(), EXIT_FINE),
        violations => (violations.join("\n"), EXIT_FAILED),
    };
    let mut out = out.borrow_mut();
    // Anyone who has stopped reading has no use for the end either.
    let _ = writeln!(out, "{}\n{verdict}", outcome.report).and_then(|()| out.flush());
    code
}
