//! Adaptive hashing, Figure 7: how much hash space each server begins with.

use super::{Experiment, config};
use crate::args::Mode;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use evenkeel_placement::config::Distribution;
use evenkeel_placement::ring::{HASHES, Ring};

pub(in crate::experiments) const FIGURE_7: Experiment = Experiment {
    name: "adaptive-7",
    title: "The hash space that each server begins with",
    source: "Adaptive hashing, Figure 7",
    modes: &[Mode::Sim],
    run: figure_7,
};

/// The gap that the paper has with five servers and ketama.
const PAPER_GAP: u64 = 381_114_554;

/// Difference of the largest and the least share, in hashes.
fn gap(ring: &Ring) -> u64 {
    let shares = ring.shares();
    let (least, most) = (shares.iter().min(), shares.iter().max());
    most.zip(least).map_or(0, |(most, least)| most - least)
}

/// Sets of names by which ketama is judged.
const NAMES: usize = 1_000;

/// The gaps of ketama with five servers of different names, ascending.
fn gaps(sets: usize) -> anyhow::Result<Vec<u64>> {
    let gaps = (0..sets).map(|set| {
        let mut config = config(Distribution::Ketama, 5);
        for server in &mut config.servers {
            server.host = format!("cache-{set}-{}", server.host);
        }
        Ok(gap(&Ring::adopt(&config)?))
    });
    let mut gaps = gaps.collect::<anyhow::Result<Vec<u64>>>()?;
    gaps.sort_unstable();
    Ok(gaps)
}

fn figure_7(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let mut report = run.report(experiment);
    report.settings = vec![("virtual nodes", Ring::VIRTUAL_NODES.to_string())];
    let mut table = Table::new(
        "Shares of the hash space",
        "servers|placement|slices|least %|most %|gap in hashes",
    );
    for servers in [5, 20] {
        let rings = [
            (
                "ketama",
                Ring::adopt(&config(Distribution::Ketama, servers))?,
            ),
            (
                "ketama_weighted",
                Ring::adopt(&config(Distribution::KetamaWeighted, servers))?,
            ),
            ("even", Ring::even(servers, Ring::VIRTUAL_NODES)?),
        ];
        for (name, ring) in &rings {
            let part = |share: Option<u64>| share.unwrap_or(0) as f64 * 100.0 / HASHES as f64;
            let shares = ring.shares();
            table.row([
                servers.to_string(),
                (*name).to_owned(),
                ring.slices().len().to_string(),
                format!("{:.3}", part(shares.iter().min().copied())),
                format!("{:.3}", part(shares.iter().max().copied())),
                gap(ring).to_string(),
            ]);
        }
        let [ketama, _, even] = rings.map(|(_, ring)| gap(&ring));
        let paper = match servers {
            5 => PAPER_GAP.to_string(),
            _ => "drawn".to_owned(),
        };
        report.claims.push(Claim::new(
            &format!("largest gap of ketama's shares, {servers} servers, in hashes"),
            &paper,
            ketama.to_string(),
            None,
        ));
        report.claims.push(Claim::new(
            &format!("largest gap of the even ring, {servers} servers, in hashes"),
            "the same for all; ours: at most 1",
            even.to_string(),
            Some(even <= 1),
        ));
    }
    report.tables.push(table);
    let sets = run.by_scale([20, NAMES, NAMES, 10 * NAMES]);
    let gaps = gaps(sets)?;
    let larger = gaps.iter().filter(|&&gap| gap >= PAPER_GAP).count();
    let mut table = Table::new(
        "Gaps of ketama with five servers of other names, in hashes",
        "sets of names|least|median|most|as large as the paper's",
    );
    table.row([
        sets.to_string(),
        gaps[0].to_string(),
        gaps[sets / 2].to_string(),
        gaps[sets - 1].to_string(),
        larger.to_string(),
    ]);
    report.tables.push(table);
    report.note(
        "Where ketama's points lie depends on the servers' names: the paper's are not known.",
    );
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Scale;

    #[test]
    fn the_even_ring_is_even_and_ketama_is_not() {
        let run = Run::silent(Scale::Quick, Mode::Sim);
        let report = figure_7(&FIGURE_7, &run).unwrap();
        assert!(report.claims.iter().all(|claim| claim.holds != Some(false)));
        assert!(gap(&Ring::adopt(&config(Distribution::Ketama, 5)).unwrap()) > 1_000_000);
    }
}
