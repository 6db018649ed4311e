//! What rings carry, and what moves because of it.

use super::rings::{ring_follower, wish};
use super::*;
use evenkeel_control::rings::{GrainCounted, RingCounts};
use evenkeel_placement::ring::{Ring, grain_of};
use evenkeel_types::random::SplitMix64;

const SLOT_MS: u64 = 1000;

/// Reads a second of each key that is asked for, by each proxy.
const RATE: u64 = 1000;

/// A proxy that counts what it is asked for.
pub(super) struct Counting {
    follower: Follower,
    plan: Option<Arc<RingPlan>>,
    /// By which ring it counts, and since when.
    by: (u64, bool),
    since: Instant,
    /// It does not tell.
    pub(super) is_mute: bool,
    /// Servers that a worker of it does not ask.
    down: Vec<u16>,
    /// How long its servers take.
    pub(super) p99_us: Option<u64>,
}

impl Counting {
    fn new(name: &str) -> Counting {
        Counting {
            follower: ring_follower(name, &wish(8)),
            plan: None,
            by: (0, false),
            since: Instant(0),
            is_mute: false,
            down: Vec::new(),
            p99_us: None,
        }
    }

    pub(super) fn ring(&self) -> Ring {
        let plan = self.plan.as_ref().expect("a plan");
        match self.by.1 {
            true => plan.moved().unwrap(),
            false => plan.ring.clone(),
        }
    }

    /// Reports; what is wanted of it is told at once.
    fn report(&mut self, world: &mut World, keys: &[u32]) {
        let wanted = self.send(world, None);
        if let Some(slot) = wanted.filter(|_| !self.is_mute) {
            let counts = self.counts(world, slot, keys);
            self.send(world, Some(counts));
        }
    }

    fn counts(&self, world: &World, slot: u64, keys: &[u32]) -> RingCounts {
        let millis = world.now.monotonic.since(self.since).as_millis() as u64;
        let grains = self.ring().grains();
        let mut counted: BTreeMap<u32, u64> = BTreeMap::new();
        for key in keys {
            *counted.entry(grain_of(&grains, *key) as u32).or_default() += RATE * millis / 1000;
        }
        let counted = counted.into_iter();
        RingCounts {
            slot,
            plan: self.by.0,
            moved: self.by.1,
            micros: millis * 1000,
            down: self.down.clone(),
            p99_us: self.p99_us,
            grains: counted
                .map(|(grain, gets)| GrainCounted(grain, gets, gets, 0, 0))
                .collect(),
        }
    }

    /// Sends a heartbeat. The slot for which its counts are wanted then.
    fn send(&mut self, world: &mut World, counts: Option<RingCounts>) -> Option<u64> {
        let pool = &mut self.follower.0.pools[0];
        pool.ring.as_mut().unwrap().counts = counts;
        let answer = world.send(&self.follower.0).unwrap();
        let pool = &mut self.follower.0.pools[0];
        let works_by = pool.ring.as_mut().unwrap();
        works_by.counts = None;
        let told = answer.pools.into_iter().next()?;
        let ring = told.ring.expect("a ring");
        if let Some(plan) = &ring.plan {
            self.plan = Some(Arc::clone(plan));
        }
        let slot = ring.slot;
        take(works_by, ring);
        pool.told = Some(told.step);
        pool.acknowledged = told.step.version;
        let by = (works_by.number, told.step.stage >= Stage::Warming);
        if by != self.by {
            (self.by, self.since) = (by, world.now.monotonic);
        }
        slot
    }
}

pub(super) fn counting(count: usize) -> (World, Vec<Counting>) {
    let mut world = old_world();
    let mut all: Vec<Counting> = (1..=count)
        .map(|n| Counting::new(&format!("p{n}")))
        .collect();
    for _ in 0..2 {
        for proxy in &mut all {
            proxy.send(&mut world, None);
        }
    }
    (world, all)
}

