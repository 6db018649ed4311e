//! What Prometheus' own clients tell of every process, and which version it is.

use procfs::process::{LimitValue, Process};
use procfs::{ProcResult, WithCurrentSystemInfo, boot_time_secs, ticks_per_second};
use std::fmt::Write;

/// What there is to be told of this process.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Facts {
    cpu_s: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    open_fds: usize,
    /// `None` where there is no limit.
    max_fds: Option<u64>,
    start_unix_s: f64,
}

impl Facts {
    /// Asks the kernel. O(open files).
    fn read() -> ProcResult<Facts> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let ticks = ticks_per_second() as f64;
        Ok(Facts {
            cpu_s: (stat.utime + stat.stime) as f64 / ticks,
            resident_bytes: stat.rss_bytes().get(),
            virtual_bytes: stat.vsize,
            open_fds: process.fd_count()?,
            max_fds: match process.limits()?.max_open_files.soft_limit {
                LimitValue::Value(limit) => Some(limit),
                LimitValue::Unlimited => None,
            },
            start_unix_s: boot_time_secs()? as f64 + stat.starttime as f64 / ticks,
        })
    }
}

/// `process_…` as in Prometheus' own clients, and `evenkeel_build_info`, for the metrics of a process that is this `role`, such as `proxy`. What
/// the kernel does not tell is left out.
pub fn process_metrics(role: &str) -> String {
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, labels: &str, value: f64| {
        // Writing into memory cannot fail.
        let _ = writeln!(
            text,
            "# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{labels} {value}"
        );
    };
    let version = env!("CARGO_PKG_VERSION");
    let labels = format!("{{role=\"{role}\",version=\"{version}\"}}");
    let help = "1, with the part of Evenkeel that this is, and its version.";
    family("evenkeel_build_info", "gauge", help, &labels, 1.0);
    let Ok(facts) = Facts::read() else {
        return text;
    };
    let mut one = |name, kind, help, value| family(name, kind, help, "", value);
    one(
        "process_cpu_seconds_total",
        "counter",
        "CPU time in user mode and in the kernel.",
        facts.cpu_s,
    );
    one(
        "process_resident_memory_bytes",
        "gauge",
        "Memory that is resident.",
        facts.resident_bytes as f64,
    );
    one(
        "process_virtual_memory_bytes",
        "gauge",
        "Virtual memory.",
        facts.virtual_bytes as f64,
    );
    one(
        "process_open_fds",
        "gauge",
        "Open files and connections.",
        facts.open_fds as f64,
    );
    if let Some(max_fds) = facts.max_fds {
        let help = "Most open files and connections.";
        one("process_max_fds", "gauge", help, max_fds as f64);
    }
    one(
        "process_start_time_seconds",
        "gauge",
        "When the process started, in seconds since 1970.",
        facts.start_unix_s,
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{SystemTime, UNIX_EPOCH};

    #[test]
    fn a_process_knows_itself() {
        let facts = Facts::read().expect("Linux");
        assert!(facts.resident_bytes > 1 << 20, "{facts:?}");
        assert!(facts.virtual_bytes >= facts.resident_bytes, "{facts:?}");
        assert!(facts.open_fds >= 3, "{facts:?}");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("since");
        let age = now.as_secs_f64() - facts.start_unix_s;
        assert!((-2.0..86_400.0).contains(&age), "{facts:?}");
    }

    #[test]
    fn each_family_is_declared() {
        let text = process_metrics("proxy");
        let version = env!("CARGO_PKG_VERSION");
        let build = format!("evenkeel_build_info{{role=\"proxy\",version=\"{version}\"}} 1\n");
        assert!(text.contains(&build), "{text}");
        assert_eq!(
            text.matches("# HELP ").count(),
            text.matches("# TYPE ").count()
        );
        let values = text.lines().filter(|line| !line.starts_with('#'));
        let names: Vec<_> = values
            .filter_map(|line| line.split([' ', '{']).next())
            .collect();
        assert!(
            names.contains(&"process_open_fds") && names.len() >= 6,
            "{names:?}"
        );
        for name in names {
            assert!(text.contains(&format!("# TYPE {name} ")), "{name}");
        }
    }
}
