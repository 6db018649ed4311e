//! What the suite found out, beside what it was meant to: a table and JSON.

use super::goal::{Goal, Unit};
use super::peer::Peer;
use crate::report::median;
use crate::table::framed;
use serde::Serialize;
use std::fmt::Write;

/// Layout of the JSON; it grows with every change that a reader could stumble over.
const JSON_VERSION: u32 = 1;

/// Result of a whole suite.
#[derive(Clone, Debug, Serialize)]
pub struct SuiteReport {
    /// Layout of this document.
    pub version: u32,
    /// What was compared.
    pub peers: Vec<PeerReport>,
    /// How it was measured.
    pub settings: SuiteSettings,
    /// One for each line of the table.
    pub rows: Vec<RowReport>,
    /// What could not be measured, and why.
    pub notes: Vec<String>,
    /// Whose figures the table divides by whose.
    #[serde(skip)]
    compared: Compared,
}

/// Whose figures a table divides by whose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compared {
    pub(crate) ours: &'static [Peer],
    pub(crate) theirs: &'static [Peer],
}

impl Compared {
    /// Servers.
    pub(crate) const SERVERS: Compared = Compared {
        ours: &[Peer::EvenkeelEpoll, Peer::EvenkeelUring],
        theirs: &[Peer::Memcached, Peer::Echo],
    };

    /// Proxies.
    pub(crate) const PROXIES: Compared = Compared {
        ours: &[Peer::EvenkeelProxy],
        theirs: &[Peer::BuiltinProxy, Peer::Twemproxy],
    };

    /// The load generator.
    pub(crate) const GENERATOR: Compared = Compared {
        ours: &[Peer::Generator, Peer::GeneratorDrawing],
        theirs: &[Peer::MinimalLoop],
    };
}

/// How it was measured.
#[derive(Clone, Debug, Serialize)]
pub struct SuiteSettings {
    /// The processor's name.
    pub processor: String,
    /// Cores that could be used.
    pub cores: usize,
    /// Core of the server where it has one worker.
    pub server_core: usize,
    /// Cores of the generator's threads.
    pub generator_cores: Vec<usize>,
    /// Measurements of each peer in each row.
    pub rounds: usize,
    /// Length of a measurement.
    pub seconds: f64,
    /// Number of keys.
    pub keys: u64,
    /// Length of every key.
    pub key_size_bytes: usize,
    /// Length of every value.
    pub value_size_bytes: usize,
    /// Load of the machine, over one minute, when the suite began: near 0 where it was quiet.
    pub load_average_before: f64,
    /// The same when it ended; the suite itself is part of it.
    pub load_average_after: f64,
}

/// A server that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct PeerReport {
    /// Its key in the rows.
    pub id: Peer,
    /// What it is, with its version.
    pub name: String,
}

/// One quantity, of every peer.
#[derive(Clone, Debug, Serialize)]
pub struct RowReport {
    /// Stable name.
    pub id: String,
    /// In words.
    pub what: String,
    /// Unit of the figures.
    pub unit: Unit,
    /// Each peer that was measured.
    pub results: Vec<PeerResult>,
    /// What is asked of it.
    pub verdicts: Vec<Verdict>,
}

/// A peer's figures in a row.
#[derive(Clone, Debug, Serialize)]
pub struct PeerResult {
    /// Whose they are.
    pub peer: Peer,
    /// The middle of the rounds.
    pub median: f64,
    /// Each round.
    pub rounds: Vec<f64>,
    /// Processor time of the server for each request, the median of the rounds, in microseconds;
    /// nothing where requests were not counted.
    pub server_cpu_us_per_request: Option<f64>,
    /// The largest share of its processors that the generator used in a round. Near 1 the generator
    /// may be what limited the throughput.
    pub generator_cpu_share_max: Option<f64>,
}

impl PeerResult {
    /// The result of rounds that have nothing but a figure.
    pub(crate) fn of(peer: Peer, rounds: Vec<f64>) -> Self {
        PeerResult {
            peer,
            median: median(rounds.clone()),
            rounds,
            server_cpu_us_per_request: None,
            generator_cpu_share_max: None,
        }
    }
}

