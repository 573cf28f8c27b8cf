//! The seed of what tests draw.

/// The seed without `LAGTRACE_SEED`.
const SEED: u64 = 7;

/// Returns the number in `LAGTRACE_SEED`, from which tests draw their parameters. `./check` sets it to
/// one that belongs to the commit; without it, the seed is fixed.
///
/// # Panics
///
/// If the variable is not a number.
#[must_use]
pub fn seed() -> u64 {
    let said = std::env::var("LAGTRACE_SEED").ok();
    said.map_or(SEED, |said| {
        said.parse().expect("LAGTRACE_SEED is a number")
    })
}
