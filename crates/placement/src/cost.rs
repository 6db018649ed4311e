//! What a request for many items costs (Replicate and Bundle, section II-A and appendix).
//!
//! A server works per *transaction*, which is everything that a request sends to it at once, and a little per item. A
//! request for M items of N servers asks each with probability W(N, M): so more servers bring more transactions, and
//! hardly more requests a second. That is the multi-get hole.

/// W(N, M): a request for this many items, each equally likely on each server, asks a given server with this
/// probability.
pub fn asked(servers: u32, items: u32) -> f64 {
    1.0 - (1.0 - 1.0 / f64::from(servers)).powf(f64::from(items))
}

/// TPR: the transactions of such a request, N·W(N, M).
pub fn transactions(servers: u32, items: u32) -> f64 {
    f64::from(servers) * asked(servers, items)
}

/// How many times the requests a second twice as many servers carry, if only transactions cost: W(N, M) / W(2N, M).
pub fn scaling(servers: u32, items: u32) -> f64 {
    asked(servers, items) / asked(2 * servers, items)
}

/// What servers have to do, in any unit of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Of a transaction.
    pub transaction: f64,
    /// Of an item in it.
    pub item: f64,
}

impl Cost {
    /// What this many transactions with this many items cost together.
    pub fn of(self, transactions: f64, items: f64) -> f64 {
        self.transaction * transactions + self.item * items
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_testkit::seed;
    use evenkeel_types::random::SplitMix64;

    #[test]
    fn what_is_worked_out_is_what_the_paper_says() {
        assert_eq!(asked(1, 100), 1.0);
        assert!((asked(4, 1) - 0.25).abs() < 1e-12);
        assert!((scaling(8, 1) - 2.0).abs() < 1e-12);
        assert!(scaling(8, 100) < 1.01);
        let cost = Cost {
            transaction: 18.0,
            item: 1.0,
        };
        assert_eq!(cost.of(2.0, 20.0), 56.0);
    }

    /// Twin: items thrown at servers.
    #[test]
    fn random_items_ask_as_many_servers() {
        let mut random = SplitMix64::new(seed(0xba11));
        for (servers, items) in [(16, 10), (16, 50), (3, 2)] {
            let rounds = 20_000;
            let mut thrown = 0;
            for _ in 0..rounds {
                let hit = (0..items).fold(0u32, |hit, _| hit | 1 << random.below(servers));
                thrown += hit.count_ones();
            }
            let by_model =
                f64::from(thrown) / f64::from(rounds) / transactions(servers as u32, items);
            assert!(
                (by_model - 1.0).abs() < 0.02,
                "{servers}, {items}: {by_model}"
            );
        }
    }
}