/// Lets this many slots pass, in which all report four times.
pub(super) fn pass(world: &mut World, all: &mut [Counting], keys: &[u32], slots: u64) {
    for _ in 0..4 * slots {
        world.pass(SLOT_MS / 4);
        hurry(world, all, keys);
    }
}

/// Reports so often that no step waits.
fn hurry(world: &mut World, all: &mut [Counting], keys: &[u32]) {
    for _ in 0..6 {
        for proxy in &mut *all {
            proxy.report(world, keys);
        }
    }
}

/// Keys of one server, spread over its grains, and as many others.
pub(super) fn keys(ring: &Ring, busy: u16) -> Vec<u32> {
    let mut random = SplitMix64::new(0x57a7);
    let mut hashes = std::iter::repeat_with(|| random.next_u64() as u32);
    let of_busy = hashes
        .by_ref()
        .filter(|hash| ring.owner(*hash) == busy)
        .take(100);
    let of_busy: Vec<u32> = of_busy.collect();
    of_busy.into_iter().chain(hashes.take(100)).collect()
}

pub(super) fn set(
    world: &mut World,
    mode: RingMode,
    proxies: usize,
) -> Result<RingView, ChangeRefusal> {
    let request = RingSettingsRequest {
        mode: Some(mode),
        proxies: Some(proxies),
        slot_ms: Some(SLOT_MS),
        warming_ms: Some(2 * SLOT_MS),
        ..RingSettingsRequest::default()
    };
    world.core.set_ring(world.now, "main", &request)
}

fn shown(world: &World) -> RingView {
    world.core.rings(world.now.monotonic).rings.remove(0)
}

fn slot(world: &World) -> RingSlotView {
    shown(world).slot.expect("a slot is over")
}

#[test]
fn a_ring_follows_its_load_until_all_servers_carry_about_the_same() {
    let (mut world, mut all) = counting(3);
    set(&mut world, RingMode::Automatic, 3).unwrap();
    let keys = keys(&all[0].ring(), 3);
    pass(&mut world, &mut all, &keys, 2);
    let first = slot(&world);
    assert_eq!((first.told, first.followers), (3, 3));
    assert!(first.max_by_mean.unwrap() > 4.0, "{first:?}");
    let gets: u64 = first.servers.iter().map(|server| server.gets).sum();
    let expected = 3 * RATE * keys.len() as u64;
    assert!(
        gets.abs_diff(expected) * 20 < expected,
        "{gets} of {expected}"
    );
    let mut plans = 0;
    for _ in 0..100 {
        pass(&mut world, &mut all, &keys, 1);
        plans = plans.max(shown(&world).change.ring.unwrap().number - 1);
        assert!(shown(&world).moves.len() <= 64);
    }
    let last = slot(&world);
    assert!(last.max_by_mean.unwrap() < 1.15, "{last:?}");
    assert!(
        plans >= 2,
        "a plan moves no more than a hundredth of the hash space"
    );
    let outcomes = shown(&world).outcomes;
    let known = outcomes.iter().filter(|it| it.after.is_some());
    assert!(known.count() >= 2, "{outcomes:?}");
    assert!(
        outcomes
            .iter()
            .all(|it| it.after.is_none_or(|max| max <= it.before)),
        "{outcomes:?}"
    );
    // It comes to rest.
    let number = shown(&world).change.ring.unwrap().number;
    pass(&mut world, &mut all, &keys, 20);
    assert_eq!(shown(&world).change.ring.unwrap().number, number);
    assert_eq!(world.core.change_counts().ring_reports_void, 0);
}

#[test]
fn plans_are_shown_and_nothing_moves_unless_it_is_said() {
    let (mut world, mut all) = counting(2);
    let keys = keys(&all[0].ring(), 3);
    for (mode, proxies) in [(RingMode::Observe, 2), (RingMode::Automatic, 3)] {
        set(&mut world, mode, proxies).unwrap();
        pass(&mut world, &mut all, &keys, 6);
        let seen = slot(&world);
        assert!(!seen.planned.is_empty(), "{mode:?} {seen:?}");
        assert!(
            seen.planned.iter().all(|part| part.from == "m4"),
            "{seen:?}"
        );
        assert!(seen.predicted_max_by_mean < seen.max_by_mean);
        assert_eq!(shown(&world).change.ring.unwrap().number, 1, "{mode:?}");
    }
    set(&mut world, RingMode::Off, 2).unwrap();
    let number = slot(&world).number;
    pass(&mut world, &mut all, &keys, 6);
    assert_eq!(slot(&world).number, number, "nothing is measured");
}

