//! Tests of the capture formats: complete, split and damaged files.

use proptest::prelude::*;

use super::super::*;
use super::writing::{
    Order, block, enhanced, interface, option, pcap, pcap_record, section, statistics,
};

/// A record with a copy of its bytes, to compare the results of different splits.
type Owned = (u64, Option<i64>, u16, u16, u32, Vec<u8>);

/// Reads a file in chunks of the given lengths; the list of lengths repeats.
fn read(file: &[u8], pieces: &[usize]) -> (Vec<Owned>, Option<Damage>, Option<u64>) {
    let mut container = Container::new();
    let mut records = Vec::new();
    let mut pieces = pieces.iter().cycle();
    let (mut begin, mut end) = (0, 0);
    loop {
        let step = container.next(&file[begin..end]);
        begin += step.consumed;
        match step.found {
            Found::Record(record) => records.push(own(&record)),
            Found::Damaged(damage) => return (records, Some(damage), container.dropped()),
            Found::NeedMore(len) => {
                assert!(len <= Container::LONGEST, "asks for {len} bytes");
                assert!(len > end - begin, "asks for bytes it was given");
                if end == file.len() {
                    let damage = container.finish(&file[begin..end]);
                    return (records, damage, container.dropped());
                }
                end = file.len().min(end + pieces.next().expect("pieces cycle"));
            }
        }
    }
}

fn own(record: &Record<'_>) -> Owned {
    (
        record.number,
        record.at.map(Timestamp::as_nanos),
        record.link.0,
        record.interface,
        record.original_len,
        record.bytes.to_vec(),
    )
}

fn times(file: &[u8]) -> Vec<Option<i64>> {
    let (records, damage, _) = read(file, &[usize::MAX >> 1]);
    assert_eq!(damage, None);
    records.iter().map(|record| record.1).collect()
}

fn fault(file: &[u8]) -> (usize, Damage) {
    let (records, damage, _) = read(file, &[usize::MAX >> 1]);
    (records.len(), damage.expect("the file is damaged"))
}

const ORDERS: [Order; 2] = [Order::Big, Order::Little];

#[test]
fn pcap_in_either_order_and_resolution() {
    for order in ORDERS {
        for (magic, nanos) in [(0xa1b2_c3d4, 5_000), (0xa1b2_3c4d, 5)] {
            let mut file = pcap(order, magic, 0xf400_0001);
            file.extend(pcap_record(order, (3, 5), 9, &[1, 2, 3]));
            let (records, damage, dropped) = read(&file, &[1]);
            assert_eq!((damage, dropped), (None, None));
            let expected = (1, Some(3_000_000_000 + nanos), 1, 0, 9, vec![1, 2, 3]);
            assert_eq!(records, [expected]);
        }
    }
}

#[test]
fn modified_pcap_has_longer_record_headers() {
    let order = Order::Little;
    let mut file = pcap(order, 0xa1b2_cd34, 1);
    for second in 1..=2 {
        let mut record = pcap_record(order, (second, 1), 3, &[1, 2, 3]);
        record.splice(16..16, [0; 8]);
        file.extend(record);
    }
    assert_eq!(times(&file), [Some(1_000_001_000), Some(2_000_001_000)]);
}

/// An Ethernet frame of 60 bytes with an IPv4 packet.
fn frame(destination: [u8; 6]) -> Vec<u8> {
    let mut frame = [&destination[..], &[2; 6], &[8, 0, 0x45, 0, 0, 41]].concat();
    frame.resize(60, 7);
    frame
}

#[test]
fn nokias_records_begin_four_bytes_later() {
    for order in ORDERS {
        let mut file = pcap(order, 0xa1b2_c3d4, 1);
        let frames = [frame([2; 6]), vec![9; 80], frame([0; 6])];
        for (second, frame) in (1..).zip(&frames) {
            let mut record = pcap_record(order, (second, 1), frame.len() as u32, frame);
            record.splice(16..16, [0; 4]);
            file.extend(record);
        }
        for pieces in [&[usize::MAX >> 1][..], &[1], &[45, 3]] {
            let (records, damage, _) = read(&file, pieces);
            assert_eq!(damage, None);
            let bytes: Vec<_> = records.into_iter().map(|record| record.5).collect();
            assert_eq!(bytes, frames);
        }
    }
}

