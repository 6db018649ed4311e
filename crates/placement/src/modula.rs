//! Modula: the remainder of the hash by the number of servers, or by the sum of their weights.
//!
//! libmemcached's default (`MEMCACHED_DISTRIBUTION_MODULA`), which knows no weights and counts servers as
//! they are listed, and twemproxy's `modula`, where a server of weight w counts w times and servers
//! count in the order of their names: shorter names first. Adding or removing a server moves nearly
//! every key.

/// Servers and the remainders that are theirs.
#[derive(Clone, Debug)]
pub(super) struct Modula {
    /// Servers in the order of their remainders.
    servers: Vec<u16>,
    /// Behind the last remainder of each; empty if each has one.
    ends: Vec<u64>,
    /// Behind the last remainder of all.
    total: u64,
}

impl Modula {
    /// Makes it of servers and their weights, in the order in which they count.
    pub fn new(servers: impl Iterator<Item = (u16, u32)>) -> Self {
        let mut total = 0;
        let (servers, mut ends): (Vec<u16>, Vec<u64>) = servers
            .map(|(server, weight)| {
                total += u64::from(weight);
                (server, total)
            })
            .unzip();
        assert!(total > 0, "there is a server, and none has weight 0");
        if total == servers.len() as u64 {
            ends.clear();
        }
        Modula {
            servers,
            ends,
            total,
        }
    }

    /// The server that a hash belongs to. O(log n) with weights, else O(1).
    #[inline]
    pub fn server(&self, hash: u64) -> usize {
        usize::from(self.servers[self.place(hash)])
    }

    /// All servers, from the one that a hash belongs to, in the order in which they count.
    pub fn walk(&self, hash: u64) -> impl Iterator<Item = usize> + use<'_> {
        let (before, from) = self.servers.split_at(self.place(hash));
        from.iter().chain(before).map(|&server| usize::from(server))
    }

    #[inline]
    fn place(&self, hash: u64) -> usize {
        let remainder = hash % self.total;
        match &self.ends[..] {
            [] => remainder as usize,
            ends => ends.partition_point(|&end| end <= remainder),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_as_many_remainders_as_its_weight() {
        let modula = Modula::new([(2, 1), (0, 3), (1, 2)].into_iter());
        let served: Vec<usize> = (0..7).map(|hash| modula.server(hash)).collect();
        assert_eq!(served, [2, 0, 0, 0, 1, 1, 2]);
        assert_eq!(modula.walk(3).collect::<Vec<_>>(), [0, 1, 2]);
        let equal = Modula::new([(1, 1), (0, 1)].into_iter());
        assert_eq!([0, 1, 2].map(|hash| equal.server(hash)), [1, 0, 1]);
        assert!(equal.ends.is_empty());
        let heavy = Modula::new([(0, u32::MAX), (1, u32::MAX)].into_iter());
        assert_eq!(heavy.server(u64::from(u32::MAX) - 1), 0);
        assert_eq!(heavy.server(u64::from(u32::MAX)), 1);
    }
}
