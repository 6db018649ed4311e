//! How full the network interfaces of the machine are.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Where Linux tells of interfaces (Documentation/ABI/testing/sysfs-class-net).
const INTERFACES: &str = "/sys/class/net";

/// Megabits a second, in bytes.
const MEGABIT: f64 = 1e6 / 8.0;

/// The interfaces of this machine, as often as somebody looks. Those that tell no speed are never full: loopback, bridges, and
/// most of virtual machines.
#[derive(Debug)]
pub struct Interfaces {
    folder: PathBuf,
    looked: Option<Instant>,
    /// Bytes received and sent until then.
    carried: HashMap<PathBuf, [u64; 2]>,
}

impl Interfaces {
    /// Of this machine, or of the network namespace that the process is in.
    pub fn new() -> Self {
        Interfaces::of(INTERFACES)
    }

    fn of(folder: impl Into<PathBuf>) -> Self {
        Interfaces {
            folder: folder.into(),
            looked: None,
            carried: HashMap::new(),
        }
    }

    /// What the fullest interface has carried since this was asked last, in the direction in which it was fuller, as part of its
    /// speed; 0 at first. Reads some small files for each interface.
    pub fn utilization(&mut self, now: Instant) -> f64 {
        let since = self.looked.replace(now);
        let seconds = since.map_or(0.0, |since| (now - since).as_secs_f64());
        let before = std::mem::take(&mut self.carried);
        let mut fullest = 0.0_f64;
        for interface in physical(&self.folder) {
            let Some((speed, carried)) = read(&interface) else {
                continue;
            };
            if let Some(before) = before.get(&interface).filter(|_| seconds > 0.0) {
                // Counters begin anew when a driver is loaded anew.
                let grown = carried
                    .iter()
                    .zip(before)
                    .map(|(now, b)| now.saturating_sub(*b));
                let most = grown.max().unwrap_or(0) as f64 / seconds;
                fullest = fullest.max(most / (speed * MEGABIT));
            }
            self.carried.insert(interface, carried);
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
        let mut interfaces = Interfaces::of(folder.path());
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        write(
            folder.path(),
            &[
                ("eth0", true, "1000", 500, 900),
                ("eth1", true, "100", 0, 0),
            ],
        );
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
        let mut interfaces = Interfaces::of(folder.path());
        let start = Instant::now();
        for (second, carried) in [(0, 0), (1, u64::MAX), (2, 5)] {
            let virtual_ones = [
                ("veth", false, "10000"),
                ("eth0", true, "-1"),
                ("eth1", true, ""),
            ];
            let interfaces_now =
                virtual_ones.map(|(name, device, speed)| (name, device, speed, carried, carried));
            write(folder.path(), &interfaces_now);
            assert_eq!(
                interfaces.utilization(start + Duration::from_secs(second)),
                0.0
            );
        }
        write(folder.path(), &[("eth2", true, "10", u64::MAX, u64::MAX)]);
        interfaces.utilization(start + Duration::from_secs(3));
        write(folder.path(), &[("eth2", true, "10", 7, 7)]);
        assert_eq!(
            interfaces.utilization(start + Duration::from_secs(4)),
            0.0,
            "counted anew"
        );
        assert_eq!(Interfaces::of("/nowhere").utilization(start), 0.0);
    }
}
