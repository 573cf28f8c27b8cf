//! Heads that were read before. Under load most heads repeat: clients send equal requests, and the
//! responses of one second have the same date. Comparing a head with an earlier one takes much less
//! time than reading it.

use core::cell::RefCell;
use core::iter;

use super::head::{self, Whole};
use super::{Framing, Head, Role, begins_message};

/// Maximum number of heads that are remembered for each role.
const MAX_HEADS: usize = 4;
/// Maximum length of a head that is remembered, in bytes.
const MAX_LENGTH: usize = 1024;

thread_local! {
    /// The heads of requests and of responses that this thread read last. A head means the same on
    /// each connection, so what is remembered changes only the time that it takes.
    static REPEATED: RefCell<[Repeated; 2]> = const { RefCell::new([Repeated::NONE; 2]) };
}

/// Reads the head at the beginning of `bytes`, as [`head::read`] does.
pub(super) fn read(role: Role, bytes: &[u8]) -> Option<Whole> {
    of_role(role, |repeated| repeated.read(role, bytes))
}

/// Returns a head that was read before and its length, if `bytes` begin with it and end with its
/// body.
pub(super) fn whole(role: Role, bytes: &[u8]) -> Option<(Head, usize)> {
    of_role(role, |repeated| repeated.whole(bytes))
}

fn of_role<T>(role: Role, act: impl FnOnce(&mut Repeated) -> T) -> T {
    REPEATED.with_borrow_mut(|[requests, responses]| {
        act(match role {
            Role::Request => requests,
            Role::Response => responses,
        })
    })
}

/// A head that was read before.
struct HeadBefore {
    bytes: Vec<u8>,
    head: Head,
    framing: Framing,
}

/// The heads of one role that were read last.
struct Repeated {
    heads: [Option<HeadBefore>; MAX_HEADS],
    /// The place of the next head.
    next: usize,
    /// The place of the head that was found last: mostly, the next one is equal.
    latest: usize,
    /// Length of the last head that was not among them. Only a head of the same length may be its
    /// repetition, so that heads which all differ are not kept.
    missed: usize,
}

impl Repeated {
    const NONE: Self = Self {
        heads: [const { None }; MAX_HEADS],
        next: 0,
        latest: 0,
        missed: 0,
    };

    /// Returns the head with which `bytes` begin. It begins like a message.
    fn known(&mut self, bytes: &[u8]) -> Option<&HeadBefore> {
        let at = |place: usize| self.heads.get(place)?.as_ref();
        let is_it = |place: &usize| at(*place).is_some_and(|known| bytes.starts_with(&known.bytes));
        // A head ends with its empty line, so none is the beginning of another.
        self.latest = iter::once(self.latest).chain(0..MAX_HEADS).find(is_it)?;
        self.heads.get(self.latest)?.as_ref()
    }

    fn whole(&mut self, bytes: &[u8]) -> Option<(Head, usize)> {
        let known = self.known(bytes)?;
        let body = match known.framing {
            Framing::Empty => 0,
            Framing::Length(body) => body,
            Framing::Chunked | Framing::UntilClose => return None,
        };
        let length = known.bytes.len();
        let is_whole = (bytes.len() - length) as u64 == body;
        // Another protocol may follow a 101.
        (is_whole && known.head.status != Some(101)).then(|| (known.head.clone(), length))
    }

    fn read(&mut self, role: Role, bytes: &[u8]) -> Option<Whole> {
        if let Some(known) = self.known(bytes) {
            return Some((known.head.clone(), known.framing, known.bytes.len()));
        }
        let whole = head::read(role, bytes)?;
        let length = whole.2;
        if length == self.missed && length <= MAX_LENGTH {
            let head = bytes.get(..length)?;
            // `bytes` may be the rest of a message whose first bytes came alone.
            if begins_message(role, head) {
                self.keep(head, &whole);
            }
        }
        self.missed = length;
        Some(whole)
    }

    fn keep(&mut self, bytes: &[u8], (head, framing, _): &Whole) {
        if let Some(place) = self.heads.get_mut(self.next) {
            *place = Some(HeadBefore {
                bytes: bytes.to_vec(),
                head: head.clone(),
                framing: *framing,
            });
            self.next = (self.next + 1) % MAX_HEADS;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADS: [&str; 6] = [
        "GET /a HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /b HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /a HTTP/1.0\n\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
        "HTTP/1.1 204 OK\r\nContent-Length: 3\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX: y\r\n\r\n",
    ];

    proptest! {
        /// Whatever was read before, a head is read as if it were the first one.
        #[test]
        fn a_repeated_head_is_read_as_the_first_one(
            heads in prop::collection::vec((0..HEADS.len(), 0..80_usize, "[a-z\r\n ]{0,9}"), 1..60)
        ) {
            for (which, cut, rest) in heads {
                let whole = format!("{}{rest}", HEADS[which]);
                // Most heads are whole, as in traffic.
                let cut = if cut < 60 { whole.len() } else { cut.min(whole.len()) };
                let bytes = &whole.as_bytes()[..cut];
                for role in [Role::Request, Role::Response] {
                    prop_assert_eq!(read(role, bytes), head::read(role, bytes));
                }
            }
        }
    }

    #[test]
    fn only_few_heads_of_bounded_length_are_kept() {
        let mut repeated = Repeated::NONE;
        for number in 0..1_000 {
            let head = format!("GET /{:04} HTTP/1.1\r\n\r\n", number / 2);
            assert!(repeated.read(Role::Request, head.as_bytes()).is_some());
        }
        assert_eq!(repeated.heads.iter().flatten().count(), MAX_HEADS);
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(MAX_LENGTH));
        for _ in 0..3 {
            repeated.read(Role::Request, long.as_bytes());
        }
        let is_short = |known: &HeadBefore| known.bytes.len() <= MAX_LENGTH;
        assert!(repeated.heads.iter().flatten().all(is_short));
    }
}