#[test]
fn what_only_begins_with_zeros_is_no_nokias() {
    // These records begin with zeros, but for other reasons: a destination address of zeros
    // (loopback), a switch's or VLAN's tag after the addresses, zeros only, and cut records.
    let loopback = frame([0; 6]);
    let mut tagged = frame([2; 6]);
    tagged.splice(12..12, [0x40, 0, 0, 7]);
    let mut virtual_network = frame([0; 6]);
    virtual_network.splice(12..12, [0x81, 0, 0, 7]);
    for first in [
        loopback.clone(),
        tagged,
        virtual_network,
        vec![0; 60],
        vec![0; 3],
        loopback[..30].to_vec(),
    ] {
        let mut file = pcap(Order::Little, 0xa1b2_c3d4, 1);
        for second in 1..3 {
            file.extend(pcap_record(Order::Little, (second, 1), 60, &first));
        }
        let (records, damage, _) = read(&file, &[7]);
        assert_eq!((records.len(), damage), (2, None), "{first:x?}");
        assert_eq!(records[0].5, first);
    }
}

#[test]
fn system_calls_are_counted_and_are_no_packets() {
    let order = Order::Little;
    let mut file = section(order);
    for kind in [0x201, 0x216, 0x218, 0x216, 0x222] {
        file.extend(block(order, kind, &[1; 20]));
    }
    let mut container = Container::new();
    let step = container.next(&file);
    assert_eq!((step.consumed, container.calls()), (file.len(), 3));
    assert_eq!(container.finish(&[]), None);
}

#[test]
fn pcapng_clocks() {
    for order in ORDERS {
        let resolution = |raw: u8| option(order, 9, &[raw]);
        let offset = |seconds: i64| option(order, 14, &order.u64(seconds as u64));
        let clocks = [
            vec![],
            resolution(9),
            resolution(0),
            resolution(0x80 | 10),
            resolution(12),
            [
                resolution(6),
                offset(-100),
                option(order, 0, &[]),
                vec![1, 2, 3, 4],
            ]
            .concat(),
            resolution(0x7f),
            resolution(0xff),
        ];
        let mut file = section(order);
        for clock in &clocks {
            file.extend(interface(order, 1, 0, clock));
        }
        for id in 0..clocks.len() as u32 {
            file.extend(enhanced(order, id, 2_048_000_000, &[0; 5]));
        }
        let expected = [
            2_048_000_000_000,
            2_048_000_000,
            2_048_000_000_000_000_000,
            2_000_000_000_000_000,
            2_048_000,
            1_948_000_000_000,
            0,
            0,
        ];
        assert_eq!(times(&file), expected.map(Some));
    }
}

#[test]
fn pcapng_sections_interfaces_and_losses() {
    let mut file = Vec::new();
    for (order, lost) in [(Order::Big, 3), (Order::Little, 4)] {
        file.extend(section(order));
        file.extend(interface(order, 1, 0, &[]));
        file.extend(interface(order, 113, 0, &[]));
        file.extend(enhanced(order, 1, 10, &[1]));
        file.extend(block(order, 0xbad, &[9; 1_001]));
        file.extend(statistics(order, 0, 1));
        file.extend(statistics(order, 0, lost));
        file.extend(statistics(order, 1, 10));
        file.extend(enhanced(order, 0, 11, &[1, 2]));
    }
    let (records, damage, dropped) = read(&file, &[7]);
    assert_eq!((damage, dropped), (None, Some(27)));
    let seen: Vec<_> = records.iter().map(|r| (r.0, r.2, r.3, r.5.len())).collect();
    assert_eq!(
        seen,
        [(1, 113, 1, 1), (2, 1, 0, 2), (3, 113, 1, 1), (4, 1, 0, 2)]
    );
}

/// An enhanced packet block with options after its packet.
fn with_options(order: Order, interface: u32, options: &[u8]) -> Vec<u8> {
    let whole = enhanced(order, interface, 0, &[1, 2, 3, 4, 5, 0, 0, 0]);
    let body = [&whole[8..whole.len() - 4], options].concat();
    block(order, 6, &body)
}

