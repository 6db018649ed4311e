//! Where the memory of items comes from: huge pages (`-L`), and the memory nodes that workers are on (`--pin`).
//!
//! Where a machine has several memory nodes, each node has a mapping of its own, as large as the workers need that are
//! pinned to its cores. With `-L` mappings are made of huge pages, also where there is one node or nobody is pinned.
//! A worker takes its segments and the lines of its indexes from its mapping. Where there is none, because nobody
//! wants it or it cannot be had, or when there is no room left in it, they come from the allocator: nothing here stops
//! a server.

use crate::args::Args;
use evenkeel_roles::server::MemoryFacts;
use evenkeel_runtime::{MappedHeap, Mapping, MemoryNodes, Pages};
use evenkeel_storage::{IndexLine, Memory};
use std::sync::Arc;

/// A mapping is larger than its workers' share of the limit by this part of it, because blocks of many sizes leave gaps
/// and the heap needs some memory itself.
const GAPS_PART: usize = 16;

/// Workers with the same memory.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    /// Where it is to be, if that matters.
    node: Option<u32>,
    workers: Vec<usize>,
    /// How large its mapping is to be.
    bytes: usize,
}

/// What a part got.
#[derive(Debug)]
struct Got {
    heap: Arc<ItemHeap>,
    pages: Pages,
    bytes: usize,
    is_bound: bool,
}

#[derive(Debug)]
struct ItemHeap(MappedHeap);

impl Memory for ItemHeap {
    fn bytes(&self, count: usize) -> Option<Box<[u8]>> {
        self.0.filled(0, count)
    }

    fn lines(&self, count: usize) -> Option<Box<[IndexLine]>> {
        self.0.filled(IndexLine::default(), count)
    }
}

/// Memory for items.
#[derive(Debug)]
pub struct ItemMemory {
    parts: Vec<(Part, Option<Got>)>,
    huge: bool,
    nodes: usize,
    /// The node of the core that each worker is pinned to, where that is known.
    node_of_worker: Vec<Option<u32>>,
}

impl ItemMemory {
    /// Gets memory as the flags want it, and says on standard error what was got.
    pub fn prepare(args: &Args) -> ItemMemory {
        let nodes = MemoryNodes::of_this_machine();
        let node_of = |worker: usize| nodes.of_core(args.pin?.checked_add(worker)?);
        let node_of_worker: Vec<_> = (0..usize::from(args.threads)).map(node_of).collect();
        // With one node there is nothing to choose.
        let several = nodes.count() > 1;
        let chosen: Vec<_> = node_of_worker
            .iter()
            .map(|node| node.filter(|_| several))
            .collect();
        let limit_bytes = args.memory_limit.saturating_mul(1 << 20);
        let parts = divide(limit_bytes, &chosen).into_iter().map(|part| {
            let got = obtain(&part, args.huge_pages);
            (part, got)
        });
        ItemMemory {
            parts: parts.collect(),
            huge: args.huge_pages,
            nodes: nodes.count(),
            node_of_worker,
        }
    }

    /// For each worker what its blocks come from, unless it is the allocator.
    pub fn of_workers(&self) -> Vec<Option<Arc<dyn Memory>>> {
        let mut of_workers = vec![None; self.node_of_worker.len()];
        for (part, got) in &self.parts {
            let Some(got) = got else { continue };
            for worker in &part.workers {
                of_workers[*worker] = Some(got.heap.clone() as Arc<dyn Memory>);
            }
        }
        of_workers
    }

    /// What is told of it.
    pub fn facts(&self) -> MemoryFacts {
        let got = || self.parts.iter().filter_map(|(_, got)| got.as_ref());
        let unbound = |(part, got): &(Part, Option<Got>)| match (part.node, got) {
            (None, _) => 0,
            (Some(_), None) => part.bytes as u64,
            (Some(_), Some(got)) if got.is_bound => 0,
            (Some(_), Some(got)) => got.bytes as u64,
        };
        // Of several nodes the one that got the worst counts.
        let pages = |(_, got): &(Part, Option<Got>)| match got {
            Some(got) => got.pages,
            None => Pages::Ordinary,
        };
        let worst = self.parts.iter().map(pages).max();
        MemoryFacts {
            huge_pages: match worst {
                _ if !self.huge => "off",
                Some(Pages::Reserved) => "reserved",
                Some(Pages::Transparent) => "transparent",
                Some(Pages::Ordinary) | None => "none",
            },
            mapped_bytes: got().map(|got| got.bytes as u64).sum(),
            mapped_refused: got().map(|got| got.heap.0.refused()).sum(),
            unbound_bytes: self.parts.iter().map(unbound).sum(),
            nodes: self.nodes as u64,
            node_of_worker: self.node_of_worker.clone(),
        }
    }
}

