//! What Prometheus is shown. Each metric is declared here, once, with its meaning.

use evenkeel_control::exposition::{Samples, Text};
use evenkeel_control::families;
use evenkeel_types::Instant;
use std::fmt::Display;

use crate::elector::ElectionView;
use crate::shared_core::Tally;
use evenkeel_coordinator_core::election::Phase;
use evenkeel_coordinator_core::plans::{PlanCounts, PlanMode, PlanState, PlansView};
use evenkeel_coordinator_core::{
    ChangeCounts, ChangesView, ClusterHotKeysView, ClusterLoadsView, CoordinatorCore, Counters,
    LoadOrder, MigrationCounts, Mode, ProxiesView, RingsView, ScaleCounts, ScalesView, ServersView,
    Stage, WorkerLoadView,
};

/// Content type of the text format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the names of metrics begin with.
const PREFIX: &str = "evenkeel_coordinator_";

families! {
    CORE of CoordinatorCore {
        epoch => gauge, "Epoch of the newest cluster map; 0 before the first.", |core, to| to.one(core.epoch());
        cachelets[state] => gauge, "Cachelets, by whether a worker owns them.", |core, to| {
            let all = core.map().map_or(0, |map| map.document().cachelets.len());
            let (in_transit, quarantined) = (core.cachelets_in_transit(), core.quarantined().len());
            let owned = all - in_transit - quarantined;
            to.by([("owned", owned), ("in_transit", in_transit), ("quarantined", quarantined)]);
        };
        mean_worker_load_rps => gauge, "Mean requests per second of a worker, absurd reports clamped.",
            |core, to| to.one(core.mean_worker_load());
        hot_keys_enabled => gauge, "Whether replication of hot keys is on (1) or off (0).",
            |core, to| to.one(u8::from(core.settings().hot_keys == Mode::On));
        hot_keys_mode[mode] => gauge, "1 for the mode of replication of hot keys that is chosen.", |core, to| {
            let chosen = core.settings().hot_keys;
            Mode::ALL.iter().for_each(|mode| to.of(&[&mode.to_string()], u8::from(*mode == chosen)));
        };
        hot_key_events[outcome] => counter, "Promotions and retirements of keys, by what became of the news of them.", |core, to| {
            let events = core.hot_key_event_counts();
            to.by([("heard", events.heard), ("overwritten", events.overwritten)]);
            to.by([("missed", events.missed), ("unusable", events.unusable)]);
        };
        load_news[outcome] => counter, "Heartbeats that told of the loads of cachelets, by whether that made sense.", |core, to| {
            let news = core.load_news_counts();
            to.by([("heard", news.heard), ("unusable", news.unusable)]);
        };
        migrations => gauge, "Cachelets that are moving between servers now.", |core, to| to.one(core.migrations_under_way());
    }
    SERVERS of ServersView {
        servers[state] => gauge, "Servers that ever registered, by whether they are up.", |view, to| {
            let up = view.servers.iter().filter(|server| server.up).count();
            to.by([("up", up), ("down", view.servers.len() - up)]);
        };
        servers_asking_for_moves => gauge, "Servers that are overloaded and cannot help themselves.",
            |view, to| to.one(view.servers.iter().filter(|server| server.asks_for_moves).count());
    }
    PROXIES of ProxiesView {
        proxies[state] => gauge, "Proxies that are members, by whether they are up.", |view, to| {
            let up = view.proxies.iter().filter(|proxy| proxy.up).count();
            to.by([("up", up), ("down", view.proxies.len() - up)]);
        };
    }
    CHANGES of ChangesView {
        pool_changes[stage] => gauge, "Pools that pass from former servers to their own, rings, and pools that keep copies, by how far their change or plan is.", |view, to| {
            let count = |stage| view.changes.iter().filter(|change| change.stage == stage).count();
            to.by(Stage::ALL.map(|stage| (stage.as_str(), count(stage))));
        };
        pool_changes_under_way => gauge, "Those of them that are to go on.",
            |view, to| to.one(view.changes.iter().filter(|change| change.stage != change.goal).count());
        pool_change_awaited => gauge, "Proxies that have not acknowledged the present step of a pool, of all pools together.",
            |view, to| to.one(view.changes.iter().map(|change| change.waits_for.len()).sum::<usize>());
    }
    RINGS of RingsView {
        ring_load_max_over_mean[pool] => gauge, "The busiest server of a ring by the mean of all, in the last slot that enough proxies have told of.",
            |view, to| for ring in &view.rings {
                let max = ring.slot.as_ref().and_then(|slot| slot.max_by_mean);
                max.into_iter().for_each(|max| to.of(&[&ring.change.pool], max));
            };
        ring_server_load_rps[pool, server] => gauge, "What a server of a ring carries, in small requests per second.",
            |view, to| for ring in &view.rings {
                let loads = ring.slot.iter().flat_map(|slot| &slot.servers);
                let servers = ring.servers.iter().zip(loads);
                servers.for_each(|(server, load)| to.of(&[&ring.change.pool, &server.name], load.load));
            };
        ring_server_unreached[pool, server] => gauge, "Proxies that do not reach a server of a ring.",
            |view, to| for ring in &view.rings {
                let unreached = ring.unreached.iter();
                unreached.for_each(|it| to.of(&[&ring.change.pool, &it.server], it.proxies));
            };
        ring_server_share[pool, server] => gauge, "The part of the hash space that a server of a ring has.",
            |view, to| for ring in &view.rings {
                let servers = ring.servers.iter();
                servers.for_each(|server| to.of(&[&ring.change.pool, &server.name], server.share));
            };
    }
    CHANGE_COUNTS of ChangeCounts {
        pool_steps => counter, "Steps of pools' changes that were published.", |counts, to| to.one(counts.steps);
        pool_changes_withdrawn[by] => counter,
            "Changes of pools that were taken back: by an operator, or because proxies did not acknowledge in time that requests wait.",
            |counts, to| to.by([("operator", counts.withdrawn), ("unacknowledged", counts.unacknowledged)]);
        ring_plans => counter, "Plans by which parts of rings change hands that were begun.", |counts, to| to.one(counts.plans);
        ring_servers_lost => counter, "Servers of rings that no proxy reached, and whose part was given to their neighbours.",
            |counts, to| to.one(counts.servers_lost);
        ring_copied_keys[outcome] => counter, "Keys of rings that were copied, and those that could not be as a server had too much to do.",
            |counts, to| to.by([("found", counts.copied.found), ("refused", counts.copied.refused)]);
        bundles_on => counter, "Times that copies of a pool were ordered to be switched on.", |counts, to| to.one(counts.bundles_on);
        ring_reports_void => counter, "Counts of what rings carry that cannot be true, which were not used.",
            |counts, to| to.one(counts.ring_reports_void);
        pool_steps_taken_over => counter, "Steps that proxies were told and this coordinator did not know of.",
            |counts, to| to.one(counts.taken_over);
    }
    SCALES of ScalesView {
        scale_servers[pool, state] => gauge, "Servers of a ring or a cluster that is scaled: those that are to stay, and those that there will be, or would be where it only observes.",
            |view, to| for scale in &view.pools {
                to.of(&[&scale.pool, "there"], scale.servers);
                to.of(&[&scale.pool, "wanted"], scale.wanted);
            };
        scale_server_hours[pool, part] => gauge, "Hours that servers of a ring or a cluster that is scaled have run; that they would have run more, by what was only observed; and fewer than if there had always been as many as at most.",
            |view, to| for scale in &view.pools {
                to.of(&[&scale.pool, "run"], scale.server_hours);
                to.of(&[&scale.pool, "observed"], scale.would_hours);
                to.of(&[&scale.pool, "saved"], scale.saved_hours);
            };
    }
    SCALE_COUNTS of ScaleCounts {
        scale_decisions[outcome] => counter, "Decisions about numbers of servers that have come to their end, by what came of them.",
            |counts, to| {
                to.by([("added", counts.added), ("removed", counts.removed), ("kept", counts.kept)]);
                to.by([("failed", counts.failed), ("observed", counts.observed)]);
            };
    }
    HOT_KEYS of ClusterHotKeysView {
        hot_keys[state] => gauge, "Hot keys by state: with replicas, or observed only.", |view, to| {
            let replicated = view.keys.iter().filter(|it| it.key.gamma > 0).count();
            let observed = view.keys.iter().filter(|it| !it.key.proposed.is_empty()).count();
            to.by([("replicated", replicated), ("observed", observed)]);
        };
        load_max_over_mean[replicas] => gauge,
            "Largest estimated load of a worker by the mean: without replicas, with those there are, and with observed ones.",
            |view, to| to.by([
                ("none", view.without_replicas.max_over_mean),
                ("present", view.with_replicas.max_over_mean),
                ("observed", view.with_observed.max_over_mean),
            ]);
    }
    // Not for each cachelet, of which there may be some thousand with a dozen numbers each that move from worker to
    // worker: `/api/v1/cachelets` has those.
    LOADS of ClusterLoadsView {
        worker_load_rps[server, worker, part] => gauge,
            "What a worker serves, in small requests per second: of its own cachelets, of replicas for others, of keys whose home is elsewhere; and what others serve of its hot keys.",
            |view, to| for worker in &view.workers {
                of_worker(to, worker, "own", worker.load);
                of_worker(to, worker, "replicas", worker.replica_load);
                of_worker(to, worker, "diverted", worker.diverted_load);
            };
        worker_busy[server, worker] => gauge, "Part of its time that a worker does not sleep.",
            |view, to| view.workers.iter().for_each(|worker| of_worker(to, worker, "", worker.busy));
        worker_memory_bytes[server, worker] => gauge, "Bytes of its server's memory limit that a worker holds.",
            |view, to| view.workers.iter().for_each(|worker| of_worker(to, worker, "", worker.memory_bytes));
        worker_cachelets[server, worker, state] => gauge,
            "Cachelets of a worker, by whether its server had room to tell of their loads.",
            |view, to| for worker in &view.workers {
                of_worker(to, worker, "told", worker.cachelets);
                of_worker(to, worker, "left_out", worker.left_out);
            };
    }
    MIGRATIONS of MigrationCounts {
        migrations_begun => counter, "Moves of cachelets between servers that were ordered.", |counts, to| to.one(counts.begun);
        migrations_ended[end] => counter, "Moves of cachelets between servers that are over, by what came of them.",
            |counts, to| to.by(counts.ended.iter().map(|(end, count)| (end.as_str(), count)));
        migrated_items => counter, "Items that were copied in moves that are over.", |counts, to| to.one(counts.items);
        migrated_bytes => counter, "Bytes that were copied in moves that are over.", |counts, to| to.one(counts.bytes);
        migration_reports_odd => counter, "Reports on moves that are not under way, or from somebody who has no say in them.",
            |counts, to| to.one(counts.odd_reports);
    }
    PLANS of PlansView {
        plan_mode[mode] => gauge, "1 for the mode of plans that is chosen.",
            |view, to| to.by(PlanMode::ALL.map(|mode| (mode.as_str(), u8::from(mode == view.settings.mode))));
        plan_open[state] => gauge, "Whether there is a plan that is not over, by its state.", |view, to| {
            let open = view.plans.iter().map(|plan| plan.state).find(|state| !state.is_over());
            let states = PlanState::ALL.into_iter().filter(|state| !state.is_over());
            to.by(states.map(|state| (state.as_str(), u8::from(open == Some(state)))));
        };
        workers_overloaded => gauge, "Workers that are overloaded, as far as loads are told.",
            |view, to| view.spread.iter().for_each(|spread| to.one(spread.overloaded));
        worker_load_max_over_mean => gauge, "Load of the most loaded worker over the mean, as plans go by it.", |view, to| {
            view.spread.iter().for_each(|spread| to.one(spread.load_max / spread.load_mean.max(f64::MIN_POSITIVE)));
        };
    }
    PLAN_COUNTS of PlanCounts {
        plan_looks[verdict] => counter, "Looks at the loads, by what was thought of them.",
            |counts, to| to.by(counts.verdicts.iter().map(|(verdict, count)| (verdict.as_str(), count)));
        plans[state] => counter, "Plans that got into a state.",
            |counts, to| to.by(counts.states.iter().map(|(state, count)| (state.as_str(), count)));
        plan_moves[state] => counter, "Moves of plans that are over, by what came of them.",
            |counts, to| to.by(counts.moves.iter().map(|(state, count)| (state.as_str(), count)));
    }
    COUNTERS of Counters {
        heartbeats[kind] => counter, "Accepted heartbeats, by kind of member.",
            |counts, to| to.by([("server", counts.server_heartbeats), ("proxy", counts.proxy_heartbeats)]);
        refusals[reason] => counter, "Refused heartbeats, by reason.",
            |counts, to| to.by(counts.refusals.iter().map(|(reason, count)| (reason.as_str(), count)));
        map_changes[cause] => counter, "Changes of the cluster map, by cause.",
            |counts, to| to.by(counts.map_changes.iter().map(|(cause, count)| (cause.as_str(), count)));
        quarantines_omitted => counter,
            "Times that cachelets whose owners died one after the other were given on, because they were too many.",
            |counts, to| to.one(counts.quarantines_omitted);
        pauses => counter, "Times that the coordinator found itself to have been asleep.", |counts, to| to.one(counts.pauses);
        servers_reached => counter, "Answers of servers that were not heard of, where others reach them.",
            |counts, to| to.one(counts.reached);
    }
    TALLY of Tally {
        bad_requests[reason] => counter, "HTTP requests that were no valid call, by reason.",
            |tally, to| to.by(tally.bad_requests().map(|(kind, count)| (kind.as_str(), count)));
        state_saves[outcome] => counter, "Times that the state was saved, by outcome.",
            |tally, to| to.by([("done", tally.saves.done), ("failed", tally.saves.failed)]);
        viewers => gauge, "Who look at the page, or read what it is told, at the moment.", |tally, to| to.one(tally.viewers);
        viewers_refused => counter, "Who wanted to and were one too many.", |tally, to| to.one(tally.refused_viewers);
    }
    DOORS of Tally {
        denials[reason] => counter, "Calls that were not let in, by what the caller did not show.",
            |tally, to| to.by(tally.denials().map(|(denial, count)| (denial.as_str(), count)));
        tls_failures => counter, "Connections on which TLS did not come about.", |tally, to| to.one(tally.failed_handshakes);
        stalled_connections => counter, "Connections that were closed because their peers did not read answers.",
            |tally, to| to.one(tally.stalled_connections);
    }
    ELECTION of ElectionView {
        leads => gauge, "Whether this coordinator leads (1) or not (0).", |view, to| to.one(u8::from(view.leads));
        leader_known => gauge, "Whether a leader is known, be it this one.", |view, to| to.one(u8::from(view.leader.is_some()));
        leader_token => gauge, "Fencing token of the leader that is known; 0 when there is none.", |view, to| to.one(view.token);
        election_phase[phase] => gauge, "1 for the phase of the election in which this coordinator is.",
            |view, to| to.by(Phase::ALL.map(Phase::as_str).map(|phase| (phase, u8::from(phase == view.phase))));
        lease_left_seconds => gauge, "How much longer this coordinator may lead without a renewal.",
            |view, to| to.one(view.lease_left_ms as f64 / 1_000.0);
        elections_won => counter, "Times that this coordinator became the leader.", |view, to| to.one(view.won);
        elections_given_up[cause] => counter, "Times that this coordinator gave up leading or trying to, by cause.",
            |view, to| to.by(view.given_up.iter().map(|(cause, count)| (*cause, count)));
        state_unusable => gauge, "Whether the state in etcd could last not be read or used.",
            |view, to| to.one(u8::from(view.state_error.is_some()));
        etcd_errors[operation] => counter, "Failed calls to etcd, by operation.",
            |view, to| to.by(view.etcd.errors.iter().map(|(operation, count)| (*operation, count)));
    }
}

