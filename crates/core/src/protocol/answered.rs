//! Protocols in which every request is answered, recognized by a client's first bytes. This shows
//! which side waits. The content of requests is not parsed.

/// Returns true if a client's first bytes begin a request of one of these protocols.
pub(super) fn begins_request(bytes: &[u8]) -> bool {
    let known = [
        is_smb, is_ldap, is_rpc, is_dce, is_mongo, is_tds, is_cql, is_modbus, is_smtp,
    ];
    known.iter().any(|is_known| is_known(bytes))
}

/// Returns true if a request asks for notification of events. It stays unanswered until an event
/// occurs.
pub(super) fn waits_for_news(bytes: &[u8]) -> bool {
    // SMB2 CHANGE_NOTIFY (MS-SMB2 §2.2.35).
    let is_notify = is_smb(bytes) && byte(bytes, 4) == 0xFE && little_16(bytes, 16) == Some(0x0F);
    // A MongoDB driver sends a `hello` that is answered when the topology changes.
    let until_change = b"maxAwaitTimeMS";
    let is_hello = is_mongo(bytes) && bytes.windows(until_change.len()).any(|w| w == until_change);
    is_notify || is_hello
}

/// Returns true for SMB over TCP (MS-SMB2 §2.1): a length, then the protocol identifier of the
/// version.
fn is_smb(bytes: &[u8]) -> bool {
    let has_mark = bytes.get(5..8) == Some(b"SMB") && byte(bytes, 4) >= 0xFC;
    has_mark && byte(bytes, 0) == 0
}

/// Returns true for LDAP (RFC 4511 §4.1.1): a sequence, a message number, and an operation that has
/// a response.
fn is_ldap(bytes: &[u8]) -> bool {
    /// Operations that have a response: bind, search, modify, add, delete, rename, compare and
    /// extended requests.
    const ANSWERED: [u8; 8] = [0x60, 0x63, 0x66, 0x68, 0x4A, 0x6C, 0x6E, 0x77];
    let length = match byte(bytes, 1) {
        0x81 => 2,
        0x82 => 3,
        0x84 => 5,
        short if short < 0x80 => 1,
        _ => return false,
    };
    let number = 1 + length;
    let size = usize::from(byte(bytes, number + 1));
    let operation = bytes.get(number + 2 + size);
    let is_number = byte(bytes, number) == 0x02 && (1..=4).contains(&size);
    byte(bytes, 0) == 0x30 && is_number && operation.is_some_and(|tag| ANSWERED.contains(tag))
}

/// Returns true for an ONC RPC call, as used by NFS (RFC 5531 §9 and §11).
fn is_rpc(bytes: &[u8]) -> bool {
    const LONGEST: u32 = 4 << 20;
    let is_record =
        big_32(bytes, 0).is_some_and(|mark| (1 << 31 | 40..1 << 31 | LONGEST).contains(&mark));
    is_record && big_32(bytes, 8) == Some(0) && big_32(bytes, 12) == Some(2)
}

/// Returns true for DCE/RPC (C706 §12.6): version 5, with a bind or a request.
fn is_dce(bytes: &[u8]) -> bool {
    let has_length = little_16(bytes, 8).is_some_and(|length| length >= 24);
    bytes.starts_with(&[5, 0]) && matches!(byte(bytes, 2), 0x00 | 0x0B) && has_length
}

/// Returns true for MongoDB's wire protocol: a length, ids, no reference to an earlier message, and
/// the operation OP_MSG, OP_COMPRESSED or OP_QUERY.
fn is_mongo(bytes: &[u8]) -> bool {
    const LONGEST: u32 = 48_000_000;
    let has_length = little_32(bytes, 0).is_some_and(|length| (26..=LONGEST).contains(&length));
    let is_asked = matches!(little_32(bytes, 12), Some(2013 | 2012 | 2004));
    has_length && little_32(bytes, 8) == Some(0) && is_asked
}

/// Returns true for Tabular Data Stream, SQL Server's protocol (MS-TDS §2.2.3.1). The packet is the
/// first of a connection, or a batch.
fn is_tds(bytes: &[u8]) -> bool {
    let has_type = matches!(byte(bytes, 0), 0x01 | 0x03 | 0x10 | 0x12) && byte(bytes, 1) <= 1;
    let length = bytes
        .get(2..4)
        .map(|two| usize::from(two[0]) << 8 | usize::from(two[1]));
    let is_whole = length.is_some_and(|length| length > 8 && length == bytes.len());
    has_type && is_whole && bytes.get(4..6) == Some(&[0, 0]) && byte(bytes, 7) == 0
}

/// Returns true for CQL, Cassandra's protocol (native protocol v3 to v5 §2): a version, a stream,
/// and STARTUP or OPTIONS, one of which begins each connection.
fn is_cql(bytes: &[u8]) -> bool {
    let length = big_32(bytes, 5).and_then(|length| usize::try_from(length).ok());
    let is_whole = length.is_some_and(|length| length.checked_add(9) == Some(bytes.len()));
    (3..=5).contains(&byte(bytes, 0)) && matches!(byte(bytes, 4), 0x01 | 0x05) && is_whole
}

