//! Whether what applications were told of a led pool can be.

use super::super::application::Pending;
use super::super::leading::Led;
use super::super::led_report::{LedKind, Tally};
use super::super::{Outcome, World};
use crate::history::{Action, Found, History, Operation, check_acknowledged, check_linearizable};
use evenkeel_schemes::generation::mask;
use evenkeel_schemes::mark;
use evenkeel_schemes::stage::Stage;

impl World {
    /// The end of a run: the change has come to its end, and each key was a register that may lose its value and may be missed. Of
    /// one with copies less is promised.
    pub(in crate::world) fn finish_led(mut self) -> Outcome {
        if let Some(kind) = self.led.as_ref().map(Led::kind) {
            for proxy in self.proxies.iter().filter(|proxy| proxy.process.alive) {
                self.report.led.take_proxy(kind, &proxy.core);
            }
        }
        self.count_changes();
        self.judge_led();
        Outcome {
            report: self.report,
            violations: self.violations,
            history: History {
                operations: self.operations,
                ..History::default()
            },
        }
    }

    fn judge_led(&mut self) {
        if self.violations.is_empty() {
            self.judge_rest();
        }
        let judged = match self.keeps_copies() {
            true => check_acknowledged(&self.operations)
                .map(|values| ("values compared with writes", values))
                .map_err(in_words),
            false => check_linearizable(&without_misses(&self.operations))
                .map(|linear| ("operations put in order", linear.operations))
                .map_err(in_words),
        };
        match judged {
            Ok((name, count)) => self.report.tell(name, count),
            Err(violations) => self.violations.extend(violations),
        }
    }

    /// What was begun has come to its end.
    fn judge_rest(&mut self) {
        let Some(led) = &self.led else {
            return;
        };
        let unrest = match led.kind() {
            LedKind::Pool => return self.judge_done(),
            LedKind::Ring => self.unrest().or_else(|| self.unrest_of_ring()),
            LedKind::Copies => self.unrest(),
            LedKind::Notes | LedKind::Directory => return,
        };
        if let Some(words) = unrest {
            self.fail(words);
        }
    }

    /// What is not as it has to be at the end of a run of plans, if anything: the last one rests, and everybody was told so.
    fn unrest(&self) -> Option<String> {
        let led = self.led.as_ref()?;
        let Some(view) = self.change_view() else {
            return Some("nothing is led".into());
        };
        let told: Vec<_> = led.followed.iter().map(|followed| followed.told).collect();
        let rests = view.goal == view.stage && told.iter().all(|told| *told == Some(led.step));
        let words = || {
            let step = led.step;
            format!(
                "the plan is at {step:?}, and its proxies were told {told:?}: {}",
                view.hint
            )
        };
        (!rests).then(words)
    }

    fn judge_done(&mut self) {
        let Some(led) = &self.led else {
            return;
        };
        let stage = led.stage();
        let told = led.followed.iter().map(|followed| followed.told);
        let told: Vec<_> = told.map(|step| step.map(|step| step.stage)).collect();
        let is_done = stage == Stage::Done && told.iter().all(|t| *t == Some(Stage::Done));
        let led = &mut self.report.led;
        led.tell(LedKind::Pool, Tally::ChangesDone, u64::from(is_done));
        if !is_done {
            self.fail(format!(
                "the pool is at stage {stage} still, and its proxies were told {told:?}"
            ));
        }
    }

    /// An application was answered: uniques that were read before a server began anew fit by chance alone.
    pub(in crate::world) fn forget_old_uniques(&mut self, application: usize, pending: &Pending) {
        let Some(led) = &self.led else {
            return;
        };
        for &operation in &pending.operations {
            let operation = &self.operations[operation];
            if operation.invoked <= led.restarted {
                let key = usize::from(operation.key);
                self.applications[application].versions[key] = None;
            }
        }
    }

    /// An application was shown the unique of an item.
    pub(in crate::world) fn note_unique(&mut self, unique: u64) {
        if self.has_ring() && unique >= mask(1) {
            self.report.led.tell(LedKind::Ring, Tally::MasksShown, 1);
        }
    }

    /// Client flags of an item that an application was shown.
    pub(in crate::world) fn check_no_mark(&mut self, flags: u32) {
        if mark::is_mark(flags) {
            self.fail("an application was shown a mark".into());
        }
    }
}

fn in_words<T: ToString>(violations: Vec<T>) -> Vec<String> {
    violations.iter().map(ToString::to_string).collect()
}

/// A cache may miss whenever it likes.
fn without_misses(operations: &[Operation]) -> Vec<Operation> {
    let mut operations = operations.to_vec();
    for operation in &mut operations {
        if operation.action == Action::Read(Found::Miss) {
            operation.action = Action::Read(Found::Unknown);
        }
    }
    operations
}
