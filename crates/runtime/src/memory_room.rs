//! How much memory a process may take before the kernel ends one for it.

use procfs::process::Process;
use procfs::{Current, Meminfo};
use std::fs;
use std::path::Path;

/// Where control groups are.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// What a process may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRoom {
    /// Bytes at most, together with all others that share them.
    pub bytes: u64,
    /// A control group's limit says so, as in a container; otherwise the machine has no more.
    pub is_limit: bool,
}

impl MemoryRoom {
    /// That of this process: the least of what the machine has and of what its control groups allow. `None` where the kernel does not tell.
    pub fn of_this_process() -> Option<MemoryRoom> {
        let machine = Meminfo::current().ok()?.mem_total;
        let groups = Process::myself().and_then(|it| it.cgroups());
        let groups = groups.into_iter().flatten();
        let limits = groups.filter_map(|group| {
            let is_second_version = group.hierarchy == 0;
            let is_of_memory = group.controllers.iter().any(|it| it == "memory");
            let (folder, file) = match (is_second_version, is_of_memory) {
                (true, _) => (CONTROL_GROUPS.to_owned(), "memory.max"),
                (_, true) => (format!("{CONTROL_GROUPS}/memory"), "memory.limit_in_bytes"),
                _ => return None,
            };
            least_limit(Path::new(&folder), &group.pathname, file)
        });
        Some(MemoryRoom::least(machine, limits.min()))
    }

    fn least(machine: u64, limit: Option<u64>) -> MemoryRoom {
        match limit {
            // Version 1 says that there is none by a number beyond all memory.
            Some(bytes) if bytes < machine => MemoryRoom {
                bytes,
                is_limit: true,
            },
            _ => MemoryRoom {
                bytes: machine,
                is_limit: false,
            },
        }
    }
}

/// The least of the limits of a control group and of those that it is part of. In a container its path may be one that only the machine
/// outside has: then the topmost folder is its own.
fn least_limit(folder: &Path, path: &str, file: &str) -> Option<u64> {
    let path = Path::new(path.trim_start_matches('/'));
    let limits = path.ancestors().filter_map(|group| {
        let text = fs::read_to_string(folder.join(group).join(file)).ok()?;
        text.trim().parse().ok()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_on_the_way_up_counts() {
        let folder = tempfile::tempdir().unwrap();
        let write = |group: &str, text: &str| {
            let group = folder.path().join(group);
            fs::create_dir_all(&group).unwrap();
            fs::write(group.join("memory.max"), text).unwrap();
        };
        let limit = |path| least_limit(folder.path(), path, "memory.max");
        assert_eq!(limit("/"), None);
        write("", "max\n");
        assert_eq!(limit("/a/b"), None);
        write("a", "3000\n");
        write("a/b", "5000\n");
        write("a/c", "2000\n");
        assert_eq!(limit("/a/b"), Some(3000));
        assert_eq!(limit("/a/c"), Some(2000));
        // Not to be seen from here.
        assert_eq!(limit("/a/elsewhere/deep"), Some(3000));
        write("", "100\n");
        assert_eq!(limit("/elsewhere"), Some(100));
    }

    #[test]
    fn a_limit_beyond_the_machine_is_none() {
        let room = |limit| MemoryRoom::least(8 << 30, limit);
        assert!(!room(None).is_limit && !room(Some(u64::MAX / 2)).is_limit);
        assert_eq!(room(Some(1 << 30)).bytes, 1 << 30);
        assert!(room(Some(1 << 30)).is_limit);
        let here = MemoryRoom::of_this_process().expect("the kernel tells");
        assert!(here.bytes > 64 << 20, "{here:?}");
    }
}
