//! Stalls of a server that are those of another one, which it had called.

use super::{Call, HostCalls};
use crate::cause::rhythm::Stall;
use crate::observed::flow::Endpoint;

/// Minimum share of the stalls that end with the answer to a call.
const CALLED: f64 = 0.8;
/// A call that a stall waits for begins within the stall's length divided by this number, and its
/// answer comes within the length divided by the second one of the stall's end.
const LATEST_CALL: u32 = 5;
const CLOSE: u32 = 10;
/// Maximum number of stalls for which calls are looked for.
const MAX_TRIED: usize = 64;

impl HostCalls {
    /// Returns true if most stalls of `front` end with the answer to a call of its host.
    pub(in crate::cause) fn end_stalls(&self, front: Endpoint, stalls: &[Stall]) -> bool {
        wait_for_calls(stalls, &self.of_host(front))
    }
}

/// Returns true if most stalls end with the answer to a request that the server's host had sent when
/// they began: it is not the server that stalled. While a host stands still, its kernel still takes up
/// answers to its own requests.
fn wait_for_calls(stalls: &[Stall], calls: &[Call]) -> bool {
    let tried = || stalls.iter().take(MAX_TRIED);
    let is_called = |stall: &&Stall| {
        let length = stall.duration();
        let (from, edge) = (stall.begin + length / LATEST_CALL, length / CLOSE);
        let mut calls = calls.iter();
        calls.any(|call| call.spans(from, stall.release, edge))
    };
    let called = tried().filter(is_called).count();
    called > 0 && called as f64 >= tried().count() as f64 * CALLED
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::calls;
    use crate::observed::time::Timestamp;

    #[test]
    fn a_stall_that_ends_with_an_answer_to_a_call_is_not_the_server_s() {
        let at = |ms: i64| Timestamp::from_nanos(ms * 1_000_000);
        let stall = |n: i64| Stall::between(at(n * 500), at(n * 500 + 100));
        let stalls: Vec<Stall> = (0..10).map(stall).collect();
        let calls = |answered: i64, every: usize| -> Vec<Call> {
            let begins = (0..10).step_by(every).map(|n| n * 500 + 2);
            begins
                .map(|ms| calls::tests::call(ms, ms + answered))
                .collect()
        };
        assert!(wait_for_calls(&stalls, &calls(97, 1)));
        // The host stands still: what it had asked is answered soon, and not read.
        assert!(!wait_for_calls(&stalls, &calls(5, 1)));
        assert!(!wait_for_calls(&stalls, &calls(97, 2)), "half of them");
        assert!(!wait_for_calls(&stalls, &[]));
    }
}
