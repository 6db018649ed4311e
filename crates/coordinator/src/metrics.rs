//! What Prometheus is shown. Each metric is declared here, once, with its meaning.

use std::fmt::Display;

use evenkeel_control::exposition;
use evenkeel_types::Instant;

use crate::desk::Tally;
use evenkeel_coordinator_core::plans::{PlanMode, PlanState};
use evenkeel_coordinator_core::{CoordinatorCore, LoadOrder, Mode, WorkerLoadView};

/// Content type of the text format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics in Prometheus's text format.
pub(crate) fn render(core: &CoordinatorCore, now: Instant, tally: &Tally) -> String {
    let mut text = Text::default();
    let counters = core.counters();
    let servers = core.servers(now).servers;
    let servers_up = servers.iter().filter(|server| server.up).count();
    let proxies = core.proxies(now).proxies;
    let proxies_up = proxies.iter().filter(|proxy| proxy.up).count();
    let cachelets = core.map().map_or(0, |map| map.document().cachelets.len());
    let in_transit = core.cachelets_in_transit();
    let quarantined = core.quarantined().len();

    text.gauge(
        "epoch",
        "Epoch of the newest cluster map; 0 before the first.",
    );
    text.value("epoch", core.epoch());
    text.gauge(
        "servers",
        "Servers that ever registered, by whether they are up.",
    );
    text.labelled("servers", "state", "up", servers_up);
    text.labelled("servers", "state", "down", servers.len() - servers_up);
    text.gauge(
        "servers_asking_for_moves",
        "Servers that are overloaded and cannot help themselves.",
    );
    let asking = servers.iter().filter(|server| server.asks_for_moves);
    text.value("servers_asking_for_moves", asking.count());
    text.gauge(
        "proxies",
        "Proxies that are members, by whether they are up.",
    );
    text.labelled("proxies", "state", "up", proxies_up);
    text.labelled("proxies", "state", "down", proxies.len() - proxies_up);
    text.gauge("cachelets", "Cachelets, by whether a worker owns them.");
    let owned = cachelets - in_transit - quarantined;
    text.labelled("cachelets", "state", "owned", owned);
    text.labelled("cachelets", "state", "in_transit", in_transit);
    text.labelled("cachelets", "state", "quarantined", quarantined);
    text.gauge(
        "mean_worker_load_rps",
        "Mean requests per second of a worker, absurd reports clamped.",
    );
    text.value("mean_worker_load_rps", core.mean_worker_load());
    text.gauge(
        "hot_keys_enabled",
        "Whether replication of hot keys is on (1) or off (0).",
    );
    let mode = core.settings().hot_keys;
    text.value("hot_keys_enabled", u8::from(mode == Mode::On));
    text.gauge(
        "hot_keys_mode",
        "1 for the mode of replication of hot keys that is chosen.",
    );
    for each in Mode::ALL {
        let is_chosen = u8::from(each == mode);
        text.labelled("hot_keys_mode", "mode", &each.to_string(), is_chosen);
    }
    let hot = core.cluster_hot_keys();
    let replicated = hot.keys.iter().filter(|k| k.key.gamma > 0).count();
    let observed = hot.keys.iter().filter(|k| !k.key.proposed.is_empty());
    text.gauge(
        "hot_keys",
        "Keys with replicas, and such as would have some if they were not only observed.",
    );
    text.labelled("hot_keys", "state", "replicated", replicated);
    text.labelled("hot_keys", "state", "observed", observed.count());
    text.gauge(
        "load_max_over_mean",
        "Largest estimated load of a worker by the mean: without replicas, with those there are, and with observed ones.",
    );
    for (replicas, balance) in [
        ("none", &hot.without_replicas),
        ("present", &hot.with_replicas),
        ("observed", &hot.with_observed),
    ] {
        text.labelled(
            "load_max_over_mean",
            "replicas",
            replicas,
            balance.max_over_mean,
        );
    }
    render_loads(&mut text, core, now);
    render_migrations(&mut text, core);
    render_plans(&mut text, core);
    let events = core.hot_key_event_counts();
    text.counter(
        "hot_key_events_total",
        "Promotions and retirements of keys, by what became of the news of them.",
    );
    for (outcome, count) in [
        ("heard", events.heard),
        ("overwritten", events.overwritten),
        ("missed", events.missed),
        ("unusable", events.unusable),
    ] {
        text.labelled("hot_key_events_total", "outcome", outcome, count);
    }

    text.counter(
        "heartbeats_total",
        "Accepted heartbeats, by kind of member.",
    );
    text.labelled(
        "heartbeats_total",
        "kind",
        "server",
        counters.server_heartbeats,
    );
    text.labelled(
        "heartbeats_total",
        "kind",
        "proxy",
        counters.proxy_heartbeats,
    );
    text.counter("refusals_total", "Refused heartbeats, by reason.");
    for (reason, count) in &counters.refusals {
        text.labelled("refusals_total", "reason", reason.as_str(), count);
    }
    text.counter(
        "bad_requests_total",
        "HTTP requests that were no valid call, by reason.",
    );
    for (kind, count) in tally.bad_requests() {
        text.labelled("bad_requests_total", "reason", kind.as_str(), count);
    }
    text.counter("map_changes_total", "Changes of the cluster map, by cause.");
    for (cause, count) in &counters.map_changes {
        text.labelled("map_changes_total", "cause", cause.as_str(), count);
    }
    text.counter(
        "quarantines_omitted_total",
        "Times that cachelets whose owners died one after the other were given on, because they were too many.",
    );
    text.value("quarantines_omitted_total", counters.quarantines_omitted);
    text.counter(
        "pauses_total",
        "Times that the coordinator found itself to have been asleep.",
    );
    text.value("pauses_total", counters.pauses);
    text.counter(
        "servers_reached_total",
        "Answers of servers that were not heard of, where others reach them.",
    );
    text.value("servers_reached_total", counters.reached);
    text.counter(
        "state_saves_total",
        "Times that the state was saved, by outcome.",
    );
    text.labelled("state_saves_total", "outcome", "done", tally.saves.done);
    text.labelled("state_saves_total", "outcome", "failed", tally.saves.failed);
    text.0.0
}

