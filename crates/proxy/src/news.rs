//! Waiting for what workers show.

use std::sync::mpsc::Receiver;
use std::time::Instant;

/// Where workers say that their gauges show something new.
#[derive(Debug)]
pub struct News(Receiver<()>);

impl News {
    /// What is sent there is news.
    pub fn new(said: Receiver<()>) -> Self {
        News(said)
    }

    /// Waits until something holds that is seen in the workers' gauges, or until a time. Whether it
    /// holds.
    pub fn wait_until(&self, until: Instant, holds: impl Fn() -> bool) -> bool {
        while !holds() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.0.recv_timeout(left).is_err() {
                return holds();
            }
        }
        true
    }
}
