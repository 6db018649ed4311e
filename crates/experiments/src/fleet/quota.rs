//! Processor quotas for processes, by control groups: what makes servers small enough for many of
//! them to be busy on one machine.
//!
//! A group may use `quota` of processor time in each period of the kernel's clock and is then kept waiting
//! until the next (Linux, `Documentation/scheduler/sched-bwc.rst`, `admin-guide/cgroup-v2.rst`). Both
//! versions of control groups will do; what is asked of the machine is that this process may make a
//! group beside or below its own.

use anyhow::{Context, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Shortest quota and shortest period that the kernel takes.
pub const QUOTA_MIN: Duration = Duration::from_millis(1);

/// Longest period that the kernel takes.
pub const PERIOD_MAX: Duration = Duration::from_secs(1);

/// How long a group may take to lose its last process when it is removed.
const REMOVE_DEADLINE: Duration = Duration::from_secs(2);

/// Distance of attempts to remove a group.
const REMOVE_INTERVAL: Duration = Duration::from_millis(10);

/// So much processor time in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Processor time of all threads together.
    pub time: Duration,
    /// The period.
    pub period: Duration,
}

impl Quota {
    /// A share of one core (0.05 for a twentieth), handed out each `period`.
    ///
    /// # Errors
    /// When the kernel would not take it, with what it takes.
    pub fn of_core(share: f64, period: Duration) -> anyhow::Result<Quota> {
        ensure!(
            share > 0.0 && share.is_finite(),
            "a share of {share} cores is no quota"
        );
        ensure!(
            (QUOTA_MIN..=PERIOD_MAX).contains(&period),
            "a period of {period:?} is not within 1 ms and 1 s"
        );
        let time = period.mul_f64(share);
        ensure!(
            time >= QUOTA_MIN,
            "{share} of a core every {period:?} is {time:?}, and the least that the kernel hands out is 1 ms: \
             take a longer period"
        );
        Ok(Quota { time, period })
    }

    /// The share of one core.
    pub fn share(self) -> f64 {
        self.time.as_secs_f64() / self.period.as_secs_f64()
    }
}

/// Whether and how long a group was kept waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    /// Periods in which it wanted to run.
    pub periods: u64,
    /// Of these: those in which it was stopped.
    pub throttled: u64,
}

/// A control group with a quota. Removed when dropped, which must be after its processes have ended.
#[derive(Debug)]
pub struct Group {
    folder: PathBuf,
}

impl Group {
    /// Makes a group of this name (letters, digits and `-`) with a quota.
    ///
    /// # Errors
    /// When the machine has no control groups for processor time, or this process may not make one; says
    /// what would help.
    pub fn new(name: &str, quota: Quota) -> anyhow::Result<Group> {
        let place = Place::find()?;
        let name = format!("evenkeel-{}-{name}", std::process::id());
        let group = Group {
            folder: place.folder.join(name),
        };
        fs::create_dir(&group.folder).with_context(|| {
            format!(
                "making a control group in {} (root may, and `systemd-run --scope -p Delegate=yes` lets \
                 others)",
                place.folder.display()
            )
        })?;
        let micros = |duration: Duration| duration.as_micros().to_string();
        match place.version {
            Version::One => {
                // The period first: a quota is checked against it.
                group.set("cpu.cfs_period_us", &micros(quota.period))?;
                group.set("cpu.cfs_quota_us", &micros(quota.time))?;
            }
            Version::Two => {
                if !group.folder.join("cpu.max").exists() {
                    // Allowed where the parent has no processes of its own.
                    let parent = place.folder.join("cgroup.subtree_control");
                    fs::write(&parent, "+cpu").with_context(|| {
                        format!(
                            "asking for processor quotas in {} (`systemd-run --scope -p Delegate=yes` gives a \
                             group that may hand them out)",
                            parent.display()
                        )
                    })?;
                }
                let (time, period) = (micros(quota.time), micros(quota.period));
                group.set("cpu.max", &format!("{time} {period}"))?;
            }
        }
        Ok(group)
    }

