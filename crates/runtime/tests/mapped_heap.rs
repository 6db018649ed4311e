//! Heaps in mapped memory, in a program whose allocator is mimalloc, as that of `evenkeel` is.

use evenkeel_runtime::{MappedHeap, Mapping, give_back_at_once};
use mimalloc::MiMalloc;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::mpsc::channel;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// More requests in a row than are refused unasked after a refusal.
const REFUSALS: usize = 600;

/// A heap in huge pages, where there are any, or in ordinary pages of the first memory node.
fn heap(granules: usize, huge: bool) -> (MappedHeap, Range<usize>) {
    let bytes = granules * MappedHeap::granule_bytes();
    let mapping = huge.then(|| Mapping::huge(bytes, None).ok()).flatten();
    let mapping = match mapping {
        Some((mapping, _)) => mapping,
        None => Mapping::on_node(bytes, 0).expect("addresses"),
    };
    let start = mapping.start() as usize;
    let heap = MappedHeap::new(mapping).expect("mimalloc is the allocator");
    (heap, start..start + bytes)
}

fn addresses<T>(block: &[T]) -> Range<usize> {
    let start = block.as_ptr() as usize;
    start..start + size_of_val(block)
}

/// Takes blocks until there is none, however often it asks.
fn fill(heap: &MappedHeap, bytes: usize) -> Vec<Box<[u8]>> {
    let mut blocks = Vec::new();
    let mut refusals = 0;
    while refusals < REFUSALS {
        match heap.filled(0, bytes) {
            Some(block) => {
                blocks.push(block);
                refusals = 0;
            }
            None => refusals += 1,
        }
    }
    blocks
}

/// A block filled with its number.
struct Block {
    number: u8,
    bytes: Box<[u8]>,
}

impl Block {
    fn assert_untouched(&self) {
        let number = self.number;
        assert!(self.bytes.iter().all(|byte| *byte == number), "{number}");
    }
}

#[test]
fn blocks_never_overlap_and_all_come_back() {
    let seed = match std::env::var("EVENKEEL_SEED") {
        Ok(seed) => seed.parse().expect("a number"),
        Err(_) => 41,
    };
    println!("seed {seed}");
    // What ordinary pages have free goes back to the machine at once, and is mapped anew when it is asked for.
    give_back_at_once();
    for huge in [true, false] {
        use_from_several_threads(huge, seed);
    }
}

fn use_from_several_threads(huge: bool, seed: u64) {
    let (heap, mapped) = heap(2, huge);
    let room = fill(&heap, 64 << 10).len();
    // 2 MiB in each 32 are mimalloc's own.
    assert!(room * (64 << 10) > mapped.len() / 32 * 29, "{room} blocks");
    assert!(heap.refused() >= REFUSALS as u64);

    // Blocks wander from thread to thread, and are freed by one that did not take them.
    let common: Mutex<Vec<Block>> = Mutex::default();
    let live = Mutex::new(Vec::<Range<usize>>::new());
    let work = |thread: u64| {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed + thread);
        let mut below = move |bound: usize| (rng.next_u64() % bound as u64) as usize;
        for _ in 0..3_000 {
            let magnitude = 1 << below(18);
            let size = 1 + below(magnitude);
            let number = below(256) as u8;
            if below(5) < 3 {
                if let Some(bytes) = heap.filled(number, size) {
                    let range = addresses(&bytes);
                    assert!(mapped.start <= range.start && range.end <= mapped.end);
                    let mut live = live.lock().expect("nobody panicked");
                    let overlaps =
                        |other: &Range<usize>| range.start < other.end && other.start < range.end;
                    assert!(!live.iter().any(overlaps), "{range:?}");
                    live.push(range);
                    drop(live);
                    let mut common = common.lock().expect("nobody panicked");
                    common.push(Block { number, bytes });
                }
            } else {
                let mut blocks = common.lock().expect("nobody panicked");
                if blocks.is_empty() {
                    continue;
                }
                let at = below(blocks.len());
                let block = blocks.swap_remove(at);
                drop(blocks);
                block.assert_untouched();
                let range = addresses(&block.bytes);
                live.lock()
                    .expect("nobody panicked")
                    .retain(|other| *other != range);
                drop(block);
            }
        }
    };
    // A thread that lives, as a server's workers do, keeps pages that others have emptied until it asks for more than
    // there is. So each asks once all have worked, and the threads end only after that.
    std::thread::scope(|scope| {
        let (heap, work) = (&heap, &work);
        let spawn = |number| {
            let (ask, asked) = channel::<()>();
            let (say, said) = channel::<()>();
            let thread = scope.spawn(move || {
                work(number);
                say.send(()).expect("the test goes on");
                for () in asked {
                    drop(fill(heap, 64 << 10));
                    say.send(()).expect("the test goes on");
                }
            });
            (thread, ask, said)
        };
        let threads: Vec<_> = (0..3).map(spawn).collect();
        for (_, _, said) in &threads {
            said.recv().expect("it says above what it found wrong");
        }
        let left = std::mem::take(&mut *common.lock().expect("nobody panicked"));
        let live = live.lock().expect("nobody panicked").len();
        assert_eq!(left.len(), live);
        left.iter().for_each(Block::assert_untouched);
        drop(left);
        for (_, ask, said) in &threads {
            ask.send(()).expect("it waits");
            said.recv().expect("it is refused in the end");
        }
        assert_all_came_back(heap, room);
        for (thread, ask, _) in threads {
            drop(ask);
            // The end of the scope would only wait for the closure, and not until the thread has given its pages away.
            thread.join().expect("it only ends");
        }
        assert_all_came_back(heap, room);
    });
}

fn assert_all_came_back(heap: &MappedHeap, room: usize) {
    let again = fill(heap, 64 << 10).len();
    assert!(
        again * 20 >= room * 19,
        "{again} blocks where {room} fitted"
    );
}

#[test]
fn a_heap_that_is_full_refuses_and_gives_again_what_came_back() {
    let (heap, _) = heap(1, true);
    let mut blocks = fill(&heap, 1 << 20);
    let full = blocks.len();
    assert!((28..=32).contains(&full), "{full} of 1 MiB in 32 MiB");
    assert!(heap.filled(0u8, 1 << 20).is_none());
    blocks.truncate(full / 2);
    blocks.extend(fill(&heap, 1 << 20));
    assert_eq!(blocks.len(), full);
    // Larger than all of it, and than there can be.
    assert!(heap.filled(0u8, 33 << 20).is_none());
    assert!(heap.filled(0u64, usize::MAX / 4).is_none());
}

#[test]
fn values_are_copied_and_aligned() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(align(64))]
    struct Line([u16; 32]);
    let (heap, mapped) = heap(1, true);
    let line = Line(std::array::from_fn(|n| n as u16));
    for count in [0, 1, 2, 3, 17, 64, 1000] {
        let lines = heap.filled(line, count).expect("room");
        assert_eq!(lines.len(), count);
        assert!(lines.iter().all(|other| *other == line));
        assert!((lines.as_ptr() as usize).is_multiple_of(64));
        assert!(count == 0 || mapped.contains(&addresses(&lines).start));
    }
}
