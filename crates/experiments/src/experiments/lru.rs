//! A cache of so many bytes that drops what was not asked for the longest.

/// No page.
const NONE: u32 = u32::MAX;

/// Pages by number, in a list from the one that was asked for last to the one that goes next.
#[derive(Clone, Debug)]
pub(in crate::experiments) struct Lru {
    bytes: u64,
    bytes_max: u64,
    entries: Vec<Entry>,
    newest: u32,
    oldest: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    newer: u32,
    older: u32,
    /// 0 for one that is not there.
    size: u32,
    /// Under which generation's name it was stored.
    generation: u64,
}

impl Lru {
    /// An empty one that will see pages of numbers below `pages`.
    pub fn new(pages: usize, bytes_max: u64) -> Lru {
        let entry = Entry {
            newer: NONE,
            older: NONE,
            size: 0,
            generation: 0,
        };
        Lru {
            bytes: 0,
            bytes_max,
            entries: vec![entry; pages],
            newest: NONE,
            oldest: NONE,
        }
    }

    /// Whether a page is there under this generation's name; it is the newest then. O(1).
    pub fn get(&mut self, page: u32, generation: u64) -> bool {
        let Entry {
            size,
            generation: stored,
            ..
        } = self.entries[page as usize];
        if size == 0 || stored != generation {
            return false;
        }
        self.unlink(page);
        self.link(page);
        true
    }

    /// Stores a page of `size` > 0 bytes, and drops others for it. One that is larger than the cache is not stored. What stood
    /// under another generation's name is dropped now, where a real one would drop it when its turn comes.
    pub fn set(&mut self, page: u32, generation: u64, size: u32) {
        self.remove(page);
        if u64::from(size) > self.bytes_max {
            return;
        }
        while self.bytes + u64::from(size) > self.bytes_max {
            self.remove(self.oldest);
        }
        self.bytes += u64::from(size);
        let entry = &mut self.entries[page as usize];
        (entry.size, entry.generation) = (size, generation);
        self.link(page);
    }

    /// Drops a page, if it is there.
    pub fn remove(&mut self, page: u32) {
        let size = core::mem::take(&mut self.entries[page as usize].size);
        if size > 0 {
            self.bytes -= u64::from(size);
            self.unlink(page);
        }
    }

    fn unlink(&mut self, page: u32) {
        let Entry { newer, older, .. } = self.entries[page as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
    }

    fn link(&mut self, page: u32) {
        let older = core::mem::replace(&mut self.newest, page);
        let entry = &mut self.entries[page as usize];
        (entry.newer, entry.older) = (NONE, older);
        match older {
            NONE => self.oldest = page,
            older => self.entries[older as usize].newer = page,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_testkit::seed;
    use evenkeel_workload::rng;

    /// Twin: a plain list.
    #[test]
    fn it_holds_what_a_plain_list_holds() {
        let mut random = rng::stream(seed(0x14), 0);
        let mut lru = Lru::new(30, 100);
        // Newest last.
        let mut plain: Vec<(u32, u64, u32)> = Vec::new();
        for _ in 0..20_000 {
            let page = rng::below(&mut random, 30) as u32;
            let generation = rng::below(&mut random, 2);
            match rng::below(&mut random, 5) {
                0 => {
                    let size = 1 + rng::below(&mut random, 40) as u32;
                    lru.set(page, generation, size);
                    plain.retain(|&(other, ..)| other != page);
                    let used = |plain: &[(u32, u64, u32)]| plain.iter().map(|e| e.2).sum::<u32>();
                    while used(&plain) + size > 100 {
                        plain.remove(0);
                    }
                    plain.push((page, generation, size));
                }
                1 => {
                    lru.remove(page);
                    plain.retain(|&(other, ..)| other != page);
                }
                _ => {
                    let found = plain.iter().position(|e| (e.0, e.1) == (page, generation));
                    assert_eq!(lru.get(page, generation), found.is_some());
                    if let Some(at) = found {
                        let entry = plain.remove(at);
                        plain.push(entry);
                    }
                }
            }
        }
        let mut small = Lru::new(1, 10);
        small.set(0, 0, 11);
        assert!(!small.get(0, 0));
    }
}
