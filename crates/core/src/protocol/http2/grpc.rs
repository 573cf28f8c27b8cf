//! gRPC's messages in the data of a stream: each has a prefix of five bytes with its length.

/// Length of a message's prefix, in bytes: a flag for compression, and the length.
pub(super) const PREFIX: usize = 5;

/// The messages of one direction of a stream, as far as frames show where they begin. Programs send
/// each message in a frame of its own, or begin a frame with it; messages that begin within a frame
/// are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GrpcMessages {
    /// Number of messages whose begin was seen.
    pub(crate) count: u32,
    /// Number of bytes of the current message that are still to come.
    left: u64,
    /// True if it is unknown whether the data so far ends with a message.
    is_unsure: bool,
}

impl GrpcMessages {
    /// Takes in a frame of `length` bytes that begins with `first`.
    pub(crate) fn frame(&mut self, length: u32, first: Option<[u8; PREFIX]>) {
        let mut length = u64::from(length);
        if self.left > 0 {
            let taken = self.left.min(length);
            self.left -= taken;
            length -= taken;
            // What follows is another message, whose length was not seen.
            self.is_unsure |= length > 0;
            return;
        }
        let Some([flag @ 0..=1, a, b, c, d]) = first else {
            self.is_unsure |= length > 0;
            return;
        };
        let _ = flag;
        let whole = u64::from(u32::from_be_bytes([a, b, c, d])) + PREFIX as u64;
        self.count += 1;
        self.left = whole.saturating_sub(length);
        self.is_unsure = length > whole;
    }

    /// Returns true if the data so far is known to end with a whole message.
    pub(crate) fn is_between(&self) -> bool {
        self.count > 0 && self.left == 0 && !self.is_unsure
    }
}

/// Returns the name of a call's outcome (`grpc-status`), as gRPC's documentation lists them.
pub(crate) fn status_name(status: u8) -> &'static str {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    NAMES
        .get(usize::from(status))
        .copied()
        .unwrap_or("unknown status")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of messages and whether the last one is whole after frames with these
    /// lengths and first bytes.
    fn after(frames: &[(u32, [u8; PREFIX])]) -> (u32, bool) {
        let mut messages = GrpcMessages::default();
        for &(length, first) in frames {
            messages.frame(length, Some(first));
        }
        (messages.count, messages.is_between())
    }

    #[test]
    fn messages_end_where_their_length_says() {
        let ten = [0, 0, 0, 0, 10];
        assert_eq!(after(&[(15, ten)]), (1, true));
        assert_eq!(after(&[(15, ten), (15, ten)]), (2, true));
        assert_eq!(after(&[(6, ten)]), (1, false));
        assert_eq!(after(&[(6, ten), (9, [7; PREFIX])]), (1, true));
        // Two messages in one frame, and a frame that begins with no prefix.
        assert_eq!(after(&[(30, ten)]), (1, false));
        assert_eq!(after(&[(15, [9; PREFIX])]), (0, false));
    }
}
