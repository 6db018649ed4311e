//! Memory that is mapped for one purpose: in huge pages, or on a memory node of one's choice.
//!
//! Huge pages are for what is read at random: fewer of them fit a gigabyte, so that the processor finds more of them in
//! its table of recent ones. Two kinds are tried in turn. Pages that an operator has *reserved* (`vm.nr_hugepages`) are
//! there for certain once they are mapped, and are never swapped or taken apart. *Transparent* ones the kernel puts
//! together as memory is first touched, where it finds room; it may fail to, and says so to nobody but in
//! `AnonHugePages` of `/proc/PID/smaps_rollup`.
//!
//! On a machine with several memory nodes a mapping can be bound to one: the kernel takes pages from another only when
//! that one has none left.

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use rustix::mm::{madvise, mmap_anonymous, mprotect, munmap};
use rustix::thread::transparent_huge_pages_are_disabled;
use std::ffi::c_void;
use std::path::Path;
use std::ptr;

/// Size of a huge page. x86-64 has no smaller one; where a machine's differs, reserved ones are not found.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Where Linux says whether it puts huge pages together: the word in brackets.
const TRANSPARENT: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Pages that an operator has reserved and nobody has taken.
const FREE_RESERVED: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";

/// Most memory nodes that are named to the kernel; it knows no more of them itself.
const NODES_MAX: usize = 1024;

/// What memory is made of, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pages {
    /// Huge pages that were reserved beforehand. All of them are there at once.
    Reserved,
    /// Huge pages as far as the kernel can put them together, when they are first touched.
    Transparent,
    /// Pages as the kernel gives them to anybody, when they are first touched.
    Ordinary,
}

/// Addresses that nobody else has, all zero at first. Given back when dropped.
#[derive(Debug)]
pub struct Mapping {
    start: *mut c_void,
    bytes: usize,
    pages: Pages,
    is_bound: bool,
}

// SAFETY: it owns its addresses, which belong to the process and not to a thread, and lends them to nobody.
unsafe impl Send for Mapping {}

impl Mapping {
    /// So many bytes, rounded up to whole huge pages, of the best kind that there is; on this memory node, if one is
    /// named. With it comes a line that says why it is nothing better. Takes a third of a second for each gigabyte of
    /// reserved pages, and no time for others.
    ///
    /// # Errors
    /// Why there are no huge pages of either kind, in one line.
    pub fn huge(bytes: usize, node: Option<u32>) -> Result<(Mapping, Option<String>), String> {
        let bytes = bytes.checked_next_multiple_of(HUGE_PAGE_BYTES);
        let bytes = bytes.ok_or("there are not so many addresses")?;
        let lacking = match Self::reserved(bytes, node) {
            Ok(mapping) => return Ok((mapping, None)),
            Err(lacking) => lacking,
        };
        match Self::transparent(bytes, node, Path::new(TRANSPARENT)) {
            Ok(mapping) => Ok((mapping, Some(lacking))),
            Err(why) => Err(format!("{lacking}, and {why}")),
        }
    }

    /// So many bytes, rounded up to whole huge pages, in pages as anybody gets them, on a memory node.
    ///
    /// # Errors
    /// When there are not so many addresses.
    pub fn on_node(bytes: usize, node: u32) -> Result<Mapping, String> {
        let bytes = bytes.checked_next_multiple_of(HUGE_PAGE_BYTES);
        let mut mapping = Self::untouched(bytes.ok_or(Errno::NOMEM).map_err(told)?)?;
        mapping.bind(Some(node));
        mapping.open()?;
        Ok(mapping)
    }

    fn reserved(bytes: usize, node: Option<u32>) -> Result<Mapping, String> {
        let flags = MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let mut mapping = Self::new(bytes, rights, flags, Pages::Reserved).map_err(|_| {
            let free = std::fs::read_to_string(FREE_RESERVED);
            let free = free.map_or("0".to_owned(), |text| text.trim().to_owned());
            let needed = bytes / HUGE_PAGE_BYTES;
            format!("{free} reserved huge pages are free where {needed} are needed")
        })?;
        mapping.bind(node);
        // A container may be forbidden what its machine has reserved. It would be killed when it first touched such a
        // page; here it is told.
        match mapping.advise(Advice::LinuxPopulateWrite) {
            Ok(()) => Ok(mapping),
            Err(error) => Err(format!("reserved huge pages cannot be filled ({error})")),
        }
    }