/// `more` is the last label, if there is a third.
fn of_worker(to: &mut Samples<'_>, worker: &WorkerLoadView, more: &str, value: impl Display) {
    to.of(&[&worker.server, &worker.worker.to_string(), more], value);
}

/// What the leader tells, in Prometheus's text format.
pub(crate) fn render(core: &CoordinatorCore, now: Instant, tally: &Tally) -> String {
    let mut text = Text::default();
    let loads = core.cluster_loads(now, LoadOrder::Place, usize::MAX);
    text.families(PREFIX, CORE, core);
    text.families(PREFIX, SERVERS, &core.servers(now));
    text.families(PREFIX, PROXIES, &core.proxies(now));
    text.families(PREFIX, CHANGES, &core.changes(now));
    text.families(PREFIX, RINGS, &core.rings(now));
    text.families(PREFIX, CHANGE_COUNTS, &core.change_counts());
    text.families(PREFIX, SCALES, &core.scales(now));
    text.families(PREFIX, SCALE_COUNTS, &core.scale_counts());
    text.families(PREFIX, HOT_KEYS, &core.cluster_hot_keys());
    text.families(PREFIX, LOADS, &loads);
    text.families(PREFIX, MIGRATIONS, core.migration_counts());
    text.families(PREFIX, PLANS, &core.plans(1));
    text.families(PREFIX, PLAN_COUNTS, core.plan_counts());
    text.families(PREFIX, COUNTERS, core.counters());
    text.families(PREFIX, TALLY, tally);
    text.0
}

