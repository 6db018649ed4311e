//! Sizes of values: Facebook's ETC pool (Atikoglu et al., SIGMETRICS 2012), drawn from the hash of a key
//! so that a key keeps its size.

use evenkeel_workload::rng::mix64;

/// Shares of the sizes 0, 1, 2 … 14 bytes.
const SMALL: [f64; 15] = [
    0.00536, 0.00047, 0.1782, 0.09239, 0.00018, 0.0274, 0.00065, 0.00606, 0.00023, 0.00837,
    0.00837, 0.08989, 0.00092, 0.00326, 0.0198,
];
/// The rest, from 15 bytes on: a generalized Pareto law.
const TAIL_FROM: f64 = 15.0;
const TAIL_SIGMA: f64 = 214.476;
const TAIL_K: f64 = 0.348238;

/// A number from 0 up to 1, without 1.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// The value size in bytes of the key with this hash.
pub fn etc_value_bytes(hash: u64) -> f64 {
    let mut point = unit(hash);
    for (bytes, share) in SMALL.iter().enumerate() {
        if point < *share {
            return bytes as f64;
        }
        point -= share;
    }
    let uniform = 1.0 - unit(mix64(hash));
    TAIL_FROM + TAIL_SIGMA * (uniform.powf(-TAIL_K) - 1.0) / TAIL_K
}
