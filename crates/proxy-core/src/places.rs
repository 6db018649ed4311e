//! Numbers by hash: for each place the latest.

/// A number for each of some keys, by hash; a later key of the same place takes over from an earlier.
///
/// Of a connection to a server: the number of the latest request for the key that may be joined. It is checked, so that nothing has to
/// be cleared. Of a pool: how many reads of the key joined others or went to replicas and its home was not told, which the next read there
/// tells; else the home would take a key for the less popular the more reads of it wait, or go elsewhere.
#[derive(Debug)]
pub(crate) struct Places<const COUNT: usize>(Box<[(u64, u64); COUNT]>);

impl<const COUNT: usize> Default for Places<COUNT> {
    fn default() -> Self {
        Places(Box::new([(0, 0); COUNT]))
    }
}

impl<const COUNT: usize> Places<COUNT> {
    /// What was last noted for the hash, if no other took its place.
    #[inline]
    pub fn find(&self, hash: u64) -> Option<u64> {
        let (known, number) = self.0[hash as usize % COUNT];
        (known == hash).then_some(number)
    }

    /// Nothing is noted for the hash any more.
    #[inline]
    pub fn forget(&mut self, hash: u64) {
        let place = &mut self.0[hash as usize % COUNT];
        if place.0 == hash {
            *place = (0, 0);
        }
    }

    /// Notes this number.
    #[inline]
    pub fn note(&mut self, hash: u64, number: u64) {
        self.0[hash as usize % COUNT] = (hash, number);
    }

    /// Counts one more.
    #[inline]
    pub fn count(&mut self, hash: u64) {
        self.note(hash, self.find(hash).unwrap_or(0) + 1);
    }
}
