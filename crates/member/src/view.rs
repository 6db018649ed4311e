//! What of a coordinator's answer is news to the program, and which answers are not believed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use evenkeel_types::map::ClusterMap;
use evenkeel_types::{Epoch, ServerId};

use crate::event::MemberEvent;
use evenkeel_control::limits::{FOLLOWED_POOLS_MAX, LOAD_RPS_MAX, UTILIZATION_MAX};
use evenkeel_control::rings::RingStep;
use evenkeel_control::{ClusterLoad, PoolStep, Utilization};
use evenkeel_coordinator_core::{HeartbeatAnswer, MemberKind, Settings};
use evenkeel_schemes::change::VERSION_MAX;
use evenkeel_schemes::stage::Step;

/// Reason of a refusal: the answer came from a leader that is none any more.
pub(crate) const FORMER_LEADER: &str = "former_leader";

/// What the program has been told already.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) server_id: Option<ServerId>,
    pub(crate) lineage: Option<u64>,
    /// Greatest token of a leader that has answered in this lineage.
    pub(crate) leader: u64,
    pub(crate) epoch: Epoch,
    /// The map of that epoch.
    pub(crate) map: Option<Arc<ClusterMap>>,
    pub(crate) cluster_load: Option<ClusterLoad>,
    pub(crate) balances: Option<bool>,
    pub(crate) settings: Option<Settings>,
    /// The newest step of each pool that the last answer was about.
    pub(crate) steps: BTreeMap<String, Step>,
    pub(crate) found: bool,
    pub(crate) lost: bool,
    pub(crate) refused: Option<String>,
    /// Since when it was that reason.
    pub(crate) refused_at: Option<Instant>,
    /// Whether the program was told that it need not wait for its end.
    pub(crate) may_end: bool,
    /// Whether the program was told that its name is another's.
    pub(crate) has_lost_name: bool,
}

impl View {
    /// What is new in an answer; nothing of an answer that makes no sense is used.
    pub(crate) fn take(
        &mut self,
        kind: MemberKind,
        answer: HeartbeatAnswer,
    ) -> Result<Vec<MemberEvent>, (&'static str, String)> {
        let bad = |what: &str| Err(("bad_answer", what.to_owned()));
        if (kind == MemberKind::Server) != answer.server_id.is_some() {
            return bad("a server must be given an id, and nobody else");
        }
        if !(0.0..=LOAD_RPS_MAX).contains(&answer.mean_worker_load) {
            return bad("the mean load is no load");
        }
        let is_part = |used: Utilization| (0.0..=UTILIZATION_MAX).contains(&used.0);
        if !answer.utilization.is_none_or(is_part) {
            return bad("the utilization is none");
        }
        if answer.settings.unsound().is_some() {
            return bad("a setting is out of range");
        }
        let is_step = |told: &PoolStep| {
            let plan = told.ring.as_ref().and_then(|ring| ring.plan.as_ref());
            (1..=VERSION_MAX).contains(&told.step.version)
                && plan.is_none_or(|plan| plan.moved().is_ok())
                && told.bundle.is_none_or(|told| told.is_sound())
        };
        if answer.pools.len() > FOLLOWED_POOLS_MAX || !answer.pools.iter().all(is_step) {
            return bad("a step of a pool's change is none");
        }
        let foreign = self.lineage.is_some_and(|known| known != answer.lineage);
        if foreign && self.epoch > Epoch(0) {
            let message = "the coordinator does not know the map that this member works by; \
                           restore its state file or restart the member";
            return Err(("foreign_map", message.to_owned()));
        }
        if !foreign && answer.leader < self.leader {
            let message = "the coordinator answered as a leader that another has followed since";
            return Err((FORMER_LEADER, message.to_owned()));
        }
        if answer.epoch < self.epoch {
            return bad("the coordinator's map is older than one that it gave before");
        }
        if answer
            .map
            .as_ref()
            .is_some_and(|map| map.epoch() != answer.epoch)
        {
            return bad("the map has another epoch than the answer says");
        }

        let mut events = Vec::new();
        self.lineage = Some(answer.lineage);
        self.leader = answer.leader;
        if let Some(server_id) = answer.server_id
            && self.server_id.replace(server_id) != Some(server_id)
        {
            events.push(MemberEvent::Registered { server_id });
        }
        if self.settings.replace(answer.settings) != Some(answer.settings) {
            events.push(MemberEvent::Settings(answer.settings));
        }
        if self.balances.replace(answer.balances) != Some(answer.balances) {
            events.push(MemberEvent::Balances(answer.balances));
        }
        if let Some(map) = answer.map
            && map.epoch() > self.epoch
        {
            self.epoch = map.epoch();
            self.map = Some(Arc::clone(&map));
            events.push(MemberEvent::Map(map));
        }
        let load = ClusterLoad {
            mean: answer.mean_worker_load,
            utilization: answer.utilization,
        };
        if self.cluster_load.replace(load) != Some(load) {
            events.push(MemberEvent::ClusterLoad(load));
        }
        if kind == MemberKind::Proxy {
            let steps = self.take_steps(answer.pools);
            events.extend(steps.into_iter().map(MemberEvent::Step));
        }
        Ok(events)
    }

