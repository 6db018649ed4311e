//! All experiments. Each is a file here, in a folder for each paper, and a line in [`ALL`].

mod adaptive;
mod agreement;
mod copies;
mod curves;
pub mod locality;
mod lru;
mod mbal;
mod moves;
mod overload;
mod phases;
mod rnb;
mod scale;
mod spore;
mod watch;

pub use crate::run::Experiment;

/// The requests of IBM's Docker registry (Anwar et al., FAST 2018), in the folder of public data: one key has 46 % of them.
const REGISTRY_TRACE: &str = "ibm-docker-registry/ibm-docker-725k.txt.gz";

/// All experiments: the papers' in their order, then our own.
pub const ALL: &[Experiment] = &[
    spore::FIGURE_1,
    spore::FIGURE_6A,
    spore::FIGURE_6B,
    spore::FIGURE_7,
    spore::FIGURE_8,
    spore::FIGURE_9,
    spore::FIGURE_10A,
    spore::FIGURE_10B,
    spore::FINDING,
    spore::OVERHEAD,
    rnb::FIGURE_2,
    rnb::FIGURE_3,
    rnb::FIGURE_6,
    rnb::FIGURE_8,
    rnb::FIGURE_9,
    rnb::FIGURE_10,
    rnb::FIGURE_11,
    rnb::FIGURE_12,
    rnb::FIGURE_13,
    rnb::SCALE,
    rnb::THROUGHPUT,
    mbal::FIGURE_2,
    mbal::FIGURE_5,
    mbal::FIGURE_6,
    mbal::FIGURE_7,
    mbal::FIGURE_8,
    mbal::FIGURE_9,
    mbal::FIGURE_10,
    mbal::FIGURE_11,
    mbal::FIGURE_12,
    mbal::FIGURE_13,
    adaptive::FIGURE_2,
    adaptive::FIGURE_7,
    adaptive::FIGURE_8,
    adaptive::FIGURE_9,
    adaptive::FIGURE_10,
    adaptive::MOVES,
    scale::RING,
    scale::CLUSTER,
    locality::FIGURE_4,
    locality::FIGURE_5,
    locality::FIGURE_6,
    locality::FIGURE_11,
    locality::MEANS,
    locality::SWITCH,
    locality::LOCAL_COPIES,
    agreement::AGREEMENT,
    spore::TARGETS,
    mbal::TARGETS,
    moves::WORKERS,
    moves::CACHELET,
    moves::SERVERS,
    moves::RESTART,
    moves::COORDINATOR,
    overload::OVERLOAD,
    phases::PHASES,
    spore::PLACEMENT,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_each_has_a_mode() {
        let names: BTreeSet<_> = ALL.iter().map(|experiment| experiment.name).collect();
        assert_eq!(names.len(), ALL.len());
        for experiment in ALL {
            assert!(!experiment.modes.is_empty(), "{}", experiment.name);
            assert!(
                experiment
                    .name
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
                "{}",
                experiment.name
            );
        }
    }
}
