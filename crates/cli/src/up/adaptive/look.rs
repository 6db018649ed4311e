//! What a slot has shown, as a row of 80 columns and as JSON.

use evenkeel_coordinator_core::{RingView, Stage};
use serde::Serialize;
use std::time::Duration;

/// A slot. The names are a contract with scripts.
#[derive(Clone, Debug, Serialize)]
pub struct Look {
    /// Of load until then.
    pub seconds: f64,
    /// The newest plan. The ring begins with plan 1.
    pub plan: u64,
    /// How far that is.
    pub stage: Stage,
    /// The most loaded server by the mean of all.
    pub max_by_mean: f64,
    /// Each server.
    pub servers: Vec<ServerLook>,
}

/// A server in a slot.
#[derive(Clone, Debug, Serialize)]
pub struct ServerLook {
    /// Its name.
    pub name: String,
    /// Its part of the hash space, from 0 to 1.
    pub share: f64,
    /// Small requests that it carried, in a second.
    pub load: f64,
}

impl Look {
    /// What the last slot of this ring has shown; nothing where too few proxies have told, or nothing was asked.
    pub fn of(ring: &RingView, elapsed: Duration) -> Option<Look> {
        let slot = ring.slot.as_ref()?;
        let servers = ring.servers.iter().zip(&slot.servers);
        Some(Look {
            seconds: elapsed.as_secs_f64(),
            plan: ring.change.ring.as_ref()?.number,
            stage: ring.change.stage,
            max_by_mean: slot.max_by_mean?,
            servers: servers
                .map(|(server, carried)| ServerLook {
                    name: server.name.clone(),
                    share: server.share,
                    load: carried.load,
                })
                .collect(),
        })
    }

    /// The heads of its row.
    pub fn heads(&self) -> String {
        let names = self.servers.iter().map(|it| format!("{:>11}", it.name));
        format!("time   plan      busiest{}", names.collect::<String>())
    }

    /// Its row: of each server the share of the hash space, and what it carries a second.
    pub fn row(&self) -> String {
        let server = |it: &ServerLook| format!("{:>5.1}%{:>5.0}", it.share * 100.0, it.load);
        format!(
            "{:>4} s {:>2} {:<8}{:>6.2}{}",
            self.seconds as u64,
            self.plan,
            self.stage.to_string(),
            self.max_by_mean,
            self.servers.iter().map(server).collect::<String>()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_fits_a_line_under_its_heads() {
        let server = |number: u32| ServerLook {
            name: format!("m{number}"),
            share: 0.2,
            load: 1000.4,
        };
        let look = Look {
            seconds: 65.3,
            plan: 12,
            stage: Stage::Quiesced,
            max_by_mean: 1.054,
            servers: (1..=5).map(server).collect(),
        };
        let (heads, row) = (look.heads(), look.row());
        assert_eq!(row.len(), heads.len(), "{heads}\n{row}");
        assert!(row.len() <= 80, "{row}");
        assert!(
            row.starts_with("  65 s 12 quiesced  1.05 20.0% 1000"),
            "{row}"
        );
    }
}
