//! The social graphs of the paper's requests, and what stands in for them where they are absent.

use crate::run::Run;
use anyhow::Context;
use evenkeel_workload::{Graph, PowerLaw};

/// A graph of the paper, and a generated one like it for where it is absent: of as many users who have friends, with
/// the same mean and largest number of friends.
pub(super) struct Source {
    pub name: &'static str,
    /// In the folder of public data.
    file: &'static str,
    like_it: PowerLaw,
}

/// Both come from SNAP. Slashdot has 948,464 edges, of which 78,303 lead from a user to itself, Epinions 508,837.
pub(super) const SOURCES: [Source; 2] = [
    Source {
        name: "Slashdot",
        file: "snap-slashdot0902/soc-Slashdot0902.txt.gz",
        like_it: PowerLaw {
            users: 78_441,
            exponent: 1.76,
            degree_max: 2_511,
        },
    },
    Source {
        name: "Epinions",
        file: "snap-epinions1/soc-Epinions1.txt.gz",
        like_it: PowerLaw {
            users: 60_341,
            exponent: 1.84,
            degree_max: 1_801,
        },
    },
];

impl Source {
    /// Reads the graph, or generates one and says so in the notes: a smaller one in a quick run.
    pub fn load(&self, run: &Run, notes: &mut Vec<String>) -> anyhow::Result<Graph> {
        let path = run.data.as_ref().map(|folder| folder.join(self.file));
        if let Some(path) = path.filter(|path| path.exists()) {
            return Graph::read(&path).with_context(|| format!("reading {}", self.name));
        }
        let like_it = PowerLaw {
            users: self.like_it.users / run.by_scale([15, 1, 1, 1]),
            ..self.like_it
        };
        notes.push(format!(
            "**A generated graph stands in for {}**, {like_it}: there is no {} in the folder of public data (--data).",
            self.name,
            self.file
        ));
        Ok(like_it.generate(run.seed)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of friends that the stand-ins are to have: those of the paper's graphs.
    #[test]
    fn stand_ins_have_the_means_of_what_they_stand_for() {
        for (source, mean) in SOURCES
            .iter()
            .zip([948_464.0 / 78_441.0, 508_837.0 / 60_341.0])
        {
            let graph = source.like_it.generate(1).unwrap();
            let found = graph.edges() as f64 / graph.users() as f64;
            assert!(
                (found / mean - 1.0).abs() < 0.1,
                "{}: {found} for {mean}",
                source.name
            );
        }
    }
}
