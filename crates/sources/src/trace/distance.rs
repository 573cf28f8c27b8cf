//! The distance of a sender, estimated from the TTL with which its packet arrived.

use lagtrace_core::observed::segment::hops;

/// Returns the number of hops to a sender, including the sender. `ttl` is the TTL on arrival.
pub(super) fn hops_of(ttl: u8) -> u8 {
    hops(ttl).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_are_guessed_from_usual_beginnings() {
        for (ttl, hops) in [(64, 1), (61, 4), (128, 1), (100, 29), (255, 1), (0, 65)] {
            assert_eq!(hops_of(ttl), hops);
        }
    }
}
