//! Copies of a pool's items: on or off.

use crate::{http, poll_until};
use std::net::SocketAddr;
use std::time::Duration;

/// Longest time until all proxies follow, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Copies of the pool `main` are switched `on` or `off`, and this many proxies follow.
///
/// # Panics
/// If they do not within `PATIENCE`.
pub fn switch(coordinator: SocketAddr, to: &str, proxies: usize) {
    poll_until(PATIENCE, "copies to be switched", || {
        let (_, view) = http::get(coordinator, "/api/v1/bundles").ok()?;
        let view: serde_json::Value = serde_json::from_str(&view).ok()?;
        let bundle = view["bundles"].as_array()?.first()?;
        let of_proxies = bundle["change"]["proxies"].as_array()?;
        let follow =
            |proxy: &serde_json::Value| proxy["acknowledged"] == bundle["change"]["version"];
        if bundle["switch"] == to && of_proxies.iter().all(follow) {
            return Some(());
        }
        let order = format!("{{\"proxies\": {proxies}}}");
        // It is refused while they are being switched, and before all proxies are there.
        let _ = http::post_json(coordinator, &format!("/api/v1/bundles/main/{to}"), &order);
        None
    });
}
