//! Protocol buffers' wire format (<https://protobuf.dev/programming-guides/encoding/>), as far as a
//! trace needs it.

/// Wire types.
const VARINT: u64 = 0;
const I64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;

/// A message that is being encoded.
#[derive(Clone, Debug, Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds an unsigned integer, a bool or an enum.
    pub(super) fn uint(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3 | VARINT);
        self.varint(value);
        self
    }

    /// Adds an unsigned integer of eight bytes.
    pub(super) fn fixed(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3 | I64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(super) fn text(self, field: u64, text: &str) -> Self {
        self.delimited(field, text.as_bytes())
    }

    pub(super) fn message(self, field: u64, message: &Message) -> Self {
        self.delimited(field, &message.bytes)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn delimited(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_encoded_as_the_specification_says() {
        // The examples of the specification: field 1 = 150, field 2 = "testing", field 3 nested.
        let number = Message::new().uint(1, 150);
        assert_eq!(number.clone().into_bytes(), [0x08, 0x96, 0x01]);
        let text = Message::new().text(2, "testing").into_bytes();
        assert_eq!(text, b"\x12\x07testing");
        let nested = Message::new().message(3, &number).into_bytes();
        assert_eq!(nested, [0x1a, 0x03, 0x08, 0x96, 0x01]);
    }
}
