//! A ring of points: a key belongs to the first point at or after its hash.
//!
//! Finding that point is the proxy's work for every key, so the ring is cut into about as many equal
//! arcs as it has points, and the first point of each arc is known: a key's arc holds one point on
//! average, which is looked at in place of a search through all of them. Within an arc the search is
//! binary, so that a ring whose points crowd together costs no more than a search of the whole.

/// A point: where on the ring, and the position of its server.
pub(super) type Point = (u32, u16);

/// Most arcs: from here on a table of them would be larger than the caches of a processor.
const ARC_BITS_MAX: u32 = 20;

/// A ring of points; it has at least one point.
#[derive(Clone, Debug)]
pub(super) struct Points {
    /// Where the points are, ascending.
    at: Vec<u32>,
    /// Whose they are; one more than points: the first point again, at the end.
    servers: Vec<u16>,
    /// Position of the first point in each arc or behind it, and the number of points at the end.
    arcs: Vec<u32>,
    /// How far a hash is shifted to give its arc.
    shift: u32,
}

impl Points {
    /// Makes a ring of points. Of points at the same place the earliest in the list wins, which is
    /// what a stable sort does with them in the originals.
    pub fn new(mut points: Vec<Point>) -> Self {
        assert!(!points.is_empty(), "every server has a point");
        points.sort_by_key(|&(at, _)| at);
        let bits = (points.len().next_power_of_two().ilog2()).clamp(1, ARC_BITS_MAX);
        let shift = u32::BITS - bits;
        let mut arcs = Vec::with_capacity((1 << bits) + 1);
        let mut next = 0;
        for arc in 0..1u32 << bits {
            while points.get(next).is_some_and(|&(at, _)| at >> shift < arc) {
                next += 1;
            }
            arcs.push(next as u32);
        }
        arcs.push(points.len() as u32);
        let mut servers: Vec<u16> = points.iter().map(|&(_, server)| server).collect();
        servers.push(servers[0]);
        let at = points.into_iter().map(|(at, _)| at).collect();
        Points {
            at,
            servers,
            arcs,
            shift,
        }
    }

    /// The server that a hash belongs to. O(1) for points that are spread evenly, O(log p) at most.
    #[inline]
    pub fn server(&self, hash: u32) -> usize {
        usize::from(self.servers[self.first(hash)])
    }

    /// Position of the point that a hash belongs to, among the points in ascending order.
    #[inline]
    pub fn position(&self, hash: u32) -> usize {
        // Behind the last one the first is meant.
        match self.first(hash) {
            past if past == self.at.len() => 0,
            first => first,
        }
    }

    /// Where the points are and whose, ascending; of those at the same place the first counts.
    pub fn iter(&self) -> impl Iterator<Item = Point> + use<'_> {
        self.at.iter().copied().zip(self.servers.iter().copied())
    }

    /// The servers of all points, from the one that a hash belongs to, once around.
    pub fn walk(&self, hash: u32) -> impl Iterator<Item = usize> + use<'_> {
        let points = self.at.len();
        let first = self.position(hash);
        let (before, from) = self.servers[..points].split_at(first);
        from.iter().chain(before).map(|&server| usize::from(server))
    }

    /// Position of the first point at or after a hash; the number of points if there is none.
    #[inline]
    fn first(&self, hash: u32) -> usize {
        let arc = (hash >> self.shift) as usize;
        let (begin, end) = (self.arcs[arc] as usize, self.arcs[arc + 1] as usize);
        begin + self.at[begin..end].partition_point(|&at| at < hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_testkit::seed;
    use evenkeel_types::random::SplitMix64;

    /// The same without arcs.
    fn plain(points: &[Point], hash: u32) -> u16 {
        let mut sorted = points.to_vec();
        sorted.sort_by_key(|&(at, _)| at);
        let first = sorted.iter().find(|&&(at, _)| at >= hash);
        first.unwrap_or(&sorted[0]).1
    }

    #[test]
    fn arcs_find_what_a_plain_search_finds() {
        let mut random = SplitMix64::new(seed(0x5eed));
        for round in 0..300 {
            let count = 1 + random.below(if round % 10 == 0 { 3000 } else { 40 });
            // Crowded rings too: points in a small part of the ring, or at few places.
            let (shift, from) = (random.below(32) as u32, random.next_u64() as u32);
            let mut points: Vec<Point> = Vec::new();
            for i in 0..count {
                let at = (random.next_u64() as u32 >> shift).wrapping_add(from);
                points.push((at, i as u16));
            }
            let ring = Points::new(points.clone());
            let near = points
                .iter()
                .flat_map(|&(at, _)| [at.wrapping_sub(1), at, at.wrapping_add(1)]);
            let hashes: Vec<u32> = near.take(100).chain([0, 1, u32::MAX]).collect();
            for hash in hashes {
                let expected = usize::from(plain(&points, hash));
                assert_eq!(ring.server(hash), expected, "round {round}, hash {hash:#x}");
                let walk: Vec<usize> = ring.walk(hash).collect();
                assert_eq!((walk[0], walk.len()), (expected, points.len()));
            }
        }
    }

    #[test]
    fn the_ring_wraps_around() {
        let ring = Points::new(vec![(20, 1), (10, 0)]);
        assert_eq!(
            [0, 10, 11, 20, 21].map(|hash| ring.server(hash)),
            [0, 0, 1, 1, 0]
        );
        assert_eq!(ring.walk(15).collect::<Vec<_>>(), [1, 0]);
        assert_eq!(ring.walk(21).collect::<Vec<_>>(), [0, 1]);
    }
}
