//! What was measured, in files of its own, so that a run that was cut off goes on where it was.

use super::tables::dashed;
use crate::run::Run;
use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::cell::Cell as Count;
use std::fs;
use std::path::PathBuf;

/// The folder of what was measured, in the one of the report.
const FOLDER: &str = "overload-measured";

/// One file. What it is about is told in it, too: the name of a file says less.
#[derive(Deserialize, Serialize)]
struct File<T> {
    what: String,
    measured: T,
}

/// Keeps what is measured. Nothing is kept of a run that writes no files.
#[derive(Debug)]
pub(super) struct Checkpoint {
    folder: Option<PathBuf>,
    resumes: bool,
    /// The scale: figures of another are others.
    run: String,
    /// How many were taken from there.
    taken: Count<usize>,
}

impl Checkpoint {
    pub fn of(run: &Run) -> Checkpoint {
        Checkpoint {
            folder: run.out.as_ref().map(|out| out.join(FOLDER)),
            resumes: run.resume,
            run: run.scale.to_string(),
            taken: Count::new(0),
        }
    }

    /// How many were not measured, because they had been.
    pub fn taken(&self) -> usize {
        self.taken.get()
    }

    /// What a run before this one has measured, if this one goes on with it; else what is measured now, and kept.
    ///
    /// # Errors
    /// When it cannot be measured, or not be written.
    pub fn or_measure<T: Serialize + DeserializeOwned>(
        &self,
        what: &str,
        seed: u64,
        measure: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let what = format!("{what}, seed {seed}, {}", self.run);
        let path = self
            .folder
            .as_ref()
            .map(|folder| folder.join(format!("{}.json", dashed(&what))));
        if let Some(path) = path.as_ref().filter(|_| self.resumes)
            && let Ok(text) = fs::read(path)
            // Half a file is what a run leaves that was cut off while it wrote.
            && let Ok(file) = serde_json::from_slice::<File<T>>(&text)
            && file.what == what
        {
            self.taken.set(self.taken.get() + 1);
            return Ok(file.measured);
        }
        let file = File {
            measured: measure()?,
            what,
        };
        if let (Some(path), Some(folder)) = (path, &self.folder) {
            fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
            fs::write(&path, serde_json::to_vec(&file)?)
                .with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(file.measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Mode, Scale};
    use tempfile::TempDir;

    fn checkpoint(folder: &TempDir, resume: bool) -> Checkpoint {
        Checkpoint::of(&Run {
            out: Some(folder.path().into()),
            resume,
            ..Run::silent(Scale::Small, Mode::Real)
        })
    }

    #[test]
    fn what_was_measured_is_taken_by_who_goes_on_and_by_nobody_else() {
        let folder = TempDir::new().expect("a folder");
        let measured = |checkpoint: &Checkpoint, what: &str, seed, figure: f64| {
            checkpoint
                .or_measure(what, seed, || Ok(figure))
                .expect("figures")
        };
        assert_eq!(measured(&checkpoint(&folder, false), "a, 5 %", 1, 0.1), 0.1);
        let resumed = checkpoint(&folder, true);
        assert_eq!(measured(&resumed, "a, 5 %", 1, 2.0), 0.1);
        assert_eq!(measured(&resumed, "a, 5 %", 2, 3.0), 3.0, "another seed");
        // Another cell whose file has the same name.
        assert_eq!(measured(&resumed, "a, 5", 1, 4.0), 4.0);
        assert_eq!(resumed.taken(), 1);
        assert_eq!(measured(&checkpoint(&folder, false), "a, 5 %", 1, 5.0), 5.0);
    }

    #[test]
    fn half_a_file_is_measured_again() {
        let folder = TempDir::new().expect("a folder");
        let checkpoint = checkpoint(&folder, true);
        checkpoint.or_measure("a", 1, || Ok(1)).expect("figures");
        let path = fs::read_dir(folder.path().join(FOLDER)).expect("a folder");
        for file in path {
            fs::write(file.expect("a file").path(), "{\"what\":").expect("room");
        }
        assert_eq!(checkpoint.or_measure("a", 1, || Ok(2)).expect("figures"), 2);
    }

    #[test]
    fn nothing_is_kept_of_what_cannot_be_measured() {
        let folder = TempDir::new().expect("a folder");
        let checkpoint = checkpoint(&folder, true);
        let failed = checkpoint.or_measure::<f64>("a", 1, || anyhow::bail!("no"));
        assert!(failed.is_err());
        assert_eq!(
            checkpoint.or_measure("a", 1, || Ok(1.0)).expect("figures"),
            1.0
        );
    }
}
