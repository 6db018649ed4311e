//! How full the network interfaces of the machine are.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Where Linux tells of interfaces (Documentation/ABI/testing/sysfs-class-net).
const INTERFACES: &str = "/sys/class/net";

/// Megabits a second, in bytes.
const MEGABIT: f64 = 1e6 / 8.0;

/// The interfaces that this machine has when this is made. Those that tell no speed are never full: loopback, bridges, and most of
/// virtual machines.
#[derive(Debug)]
pub struct Interfaces {
    looked: Option<Instant>,
    /// Bytes received and sent until then, by the folder of the interface; `None` before the first look.
    carried: Vec<(PathBuf, Option<[u64; 2]>)>,
}

impl Interfaces {
    /// Of this machine, or of the network namespace that the process is in.
    pub fn new() -> Self {
        Interfaces::of(Path::new(INTERFACES))
    }

    fn of(folder: &Path) -> Self {
        Interfaces {
            looked: None,
            carried: physical(folder).map(|one| (one, None)).collect(),
        }
    }

    /// What the fullest interface has carried since this was asked last, in the direction in which it was fuller, as part of its
    /// speed; 0 at first. Reads some small files for each interface.
    pub fn utilization(&mut self, now: Instant) -> f64 {
        let since = self.looked.replace(now);
        let seconds = since.map_or(0.0, |since| (now - since).as_secs_f64());
        let mut fullest = 0.0_f64;
        for (interface, before) in &mut self.carried {
            let Some((speed, carried)) = read(interface) else {
                continue;
            };
            if let Some(before) = before.replace(carried).filter(|_| seconds > 0.0) {
                // Counters begin anew when a driver is loaded anew.
                let grown = carried.iter().zip(before);
                let grown = grown.map(|(now, before)| now.saturating_sub(before));
                let most = grown.max().unwrap_or(0) as f64 / seconds;
                fullest = fullest.max(most / (speed * MEGABIT));
            }
        }
        fullest.min(1.0)
    }
}

impl Default for Interfaces {
    fn default() -> Self {
        Interfaces::new()
    }
}

/// Those behind which is a device: what goes through others goes through these, too, and their speeds are invented.
#[allow(clippy::disallowed_methods, reason = "no disk is behind /sys")]
fn physical(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let interfaces = entries.filter_map(|entry| Some(entry.ok()?.path()));
    interfaces.filter(|interface| interface.join("device").exists())
}

/// Speed in megabits a second, and bytes received and sent. `None` for one without a speed.
#[allow(clippy::disallowed_methods, reason = "no disk is behind /sys")]
fn read(interface: &Path) -> Option<(f64, [u64; 2])> {
    let text = |file: &str| fs::read_to_string(interface.join(file)).ok();
    let speed: f64 = text("speed")?.trim().parse().ok()?;
    let bytes = |file| text(file)?.trim().parse().ok();
    let carried = [bytes("statistics/rx_bytes")?, bytes("statistics/tx_bytes")?];
    (speed > 0.0).then_some((speed, carried))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A machine with these interfaces: name, whether it is a device, speed, bytes received and sent.
    fn write(folder: &Path, interfaces: &[(&str, bool, &str, u64, u64)]) {
        for (name, is_device, speed, received, sent) in interfaces {
            let interface = folder.join(name);
            fs::create_dir_all(interface.join("statistics")).unwrap();
            if *is_device {
                fs::create_dir_all(interface.join("device")).unwrap();
            }
            fs::write(interface.join("speed"), format!("{speed}\n")).unwrap();
            fs::write(
                interface.join("statistics/rx_bytes"),
                format!("{received}\n"),
            )
            .unwrap();
            fs::write(interface.join("statistics/tx_bytes"), format!("{sent}\n")).unwrap();
        }
    }

    #[test]
    fn the_fullest_interface_counts_in_its_fuller_direction() {
        let folder = tempfile::tempdir().unwrap();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        write(
            folder.path(),
            &[
                ("eth0", true, "1000", 500, 900),
                ("eth1", true, "100", 0, 0),
            ],
        );
        let mut interfaces = Interfaces::of(folder.path());
        assert_eq!(
            interfaces.utilization(at(0)),
            0.0,
            "nothing to compare with"
        );
        assert_eq!(interfaces.utilization(at(1)), 0.0);
        // 1 Gbit/s is 125 MB/s.
        let sent = 900 + 2 * 100_000_000;
        write(
            folder.path(),
            &[
                ("eth0", true, "1000", 501, sent),
                ("eth1", true, "100", 2_500_000, 0),
            ],
        );
        assert_eq!(interfaces.utilization(at(3)), 0.8);
        write(folder.path(), &[("eth1", true, "100", 15_000_000, 0)]);
        assert_eq!(interfaces.utilization(at(4)), 1.0);
        assert_eq!(interfaces.utilization(at(4)), 0.0, "no time has passed");
    }

    #[test]
    fn without_a_device_a_speed_or_a_former_count_nothing_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let start = Instant::now();
        let ones = |carried: u64| {
            [
                ("veth", false, "10000", carried, carried),
                ("eth0", true, "-1", carried, carried),
                ("eth1", true, "", carried, carried),
                ("eth2", true, "10", carried.max(5), 9),
            ]
        };
        write(folder.path(), &ones(u64::MAX));
        let mut interfaces = Interfaces::of(folder.path());
        // Counters begin anew, and grow by a little.
        for (second, carried) in [(0, u64::MAX), (1, 0), (2, 7)] {
            write(folder.path(), &ones(carried));
            let at = start + Duration::from_secs(second);
            let used = interfaces.utilization(at);
            assert!(used < 1e-5, "{used} at {second}");
        }
        let mut none = Interfaces::of(Path::new("/nowhere"));
        assert_eq!(none.utilization(start), 0.0);
    }
}
