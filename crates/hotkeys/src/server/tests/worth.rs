//! Which keys are worth replicas: by chance, and for a worker that has too much to do.

use super::*;
use evenkeel_types::random::SplitMix64;

/// Keys of this worker by the map.
fn own_keys(count: usize) -> Vec<Vec<u8>> {
    let map = map(|_| {});
    let name = |i: u32| format!("key{i}").into_bytes();
    let at_home = |key: &Vec<u8>| map.locate(KeyHash::of(key)).worker == Some(ME);
    (0..).map(name).filter(at_home).take(count).collect()
}

/// A busy worker whose clients read its equally popular keys by chance, this many times a second, and which every shadow
/// confirms at once. With a lease they read at home once for all copies.
struct Crowd {
    home: Home,
    keys: Vec<Vec<u8>>,
    random: SplitMix64,
    rate: u64,
}

impl Crowd {
    fn new(config: HotKeysConfig, keys: usize, rate: u64, mean_rps: f64) -> Crowd {
        let seed = 0x5eed_0077;
        println!("seed {seed:#x}");
        let mut home = Home::new(config);
        home.hot.handle_cluster_load(mean_rps);
        Crowd {
            home,
            keys: own_keys(keys),
            random: SplitMix64::new(seed),
            rate,
        }
    }

    fn pass(&mut self, seconds: u64) {
        let (steps, reader) = (seconds * 1000, Reader::Aware { epoch: EPOCH });
        for step in 0..steps {
            let reads = (step + 1) * self.rate / 1000 - step * self.rate / 1000;
            for _ in 0..reads {
                let key = self.random.below(self.keys.len() as u64) as usize;
                let key = &self.keys[key];
                let gamma = self.home.hot.list_spread();
                let info = gamma.iter().find(|info| info.key == *key);
                let copies = info.map_or(0, |info| info.shadows.len()) as u64 + 1;
                let hot = self.home.state_of(key) == State::Hot;
                if !hot || self.random.below(copies) == 0 {
                    self.home.read_as(key, reader, true);
                }
            }
            self.confirm_all();
            self.home.pass(1);
        }
    }

    fn confirm_all(&mut self) {
        let now = self.home.now();
        while let Some(output) = self.home.hot.poll_output() {
            let (Output::Store(m) | Output::Block(m) | Output::Remove(m)) = output;
            let (target, tag) = (m.target, m.tag);
            self.home.hot.handle_acked(now, target, tag);
        }
    }
}

/// 350 requests a second for 75 keys, each with 1.3 % of them: a little more than makes a key hot, and seen about twice in
/// a slot.
#[test]
fn of_equally_warm_keys_chance_makes_few_hot() {
    let promoted = |certainty| {
        let config = HotKeysConfig {
            certainty,
            entries_max: 128,
            ..HotKeysConfig::default()
        };
        // So busy that it always needs relief.
        let mut crowd = Crowd::new(config, 75, 350, 1.0);
        crowd.pass(60);
        crowd.home.hot.stats().promoted
    };
    let (sure, unsure) = (promoted(HotKeysConfig::default().certainty), promoted(0.0));
    println!("{sure} promoted, {unsure} without certainty");
    assert!(unsure > 500, "chance alone makes {unsure} hot");
    assert!(sure < unsure / 5, "{sure} of {unsure}");
}

/// A key that is hot without doubt gets replicas among as many others, and keeps them.
#[test]
fn a_hot_key_of_a_slow_worker_is_found_and_kept() {
    let mut crowd = Crowd::new(HotKeysConfig::default(), 75, 350, 1.0);
    // 20 of 94 names for one key.
    let hot = crowd.keys[0].clone();
    crowd.keys.extend(vec![hot.clone(); 19]);
    crowd.pass(5);
    assert_eq!(crowd.home.state_of(&hot), State::Hot);
    crowd.pass(60);
    assert_eq!(crowd.home.state_of(&hot), State::Hot);
    let entries = crowd.home.hot.log().entries();
    let retired = entries.filter(|e| e.key == hot && e.cause == Event::Cooled);
    assert_eq!(retired.count(), 0);
}

/// Twenty keys with a twentieth of the load each, at a worker that has 80 of its 1,000 requests a second too much. A replica
/// of one of them takes away 25; half of that is known when it is promoted, in the first slot.
#[test]
fn a_worker_gives_away_what_it_has_too_much_of_and_no_more() {
    for mode in [Mode::On, Mode::Observe] {
        let config = HotKeysConfig {
            mode,
            copy_share: 1.0,
            ..HotKeysConfig::default()
        };
        let mut crowd = Crowd::new(config, 20, 1000, 920.0);
        crowd.pass(20);
        let hot = &crowd.home.hot;
        assert!(hot.is_triggered(), "it would be loaded without them");
        let spread = hot.list_spread();
        assert!(spread.iter().all(|info| {
            let replicas = info.shadows.len() + info.proposed.len();
            replicas == 1
        }));
        assert!((3..=8).contains(&spread.len()), "{mode}: {}", spread.len());
    }
}

#[test]
fn a_worker_that_always_has_too_much_gives_away_all_it_can() {
    let config = HotKeysConfig {
        copy_share: 1.0,
        ..HotKeysConfig::default()
    };
    let mut crowd = Crowd::new(config, 20, 1000, 100.0);
    crowd.pass(20);
    assert_eq!(crowd.home.hot.replicated_count(), 20);
}
