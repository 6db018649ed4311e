//! An experiment, and how it is run.

use crate::args::{Mode, Scale};
use crate::report::{FORMAT_VERSION, Report};
use crate::simulated::Fidelity;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// An experiment.
#[derive(Debug)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows, in one line.
    pub title: &'static str,
    /// Paper and figure.
    pub source: &'static str,
    /// How it can be run; the first unless told otherwise. Real servers come first.
    pub modes: &'static [Mode],
    /// Runs it.
    pub run: fn(&Experiment, &Run) -> anyhow::Result<Report>,
}

/// How an experiment is to be run.
#[derive(Clone, Debug)]
pub struct Run {
    /// How large.
    pub scale: Scale,
    /// Whether somebody has said so: else an experiment may choose.
    pub is_scale_told: bool,
    /// By what.
    pub mode: Mode,
    /// How much of simulated servers is simulated.
    pub fidelity: Fidelity,
    /// Numbers of workers that are compared, if any were told.
    pub workers: Option<Vec<u16>>,
    /// Words in the names of the cells that are measured; none for all.
    pub cells: Vec<String>,
    /// Of everything random in it.
    pub seed: u64,
    /// Folder of the public data sets, if there is one.
    pub data: Option<PathBuf>,
    /// Folder that files are written to, if any are.
    pub out: Option<PathBuf>,
    /// Whether what is there already is not measured again.
    pub resume: bool,
    /// What experiments before it have measured.
    pub measured: Rc<Measured>,
    /// Shows how far it is.
    pub progress: Progress,
}

/// What was measured in this command, so that what several figures show is measured once.
#[derive(Debug, Default)]
pub struct Measured(RefCell<HashMap<String, Box<dyn Any>>>);

impl Measured {
    /// What was measured under a key, if it has been. The key tells all that it depends on, and what it is.
    pub fn get<T: Clone + 'static>(&self, key: &str) -> Option<T> {
        let measured = self.0.borrow();
        measured.get(key)?.downcast_ref().cloned()
    }

    /// Keeps it for later.
    pub fn put<T: Clone + 'static>(&self, key: String, measured: &T) {
        self.0.borrow_mut().insert(key, Box::new(measured.clone()));
    }
}

impl Run {
    /// One that shows nothing, for tests.
    #[cfg(test)]
    pub(crate) fn silent(scale: Scale, mode: Mode) -> Run {
        Run {
            scale,
            is_scale_told: true,
            mode,
            fidelity: Fidelity::Fast,
            workers: None,
            cells: Vec::new(),
            seed: 1,
            data: None,
            out: None,
            resume: false,
            measured: Rc::default(),
            progress: Progress(ProgressBar::hidden()),
        }
    }

    /// One of four values, by the scale: quick, small, paper, beyond.
    pub fn by_scale<T>(&self, values: [T; 4]) -> T {
        let [quick, small, paper, beyond] = values;
        match self.scale {
            Scale::Quick => quick,
            Scale::Small => small,
            Scale::Paper => paper,
            Scale::Beyond => beyond,
        }
    }

    /// The name of a plot of an experiment that is run so, without an ending.
    pub fn plot_name(&self, experiment: &Experiment) -> String {
        format!("{}-{}", experiment.name, self.mode)
    }

    /// An empty report of an experiment that is run so.
    pub fn report(&self, experiment: &Experiment) -> Report {
        Report {
            format: FORMAT_VERSION,
            experiment: experiment.name,
            title: experiment.title,
            source: experiment.source,
            mode: self.mode.to_string(),
            scale: self.scale.to_string(),
            seed: self.seed,
            settings: Vec::new(),
            claims: Vec::new(),
            tables: Vec::new(),
            plots: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// A line that says what is being done; on a terminal only.
#[derive(Clone, Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(name: String) -> Progress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(
            ProgressStyle::with_template("{spinner} {prefix} {elapsed} {msg}")
                .expect("a sound template"),
        );
        bar.set_prefix(name);
        bar.enable_steady_tick(Duration::from_millis(250));
        Progress(bar)
    }

    /// Takes the line away.
    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }

    /// Says what is being done.
    pub fn say(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }
}
