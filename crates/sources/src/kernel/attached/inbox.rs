//! The records of one batch. They are copied, so that the ring has room again before they are
//! processed.

/// Records in order of arrival, concatenated, with their lengths.
#[derive(Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
}

impl Inbox {
    /// Adds a record.
    pub(super) fn add(&mut self, record: &[u8]) {
        self.bytes.extend_from_slice(record);
        self.lengths.push(record.len());
    }

    /// Removes all records. The memory is kept.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.lengths.clear();
    }

    /// Returns the bytes of each record.
    pub(super) fn records(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        self.lengths.iter().map(move |&length| {
            let (record, behind) = rest.split_at_checked(length).unwrap_or_default();
            rest = behind;
            record
        })
    }
}
