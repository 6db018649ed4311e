//! Which lent cachelets go home.
//!
//! When the hot spot is over, the map's placement is as good as any other, and a cachelet at home costs nobody a
//! redirect. So whatever has been away for a lease goes home if its home has room for it, below the load that
//! overloaded workers are relieved down to: there is a gap between that and what makes it leave again.

use evenkeel_types::Instant;

use super::assignment::Assignment;
use super::config::LocalConfig;
use super::input::{HostedCachelet, LocalLimits};

/// The lightest go first, so that many do.
pub(super) fn go_home<'a>(
    start: &Assignment<'a>,
    now: Instant,
    limits: LocalLimits,
    config: &LocalConfig,
) -> Assignment<'a> {
    let away = config.lease.max(config.stay_min);
    let is_over = |c: &HostedCachelet| c.moved_at.is_none_or(|at| now.since(at) >= away);
    let mut end = start.clone();
    let mut due: Vec<usize> = (0..end.cachelets.len())
        .filter(|&i| end.cachelets[i].is_lent() && is_over(&end.cachelets[i]))
        .collect();
    due.sort_by(|&a, &b| {
        let (a, b) = (&end.cachelets[a], &end.cachelets[b]);
        a.load.total_cmp(&b.load).then(a.cachelet.cmp(&b.cachelet))
    });
    let mut moves_left = config.moves_max;
    for i in due {
        let (home, load) = (end.cachelets[i].home, end.cachelets[i].load);
        if moves_left > 0 && end.loads[usize::from(home)] + load <= limits.permissible {
            end.shift(i, home);
            moves_left -= 1;
        }
    }
    end
}
