/// The seed of a random test, printed: `EVENKEEL_SEED`, or this one.
///
/// # Panics
/// If the variable is no number.
pub fn seed(or: u64) -> u64 {
    let seed = std::env::var("EVENKEEL_SEED").map_or(or, |seed| {
        seed.parse().expect("EVENKEEL_SEED must be a number")
    });
    println!("EVENKEEL_SEED={seed}");
    seed
}