    fn transparent(bytes: usize, node: Option<u32>, enabled: &Path) -> Result<Mapping, String> {
        let text = std::fs::read_to_string(enabled).unwrap_or_default();
        if !text.contains("[always]") && !text.contains("[madvise]") {
            return Err("the kernel makes no transparent ones".to_owned());
        }
        // The kernel takes the advice all the same, and does not follow it. Too old a kernel to say so follows it.
        if transparent_huge_pages_are_disabled().unwrap_or(false) {
            return Err("transparent ones are switched off for this process".to_owned());
        }
        let mut mapping = Self::untouched(bytes)?;
        mapping.pages = Pages::Transparent;
        mapping.bind(node);
        mapping.advise(Advice::LinuxHugepage).map_err(|error| {
            format!("the kernel makes no transparent ones for this process ({error})")
        })?;
        mapping.open()?;
        Ok(mapping)
    }

    /// Addresses that begin where a huge page can, and cannot be used yet: a process that locks its memory (`-k`)
    /// gets the pages of a mapping as soon as it may write to it, and then it is too late to say which.
    fn untouched(bytes: usize) -> Result<Mapping, String> {
        let all = bytes.checked_add(HUGE_PAGE_BYTES).ok_or(Errno::NOMEM);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let all = all.and_then(|all| Self::new(all, ProtFlags::empty(), flags, Pages::Ordinary));
        Ok(all.map_err(told)?.aligned(bytes))
    }

    fn new(bytes: usize, rights: ProtFlags, flags: MapFlags, pages: Pages) -> Result<Self, Errno> {
        // SAFETY: asks for a new mapping at an address of the kernel's choice, so that nobody else has it.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, rights, flags) }?;
        Ok(Mapping {
            start,
            bytes,
            pages,
            is_bound: true,
        })
    }

    /// The part of so many bytes that begins where a huge page can; what is left over at both ends is given back.
    fn aligned(self, bytes: usize) -> Mapping {
        let before = self.start.cast::<u8>().align_offset(HUGE_PAGE_BYTES);
        let start = self.start.wrapping_byte_add(before);
        let after = self.bytes.checked_sub(before + bytes);
        let after = after.expect("a mapping is made with a huge page to spare");
        for (end, bytes) in [
            (self.start, before),
            (start.wrapping_byte_add(bytes), after),
        ] {
            if bytes > 0 {
                // SAFETY: within this mapping, of which nothing has been lent. What is not given back stays unused.
                let _ = unsafe { munmap(end, bytes) };
            }
        }
        let aligned = Mapping {
            start,
            bytes,
            ..self
        };
        std::mem::forget(self);
        aligned
    }

    /// Lets it be read and written.
    fn open(&mut self) -> Result<(), String> {
        let rights = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: these addresses are ours, and nobody relies on their not being used.
        unsafe { mprotect(self.start, self.bytes, rights) }.map_err(told)
    }

    fn advise(&self, advice: Advice) -> Result<(), Errno> {
        // SAFETY: the advice given here concerns where the pages come from and changes no contents; they are ours.
        unsafe { madvise(self.start, self.bytes, advice) }
    }