    /// The steps that are newer than those before. A coordinator that has lost its state may tell older ones: it takes these over from the
    /// next heartbeat. What an answer is not about is forgotten.
    fn take_steps(&mut self, told: Vec<PoolStep>) -> Vec<PoolStep> {
        let mut steps = BTreeMap::new();
        let mut news = Vec::new();
        for told in told {
            let PoolStep {
                pool, step, ring, ..
            } = &told;
            let step = *step;
            let known = self.steps.get(pool).copied();
            let newest = known.filter(|known| known.version >= step.version);
            steps.insert(pool.clone(), newest.unwrap_or(step));
            // A plan that is told again, or counts that are wanted, are news for a step that was told before: who could not work by it may
            // have another file by now.
            let has_more = |ring: &RingStep| ring.plan.is_some() || ring.slot.is_some();
            let has_more = ring.as_ref().is_some_and(has_more) || told.bundle.is_some();
            if newest.is_none() || has_more {
                news.push(told);
            }
        }
        self.steps = steps;
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_control::bundles::{BundlePlan, BundleStep, BundleWish};
    use evenkeel_coordinator_core::Mode;
    use evenkeel_schemes::stage::Stage;
    use evenkeel_types::WorkerRef;
    use evenkeel_types::map::{ClusterMap, MapDocument, ServerEntry};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};
    use std::sync::Arc;

    fn map(epoch: u64) -> Arc<ClusterMap> {
        let servers = vec![ServerEntry::new(0, "h", 1, vec![2])];
        let document = MapDocument::new(epoch, servers, 1, vec![Some(WorkerRef::default())]);
        Arc::new(ClusterMap::new(document).unwrap())
    }

    fn answer(epoch: u64) -> HeartbeatAnswer {
        HeartbeatAnswer {
            may_end: false,
            server_id: None,
            epoch: Epoch(epoch),
            lineage: 7,
            leader: 0,
            map: Some(map(epoch)),
            mean_worker_load: 10.0,
            utilization: Some(Utilization(0.5)),
            balances: false,
            settings: Settings::default(),
            interval_ms: 500,
            pools: Vec::new(),
            lease_ms: None,
        }
    }

    #[test]
    fn only_what_is_new_is_told() {
        let mut view = View::default();
        let first = view.take(MemberKind::Proxy, answer(3)).unwrap();
        let expected = [
            MemberEvent::Settings(Settings::default()),
            MemberEvent::Balances(false),
            MemberEvent::Map(map(3)),
            MemberEvent::ClusterLoad(ClusterLoad {
                mean: 10.0,
                utilization: Some(Utilization(0.5)),
            }),
        ];
        assert_eq!(first, expected);
        assert_eq!(view.take(MemberKind::Proxy, answer(3)).unwrap(), []);
        let off = Settings {
            hot_keys: Mode::Off,
            ..Settings::default()
        };
        let changed = HeartbeatAnswer {
            settings: off,
            balances: true,
            ..answer(4)
        };
        let expected = [
            MemberEvent::Settings(off),
            MemberEvent::Balances(true),
            MemberEvent::Map(map(4)),
        ];
        assert_eq!(view.take(MemberKind::Proxy, changed).unwrap(), expected);
    }

