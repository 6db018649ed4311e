//! A table whose positions are reused, and names that tell a reused position from its former
//! holder: a late event for a closed connection finds nothing instead of a stranger.

/// Position in a table whose positions are reused, and how many holders it had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Position in the table; small, so a driver can index its own table with it.
    pub slot: u32,
    /// Holders of the position before this one.
    pub generation: u32,
}

impl Key {
    /// In one number, for the tag of a request.
    pub(crate) fn to_number(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    /// The key that is this number.
    pub(crate) fn of_number(number: u64) -> Self {
        Key {
            slot: number as u32,
            generation: (number >> 32) as u32,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    pub fn insert(&mut self, value: T) -> Key {
        if let Some(slot) = self.free.pop() {
            let entry = &mut self.entries[slot as usize];
            entry.value = Some(value);
            return Key {
                slot,
                generation: entry.generation,
            };
        }
        let slot = u32::try_from(self.entries.len()).expect("a process has fewer descriptors");
        self.entries.push(Entry {
            generation: 0,
            value: Some(value),
        });
        Key {
            slot,
            generation: 0,
        }
    }

    pub fn remove(&mut self, key: Key) -> Option<T> {
        let entry = self.entries.get_mut(key.slot as usize)?;
        if entry.generation != key.generation {
            return None;
        }
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(key.slot);
        Some(value)
    }

    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        let entry = self.entries.get(key.slot as usize)?;
        if entry.generation != key.generation {
            return None;
        }
        entry.value.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let entry = self.entries.get_mut(key.slot as usize)?;
        if entry.generation != key.generation {
            return None;
        }
        entry.value.as_mut()
    }

    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// The holders in the order of their positions.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        (0u32..).zip(&self.entries).filter_map(|(slot, entry)| {
            let key = Key {
                slot,
                generation: entry.generation,
            };
            entry.value.as_ref().map(|value| (key, value))
        })
    }

    /// The names of the holders in the order of their positions.
    pub fn keys(&self) -> Vec<Key> {
        self.iter().map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_former_holder_finds_nothing() {
        let mut slab = Slab::default();
        let first = slab.insert("a");
        assert_eq!(slab.remove(first), Some("a"));
        let second = slab.insert("b");
        assert_eq!(second.slot, first.slot);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&"b"));
        assert_eq!((slab.len(), slab.keys()), (1, vec![second]));
    }
}