#[test]
fn pcapng_losses_comments_and_secrets() {
    for order in ORDERS {
        let lost = |count: u64| option(order, 4, &order.u64(count));
        let said = |text: &str| option(order, 1, text.as_bytes());
        let end = option(order, 0, &[]);
        let mut file = section(order);
        file.extend(interface(order, 1, 0, &[]));
        file.extend(interface(order, 1, 0, &[]));
        file.extend(with_options(
            order,
            0,
            &[said("one"), lost(3), end.clone()].concat(),
        ));
        file.extend(enhanced(order, 0, 0, &[0; 5]));
        file.extend(block(order, 10, &[0; 20]));
        file.extend(with_options(
            order,
            1,
            &[said("two"), said("three"), lost(4)].concat(),
        ));
        // The block is cut within an option; the options before it are valid.
        let cut = [lost(5), vec![1, 0, 0xff, 0xff]].concat();
        file.extend(with_options(order, 1, &cut));
        // The totals in statistics include the drops that packets report, and may be higher.
        file.extend(statistics(order, 0, 2));
        for (is_kept, comments) in [(false, [0, 0, 0, 0]), (true, [1, 0, 2, 0])] {
            let mut container = Container::new();
            if is_kept {
                container.keep_comments();
            }
            let mut begin = 0;
            loop {
                let step = container.next(&file[begin..]);
                begin += step.consumed;
                if !matches!(step.found, Found::Record(_)) {
                    break;
                }
            }
            assert_eq!(container.finish(&[]), None);
            assert_eq!((container.dropped(), container.secrets()), (Some(12), 1));
            assert_eq!([1, 2, 3, 4].map(|n| container.comments(n).len()), comments);
        }
    }
}

#[test]
fn pcapng_simple_and_obsolete_packets() {
    let order = Order::Big;
    let mut file = [section(order), interface(order, 101, 4, &[])].concat();
    file.extend(block(
        order,
        3,
        &[&order.u32(6)[..], &[1, 2, 3, 4]].concat(),
    ));
    let mut body = Vec::new();
    body.extend(order.u16(0));
    body.extend(order.u16(0));
    for word in [0, 1_000_000, 2, 2] {
        body.extend(order.u32(word));
    }
    body.extend([5, 6]);
    file.extend(block(order, 2, &body));
    let (records, damage, _) = read(&file, &[3]);
    assert_eq!(damage, None);
    assert_eq!(records[0], (1, None, 101, 0, 6, vec![1, 2, 3, 4]));
    assert_eq!(records[1], (2, Some(1_000_000_000), 101, 0, 2, vec![5, 6]));
}

#[test]
fn what_is_no_capture() {
    for (file, expected) in [
        (&b""[..], Fault::Empty),
        (b"\xd4", Fault::NotCapture),
        (b"<!DOCTYPE html>", Fault::NotCapture),
        (b"\x0a\x0d\x0d\x0a\x1c\0\0\0aaaa", Fault::ByteOrderMagic),
        (b"\xd4\xc3\xb2\xa1", Fault::Truncated),
    ] {
        let (records, damage) = fault(file);
        assert_eq!((records, damage.fault), (0, expected));
        assert_eq!((damage.offset, damage.record), (0, 1));
    }
    for (major, minor) in [(2, 5), (1, 4), (543, 1)] {
        let unknown = of_version(Order::Big, major, minor);
        assert_eq!(fault(&unknown).1.fault, Fault::Version(major, minor));
    }
}

/// The header of a pcap file of the given version.
fn of_version(order: Order, major: u16, minor: u16) -> Vec<u8> {
    let mut header = pcap(order, 0xa1b2_c3d4, 1);
    header[4..6].copy_from_slice(&order.u16(major));
    header[6..8].copy_from_slice(&order.u16(minor));
    header
}

