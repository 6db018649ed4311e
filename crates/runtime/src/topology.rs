//! Which cores belong to which memory node (NUMA).
//!
//! On a machine with several sockets each has memory of its own, and reaching another's takes half as long again or
//! more. Linux tells the nodes under `/sys/devices/system/node`; a machine, or a container, that does not tell has
//! one node.

use std::collections::BTreeMap;
use std::path::Path;

/// Where Linux tells of nodes.
const NODES: &str = "/sys/devices/system/node";

/// Most nodes and most cores that are believed: Linux knows no more of either.
const NODES_MAX: usize = 1024;
const CORES_MAX: usize = 8192;

/// The memory nodes of a machine, with their cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryNodes(BTreeMap<u32, Vec<usize>>);

impl MemoryNodes {
    /// Those of this machine.
    pub fn of_this_machine() -> MemoryNodes {
        MemoryNodes::read(Path::new(NODES))
    }

    /// What a folder like Linux's tells; no nodes where it tells nothing that makes sense.
    fn read(folder: &Path) -> MemoryNodes {
        let text = |path: &str| std::fs::read_to_string(folder.join(path)).ok();
        let online = text("online").and_then(|list| parse_list(&list, NODES_MAX));
        let mut nodes = BTreeMap::new();
        for node in online.unwrap_or_default() {
            let cores = text(&format!("node{node}/cpulist"));
            let cores = cores.and_then(|list| parse_list(&list, CORES_MAX));
            // A node may have memory and no cores, and then nobody is near to it.
            if let Some(cores) = cores.filter(|cores| !cores.is_empty()) {
                nodes.insert(node as u32, cores);
            }
        }
        MemoryNodes(nodes)
    }

    /// How many there are that have cores; one at least.
    pub fn count(&self) -> usize {
        self.0.len().max(1)
    }

    /// The node of a core; `None` where the machine does not tell.
    pub fn of_core(&self, core: usize) -> Option<u32> {
        let found = self.0.iter().find(|(_, cores)| cores.contains(&core));
        found.map(|(node, _)| *node)
    }
}

/// Reads a list such as `0-3,8,10-11`; nothing for what is no list of numbers below `below`.
fn parse_list(text: &str, below: usize) -> Option<Vec<usize>> {
    let text = text.trim();
    let mut numbers = Vec::new();
    for range in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= below {
            return None;
        }
        numbers.extend(first..=last);
    }
    (numbers.len() <= below).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder like Linux's, with these nodes.
    fn folder(online: &str, nodes: &[(u32, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("online"), online).expect("written");
        for (node, cores) in nodes {
            let path = folder.path().join(format!("node{node}"));
            std::fs::create_dir(&path).expect("a folder");
            std::fs::write(path.join("cpulist"), cores).expect("written");
        }
        folder
    }

    #[test]
    fn lists_are_read_as_linux_writes_them() {
        let read = |text| parse_list(text, 100);
        assert_eq!(read("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(read("7"), Some(vec![7]));
        assert_eq!(read("\n"), Some(Vec::new()));
        for wrong in [
            "x",
            "1-",
            "-1",
            "3-1",
            "1,,2",
            "100",
            "0-99999999999999",
            "0,1-100",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(
            read(&["0-99"; 50].join(",")),
            None,
            "longer than there are numbers"
        );
    }

    #[test]
    fn cores_are_found_on_their_nodes() {
        // Two sockets with hyper-threads, and a node of memory alone.
        let two = folder("0-2\n", &[(0, "0-3,8-11\n"), (1, "4-7,12-15\n"), (2, "\n")]);
        let nodes = MemoryNodes::read(two.path());
        assert_eq!(nodes.count(), 2);
        let of = |core| nodes.of_core(core);
        assert_eq!(
            [of(0), of(11), of(4), of(15), of(16)],
            [Some(0), Some(0), Some(1), Some(1), None]
        );
    }

    #[test]
    fn cores_that_are_switched_off_are_on_no_node() {
        // Four nodes, of which the kernel uses three; on the last, half of the cores are off.
        let nodes = [(0, "0-1\n"), (1, "2-3\n"), (2, "4-5\n"), (3, "6\n")];
        let four = folder("0-1,3\n", &nodes);
        let nodes = MemoryNodes::read(four.path());
        assert_eq!(nodes.count(), 3);
        let of = |core| nodes.of_core(core);
        assert_eq!([of(1), of(2), of(6)], [Some(0), Some(1), Some(3)]);
        assert_eq!([of(4), of(7)], [None, None]);
    }

    #[test]
    fn what_makes_no_sense_counts_for_nothing() {
        // A node without a folder, one with words, one with a core that another has too, and one that is sound.
        let nodes = [(1, "some\n"), (2, "2-3\n"), (3, "3-4\n")];
        let odd = folder("0-3\n", &nodes);
        let nodes = MemoryNodes::read(odd.path());
        assert_eq!(nodes.count(), 2);
        let of = |core| nodes.of_core(core);
        assert_eq!(
            [of(0), of(2), of(3), of(4)],
            [None, Some(2), Some(2), Some(3)]
        );
        for online in ["0-99999", "one", "1-0", "0-\u{fffd}"] {
            let odd = folder(online, &[(0, "0-3\n")]);
            assert_eq!(
                MemoryNodes::read(odd.path()),
                MemoryNodes::default(),
                "{online}"
            );
        }
    }

    #[test]
    fn a_machine_that_does_not_tell_has_one_node() {
        let none = folder("", &[]);
        let strange = folder("0-1", &[(0, "zero")]);
        for folder in [none.path(), strange.path(), Path::new("/no/such/folder")] {
            let nodes = MemoryNodes::read(folder);
            assert_eq!((nodes.count(), nodes.of_core(0)), (1, None));
        }
    }

    #[test]
    fn this_machine_has_a_node_for_each_core_that_it_tells_of() {
        let nodes = MemoryNodes::of_this_machine();
        assert!(nodes.count() >= 1);
        if Path::new(NODES).join("node0/cpulist").exists() {
            assert!(
                !nodes.0.is_empty(),
                "what the kernel writes is not understood"
            );
        }
    }
}
