//! Draws an index with given probabilities from one random number and one look into a table
//! (Walker 1977, built as in Vose, "A linear algorithm for generating random numbers with a given
//! distribution", 1991).

/// Every slot is hit equally often; it stands for itself below `keep`, else for its alias.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Probability of the slot's own index, in units of 2⁻⁶⁴.
    keep: u64,
    alias: u32,
}

/// A table over indices `0..len`: 16 bytes each.
#[derive(Clone, Debug)]
pub(crate) struct AliasTable {
    slots: Box<[Slot]>,
}

impl AliasTable {
    /// A table that draws index `i` with probability `weights[i] / Σ weights`, exact up to 2⁻⁵³.
    ///
    /// # Panics
    /// When there is no weight, or more than 2³² of them. That they are finite, not negative and not
    /// all zero is the caller's to check.
    pub(crate) fn new(weights: &[f64]) -> Self {
        assert!(!weights.is_empty() && u32::try_from(weights.len()).is_ok());
        let scale = weights.len() as f64 / weights.iter().sum::<f64>();
        // What each index still has to give away, in slots.
        let mut left: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
        let mut slots: Box<[Slot]> = (0..weights.len())
            .map(|index| Slot {
                keep: u64::MAX,
                alias: index as u32,
            })
            .collect();
        let (mut poor, mut rich): (Vec<usize>, Vec<usize>) =
            (0..left.len()).partition(|&index| left[index] < 1.0);
        while let (Some(&small), Some(&large)) = (poor.last(), rich.last()) {
            poor.pop();
            slots[small] = Slot {
                keep: (left[small] * 2f64.powi(64)) as u64,
                alias: large as u32,
            };
            // The rich index fills the rest of the poor one's slot.
            left[large] -= 1.0 - left[small];
            if left[large] < 1.0 {
                rich.pop();
                poor.push(large);
            }
        }
        // Anyone who remains has one slot but for rounding, and keeps it: alias == itself.
        AliasTable { slots }
    }

    /// The index that belongs to a uniformly distributed `random`.
    #[inline]
    pub(crate) fn pick(&self, random: u64) -> usize {
        // The whole part of a fixed-point product is the slot, its fraction the place in it.
        let product = u128::from(random) * self.slots.len() as u128;
        let index = (product >> 64) as usize;
        let slot = self.slots[index];
        // Computed, not branched to: nobody can foretell which it is.
        core::hint::select_unpredictable((product as u64) < slot.keep, index, slot.alias as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table's own probabilities, summed slot by slot, against the weights: no sampling error.
    #[test]
    fn the_table_holds_the_weights() {
        for weights in [
            vec![1.0],
            vec![0.0, 3.0, 1.0],
            vec![1e-12, 1.0, 1e12],
            (1..=20_000).map(|k| f64::from(k).powf(-0.99)).collect(),
        ] {
            let table = AliasTable::new(&weights);
            let (total, n) = (weights.iter().sum::<f64>(), weights.len());
            let mut held = vec![0.0; n];
            for (index, slot) in table.slots.iter().enumerate() {
                let keep = slot.keep as f64 / 2f64.powi(64);
                held[index] += keep / n as f64;
                held[slot.alias as usize] += (1.0 - keep) / n as f64;
            }
            for (index, weight) in weights.iter().enumerate() {
                let exact = weight / total;
                assert!(
                    (held[index] - exact).abs() < 1e-12 + exact * 1e-9,
                    "{index}"
                );
            }
        }
    }

    #[test]
    fn an_index_without_weight_is_never_picked() {
        let table = AliasTable::new(&[1.0, 0.0, 1.0]);
        assert!((0..10_000u64).all(|n| table.pick(n << 50 | n) != 1));
    }
}