/// What is told of the election, by each of several coordinators.
pub(crate) fn render_election(view: &crate::elector::ElectionView) -> String {
    use evenkeel_coordinator_core::election::Phase;
    let mut text = Text::default();
    text.gauge("leads", "Whether this coordinator leads (1) or not (0).");
    text.value("leads", u8::from(view.leads));
    text.gauge("leader_known", "Whether a leader is known, be it this one.");
    text.value("leader_known", u8::from(view.leader.is_some()));
    text.gauge(
        "leader_token",
        "Fencing token of the leader that is known; 0 when there is none.",
    );
    text.value("leader_token", view.token);
    text.gauge(
        "election_phase",
        "1 for the phase of the election in which this coordinator is.",
    );
    for phase in Phase::ALL.map(Phase::as_str) {
        text.labelled(
            "election_phase",
            "phase",
            phase,
            u8::from(phase == view.phase),
        );
    }
    text.gauge(
        "lease_left_seconds",
        "How much longer this coordinator may lead without a renewal.",
    );
    text.value("lease_left_seconds", view.lease_left_ms as f64 / 1_000.0);
    text.counter(
        "elections_won_total",
        "Times that this coordinator became the leader.",
    );
    text.value("elections_won_total", view.won);
    text.counter(
        "elections_given_up_total",
        "Times that this coordinator gave up leading or trying to, by cause.",
    );
    for (cause, count) in &view.given_up {
        text.labelled("elections_given_up_total", "cause", cause, count);
    }
    text.gauge(
        "state_unusable",
        "Whether the state in etcd could last not be read or used.",
    );
    text.value("state_unusable", u8::from(view.state_error.is_some()));
    text.counter("etcd_errors_total", "Failed calls to etcd, by operation.");
    for (operation, count) in &view.etcd.errors {
        text.labelled("etcd_errors_total", "operation", operation, count);
    }
    text.0.0
}

/// What servers measure, for each worker. Not for each cachelet, of which there may be some thousand with
/// a dozen numbers each that move from worker to worker: `/api/v1/cachelets` has those.
fn render_loads(text: &mut Text, core: &CoordinatorCore, now: Instant) {
    let loads = core.cluster_loads(now, LoadOrder::Place, usize::MAX);
    text.gauge(
        "worker_load_rps",
        "What a worker serves, in small requests per second: of its own cachelets, of replicas for others, of keys whose home is elsewhere; and what others serve of its hot keys.",
    );
    for worker in &loads.workers {
        for (part, load) in [
            ("own", worker.load),
            ("replicas", worker.replica_load),
            ("diverted", worker.diverted_load),
        ] {
            text.of_worker("worker_load_rps", worker, &[("part", part)], load);
        }
    }
    text.gauge(
        "worker_busy",
        "Part of its time that a worker does not sleep.",
    );
    for worker in &loads.workers {
        text.of_worker("worker_busy", worker, &[], worker.busy);
    }
    text.gauge(
        "worker_memory_bytes",
        "Bytes of its server's memory limit that a worker holds.",
    );
    for worker in &loads.workers {
        text.of_worker("worker_memory_bytes", worker, &[], worker.memory_bytes);
    }
    text.gauge(
        "worker_cachelets",
        "Cachelets of a worker, by whether its server had room to tell of their loads.",
    );
    for worker in &loads.workers {
        let told = &[("state", "told")];
        text.of_worker("worker_cachelets", worker, told, worker.cachelets);
        let left_out = &[("state", "left_out")];
        text.of_worker("worker_cachelets", worker, left_out, worker.left_out);
    }
    let counts = core.load_news_counts();
    text.counter(
        "load_news_total",
        "Heartbeats that told of the loads of cachelets, by whether that made sense.",
    );
    text.labelled("load_news_total", "outcome", "heard", counts.heard);
    text.labelled("load_news_total", "outcome", "unusable", counts.unusable);
}

