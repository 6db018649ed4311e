//! SPORE (Hong and Thottethodi, SoCC 2013): what uneven popularity costs, and what replicating hot keys takes away
//! of it.
//!
//! Every run has the *ideal* case too; [`curves`](super::curves) says what that is and how all are measured.
//! A figure is a file here. Replication with atomic writes (SE-SPORE, Figure 7) is a setting like any other.

mod figure_1;
mod figure_10;
mod figure_6;
mod figure_7;
mod figure_8;
mod figure_9;
mod finding;
mod overhead;
mod placement;
mod recovery;
mod space;
mod targets;

pub(super) use figure_1::FIGURE_1;
pub(super) use figure_6::{FIGURE_6A, FIGURE_6B};
pub(super) use figure_7::FIGURE_7;
pub(super) use figure_8::FIGURE_8;
pub(super) use figure_9::FIGURE_9;
pub(super) use figure_10::{FIGURE_10A, FIGURE_10B};
pub(super) use finding::FINDING;
pub(super) use overhead::OVERHEAD;
pub(super) use placement::PLACEMENT;
pub(super) use targets::TARGETS;

use super::Experiment;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Mode, Scale};
    use crate::report::{Claim, Report};
    use crate::run::Run;

    fn simulated(experiment: &Experiment) -> Report {
        let run = Run::silent(Scale::Quick, Mode::Sim);
        (experiment.run)(experiment, &run).expect("it can be simulated")
    }

    /// Virtual time is the same on every machine: what holds here always does. How near a setting comes to perfect
    /// balance, or to another, is for larger scales to say.
    #[test]
    fn what_the_paper_claims_of_one_setting_beside_another_holds() {
        let figures = [
            FIGURE_1, FIGURE_6A, FIGURE_6B, FIGURE_7, FIGURE_8, FIGURE_9, FIGURE_10A, FIGURE_10B,
            FINDING, OVERHEAD, PLACEMENT,
        ];
        for experiment in figures {
            let report = simulated(&experiment);
            println!("{}", report.to_text());
            let is_judged = |claim: &&Claim| {
                claim.holds.is_some()
                    && !claim.what.starts_with("balance efficiency")
                    && !claim.what.contains("what part of")
            };
            let judged: Vec<_> = report.claims.iter().filter(is_judged).collect();
            assert!(!judged.is_empty(), "{}", experiment.name);
            for claim in judged {
                let (name, what, ours) = (experiment.name, &claim.what, &claim.ours);
                assert_eq!(claim.holds, Some(true), "{name}: {what}: {ours}");
            }
            for plot in &report.plots {
                evenkeel_bench::plot::to_svg(plot).expect("it can be drawn");
            }
        }
    }

    #[test]
    fn a_simulated_figure_is_the_same_again() {
        let json = || simulated(&FIGURE_6A).to_json().expect("it has a form");
        assert_eq!(json(), json());
    }

    /// Figure 7 shows what Figure 6a has measured already.
    #[test]
    fn what_figures_share_is_measured_once() {
        let run = Run::silent(Scale::Quick, Mode::Sim);
        (FIGURE_6A.run)(&FIGURE_6A, &run).expect("it can be simulated");
        let report = (FIGURE_7.run)(&FIGURE_7, &run).expect("it can be simulated");
        let fresh = simulated(&FIGURE_7);
        assert_eq!(report.tables[0].rows, fresh.tables[0].rows);
        assert!(report.notes[..] != fresh.notes[..], "it says so");
    }
}
