//! Servers that come and go (section 3.4 of the paper).

use super::build::{Stretch, merge};
use super::{ADJACENT_SERVERS_MAX, BadChange, Move, Ring, SERVERS_MAX, SLICES_MAX};

/// What a server gives of its runs that gives all, in [`Ring::with_server`].
pub const GIVES_ALL: u16 = 10_000;

impl Ring {
    /// The ring with a server more: it has the lower (counter-clockwise) part of every run of each other server i, `gives[i]` of
    /// [`GIVES_ALL`], under a new generation. Its place in the list is the next one, or one whose server owns nothing. The paper's newcomer
    /// takes half of every run of the server of largest cost. Up to [`ADJACENT_SERVERS_MAX`] servers the newcomer and every other are adjacent
    /// both ways. O(s log s), and O(n s) for the new pairs of n servers.
    ///
    /// # Errors
    ///
    /// See [`BadChange`].
    pub fn with_server(&self, server: u16, gives: &[u16]) -> Result<Ring, BadChange> {
        let servers = self.servers.max(server.saturating_add(1));
        if usize::from(server) >= SERVERS_MAX {
            return Err(BadChange::TooManyServers);
        }
        let shares = self.shares();
        let owns = |server: u16| shares.get(usize::from(server)).is_some_and(|it| *it > 0);
        if server > self.servers || owns(server) || gives.len() != self.servers() {
            return Err(BadChange::BadNewcomer {
                server: usize::from(server),
                servers: self.servers(),
                gives: gives.len(),
            });
        }
        let runs = self.runs();
        let taken = runs.iter().filter_map(|run| {
            let given = u64::from(gives[usize::from(run.owner)]);
            let part = run.lower(run.width * given / u64::from(GIVES_ALL))?;
            Some(Move { part, to: server })
        });
        let taken: Vec<Move> = taken.collect();
        if taken.is_empty() {
            return Err(BadChange::NothingGiven);
        }
        let mut pairs = self.pairs_to_keep();
        if usize::from(servers) <= ADJACENT_SERVERS_MAX {
            for other in (0..self.servers).filter(|other| owns(*other)) {
                pairs.extend([(other, server), (server, other)]);
            }
        }
        self.changed(servers, &taken, pairs)
    }

    /// The ring without the slices of a server, which keeps its place in the list and owns nothing. Each of its runs goes to
    /// the two neighbours, inversely to their costs ci and cj: the one that ends where the run begins gets the lower
    /// cj/(ci + cj) of it. All that moves has a new generation: what the server held is never read again by its former names. O(s).
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
