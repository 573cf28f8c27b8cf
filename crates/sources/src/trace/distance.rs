//! The distance of a sender, guessed from the TTL on arrival.

/// Initial TTLs of common systems (RFC 1700; Linux, Windows, routers).
const INITIAL_TTLS: [u8; 3] = [64, 128, 255];

/// Returns the number of hops to a sender, including the sender. The initial TTL is assumed to be
/// the smallest usual one that fits. `ttl` is the TTL on arrival.
pub fn hops_of(ttl: u8) -> u8 {
    let initial = INITIAL_TTLS.into_iter().find(|&initial| initial >= ttl);
    (initial.unwrap_or(u8::MAX) - ttl).saturating_add(1)
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