    /// Puts a process with all its threads into the group; those that it starts later are born in it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn take(&self, process: u32) -> anyhow::Result<()> {
        self.set("cgroup.procs", &process.to_string())
    }

    /// How often it was kept waiting so far.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn throttled(&self) -> anyhow::Result<Throttled> {
        let path = self.folder.join("cpu.stat");
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok(throttled(&text))
    }

    fn set(&self, file: &str, value: &str) -> anyhow::Result<()> {
        let path = self.folder.join(file);
        fs::write(&path, value).with_context(|| format!("writing {value} to {}", path.display()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let end = Instant::now() + REMOVE_DEADLINE;
        // A process that has just ended counts for a moment more.
        while fs::remove_dir(&self.folder).is_err() && Instant::now() < end {
            std::thread::sleep(REMOVE_INTERVAL);
        }
    }
}

fn throttled(stat: &str) -> Throttled {
    let figure = |name: &str| {
        let line = stat
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|number| number.trim().parse().ok())
            .unwrap_or(0)
    };
    Throttled {
        periods: figure("nr_periods"),
        throttled: figure("nr_throttled"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Where groups are made.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    version: Version,
    folder: PathBuf,
}

impl Place {
    fn find() -> anyhow::Result<Place> {
        let read = |path: &str| fs::read_to_string(path).with_context(|| format!("reading {path}"));
        let mounts = read("/proc/self/mounts")?;
        let own = read("/proc/self/cgroup")?;
        match Place::of(&mounts, &own) {
            Some(place) => Ok(place),
            None => bail!(
                "this machine has no control groups that limit processor time (neither a cgroup2 file \
                 system nor one of version 1 with cpu is mounted)"
            ),
        }
    }

    /// From `/proc/self/mounts` and `/proc/self/cgroup`. Where both versions are mounted, the controller
    /// belongs to the first.
    fn of(mounts: &str, own: &str) -> Option<Place> {
        let mounts = mounts.lines().filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            Some((words.next()?, words.next()?, words.next()?))
        });
        let mut found = None;
        for (point, kind, options) in mounts {
            match kind {
                "cgroup" if options.split(',').any(|option| option == "cpu") => {
                    let path = own_path(own, |controllers| {
                        controllers.split(',').any(|controller| controller == "cpu")
                    })?;
                    return Some(Place {
                        version: Version::One,
                        folder: below(point, path),
                    });
                }
                "cgroup2" => {
                    let path = own_path(own, str::is_empty)?;
                    found = Some(Place {
                        version: Version::Two,
                        folder: below(point, path),
                    });
                }
                _ => {}
            }
        }
        found
    }
}

/// The path of this process's group in the hierarchy with these controllers.
fn own_path(own: &str, fits: impl Fn(&str) -> bool) -> Option<&str> {
    own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        fits(controllers).then_some(path)
    })
}

fn below(point: &str, path: &str) -> PathBuf {
    Path::new(point).join(path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_testkit::poll_until;

    #[test]
    fn the_controller_is_found_in_either_version() {
        let first = "proc /proc proc rw 0 0\n\
                     cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
                     cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
                     cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu,cpuacct 0 0\n";
        let own = "4:memory:/a\n2:cpu,cpuacct:/b/c\n0::/d\n";
        assert_eq!(
            Place::of(first, own),
            Some(Place {
                version: Version::One,
                folder: "/sys/fs/cgroup/cpu/b/c".into()
            })
        );
        let second = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";
        assert_eq!(
            Place::of(second, "0::/user.slice/x.scope\n"),
            Some(Place {
                version: Version::Two,
                folder: "/sys/fs/cgroup/user.slice/x.scope".into()
            })
        );
        assert_eq!(Place::of("proc /proc proc rw 0 0\n", own), None);
    }

    #[test]
    fn a_quota_is_one_that_the_kernel_takes() {
        let period = Duration::from_millis(20);
        let quota = Quota::of_core(0.05, period).expect("1 ms is enough");
        assert_eq!(quota.time, Duration::from_millis(1));
        assert!((quota.share() - 0.05).abs() < 1e-9);
        let error = Quota::of_core(0.04, period).unwrap_err().to_string();
        assert!(error.contains("longer period"), "{error}");
        for (share, period) in [(0.0, 20), (f64::NAN, 20), (0.5, 0), (0.5, 1001)] {
            assert!(Quota::of_core(share, Duration::from_millis(period)).is_err());
        }
    }

    #[test]
    fn what_the_kernel_counts_is_read() {
        let text = "nr_periods 12\nnr_throttled 5\nthrottled_time 99\n";
        let expected = Throttled {
            periods: 12,
            throttled: 5,
        };
        assert_eq!(throttled(text), expected);
        assert_eq!(throttled(""), Throttled::default());
    }

    #[test]
    fn a_process_in_a_group_is_kept_to_its_quota() {
        // So little that a process gets it in each period, however many others want to run.
        let quota = Quota::of_core(0.01, Duration::from_millis(100)).expect("1 ms of 100");
        let group = match Group::new("test", quota) {
            Ok(group) => group,
            Err(error) => {
                eprintln!("skipped, this machine gives no processor quotas: {error:#}");
                return;
            }
        };
        let mut command = std::process::Command::new("sh");
        let mut child = command
            .args(["-c", "while :; do :; done"])
            .spawn()
            .expect("a shell");
        group.take(child.id()).expect("it is ours");
        // It is throttled in each period once it runs: waits for the second.
        poll_until(Duration::from_secs(60), "the second time", || {
            (group.throttled().expect("it is there").throttled >= 2).then_some(())
        });
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let folder = group.folder.clone();
        drop(group);
        assert!(!folder.exists());
    }
}
