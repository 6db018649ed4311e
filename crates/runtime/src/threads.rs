//! Threads.

use crate::UsageError;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::thread::JoinHandle;
use std::time::Duration;

/// Starts a thread with a name that `top -H` shows.
pub fn spawn_named<T: Send + 'static>(
    name: String,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name).spawn(body)
}

/// Pins the calling thread to a core.
pub fn pin_to_core(core: usize) -> Result<(), UsageError> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    match cores.iter().find(|id| id.id == core) {
        Some(id) if core_affinity::set_for_current(*id) => Ok(()),
        Some(_) => Err(UsageError(format!("failed to pin a thread to core {core}"))),
        None => Err(UsageError(format!(
            "there is no core {core} for this process (it may use {} cores)",
            cores.len()
        ))),
    }
}

/// How long the calling thread has wanted a processor, as the scheduler counts it.
#[derive(Debug)]
pub struct ProcessorTimes {
    /// `None` where the kernel does not count (no `CONFIG_SCHED_INFO`).
    file: Option<File>,
}

impl ProcessorTimes {
    /// Of the calling thread, no matter who asks later.
    #[allow(clippy::disallowed_methods, reason = "no disk is behind /proc")]
    pub fn of_this_thread() -> Self {
        ProcessorTimes {
            file: File::open("/proc/thread-self/schedstat").ok(),
        }
    }

    /// The time for which it has run, and that for which it has waited for a processor that others had. `None` where the
    /// kernel does not say.
    pub fn wanted(&self) -> Option<Duration> {
        let mut text = [0; 64];
        let len = self.file.as_ref()?.read_at(&mut text, 0).ok()?;
        wanted(std::str::from_utf8(&text[..len]).ok()?)
    }
}

/// `ran waited slices`, the first two in nanoseconds (Documentation/scheduler/sched-stats.rst).
fn wanted(schedstat: &str) -> Option<Duration> {
    let mut nanos = schedstat.split_ascii_whitespace().map(str::parse::<u64>);
    let (ran, waited) = (nanos.next()?.ok()?, nanos.next()?.ok()?);
    Some(Duration::from_nanos(ran.saturating_add(waited)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_scheduler_counts_is_read() {
        assert_eq!(wanted("1200 34 5\n"), Some(Duration::from_nanos(1234)));
        assert_eq!(wanted("1200\n"), None);
        assert_eq!(wanted("a b c\n"), None);
    }

    #[test]
    fn a_thread_that_works_has_wanted_a_processor() {
        let times = ProcessorTimes::of_this_thread();
        let before = times.wanted().expect("kernels with statistics");
        let mut sum = 0_u64;
        while times.wanted() == Some(before) {
            sum = std::hint::black_box(sum + 1);
        }
    }
}
