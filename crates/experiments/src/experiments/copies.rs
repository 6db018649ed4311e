//! Copies of a pool's items, switched on.

use crate::fleet::api_of;
use anyhow::ensure;
use evenkeel_coordinator_core::{BundleSwitchRequest, BundleView, FollowerView, Stage};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time until proxies and coordinator know each other, and copies are on.
const READY_LIMIT: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Has copies of a pool switched on by its coordinator, which leads no other pool, and waits until all proxies work by that.
pub(super) fn switch_on(coordinator: &str, pool: &str, proxies: usize) -> anyhow::Result<()> {
    let api = api_of(coordinator)?;
    let wait = |stage: Stage, what: &str| -> anyhow::Result<()> {
        let end = Instant::now() + READY_LIMIT;
        let works = |BundleView { change, .. }: &BundleView| {
            let acknowledged = |proxy: &FollowerView| proxy.acknowledged == change.version;
            change.stage == stage
                && change.proxies.len() == proxies
                && change.proxies.iter().all(acknowledged)
        };
        while !api.bundles()?.bundles.iter().any(works) {
            ensure!(
                Instant::now() < end,
                "waited {READY_LIMIT:?} for {what} in vain"
            );
            thread::sleep(LOOK_INTERVAL);
        }
        Ok(())
    };
    wait(Stage::Former, "proxies that follow")?;
    api.switch_bundle_on(pool, &BundleSwitchRequest { proxies })?;
    wait(Stage::Warming, "copies to be on")
}
