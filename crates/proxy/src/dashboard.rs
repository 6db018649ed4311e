//! What the page at `--admin` shows, brought up to date once a second whether anybody looks or not: a page that is opened shows the last hour.

use crate::facts::Facts;
use crate::load::Load;
use evenkeel_proxy_core::{Dashboard, DashboardView, HeatMeasure, HeatView};
use evenkeel_runtime::spawn_named;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time between two columns.
const INTERVAL: Duration = Duration::from_secs(1);

/// What is shown, shared by who keeps it up to date and who tells it.
#[derive(Clone, Debug, Default)]
pub struct SharedDashboard(Arc<Mutex<Dashboard>>);

impl SharedDashboard {
    /// Begins to keep it up to date, until `stop` is set.
    ///
    /// # Errors
    /// When the machine has no thread for it.
    pub fn start(facts: Facts, stop: &Arc<AtomicBool>) -> std::io::Result<SharedDashboard> {
        let shared = SharedDashboard::default();
        let (dashboard, stop) = (shared.clone(), Arc::clone(stop));
        spawn_named("dashboard".into(), move || dashboard.keep(&facts, &stop))?;
        Ok(shared)
    }

    #[allow(clippy::disallowed_methods, reason = "on a thread for what waits")]
    fn keep(&self, facts: &Facts, stop: &AtomicBool) {
        let mut load = Load::new(facts.clock, &facts.workers);
        let mut due = Instant::now();
        while !stop.load(Ordering::Acquire) {
            // A worker that does not answer leaves a gap.
            if let Some(process) = facts.counted() {
                let load = load.report();
                self.lock().note(facts.clock.now(), &process, &load);
            }
            due = (due + INTERVAL).max(Instant::now());
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }

    /// The state of now.
    pub fn view(&self) -> DashboardView {
        self.lock().view()
    }

    /// The newest columns, at most this many.
    pub fn heat(&self, of: HeatMeasure, columns: usize) -> HeatView {
        self.lock().heat(of, columns)
    }

    fn lock(&self) -> MutexGuard<'_, Dashboard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
