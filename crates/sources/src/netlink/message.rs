//! Netlink messages and their attributes as borrowed bytes
//! (`include/uapi/linux/netlink.h`).

/// Bytes of `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// Bytes of `struct nlattr`.
const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// Mask that removes the two flag bits (nested, network byte order) from an attribute's type.
const ATTRIBUTE_TYPE_MASK: u16 = 0x3fff;

/// A message from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// `nlmsg_type`.
    pub kind: u16,
    /// `nlmsg_flags`.
    pub flags: u16,
    /// `nlmsg_seq`: the sequence number of the request that the message answers.
    pub sequence: u32,
    /// The bytes after the header, as many as the message's own length allows.
    pub payload: &'a [u8],
}

/// The messages of one datagram, up to the first message with an invalid length.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    /// Returns the messages in `datagram`.
    pub fn new(datagram: &'a [u8]) -> Self {
        Self { rest: datagram }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let length = usize::try_from(u32_at(self.rest, 0)?).ok()?;
        let payload = self.rest.get(HEADER_BYTES..length)?;
        let message = Message {
            kind: u16_at(self.rest, 4)?,
            flags: u16_at(self.rest, 6)?,
            sequence: u32_at(self.rest, 8)?,
            payload,
        };
        self.rest = self.rest.get(aligned(length)..).unwrap_or_default();
        Some(message)
    }
}

/// An attribute: its type without the flag bits, and its value.
pub type Attribute<'a> = (u16, &'a [u8]);

/// The attributes of a message, up to the first attribute with an invalid length.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// Returns the attributes in `bytes`: those of a message, or those nested in another attribute.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the value of the first attribute of type `kind`.
    pub fn find(bytes: &'a [u8], kind: u16) -> Option<&'a [u8]> {
        Self::new(bytes)
            .find(|&(found, _)| found == kind)
            .map(|(_, value)| value)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        let length = usize::from(u16_at(self.rest, 0)?);
        let kind = u16_at(self.rest, 2)? & ATTRIBUTE_TYPE_MASK;
        let value = self.rest.get(ATTRIBUTE_HEADER_BYTES..length)?;
        self.rest = self.rest.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    }
}

/// Encodes a request.
pub(super) fn encode(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let length = HEADER_BYTES + payload.len();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes()); // nlmsg_pid: the kernel fills it in
    bytes.extend(payload);
    bytes
}

/// Appends an attribute to a request's payload.
pub(crate) fn push_attribute(payload: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = ATTRIBUTE_HEADER_BYTES + value.len();
    payload.extend(u16::try_from(length).unwrap_or(u16::MAX).to_ne_bytes());
    payload.extend(kind.to_ne_bytes());
    payload.extend(value);
    payload.resize(aligned(payload.len()), 0);
}

/// Rounds a length up to a multiple of four, the alignment of messages and attributes.
const fn aligned(length: usize) -> usize {
    length.saturating_add(3) & !3
}

/// Returns the two bytes at `at` as a number in host byte order.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array_at(bytes, at).map(u16::from_ne_bytes)
}

/// Returns the two bytes at `at` as a number in network byte order.
pub(crate) fn be16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array_at(bytes, at).map(u16::from_be_bytes)
}

/// Returns the four bytes at `at` as a number in host byte order.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_ne_bytes)
}

/// Returns the four bytes at `at` as a number in network byte order.
pub(crate) fn be32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_be_bytes)
}

/// Returns the eight bytes at `at` as a number in host byte order.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array_at(bytes, at).map(u64::from_ne_bytes)
}

/// Returns the `N` bytes at `at`.
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Returns the text of a string attribute up to its terminating zero, but at most `most` bytes.
pub fn text(value: &[u8], most: usize) -> String {
    let end = value.iter().position(|&b| b == 0).unwrap_or(value.len());
    let bytes = value.get(..end.min(most)).unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_encoded_is_read_back() {
        let mut payload = vec![7; 8];
        push_attribute(&mut payload, 3, b"abc");
        push_attribute(&mut payload, 4, &[1, 2, 3, 4]);
        let bytes = encode(20, 0x301, 9, &payload);
        let message = Messages::new(&bytes).next().expect("one message");
        assert_eq!(
            (message.kind, message.flags, message.sequence),
            (20, 0x301, 9)
        );
        let attributes: Vec<_> = Attributes::new(&message.payload[8..]).collect();
        assert_eq!(attributes, [(3, &b"abc"[..]), (4, &[1, 2, 3, 4][..])]);
    }

    #[test]
    fn lengths_that_cannot_be_true_end_the_reading() {
        for length in [0_u32, 15, 17, u32::MAX] {
            let mut bytes = encode(1, 0, 1, &[]);
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(Messages::new(&bytes).count(), 0, "{length}");
        }
        assert_eq!(Attributes::new(&[3, 0, 1, 0]).count(), 0);
        assert_eq!(Attributes::new(&[8, 0, 1, 0, 5]).count(), 0);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let messages = Messages::new(&bytes).count();
            prop_assert!(messages <= bytes.len() / HEADER_BYTES);
            let attributes = Attributes::new(&bytes).count();
            prop_assert!(attributes <= bytes.len() / ATTRIBUTE_HEADER_BYTES);
        }
    }
}