/// Returns true for Modbus over TCP (MODBUS Messaging on TCP/IP §3.1.3): protocol 0, a complete
/// message, and a public function.
fn is_modbus(bytes: &[u8]) -> bool {
    let length = bytes
        .get(4..6)
        .map(|two| usize::from(two[0]) << 8 | usize::from(two[1]));
    let is_whole =
        length.is_some_and(|length| (4..=254).contains(&length) && length + 6 == bytes.len());
    let is_public = matches!(byte(bytes, 7), 1..=8 | 11 | 12 | 15..=17 | 20..=24 | 43);
    bytes.get(2..4) == Some(&[0, 0]) && is_whole && is_public
}

/// Returns true for SMTP and LMTP (RFC 5321 §4.1.1.1, RFC 2033 §4.1). They are recognized by the
/// client's first command, which follows the server's greeting.
fn is_smtp(bytes: &[u8]) -> bool {
    let is_hello = |word: &[u8]| {
        bytes
            .get(..word.len())
            .is_some_and(|b| b.eq_ignore_ascii_case(word))
    };
    [&b"EHLO "[..], b"HELO ", b"LHLO "]
        .into_iter()
        .any(is_hello)
}

fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or_default()
}

fn little_16(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..at + 2)?;
    Some(u16::from_le_bytes(two.try_into().ok()?))
}

fn little_32(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

fn big_32(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes(four.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first bytes of clients, each with the name of its protocol.
    fn asked() -> Vec<(&'static str, Vec<u8>)> {
        let smb = |mark: u8, command: u8| {
            let mut bytes = vec![
                0, 0, 0, 0x66, mark, b'S', b'M', b'B', 64, 0, 0, 0, 0, 0, 0, 0,
            ];
            bytes.extend([command, 0, 1, 0]);
            bytes
        };
        let modbus = vec![0, 1, 0, 0, 0, 6, 1, 3, 0, 10, 0, 2];
        let mut mongo = Vec::new();
        for word in [40_u32, 7, 0, 2013, 0] {
            mongo.extend(word.to_le_bytes());
        }
        let mut rpc = Vec::new();
        for word in [1 << 31 | 40_u32, 9, 0, 2, 100_003, 3] {
            rpc.extend(word.to_be_bytes());
        }
        let mut tds = vec![0x12, 1, 0, 47, 0, 0, 1, 0];
        tds.resize(47, 0);
        vec![
            ("SMB1", smb(0xFF, 0x72)),
            ("SMB2", smb(0xFE, 0)),
            (
                "LDAP bind",
                vec![0x30, 12, 2, 1, 1, 0x60, 7, 2, 1, 3, 4, 0, 0x80, 0],
            ),
            (
                "LDAP search",
                vec![0x30, 0x84, 0, 0, 0, 45, 2, 1, 7, 0x63, 0x84],
            ),
            ("ONC RPC", rpc),
            ("DCE/RPC", vec![5, 0, 11, 3, 0x10, 0, 0, 0, 116, 0, 0, 0]),
            ("MongoDB", mongo),
            ("TDS", tds),
            ("CQL", vec![4, 0, 0, 0, 5, 0, 0, 0, 0]),
            ("Modbus", modbus),
            ("SMTP", b"EHLO mail.example\r\n".to_vec()),
            ("LMTP", b"lhlo there\r\n".to_vec()),
        ]
    }

    #[test]
    fn requests_are_known_by_their_first_bytes() {
        for (name, bytes) in asked() {
            assert!(begins_request(&bytes), "{name}");
            assert!(!waits_for_news(&bytes), "{name}");
        }
    }

    #[test]
    fn other_bytes_are_nobodys_request() {
        let others: [&[u8]; 12] = [
            b"",
            b"\0",
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"RFB 003.008\n",
            b"USER lisi\r\n",
            &[0x10, 16, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 60],
            &[0x30, 12, 0, 3, b'a', b'/', b'b', 1, 2, 3],
            &[0xFF, 0xFF, 0, 4],
            &[0, 0, 0, 0x22, b'p', b'l', b'a', b'y'],
            // LDAP's unbind and abandon have no answer.
            &[0x30, 5, 2, 1, 3, 0x42, 0],
            &[0x30, 6, 2, 1, 4, 0x50, 1, 3],
            // A reply of ONC RPC: unlike a call, it has no version.
            &[0x80, 0, 0, 0x18, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0],
        ];
        for bytes in others {
            assert!(!begins_request(bytes), "{bytes:?}");
        }
        for (name, mut bytes) in asked() {
            bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
            assert!(!begins_request(&bytes), "{name}, every byte of it changed");
        }
    }

    #[test]
    fn who_asks_for_news_waits_for_it() {
        let mut notify = vec![0, 0, 0, 0x60, 0xFE, b'S', b'M', b'B'];
        notify.resize(16, 0);
        notify.extend([0x0F, 0, 1, 0]);
        assert!(waits_for_news(&notify));
        let mut hello = Vec::new();
        for word in [80_u32, 7, 0, 2013, 0] {
            hello.extend(word.to_le_bytes());
        }
        hello.extend(b"\x10hello\0\x12maxAwaitTimeMS\0");
        assert!(waits_for_news(&hello));
    }
}