    /// Asks the kernel to take this memory from a node as long as that one has some. Where it refuses, the node of the
    /// thread that touches a page first is taken.
    fn bind(&mut self, node: Option<u32>) {
        const WORD: usize = u64::BITS as usize;
        let Some(node) = node.map(|node| node as usize) else {
            return;
        };
        self.is_bound = false;
        let mut mask = [0u64; NODES_MAX / WORD];
        let Some(word) = mask.get_mut(node / WORD) else {
            return;
        };
        *word = 1 << (node % WORD);
        // SAFETY: a policy for whole pages that are ours, which changes no contents. The kernel reads no more of the
        // mask than it has.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.start,
                self.bytes,
                libc::MPOL_PREFERRED,
                mask.as_ptr(),
                // The kernel reads one bit fewer than it is told of.
                NODES_MAX + 1,
                0,
            )
        };
        self.is_bound = answer == 0;
    }

    /// Where it begins; at a multiple of the size of a huge page.
    pub fn start(&self) -> *mut c_void {
        self.start
    }

    /// How long it is.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What it is made of.
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// False when it was to be on a memory node and the kernel refused.
    pub fn is_bound(&self) -> bool {
        self.is_bound
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nobody has been given these addresses. What is not given back stays unused.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}

fn told(error: Errno) -> String {
    format!("there are not so many addresses ({error})")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first and the last byte of each page of the ordinary size can be written and read.
    fn assert_usable(mapping: &Mapping, bytes: usize) {
        assert_eq!(mapping.bytes(), bytes);
        assert!((mapping.start() as usize).is_multiple_of(HUGE_PAGE_BYTES));
        // SAFETY: the mapping has these bytes, which nobody else uses, and outlives the slice.
        let all = unsafe { std::slice::from_raw_parts_mut(mapping.start().cast::<u8>(), bytes) };
        for page in all.chunks_mut(4096) {
            assert_eq!((page[0], page[4095]), (0, 0));
            (page[0], page[4095]) = (1, 2);
        }
        assert!(all.chunks(4096).all(|page| (page[0], page[4095]) == (1, 2)));
    }

    #[test]
    fn huge_pages_of_either_kind_can_be_used_and_their_lack_is_told() {
        match Mapping::huge(3 * HUGE_PAGE_BYTES - 1, None) {
            Ok((mapping, why)) => {
                eprintln!("{:?} pages: {why:?}", mapping.pages());
                assert_usable(&mapping, 3 * HUGE_PAGE_BYTES);
                assert_eq!(why.is_none(), mapping.pages() == Pages::Reserved);
                assert!(mapping.is_bound(), "nothing was asked for");
            }
            Err(why) => assert!(why.contains("huge pages"), "{why}"),
        }
    }

    #[test]
    fn memory_of_a_node_can_be_used_and_says_whether_it_is_bound() {
        let mapping = Mapping::on_node(1, 0).expect("two megabytes");
        assert_usable(&mapping, HUGE_PAGE_BYTES);
        assert_eq!(mapping.pages(), Pages::Ordinary);
        // Every machine with memory nodes has the first.
        let has_nodes = Path::new("/sys/devices/system/node/node0").exists();
        assert!(mapping.is_bound() || !has_nodes);
        for missing in [NODES_MAX as u32 - 1, NODES_MAX as u32, u32::MAX] {
            let mapping = Mapping::on_node(1, missing).expect("two megabytes");
            assert!(!mapping.is_bound(), "there is no node {missing}");
            assert_usable(&mapping, HUGE_PAGE_BYTES);
        }
    }

    #[test]
    fn more_than_there_can_be_is_refused() {
        for bytes in [1 << 60, usize::MAX] {
            let why = Mapping::huge(bytes, None).expect_err("too much");
            assert!(why.contains("not so many addresses"), "{why}");
            assert!(Mapping::on_node(bytes, 0).is_err());
        }
    }

    #[test]
    fn transparent_pages_are_made_where_the_kernel_says_so() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("enabled");
        for (text, expected) in [
            ("always [madvise] never\n", true),
            ("[always] madvise never\n", true),
            ("always madvise [never]\n", false),
            ("", false),
        ] {
            std::fs::write(&file, text).expect("written");
            // Another kernel than the one that the file tells of may still refuse.
            let mapping = Mapping::transparent(1, None, &file);
            let why = mapping.err().unwrap_or_default();
            assert_eq!(
                why == "the kernel makes no transparent ones",
                !expected,
                "{text}: {why}"
            );
        }
        let missing = folder.path().join("missing");
        assert!(Mapping::transparent(1, None, &missing).is_err());
    }
}
