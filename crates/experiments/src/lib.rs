//! Experiments: the papers' figures and our own, one command each.
//!
//! ```text
//!  experiments/PAPER/FIGURE.rs ──> trial: rates, curves, knees ──> fleet: real servers │ simulated: simulated ones
//!          └──> report: table beside the paper's claim, JSON, SVG
//! ```
//!
//! An experiment is one file of [`experiments`] and one line in [`experiments::ALL`].

#![forbid(unsafe_code)]

mod args;
mod command;
pub mod experiments;
pub mod fleet;
pub mod report;
mod run;
pub mod simulated;
mod small;
pub mod trial;

pub use args::{ExperimentCommand, Mode, OutputFormat, RunArgs, Scale};
pub use command::execute;
pub use run::{Measured, Progress, Run};
