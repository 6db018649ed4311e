//! Servers that come and go (section 3.4 of the paper).

use super::build::{Stretch, merge};
use super::{ADJACENT_SERVERS_MAX, BadChange, Move, Ring, Run, SERVERS_MAX, SLICES_MAX};

impl Ring {
    /// The ring with one server more, at the end of the list: it has the lower (counter-clockwise) half of every run of the `overloaded`
    /// servers of largest cost, under a new generation. `costs` has one number for each server. Up to
    /// [`ADJACENT_SERVERS_MAX`] servers the newcomer and every other are adjacent both ways. O(s log s), and O(n s) for
    /// the new pairs of n servers.
    ///
    /// # Errors
    ///
    /// See [`BadChange`].
    pub fn with_server(&self, costs: &[f64], overloaded: usize) -> Result<Ring, BadChange> {
        self.check_costs(costs)?;
        if self.servers() >= SERVERS_MAX {
            return Err(BadChange::TooManyServers);
        }
        let to = self.servers;
        let shares = self.shares();
        let owns = |server: &usize| shares[*server] > 0;
        let mut by_cost: Vec<usize> = (0..self.servers()).filter(owns).collect();
        by_cost.sort_by(|&a, &b| costs[b].total_cmp(&costs[a]).then(a.cmp(&b)));
        let giving = &by_cost[..overloaded.min(by_cost.len())];
        let runs = self.runs();
        let gives = |run: &&Run| giving.contains(&usize::from(run.owner));
        let halves = runs.iter().filter(gives).filter_map(|run| {
            let part = run.lower(run.width / 2)?;
            Some(Move { part, to })
        });
        let halves: Vec<Move> = halves.collect();
        let mut pairs = self.pairs_to_keep();
        if self.servers() < ADJACENT_SERVERS_MAX {
            for other in by_cost.iter().map(|&other| other as u16) {
                pairs.extend([(other, to), (to, other)]);
            }
        }
        self.changed(to + 1, &halves, pairs)
    }

    /// The ring without the slices of a lost server, which keeps its place in the list and owns nothing. Each of its runs goes to
    /// the two neighbours, inversely to their costs ci and cj: the one that ends where the run begins gets the lower
    /// cj/(ci + cj) of it. All that moves has a new generation: what the lost server held is never read again. O(s).
    ///
    /// # Errors
    ///
    /// See [`BadChange`].
    pub fn without_server(&self, server: u16, costs: &[f64]) -> Result<Ring, BadChange> {
        if server >= self.servers {
            return Err(BadChange::UnknownServer {
                server: usize::from(server),
                servers: self.servers(),
            });
        }
        self.check_costs(costs)?;
        let generation = self.generation + 1;
        let mut stretches = self.stretches();
        let mut first = self.begin();
        // From a slice of somebody else on, so that no run goes over the end.
        let Some(other) = stretches.iter().position(|s| s.owner != server) else {
            let server = usize::from(server);
            return Err(BadChange::LastServer { server });
        };
        let skipped: u64 = stretches[..other].iter().map(|s| s.width).sum();
        first = first.wrapping_add(skipped as u32);
        stretches.rotate_left(other);
        let mut changed: Vec<Stretch> = Vec::with_capacity(stretches.len() + 1);
        let mut behind = stretches[0].owner;
        let mut at = 0;
        while at < stretches.len() {
            let run = stretches[at..].iter().take_while(|s| s.owner == server);
            let (slices, width) = run.fold((0, 0), |(n, width), s| (n + 1, width + s.width));
            at += slices;
            let ahead = stretches.get(at).unwrap_or(&stretches[0]);
            if slices > 0 {
                let [before, after] = [behind, ahead.owner].map(|owner| costs[usize::from(owner)]);
                let lower = match before + after > 0.0 {
                    true => width as f64 * (after / (before + after)),
                    false => width as f64 / 2.0,
                };
                let lower = (lower as u64).min(width);
                let heirs = [(behind, lower), (ahead.owner, width - lower)];
                let inherited = heirs.into_iter().filter(|&(_, width)| width > 0);
                changed.extend(inherited.map(|(owner, width)| Stretch {
                    width,
                    owner,
                    generation,
                }));
            }
            if at < stretches.len() {
                behind = ahead.owner;
                changed.push(*ahead);
                at += 1;
            }
        }
        first = first.wrapping_sub(merge(&mut changed) as u32);
        match changed.len() {
            0..=SLICES_MAX => Ok(Ring::build(self.servers, generation, first, changed)),
            slices => Err(BadChange::TooManySlices { slices }),
        }
    }

    fn check_costs(&self, costs: &[f64]) -> Result<(), BadChange> {
        let bad = costs
            .iter()
            .find(|cost| !(cost.is_finite() && **cost >= 0.0));
        let reason = match bad {
            Some(cost) => format!("{cost} is none"),
            None if costs.len() != self.servers() => "one is wanted for each".to_owned(),
            None => return Ok(()),
        };
        Err(BadChange::BadCosts {
            given: costs.len(),
            servers: self.servers(),
            reason,
        })
    }
}