    fn steps(told: &[(&str, u64, Stage)]) -> HeartbeatAnswer {
        let step = |&(pool, version, stage): &(&str, u64, Stage)| PoolStep {
            pool: pool.to_owned(),
            step: Step { version, stage },
            ring: None,
            bundle: None,
        };
        HeartbeatAnswer {
            pools: told.iter().map(step).collect(),
            ..answer(3)
        }
    }

    fn told(view: &mut View, answer: HeartbeatAnswer) -> Vec<(String, u64)> {
        let events = view.take(MemberKind::Proxy, answer).unwrap();
        let step = |event| match event {
            MemberEvent::Step(told) => Some((told.pool, told.step.version)),
            _ => None,
        };
        events.into_iter().filter_map(step).collect()
    }

    #[test]
    fn steps_are_told_once_and_never_fall() {
        let mut view = View::default();
        let first = [("a", 1, Stage::Former), ("b", 4, Stage::Closing)];
        let both = [("a".to_owned(), 1), ("b".to_owned(), 4)];
        assert_eq!(told(&mut view, steps(&first)), both);
        assert_eq!(told(&mut view, steps(&first)), []);
        // Of a coordinator that has lost its state.
        let fallen = [("a", 2, Stage::Quiesced), ("b", 1, Stage::Former)];
        assert_eq!(told(&mut view, steps(&fallen)), [("a".to_owned(), 2)]);
        let other = [("a", 2, Stage::Quiesced), ("b", 4, Stage::Warming)];
        assert_eq!(told(&mut view, steps(&other)), [], "the same version");
        let newer = [("a", 2, Stage::Quiesced), ("b", 5, Stage::Done)];
        assert_eq!(told(&mut view, steps(&newer)), [("b".to_owned(), 5)]);
    }

    #[test]
    fn steps_of_pools_that_are_not_followed_any_more_are_forgotten() {
        let mut view = View::default();
        let done = [("a", 5, Stage::Done)];
        assert_eq!(told(&mut view, steps(&done)), [("a".to_owned(), 5)]);
        assert_eq!(told(&mut view, steps(&[])), []);
        let anew = [("a", 1, Stage::Former)];
        assert_eq!(told(&mut view, steps(&anew)), [("a".to_owned(), 1)]);
    }

    #[test]
    fn a_server_is_told_no_steps() {
        let mut view = View::default();
        let answer = HeartbeatAnswer {
            server_id: Some(ServerId(1)),
            ..steps(&[("a", 1, Stage::Former)])
        };
        let events = view.take(MemberKind::Server, answer).unwrap();
        let is_step = |event: &MemberEvent| matches!(event, MemberEvent::Step(_));
        assert!(!events.iter().any(is_step));
    }

    #[test]
    fn a_server_is_told_its_id_once() {
        let mut view = View::default();
        let registered = HeartbeatAnswer {
            server_id: Some(ServerId(4)),
            ..answer(1)
        };
        let events = view.take(MemberKind::Server, registered.clone()).unwrap();
        let expected = MemberEvent::Registered {
            server_id: ServerId(4),
        };
        assert_eq!(events[0], expected);
        assert_eq!(view.take(MemberKind::Server, registered).unwrap(), []);
    }

    fn told_of_copies(copies: u8, proxies: u32) -> BundleStep {
        let plan = BundlePlan {
            number: 1,
            token: 7,
            of: BundleWish {
                copies,
                servers: 4,
                fingerprint: 0,
            },
        };
        BundleStep { plan, proxies }
    }