fn approve(world: &mut World) -> Result<RingView, ChangeRefusal> {
    let request = RingMoveRequest {
        planned: true,
        proxies: 2,
        ..RingMoveRequest::default()
    };
    world.core.begin_ring_move(world.now, "main", &request)
}

/// What is observed is executed when an operator says so, once, and rests then as if it had been executed at once.
#[test]
fn what_is_planned_is_carried_out_when_it_is_approved() {
    let (mut world, mut all) = counting(2);
    set(&mut world, RingMode::Observe, 2).unwrap();
    let keys = keys(&all[0].ring(), 3);
    let refused = approve(&mut world).unwrap_err().to_string();
    assert!(refused.contains("nothing is planned"), "{refused}");
    pass(&mut world, &mut all, &keys, 6);
    let seen = slot(&world);
    let ordered = approve(&mut world).unwrap();
    let parts =
        |moves: &[RingMoveView]| -> BTreeSet<u32> { moves.iter().map(|part| part.first).collect() };
    let moved = parts(&[ordered.moves, ordered.waiting].concat());
    assert_eq!(moved, parts(&seen.planned));
    let left = ordered.slot.unwrap();
    assert!(left.planned.is_empty() && left.predicted_max_by_mean.is_none());
    let outcome = ordered.outcomes[0];
    let expected = [seen.max_by_mean, seen.predicted_max_by_mean].map(Option::unwrap);
    assert_eq!([outcome.before, outcome.predicted], expected);
    assert_eq!((outcome.plan, outcome.after), (2, None));
    hurry(&mut world, &mut all, &keys);
    pass(&mut world, &mut all, &keys, 9);
    let after = shown(&world).outcomes[0].after.expect("two slots are over");
    assert!(after < outcome.before, "{outcome:?}, {after}");
    let again = parts(&slot(&world).planned);
    assert!(moved.is_disjoint(&again), "what has moved rests");
}

/// An order that is taken back leaves nothing behind that rests.
#[test]
fn what_is_taken_back_can_be_approved_again() {
    let (mut world, mut all) = counting(2);
    set(&mut world, RingMode::Observe, 2).unwrap();
    let keys = keys(&all[0].ring(), 3);
    pass(&mut world, &mut all, &keys, 6);
    let planned = slot(&world).planned;
    approve(&mut world).unwrap();
    world.core.withdraw_change(world.now, "main").unwrap();
    hurry(&mut world, &mut all, &keys);
    pass(&mut world, &mut all, &keys, 3);
    assert_eq!(slot(&world).planned, planned);
    assert!(shown(&world).outcomes.is_empty());
}

#[test]
fn nothing_is_planned_on_less_than_four_fifths_of_the_proxies() {
    let (mut world, mut all) = counting(5);
    set(&mut world, RingMode::Observe, 5).unwrap();
    let keys = keys(&all[0].ring(), 3);
    all[0].is_mute = true;
    pass(&mut world, &mut all, &keys, 6);
    assert_eq!(slot(&world).told, 4);
    assert!(!slot(&world).planned.is_empty());
    all[1].is_mute = true;
    pass(&mut world, &mut all, &keys, 6);
    let seen = slot(&world);
    assert_eq!((seen.told, seen.followers), (3, 5));
    assert_eq!((seen.servers.len(), seen.planned.len()), (0, 0));
}