fn render_migrations(text: &mut Text, core: &CoordinatorCore) {
    let counts = core.migration_counts();
    text.gauge(
        "migrations",
        "Cachelets that are moving between servers now.",
    );
    text.value("migrations", core.migrations_under_way());
    text.counter(
        "migrations_begun_total",
        "Moves of cachelets between servers that were ordered.",
    );
    text.value("migrations_begun_total", counts.begun);
    text.counter(
        "migrations_ended_total",
        "Moves of cachelets between servers that are over, by what came of them.",
    );
    for (end, count) in &counts.ended {
        text.labelled("migrations_ended_total", "end", end.as_str(), count);
    }
    text.counter(
        "migrated_items_total",
        "Items that were copied in moves that are over.",
    );
    text.value("migrated_items_total", counts.items);
    text.counter(
        "migrated_bytes_total",
        "Bytes that were copied in moves that are over.",
    );
    text.value("migrated_bytes_total", counts.bytes);
    text.counter(
        "migration_reports_odd_total",
        "Reports on moves that are not under way, or from somebody who has no say in them.",
    );
    text.value("migration_reports_odd_total", counts.odd_reports);
}

fn render_plans(text: &mut Text, core: &CoordinatorCore) {
    let (view, counts) = (core.plans(1), core.plan_counts());
    text.gauge("plan_mode", "1 for the mode of plans that is chosen.");
    for mode in PlanMode::ALL {
        let is_chosen = u8::from(mode == view.settings.mode);
        text.labelled("plan_mode", "mode", mode.as_str(), is_chosen);
    }
    text.gauge(
        "plan_open",
        "Whether there is a plan that is not over, by its state.",
    );
    let mut states = view.plans.iter().map(|plan| plan.state);
    let open = states.find(|state| !state.is_over());
    for state in PlanState::ALL.into_iter().filter(|state| !state.is_over()) {
        let is_it = u8::from(open == Some(state));
        text.labelled("plan_open", "state", state.as_str(), is_it);
    }
    if let Some(spread) = view.spread {
        text.gauge(
            "workers_overloaded",
            "Workers that are overloaded, as far as loads are told.",
        );
        text.value("workers_overloaded", spread.overloaded);
        text.gauge(
            "worker_load_max_over_mean",
            "Load of the most loaded worker over the mean, as plans go by it.",
        );
        let ratio = spread.load_max / spread.load_mean.max(f64::MIN_POSITIVE);
        text.value("worker_load_max_over_mean", ratio);
    }
    text.counter(
        "plan_looks_total",
        "Looks at the loads, by what was thought of them.",
    );
    for (verdict, count) in &counts.verdicts {
        text.labelled("plan_looks_total", "verdict", verdict.as_str(), count);
    }
    text.counter("plans_total", "Plans that got into a state.");
    for (state, count) in &counts.states {
        text.labelled("plans_total", "state", state.as_str(), count);
    }
    text.counter(
        "plan_moves_total",
        "Moves of plans that are over, by what came of them.",
    );
    for (state, count) in &counts.moves {
        text.labelled("plan_moves_total", "state", state.as_str(), count);
    }
}

/// Who was not let in. Every coordinator tells it, whether it leads or not.
pub(crate) fn render_doors(tally: &Tally) -> String {
    let mut text = Text::default();
    text.counter(
        "denials_total",
        "Calls that were not let in, by what the caller did not show.",
    );
    for (denial, count) in tally.denials() {
        text.labelled("denials_total", "reason", denial.as_str(), count);
    }
    text.counter(
        "tls_failures_total",
        "Connections on which TLS did not come about.",
    );
    text.value("tls_failures_total", tally.failed_handshakes);
    text.counter(
        "stalled_connections_total",
        "Connections that were closed because their peers did not read answers.",
    );
    text.value("stalled_connections_total", tally.stalled_connections);
    text.0.0
}

/// Metrics whose names begin with that of the coordinator.
#[derive(Default)]
struct Text(exposition::Text);

impl Text {
    fn gauge(&mut self, name: &str, help: &str) {
        self.0.kind(&full(name), "gauge", help);
    }

    fn counter(&mut self, name: &str, help: &str) {
        self.0.kind(&full(name), "counter", help);
    }

    fn value(&mut self, name: &str, value: impl Display) {
        self.0.sample(&full(name), &[], value);
    }

    fn labelled(&mut self, name: &str, label: &str, text: &str, value: impl Display) {
        self.0.sample(&full(name), &[(label, text)], value);
    }

    /// `more` are further labels.
    fn of_worker(
        &mut self,
        name: &str,
        worker: &WorkerLoadView,
        more: &[(&str, &str)],
        value: impl Display,
    ) {
        let number = worker.worker.to_string();
        let labels = [("server", worker.server.as_str()), ("worker", &number)];
        self.0.sample(&full(name), &[&labels, more].concat(), value);
    }
}

fn full(name: &str) -> String {
    format!("evenkeel_coordinator_{name}")
}