/// What is told of the election, by each of several coordinators.
pub(crate) fn render_election(view: &ElectionView) -> String {
    let mut text = Text::default();
    text.families(PREFIX, ELECTION, view);
    text.0
}

/// Who was not let in. Every coordinator tells it, whether it leads or not.
pub(crate) fn render_doors(tally: &Tally) -> String {
    let mut text = Text::default();
    text.families(PREFIX, DOORS, tally);
    text.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_control::exposition::Family;

    fn rows<T>(list: &[Family<T>]) -> String {
        list.iter().map(|family| family.row(PREFIX)).collect()
    }

    #[test]
    fn the_page_of_statistics_says_what_a_coordinator_declares() {
        const HEAD: &str = "| `/metrics` | says |\n|---|---|\n";
        let parts = [
            "## Of a coordinator\n\n### What the leader tells\n\n",
            HEAD,
            &rows(CORE),
            &rows(SERVERS),
            &rows(PROXIES),
            &rows(CHANGES),
            &rows(RINGS),
            &rows(CHANGE_COUNTS),
            &rows(SCALES),
            &rows(SCALE_COUNTS),
            &rows(HOT_KEYS),
            &rows(LOADS),
            &rows(MIGRATIONS),
            &rows(PLANS),
            &rows(PLAN_COUNTS),
            &rows(COUNTERS),
            &rows(TALLY),
            "\n### What each coordinator tells\n\n",
            HEAD,
            &rows(DOORS),
            "\n### What each of several coordinators tells besides\n\n",
            HEAD,
            &rows(ELECTION),
        ];
        evenkeel_testkit::page::check_part("statistics.md", &parts.concat());
    }
}