#[test]
fn counts_that_cannot_be_true_are_not_used_and_counted() {
    let (mut world, mut all) = counting(1);
    set(&mut world, RingMode::Observe, 1).unwrap();
    let keys = keys(&all[0].ring(), 3);
    pass(&mut world, &mut all, &keys, 3);
    let grains = all[0].ring().grains().len() as u32;
    let good = GrainCounted(7, 1_000_000, 1, 1, 1);
    let lies = [
        vec![GrainCounted(grains, 1, 1, 1, 1)],
        vec![GrainCounted(7, 1, 2, 1, 1)],
        vec![GrainCounted(7, 1, 1, 1, u64::MAX)],
        vec![good, good],
        // All that was there before is gone.
        vec![GrainCounted(
            grain_of(&all[0].ring().grains(), keys[0]) as u32,
            1,
            1,
            1,
            1,
        )],
    ];
    for (lie, void) in lies.into_iter().zip(1..) {
        world.pass(SLOT_MS);
        let wanted = all[0].send(&mut world, None).expect("counts are wanted");
        let mut counts = all[0].counts(&world, wanted, &keys);
        counts.grains = lie;
        all[0].send(&mut world, Some(counts));
        assert_eq!(world.core.change_counts().ring_reports_void, void);
    }
    world.pass(SLOT_MS);
    let wanted = all[0].send(&mut world, None).expect("counts are wanted");
    let mut counts = all[0].counts(&world, wanted, &keys);
    counts.down = vec![8];
    all[0].send(&mut world, Some(counts));
    assert_eq!(world.core.change_counts().ring_reports_void, 6);
    // Of a slot that nobody asked for, of a ring that is none here: they are as good as none.
    for (slot, plan) in [(u64::MAX, 1), (0, 1), (slot(&world).number + 1, 9)] {
        let mut counts = all[0].counts(&world, slot, &keys);
        counts.plan = plan;
        all[0].send(&mut world, Some(counts));
    }
    assert_eq!(world.core.change_counts().ring_reports_void, 6);
}

/// A server that is dead carries nothing, and must be given nothing because of that.
#[test]
fn nothing_moves_while_a_server_does_not_answer() {
    let (mut world, mut all) = counting(2);
    set(&mut world, RingMode::Automatic, 2).unwrap();
    let keys = keys(&all[0].ring(), 3);
    all[1].down = vec![5];
    pass(&mut world, &mut all, &keys, 6);
    let seen = slot(&world);
    assert_eq!(
        (&seen.down[..], seen.planned.len()),
        (&["m6".to_owned()][..], 0)
    );
    assert!(seen.max_by_mean.unwrap() > 4.0);
    assert_eq!(shown(&world).change.ring.unwrap().number, 1);
    all[1].down.clear();
    pass(&mut world, &mut all, &keys, 6);
    assert!(shown(&world).change.ring.unwrap().number > 1);
}

#[test]
fn settings_of_a_ring_are_checked_and_kept() {
    let (mut world, _) = counting(1);
    for (request, words) in [
        (r#"{"mode": "automatic"}"#, "needs proxies"),
        (r#"{"slot_ms": 999}"#, "slot_ms is 1000 to 600000, not 999"),
        (r#"{"slot_ms": 600001}"#, "slot_ms is 1000"),
        (r#"{"warming_ms": 600001}"#, "warming_ms is at most 600000"),
    ] {
        let request: RingSettingsRequest = serde_json::from_str(request).unwrap();
        let refused = world
            .core
            .set_ring(world.now, "main", &request)
            .unwrap_err();
        assert!(refused.to_string().contains(words), "{refused}");
    }
    assert_eq!(shown(&world).settings, RingSettings::default());
    let unknown = RingSettingsRequest::default();
    let unknown = world.core.set_ring(world.now, "x", &unknown);
    assert!(matches!(unknown, Err(ChangeRefusal::UnknownPool { .. })));
    set(&mut world, RingMode::Automatic, 7).unwrap();
    world.restart();
    let kept = shown(&world).settings;
    assert_eq!(
        (kept.mode, kept.proxies, kept.slot_ms),
        (RingMode::Automatic, 7, SLOT_MS)
    );
}
