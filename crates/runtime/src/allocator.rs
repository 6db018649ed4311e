//! What the process asks of its allocator, and of huge pages.

use libmimalloc_sys::{mi_option_set, mi_option_t};
use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
use std::path::Path;

/// `mi_option_purge_delay` of mimalloc 2 and 3: milliseconds (times ten in version 3) after which
/// memory that was freed goes back to the system. libmimalloc-sys does not name it.
const PURGE_DELAY: mi_option_t = 15;

/// `mi_option_minimal_purge_size` of mimalloc 3: KiB that go back at least, unless they go back at once.
/// libmimalloc-sys does not name it.
const PURGE_SIZE_MIN: mi_option_t = 44;

/// Size of a huge page of x86-64, and of AArch64 with pages of 4 KiB.
const HUGE_PAGE_KIB: i64 = 2 << 10;

/// Where Linux says whether it puts huge pages together: the word in brackets.
const TRANSPARENT: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Has mimalloc give memory back to the system as soon as it is freed, in its pages of 64 KiB and more, and the kernel make no huge pages
/// of what it asks for from now on.
///
/// By itself it waits ten seconds for somebody to ask for the memory again, and for the next occasion
/// after that. A server whose clients come and go with large values then holds the buffers of those
/// that are gone beside the buffers of those that are there, and no budget of buffers bounds both. What
/// is worth keeping is kept by its owner, in lists that are bounded.
///
/// A huge page is cleared whole and held whole for the first byte that is written to it. Where buffers come and go that is 2 MiB for a few
/// kilobytes, again and again: turns of 75 ms, and half as much memory again ([decision](../../../docs/decisions/061-huge-pages-by-flag.md)).
pub fn give_back_at_once() {
    set(PURGE_DELAY, 0);
    // A kernel without them does not know of it either.
    let _ = disable_transparent_huge_pages(true);
}

/// Has mimalloc give memory back to the system in whole huge pages alone, on the next occasion after some
/// milliseconds: the kernel would take a huge page apart of which a part is given back. What is free between
/// things in use stays with the process. At once, mimalloc would give back pages of any size.
pub fn keep_huge_pages_whole() {
    set(PURGE_SIZE_MIN, HUGE_PAGE_KIB);
    set(PURGE_DELAY, 1);
}

fn set(option: mi_option_t, value: i64) {
    // SAFETY: sets a number that mimalloc reads atomically whenever it frees a page; allowed at any
    // time and from any thread, whether or not mimalloc is the global allocator.
    unsafe { mi_option_set(option, value) }
}

/// Why the kernel puts no huge pages together for this process, in words; `None` where it does. mimalloc asks for
/// them by itself.
pub fn why_no_huge_pages() -> Option<&'static str> {
    why_none(Path::new(TRANSPARENT))
}

fn why_none(enabled: &Path) -> Option<&'static str> {
    let text = std::fs::read_to_string(enabled).unwrap_or_default();
    if !text.contains("[always]") && !text.contains("[madvise]") {
        return Some("the kernel makes no transparent ones");
    }
    // Too old a kernel to say so makes them.
    transparent_huge_pages_are_disabled()
        .unwrap_or(false)
        .then_some("they are switched off for this process")
}

#[cfg(test)]
mod tests {
    use super::*;
    use libmimalloc_sys::{_mi_option_last, mi_option_get};

    fn get(option: mi_option_t) -> i64 {
        // SAFETY: reads a number.
        unsafe { mi_option_get(option) }
    }

    /// The numbers would mean something else if mimalloc reordered its options.
    #[test]
    fn the_options_are_those_meant() {
        assert_eq!(_mi_option_last, 47, "the options of another version");
        assert!(
            [10, 1000].contains(&get(PURGE_DELAY)),
            "the default of mimalloc 2 and of mimalloc 3"
        );
        // Before it stands whether huge pages are asked for, behind it the largest object of an arena.
        let neighbours = [-1, 0, 1].map(|place| get(PURGE_SIZE_MIN + place));
        assert_eq!(neighbours[..2], [1, 0]);
        assert!(neighbours[2] > 1 << 20, "{neighbours:?}");
        give_back_at_once();
        assert_eq!(get(PURGE_DELAY), 0);
        keep_huge_pages_whole();
        assert_eq!((get(PURGE_SIZE_MIN), get(PURGE_DELAY)), (2048, 1));
    }

    #[test]
    fn huge_pages_are_made_where_the_kernel_says_so() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("enabled");
        for (text, expected) in [
            ("always [madvise] never\n", true),
            ("[always] madvise never\n", true),
            ("always madvise [never]\n", false),
            ("", false),
        ] {
            std::fs::write(&file, text).expect("written");
            let why = why_none(&file);
            let makes_some = why != Some("the kernel makes no transparent ones");
            assert_eq!(makes_some, expected, "{text}");
        }
        assert!(why_none(&folder.path().join("missing")).is_some());
    }
}