proptest! {
    /// The order of the two lengths depends on the version. In version 2.3 the smaller one is the
    /// captured length.
    #[test]
    fn old_pcaps_have_their_lengths_in_another_order(
        captured in 0_usize..2_000,
        cut in 0_u32..2_000,
        is_big in any::<bool>(),
    ) {
        let order = if is_big { Order::Big } else { Order::Little };
        let bytes = vec![7; captured];
        let wire = captured as u32 + cut;
        let today = pcap_record(order, (3, 5), wire, &bytes);
        let mut old = today.clone();
        old[8..12].copy_from_slice(&order.u32(wire));
        old[12..16].copy_from_slice(&order.u32(captured as u32));
        let expected = (1, Some(3_000_005_000), 1, 0, wire, bytes);
        let mut versions: Vec<_> = (0..=2).map(|minor| ((2, minor), &old)).collect();
        versions.extend([((543, 0), &old), ((2, 3), &old), ((2, 3), &today), ((2, 4), &today)]);
        for ((major, minor), record) in versions {
            let file = [of_version(order, major, minor), record.clone()].concat();
            let (records, damage, _) = read(&file, &[11]);
            prop_assert_eq!(damage, None);
            prop_assert_eq!(&records[..], std::slice::from_ref(&expected), "{}.{}", major, minor);
        }
    }
}

/// The header of a snoop file.
fn snoop(version: u32, datalink: u32) -> Vec<u8> {
    let mut file = b"snoop\0\0\0".to_vec();
    file.extend(version.to_be_bytes());
    file.extend(datalink.to_be_bytes());
    file
}

fn snoop_record(wire: u32, bytes: &[u8], padding: usize, lost: u32) -> Vec<u8> {
    let len = 24 + bytes.len() + padding;
    let mut record = Vec::new();
    for word in [wire, bytes.len() as u32, len as u32, lost, 3, 5] {
        record.extend(word.to_be_bytes());
    }
    record.extend(bytes);
    record.resize(len, 0);
    record
}

proptest! {
    #[test]
    fn snoop_records_are_padded(
        lengths in prop::collection::vec((0_usize..300, 0_u32..300), 1..6),
        piece in 1_usize..90,
    ) {
        let mut file = snoop(2, 4);
        let mut expected = Vec::new();
        for (index, (len, cut)) in lengths.iter().enumerate() {
            let (bytes, wire) = (vec![9; *len], *len as u32 + cut);
            let padding = len.next_multiple_of(4) - len;
            file.extend(snoop_record(wire, &bytes, padding, index as u32));
            expected.push((1 + index as u64, Some(3_000_005_000), 1, 0, wire, bytes));
        }
        let (records, damage, dropped) = read(&file, &[piece]);
        prop_assert_eq!((damage, dropped), (None, Some(lengths.len() as u64 - 1)));
        prop_assert_eq!(records, expected);
    }
}

#[test]
fn snoop_of_other_versions_and_links_is_named() {
    for (head, expected) in [
        (snoop(3, 4), Fault::SnoopVersion(3)),
        (snoop(2, 8), Fault::SnoopDatalink(8)),
        (b"snoopy likes dogs".to_vec(), Fault::NotCapture),
        (snoop(2, 4)[..12].to_vec(), Fault::Truncated),
    ] {
        assert_eq!(fault(&head).1.fault, expected);
    }
    let with = |record: Vec<u8>| [snoop(2, 4), snoop_record(3, &[1; 3], 1, 0), record].concat();
    for (padding, len, expected) in [
        (0, Some(26), Fault::SnoopRecord(26)),
        (0, Some(1 << 20), Fault::SnoopRecord(1 << 20)),
        (65, None, Fault::SnoopRecord(24 + 3 + 65)),
    ] {
        let mut record = snoop_record(3, &[1; 3], padding, 0);
        if let Some(len) = len {
            record[8..12].copy_from_slice(&u32::to_be_bytes(len));
        }
        let (records, damage) = fault(&with(record));
        assert_eq!((records, damage.fault), (1, expected));
    }
    assert_eq!(times(&snoop(2, 0)), []);
}

#[test]
fn damage_is_placed() {
    let order = Order::Little;
    let mut file = pcap(order, 0xa1b2_c3d4, 1);
    file.extend(pcap_record(order, (1, 1), 4, &[0; 4]));
    let begin = file.len() as u64;
    let mut long = file.clone();
    long.extend(pcap_record(
        order,
        (1, 1),
        4,
        &vec![0; MAX_CAPTURED as usize + 1],
    ));
    let (records, damage) = fault(&long);
    assert_eq!(records, 1);
    assert_eq!((damage.offset, damage.record), (begin, 2));
    assert_eq!(damage.fault, Fault::RecordTooLong(MAX_CAPTURED + 1));
    assert_eq!(
        damage.to_string(),
        "damaged at byte 44, where record 2 should follow: a packet of 262145 captured bytes"
    );
    file.extend(&pcap_record(order, (1, 1), 4, &[0; 4])[..18]);
    let (_, damage) = fault(&file);
    assert_eq!((damage.offset, damage.fault), (begin, Fault::Truncated));
}