/// Divides memory among the nodes that workers are on, in the order in which they come.
fn divide(limit_bytes: usize, node_of_worker: &[Option<u32>]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (worker, node) in node_of_worker.iter().enumerate() {
        match parts.iter_mut().find(|part| part.node == *node) {
            Some(part) => part.workers.push(worker),
            None => parts.push(Part {
                node: *node,
                workers: vec![worker],
                bytes: 0,
            }),
        }
    }
    for part in &mut parts {
        let share = (limit_bytes / node_of_worker.len()).saturating_mul(part.workers.len());
        let with_gaps = share.saturating_add(share / GAPS_PART);
        let granules = with_gaps.div_ceil(MappedHeap::granule_bytes());
        part.bytes = granules.saturating_mul(MappedHeap::granule_bytes());
    }
    parts
}

/// Gets the memory of a part, if it is to be other than the allocator's; says what came of that.
fn obtain(part: &Part, huge: bool) -> Option<Got> {
    let place = part
        .node
        .map_or(String::new(), |node| format!(" on memory node {node}"));
    let say = |what: String| eprintln!("evenkeel server: {what}{place}");
    let on_node = || part.node.map(|node| Mapping::on_node(part.bytes, node));
    let mapping = match huge.then(|| Mapping::huge(part.bytes, part.node)) {
        None => on_node()?,
        Some(Ok((mapping, why))) => {
            let kind = match why {
                Some(why) => format!("transparent huge pages, because {why}"),
                None => "reserved huge pages".to_owned(),
            };
            say(format!("-L: {} MiB of {kind}", mapping.bytes() >> 20));
            Ok(mapping)
        }
        Some(Err(why)) => {
            say(format!("-L: no huge pages, because {why}"));
            on_node()?
        }
    };
    let got = mapping.and_then(|mapping| {
        let (pages, bytes, is_bound) = (mapping.pages(), mapping.bytes(), mapping.is_bound());
        let heap = Arc::new(ItemHeap(MappedHeap::new(mapping)?));
        Ok(Got {
            heap,
            pages,
            bytes,
            is_bound,
        })
    });
    match got {
        Ok(got) => {
            if !got.is_bound {
                say("the kernel does not bind memory".to_owned());
            }
            Some(got)
        }
        Err(why) => {
            say(format!("items have the allocator's memory, because {why}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn each_node_has_what_its_workers_need() {
        let part = |node, workers: &[usize], bytes| Part {
            node,
            workers: workers.to_vec(),
            bytes,
        };
        // A sixteenth more, in steps of 32 MiB.
        let parts = divide(1024 * MIB, &[Some(1), Some(0), Some(1), Some(1)]);
        assert_eq!(
            parts,
            [
                part(Some(1), &[0, 2, 3], 832 * MIB),
                part(Some(0), &[1], 288 * MIB)
            ]
        );
        assert_eq!(divide(MIB, &[None; 2]), [part(None, &[0, 1], 32 * MIB)]);
        // A worker whose core nobody knows is on no node.
        let parts = divide(64 * MIB, &[Some(0), None]);
        assert_eq!(
            parts,
            [part(Some(0), &[0], 64 * MIB), part(None, &[1], 64 * MIB)]
        );
        let endless = divide(usize::MAX, &[None]);
        assert!(endless[0].bytes > usize::MAX / 2, "{endless:?}");
    }

    #[test]
    fn nobody_maps_memory_who_wants_neither_huge_pages_nor_a_node() {
        let parts = divide(64 * MIB, &[None; 4]);
        assert!(obtain(&parts[0], false).is_none());
    }

    /// In this program, whose allocator is not mimalloc, nothing can be had; the facts say so.
    #[test]
    fn what_cannot_be_had_is_told() {
        let node_of_worker = vec![Some(0), Some(1), None];
        let parts = divide(96 * MIB, &node_of_worker).into_iter().map(|part| {
            let got = obtain(&part, true);
            assert!(got.is_none());
            (part, got)
        });
        let memory = ItemMemory {
            parts: parts.collect(),
            huge: true,
            nodes: 2,
            node_of_worker,
        };
        let facts = memory.facts();
        assert_eq!((facts.huge_pages, facts.nodes), ("none", 2));
        assert_eq!((facts.mapped_bytes, facts.mapped_refused), (0, 0));
        assert_eq!(facts.unbound_bytes, 128 * MIB as u64, "those of two nodes");
        assert!(memory.of_workers().iter().all(Option::is_none));
    }
}
