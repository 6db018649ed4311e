//! What is shown of copies of pools' items, and what their plans wait for in words.

use evenkeel_control::bundles::{BundlePlan, BundleWish};
use evenkeel_schemes::copies::Switch;
use evenkeel_schemes::stage::Stage;
use evenkeel_types::Instant;
use serde::{Deserialize, Serialize};

use super::view::named;
use super::{ChangeView, Changes, Led, LedBundle};

/// All pools that keep copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundlesView {
    /// By the pool's name.
    pub bundles: Vec<BundleView>,
}

/// The copies of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleView {
    /// How far their plan is, who follows, and what it waits for.
    pub change: ChangeView,
    /// `off`, `clearing` or `on`: what proxies are to work by.
    pub switch: String,
    /// The newest plan; absent before copies were switched on for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<BundlePlan>,
    /// What the files of those that follow say, by name: of those that this coordinator process has heard.
    pub wishes: Vec<BundleWishView>,
}

/// What a proxy's file says of copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleWishView {
    /// The proxy's name.
    pub proxy: String,
    /// What it says.
    pub wish: BundleWish,
    /// It says the same as the plan; while copies are off, as all others.
    pub fits: bool,
}

impl Changes {
    /// All pools that keep copies, to be shown. O(pools · proxies · log proxies).
    pub(crate) fn bundles(&self, now: Instant) -> BundlesView {
        let bundles = self.pools.keys().filter_map(|pool| self.bundle(now, pool));
        BundlesView {
            bundles: bundles.collect(),
        }
    }

    /// One of them, to be shown.
    pub(crate) fn bundle(&self, now: Instant, pool: &str) -> Option<BundleView> {
        let led = self.pools.get(pool)?;
        let bundle = led.bundle.as_ref()?;
        let wanted = led.wanted(bundle);
        let wish = |(proxy, wish): (&String, &BundleWish)| BundleWishView {
            proxy: proxy.clone(),
            wish: *wish,
            fits: wanted == Some(*wish),
        };
        Some(BundleView {
            change: self.view(now, pool)?,
            switch: Switch::at(led.change.step().stage).to_string(),
            plan: bundle.plan,
            wishes: bundle.wishes.iter().map(wish).collect(),
        })
    }

    /// What the plan of a pool's copies waits for, or what can be done.
    pub(super) fn bundle_hint(
        &self,
        now: Instant,
        pool: &str,
        led: &Led,
        bundle: &LedBundle,
    ) -> String {
        let stage = led.change.step().stage;
        if led.is_taken_over {
            return taken_over(pool, stage);
        }
        if let Some(odd) = led.odd(bundle) {
            return odd
                + &format!(
                    ": give all proxies the same file; to switch copies off: evenkeel bundle off {pool} --proxies N"
                );
        }
        if let Some(waits) = self.wait(now, led) {
            return waits;
        }
        if led.change.is_under_way() {
            return "the next step is about to be published".into();
        }
        match (stage, bundle.wish_of_all()) {
            (Stage::Warming, _) => {
                format!("copies are on; to switch them off: evenkeel bundle off {pool} --proxies N")
            }
            (_, Ok(_)) => format!(
                "copies are off; to switch them on, N being the number of proxies that have the pool: evenkeel bundle on {pool} --proxies N"
            ),
            (_, Err(wishes)) => format!(
                "copies are off, and cannot be switched on while the files of proxies say different things; {wishes}"
            ),
        }
    }
}

impl Led {
    /// What all files are to say: what the plan does that is not off, or about to be on; otherwise what all say.
    fn wanted(&self, bundle: &LedBundle) -> Option<BundleWish> {
        match self.is_off() {
            true => bundle.wish_of_all().ok(),
            false => bundle.plan.map(|plan| plan.of),
        }
    }

    /// Whether copies are off, and stay so.
    fn is_off(&self) -> bool {
        let is_off = Switch::at(self.change.step().stage) == Switch::Off;
        is_off && !self.change.is_under_way()
    }

    /// Whose files say otherwise than the plan that is not off.
    fn odd(&self, bundle: &LedBundle) -> Option<String> {
        let of = bundle.plan.filter(|_| !self.is_off())?.of;
        let wishes = bundle.wishes.iter().filter(|(_, wish)| **wish != of);
        let odd: Vec<&str> = wishes.map(|(proxy, _)| proxy.as_str()).collect();
        let said = || {
            format!(
                "the plan is of {of}, and the file says otherwise of {}",
                named(&odd)
            )
        };
        (!odd.is_empty()).then(said)
    }
}

/// What to do with a plan that was taken over.
fn taken_over(pool: &str, stage: Stage) -> String {
    let (is, order) = match stage {
        Stage::Former | Stage::Done => ("off", "on"),
        Stage::Quiesced => ("being switched on", "on"),
        Stage::Warming => ("on", "off"),
        Stage::Closing => ("being switched off", "off"),
    };
    format!(
        "copies are {is}, by what a proxy has said: this coordinator had lost its state; the next step is published when you say how many \
         proxies there are: evenkeel bundle {order} {pool} --proxies N"
    )
}