#[test]
fn damaged_blocks() {
    let order = Order::Little;
    let head = [section(order), interface(order, 1, 0, &[])].concat();
    let good = enhanced(order, 0, 1, &[1, 2, 3, 4]);
    let altered = |at: usize, value: u32| {
        let mut packet = good.clone();
        packet[at..at + 4].copy_from_slice(&order.u32(value));
        packet
    };
    let last = good.len() - 4;
    let passed = block(order, 99, &[0; 8]);
    let cases = [
        (altered(4, 8), Fault::BlockLength(8)),
        (altered(4, 37), Fault::BlockLength(37)),
        (altered(4, u32::MAX - 3), Fault::BlockLength(u32::MAX - 3)),
        (altered(last, 12), Fault::BlockLengthsDiffer(36, 12)),
        (altered(8, 1), Fault::UnknownInterface(1)),
        (altered(8, 1 << 16), Fault::UnknownInterface(1 << 16)),
        (altered(20, 5), Fault::BlockContent),
        (altered(20, u32::MAX), Fault::RecordTooLong(u32::MAX)),
        (block(order, 6, &[0; 8]), Fault::BlockContent),
        (interface(order, 1, 0, &[9, 0, 9, 0]), Fault::BlockContent),
        (passed[..14].to_vec(), Fault::Truncated),
        (
            [&passed[..16], &[1, 0, 0, 0]].concat(),
            Fault::BlockLengthsDiffer(20, 1),
        ),
    ];
    for (bad, expected) in cases {
        let file = [&head[..], &good, &bad, &good].concat();
        let file = match expected {
            Fault::Truncated => &file[..file.len() - good.len()],
            _ => &file,
        };
        let (records, damage) = fault(file);
        assert_eq!((records, damage.fault), (1, expected));
        assert_eq!(damage.offset as usize, head.len() + good.len());
        assert_eq!(read(file, &[1]).1, Some(damage));
    }
}

#[test]
fn a_damaged_container_stays_so() {
    let mut container = Container::new();
    let first = container.next(b"nonsense").found;
    let good = pcap(Order::Big, 0xa1b2_c3d4, 1);
    assert_eq!(container.next(&good).found, first);
}

fn arbitrary_capture() -> impl Strategy<Value = Vec<u8>> {
    let order = prop::sample::select(&ORDERS[..]);
    let frames = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..90), 0..12);
    (order, frames, any::<bool>()).prop_map(|(order, frames, is_pcapng)| {
        let mut file = if is_pcapng {
            [section(order), interface(order, 1, 0, &[])].concat()
        } else {
            pcap(order, 0xa1b2_3c4d, 1)
        };
        for (index, frame) in frames.iter().enumerate() {
            file.extend(match (is_pcapng, frame.len() % 3) {
                (true, 0) => block(order, 0x0bad, frame),
                (true, _) => enhanced(order, 0, index as u64, frame),
                (false, _) => pcap_record(order, (1, index as u32), 90, frame),
            });
        }
        file
    })
}

proptest! {
    #[test]
    fn any_split_yields_the_same(
        mut file in arbitrary_capture(),
        pieces in prop::collection::vec(1_usize..200, 1..8),
        damage in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        if let Some((at, value)) = damage {
            let at = at.index(file.len());
            file[at] = value;
        }
        if let Some(cut) = cut {
            file.truncate(cut.index(file.len()));
        }
        prop_assert_eq!(read(&file, &pieces), read(&file, &[usize::MAX >> 1]));
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        magic in prop::sample::select(vec![
            vec![], vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0], section(Order::Little),
            [section(Order::Big), interface(Order::Big, 1, 0, &[])].concat(),
        ]),
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        pieces in prop::collection::vec(1_usize..50, 1..4),
    ) {
        let file = [magic, bytes].concat();
        let _ = read(&file, &pieces);
    }
}
