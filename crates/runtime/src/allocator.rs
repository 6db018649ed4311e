//! What the process asks of its allocator.

use libmimalloc_sys::{mi_option_set, mi_option_t};

/// `mi_option_purge_delay` of mimalloc 2 and 3: milliseconds (times ten in version 3) after which
/// memory that was freed goes back to the system. libmimalloc-sys does not name it.
const PURGE_DELAY: mi_option_t = 15;

/// Has mimalloc give memory back to the system as soon as it is freed, in its pages of 64 KiB and more.
///
/// By itself it waits ten seconds for somebody to ask for the memory again, and for the next occasion
/// after that. A server whose clients come and go with large values then holds the buffers of those
/// that are gone beside the buffers of those that are there, and no budget of buffers bounds both. What
/// is worth keeping is kept by its owner, in lists that are bounded.
pub fn give_back_at_once() {
    // SAFETY: sets a number that mimalloc reads atomically whenever it frees a page; allowed at any
    // time and from any thread, whether or not mimalloc is the global allocator.
    unsafe { mi_option_set(PURGE_DELAY, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libmimalloc_sys::mi_option_get;

    /// The number would mean something else if mimalloc reordered its options.
    #[test]
    fn the_option_is_the_one_meant() {
        // SAFETY: reads a number.
        let before = unsafe { mi_option_get(PURGE_DELAY) };
        assert!(
            [10, 1000].contains(&before),
            "the default of mimalloc 2 and of mimalloc 3"
        );
        give_back_at_once();
        // SAFETY: likewise.
        assert_eq!(unsafe { mi_option_get(PURGE_DELAY) }, 0);
    }
}