/// A goal, and how far it was reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Who is to reach it.
    pub peer: Peer,
    /// Whom it is compared with; nothing where the goal is a bound on the figure itself.
    pub against: Option<Peer>,
    /// The peer's median in terms of the other's, so that more is better; or the median.
    pub reached: f64,
    /// At least this much, or at most where it is a bound in a unit of which less is better.
    pub target: f64,
    /// Whether it was reached.
    pub met: bool,
}

impl RowReport {
    pub(crate) fn new(
        id: &str,
        what: String,
        unit: Unit,
        results: Vec<PeerResult>,
        goals: &[Goal],
    ) -> Self {
        let mut row = RowReport {
            id: id.to_owned(),
            what,
            unit,
            results,
            verdicts: Vec::new(),
        };
        row.verdicts = goals.iter().filter_map(|goal| row.judge(*goal)).collect();
        row
    }

    /// A peer's median.
    pub(crate) fn median_of(&self, peer: Peer) -> Option<f64> {
        let result = self.results.iter().find(|result| result.peer == peer)?;
        Some(result.median)
    }

    /// How many times another's figure a peer has, so that more is better.
    fn times(&self, peer: Peer, against: Peer) -> Option<f64> {
        let (mine, theirs) = (self.median_of(peer)?, self.median_of(against)?);
        let ratio = if self.unit.more_is_better() {
            mine / theirs
        } else {
            theirs / mine
        };
        ratio.is_finite().then_some(ratio)
    }

    /// `None` where somebody was not measured.
    fn judge(&self, goal: Goal) -> Option<Verdict> {
        let times = |peer, against, reached, target| Verdict {
            peer,
            against: Some(against),
            reached,
            target,
            met: reached >= target,
        };
        Some(match goal {
            Goal::Times(peer, against, target) => {
                times(peer, against, self.times(peer, against)?, target)
            }
            Goal::TimesBest(peer, others, target) => {
                let ratios = others.iter().filter_map(|&other| {
                    let reached = self.times(peer, other)?;
                    Some((other, reached))
                });
                let (best, reached) = ratios.min_by(|a, b| a.1.total_cmp(&b.1))?;
                times(peer, best, reached, target)
            }
            Goal::Bound(peer, target) => {
                let reached = self.median_of(peer)?;
                Verdict {
                    peer,
                    against: None,
                    reached,
                    target,
                    met: if self.unit.more_is_better() {
                        reached >= target
                    } else {
                        reached <= target
                    },
                }
            }
        })
    }

    /// The verdicts in words, one a line.
    fn verdict_text(&self) -> String {
        let mut text = String::new();
        for verdict in &self.verdicts {
            let met = if verdict.met { "met" } else { "short" };
            let line = match verdict.against {
                Some(against) => format!(
                    "{:.2}× {} of ≥ {}",
                    verdict.reached,
                    against.short(),
                    (verdict.target * 100.0).round() / 100.0
                ),
                None => {
                    let sign = if self.unit.more_is_better() {
                        "≥"
                    } else {
                        "≤"
                    };
                    let bound = self.unit.show(verdict.target);
                    format!("{sign} {bound} {}", self.unit.short())
                }
            };
            let whose = if verdict.peer == Peer::EvenkeelUring {
                "io_uring "
            } else {
                ""
            };
            if !text.is_empty() {
                text.push('\n');
            }
            let _ = write!(text, "{whose}{line}: {met}");
        }
        text
    }

    /// One line for people who wait.
    pub(crate) fn progress(&self) -> String {
        let mut line = format!("{} ({}):", self.what, self.unit.short());
        for result in &self.results {
            let _ = write!(
                line,
                "  {} {}",
                result.peer.short(),
                self.unit.show(result.median)
            );
        }
        line
    }
}

impl SuiteReport {
    pub(crate) fn new(
        peers: Vec<PeerReport>,
        settings: SuiteSettings,
        rows: Vec<RowReport>,
        notes: Vec<String>,
        compared: Compared,
    ) -> Self {
        SuiteReport {
            compared,
            version: JSON_VERSION,
            peers,
            settings,
            rows,
            notes,
        }
    }