    #[test]
    fn answers_that_make_no_sense_are_not_used() {
        type Break = fn(&mut HeartbeatAnswer);
        let cases: [(Break, &str); 15] = [
            (|a| a.server_id = Some(ServerId(1)), "bad_answer"),
            (|a| a.mean_worker_load = f64::NAN, "bad_answer"),
            (|a| a.mean_worker_load = f64::INFINITY, "bad_answer"),
            (|a| a.mean_worker_load = -1.0, "bad_answer"),
            (
                |a| a.utilization = Some(Utilization(f64::NAN)),
                "bad_answer",
            ),
            (|a| a.map = Some(map(6)), "bad_answer"),
            (|a| a.epoch = Epoch(9), "bad_answer"),
            (|a| *a = answer(4), "bad_answer"),
            (|a| (a.map, a.epoch) = (None, Epoch(4)), "bad_answer"),
            (
                |a| a.pools = steps(&[("a", 0, Stage::Former)]).pools,
                "bad_answer",
            ),
            (
                |a| a.pools = steps(&[("a", VERSION_MAX + 1, Stage::Done)]).pools,
                "bad_answer",
            ),
            (
                |a| a.pools = steps(&[("a", 1, Stage::Former); 65]).pools,
                "bad_answer",
            ),
            (
                |a| {
                    a.pools = steps(&[("a", 2, Stage::Former)]).pools;
                    a.pools[0].bundle = Some(told_of_copies(1, 1));
                },
                "bad_answer",
            ),
            (
                |a| {
                    a.pools = steps(&[("a", 2, Stage::Former)]).pools;
                    a.pools[0].bundle = Some(told_of_copies(2, 0));
                },
                "bad_answer",
            ),
            (|a| a.lineage = 8, "foreign_map"),
        ];
        let mut view = View::default();
        view.take(MemberKind::Proxy, answer(5)).unwrap();
        for (break_it, reason) in cases {
            let mut bad = answer(5);
            break_it(&mut bad);
            assert_eq!(view.take(MemberKind::Proxy, bad).unwrap_err().0, reason);
        }
        assert_eq!(view.take(MemberKind::Proxy, answer(5)).unwrap(), []);
    }

    #[test]
    fn a_former_leader_is_not_believed_whatever_it_says() {
        let of = |leader, lineage| HeartbeatAnswer {
            leader,
            lineage,
            ..answer(5)
        };
        let mut view = View::default();
        view.take(MemberKind::Proxy, of(20, 7)).unwrap();
        assert_eq!(view.take(MemberKind::Proxy, of(31, 7)), Ok(vec![]));
        let late = HeartbeatAnswer {
            settings: Settings {
                hot_keys: Mode::Off,
                ..Settings::default()
            },
            epoch: Epoch(9),
            map: Some(map(9)),
            ..of(20, 7)
        };
        for former in [late, of(30, 7), of(0, 7)] {
            let refused = view.take(MemberKind::Proxy, former).unwrap_err();
            assert_eq!(refused.0, FORMER_LEADER);
        }
        let foreign = view.take(MemberKind::Proxy, of(40, 8)).unwrap_err();
        assert_eq!(
            foreign.0, "foreign_map",
            "tokens of two lineages say nothing"
        );
        assert_eq!(view.take(MemberKind::Proxy, of(31, 7)), Ok(vec![]));
    }

    /// Whatever order leaders' answers arrive in, those that are taken have tokens that never fall, and what a
    /// leader says first that is newer than all before is always taken.
    #[test]
    fn tokens_of_answers_taken_never_fall() {
        let seed = std::env::var("EVENKEEL_SEED").ok();
        let seed = seed.and_then(|seed| seed.parse().ok()).unwrap_or(1);
        println!("EVENKEEL_SEED={seed}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        for _ in 0..200 {
            let mut view = View::default();
            let mut newest = 0;
            for _ in 0..50 {
                let token = random.next_u64() % 20;
                let said = HeartbeatAnswer {
                    leader: token,
                    ..answer(5)
                };
                let is_taken = view.take(MemberKind::Proxy, said).is_ok();
                assert_eq!(is_taken, token >= newest, "{token} after {newest}");
                newest = newest.max(token);
            }
        }
    }

    #[test]
    fn before_the_first_map_any_coordinator_will_do() {
        let mut view = View::default();
        let mapless = HeartbeatAnswer {
            map: None,
            epoch: Epoch(0),
            ..answer(1)
        };
        view.take(MemberKind::Proxy, mapless).unwrap();
        let other = HeartbeatAnswer {
            lineage: 99,
            ..answer(2)
        };
        assert!(view.take(MemberKind::Proxy, other).is_ok());
    }
}
