//! Memory of a kind that the process has chosen, such as huge pages or that of one memory node.
//!
//! Ordinarily whatever a store holds comes from the process's allocator. A process may give its pool other memory for
//! some of its stores: for their segments, and for the lines of their indexes. Those two are what a look-up reads
//! at random in a large store. Blocks of it are boxes like any other: whoever has one drops it, on whatever thread,
//! and it goes back to where it came from. So a cachelet that moves to another store keeps its memory where it is, and
//! nothing on the path of a get or a set knows of this.

use crate::bucket::Bucket;
use std::fmt::Debug;
use std::sync::Arc;

/// Memory that a process has chosen. It may run out: then the store asks the allocator.
pub trait Memory: Debug + Send + Sync {
    /// So many bytes, of any contents; `None` when there are none left.
    fn bytes(&self, count: usize) -> Option<Box<[u8]>>;

    /// So many lines, each the default; `None` when there are none left.
    fn lines(&self, count: usize) -> Option<Box<[IndexLine]>>;
}

/// A cache line of an index. What is in it is the index's business.
pub type IndexLine = Bucket;

/// What a store's blocks come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks(Option<Arc<dyn Memory>>);

impl Blocks {
    /// From this memory as long as it has some; from the allocator alone, if there is none.
    pub fn of(memory: Option<Arc<dyn Memory>>) -> Self {
        Blocks(memory)
    }

    /// So many bytes, of any contents; `None` when the process gets no memory.
    pub fn bytes(&self, count: usize) -> Option<Box<[u8]>> {
        if let Some(block) = self.0.as_ref().and_then(|memory| memory.bytes(count)) {
            assert_eq!(block.len(), count, "memory gives what it is asked for");
            return Some(block);
        }
        let mut block = Vec::new();
        block.try_reserve_exact(count).ok()?;
        // By the thread that will use it, so that the kernel takes it from that thread's memory node.
        block.resize(count, 0);
        Some(block.into_boxed_slice())
    }

    /// So many empty lines.
    pub fn lines(&self, count: usize) -> Box<[Bucket]> {
        if let Some(lines) = self.0.as_ref().and_then(|memory| memory.lines(count)) {
            assert_eq!(lines.len(), count, "memory gives what it is asked for");
            return lines;
        }
        vec![Bucket::EMPTY; count].into_boxed_slice()
    }
}