    /// The report as JSON, units in the names or beside the figures.
    ///
    /// # Errors
    /// Never in practice; serialising has an error type.
    pub fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    /// The report for people: medians of each peer, ratios, goals.
    pub fn to_table(&self) -> String {
        let peers = self.peers.iter().map(|peer| peer.id.short().to_owned());
        let theirs = self.compared.theirs.iter();
        let theirs = theirs.map(|peer| format!("÷ {}", peer.short()));
        let heads: Vec<String> = peers.chain(theirs).collect();
        let heads = format!("medians|unit|{}|generator|goal", heads.join("|"));
        let rows = self.rows.iter().map(|row| self.cells(row));
        let table = framed(&heads, rows, 2..2 + self.peers.len() + 3);
        let mut text = format!("{table}\n");
        for peer in &self.peers {
            let _ = writeln!(text, "{}: {}", peer.id.short(), peer.name);
        }
        let settings = &self.settings;
        let _ = writeln!(
            text,
            "{} ({} cores), server on core {}, generator on {:?}; {} rounds of {} s, interleaved; {} keys \
             of {} B, values of {} B; load average {:.1} before, {:.1} after",
            settings.processor,
            settings.cores,
            settings.server_core,
            settings.generator_cores,
            settings.rounds,
            settings.seconds,
            settings.keys,
            settings.key_size_bytes,
            settings.value_size_bytes,
            settings.load_average_before,
            settings.load_average_after,
        );
        let ours: Vec<_> = self.compared.ours.iter().map(|peer| peer.short()).collect();
        let _ = writeln!(
            text,
            "Ratios are ours over theirs ({}), turned so that more is better. \"generator\" is the\n\
             largest share of its cores that it used against ours: near 100 % they could have done more.",
            ours.join(" / ")
        );
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        let verdicts: Vec<&Verdict> = self.rows.iter().flat_map(|row| &row.verdicts).collect();
        let met = verdicts.iter().filter(|verdict| verdict.met).count();
        let _ = write!(text, "{met} of {} goals met", verdicts.len());
        text
    }

    fn cells(&self, row: &RowReport) -> Vec<String> {
        let mut cells = vec![row.what.clone(), row.unit.short().to_owned()];
        for peer in &self.peers {
            let median = row.median_of(peer.id);
            cells.push(median.map_or_else(String::new, |median| row.unit.show(median)));
        }
        for &against in self.compared.theirs {
            let ratios: Vec<String> = (self.compared.ours.iter())
                .filter_map(|&peer| row.times(peer, against))
                .map(|ratio| format!("{ratio:.2}"))
                .collect();
            cells.push(ratios.join(" / "));
        }
        let busy = row
            .results
            .iter()
            .filter(|result| result.peer.is_ours())
            .filter_map(|result| result.generator_cpu_share_max)
            .max_by(f64::total_cmp);
        cells.push(busy.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0)));
        cells.push(row.verdict_text());
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(unit: Unit, ours: f64, theirs: f64, goals: &[Goal]) -> RowReport {
        let results = vec![
            PeerResult::of(Peer::EvenkeelEpoll, vec![ours]),
            PeerResult::of(Peer::Memcached, vec![theirs]),
        ];
        RowReport::new("row", "a row".into(), unit, results, goals)
    }

    #[test]
    fn ratios_are_turned_so_that_more_is_better() {
        let goal = [Goal::Times(Peer::EvenkeelEpoll, Peer::Memcached, 2.0)];
        let more = row(Unit::RequestsPerSecond, 300.0, 100.0, &goal);
        assert_eq!(more.verdicts[0].reached, 3.0);
        assert!(more.verdicts[0].met);
        let slower = row(Unit::Microseconds, 300.0, 100.0, &goal);
        assert!((slower.verdicts[0].reached - 1.0 / 3.0).abs() < 1e-9);
        assert!(!slower.verdicts[0].met);
    }

    #[test]
    fn bounds_are_upper_where_less_is_better() {
        let bound = [Goal::Bound(Peer::EvenkeelEpoll, 4096.0)];
        assert!(row(Unit::Bytes, 4095.0, 0.0, &bound).verdicts[0].met);
        assert!(!row(Unit::Bytes, 4097.0, 0.0, &bound).verdicts[0].met);
        assert!(row(Unit::Ratio, 4097.0, 0.0, &bound).verdicts[0].met);
    }

    #[test]
    fn who_was_not_measured_is_not_judged() {
        let goals = [
            Goal::Times(Peer::EvenkeelUring, Peer::Memcached, 1.0),
            Goal::Times(Peer::EvenkeelEpoll, Peer::Echo, 1.0),
        ];
        assert!(row(Unit::Items, 1.0, 1.0, &goals).verdicts.is_empty());
    }
}
