//! What servers give to one that comes, and how those share what one had that goes.

use evenkeel_placement::ring::{GIVES_ALL, Ring};

/// What each server is to give to a newcomer, of [`GIVES_ALL`]: those that carry more than the mean, with the newcomer counted in, give
/// what is above it. `loads` has one number for each server of the list, from 0 on. O(servers + slices).
pub fn gives(ring: &Ring, loads: &[f64]) -> Vec<u16> {
    let shares = ring.shares();
    let owning = shares.iter().filter(|share| **share > 0).count();
    let mean = loads.iter().sum::<f64>() / (owning + 1) as f64;
    let given = |(load, share): (&f64, &u64)| match *share > 0 && *load > mean {
        true => ((load - mean) / load * f64::from(GIVES_ALL)).round() as u16,
        false => 0,
    };
    loads.iter().zip(&shares).map(given).collect()
}

/// The costs, inversely to which servers share what one had that goes: their loads, as whole numbers from 1 on.
pub fn costs(loads: &[f64]) -> Vec<u32> {
    let most = loads.iter().copied().fold(0.0, f64::max);
    let cost = |load: &f64| match most > 0.0 {
        true => 1 + (load / most * 1e6) as u32,
        false => 1,
    };
    loads.iter().map(cost).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_above_the_mean_give_a_newcomer_what_it_is_to_have() {
        let ring = Ring::even(3, 100).unwrap();
        let loads = [600.0, 300.0, 100.0];
        let given = gives(&ring, &loads);
        // The mean of four is 250.
        assert_eq!(given, [5_833, 1_667, 0]);
        let got: f64 = loads
            .iter()
            .zip(&given)
            .map(|(load, given)| load * f64::from(*given) / f64::from(GIVES_ALL))
            .sum();
        assert!((got - 400.0).abs() < 1.0, "{got}");
        // Who owns nothing counts for nothing.
        let two = ring.without_server(2, &[1.0; 3]).unwrap();
        assert_eq!(gives(&two, &[300.0, 300.0, 0.0]), [3_333, 3_333, 0]);
        assert_eq!(gives(&ring, &[0.0; 3]), [0; 3]);
    }

    #[test]
    fn costs_are_as_loads_are_to_each_other() {
        assert_eq!(costs(&[0.0, 0.0]), [1, 1]);
        assert_eq!(costs(&[50.0, 0.0, 100.0]), [500_001, 1, 1_000_001]);
    }
}
