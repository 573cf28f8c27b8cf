//! The expiry time of a certificate (RFC 5280 §4.1). The library checks it but does not return it.

use lagtrace_core::observed::time::Timestamp;

/// DER tags (X.690 §8) of the fields up to and including the expiry time.
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The smallest two-digit year that belongs to the 20th century (RFC 5280 §4.1.2.5.1).
const CENTURY_BEGINS: i64 = 50;

/// Returns the expiry time of a certificate in DER; `None` if it cannot be parsed.
pub(super) fn certificate_end(der: &[u8]) -> Option<Timestamp> {
    let (certificate, _) = inside(der, SEQUENCE)?;
    let (mut fields, _) = inside(certificate, SEQUENCE)?;
    if fields.first() == Some(&VERSION) {
        fields = element(fields)?.2;
    }
    // Skips serial number, signature algorithm and issuer.
    for _ in 0..3 {
        fields = element(fields)?.2;
    }
    let (validity, _) = inside(fields, SEQUENCE)?;
    let (_, _, rest) = element(validity)?;
    let (tag, text, _) = element(rest)?;
    time(tag, text)
}

/// Splits off the first element. Returns its tag, its contents and the bytes after it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk()?;
    let (len, rest) = match first {
        short if short < 0x80 => (usize::from(short), rest),
        long => {
            let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            if digits.len() > 4 {
                return None;
            }
            let number = |sum, digit: &u8| sum << 8 | usize::from(*digit);
            (digits.iter().fold(0, number), rest)
        }
    };
    let (held, rest) = rest.split_at_checked(len)?;
    Some((tag, held, rest))
}

/// Returns the contents of the first element and the bytes after it; `None` if it has another tag.
fn inside(bytes: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, held, rest) = element(bytes)?;
    (tag == wanted).then_some((held, rest))
}

fn time(tag: u8, text: &[u8]) -> Option<Timestamp> {
    let text = text.strip_suffix(b"Z")?;
    let (year, rest) = text.split_at_checked(match tag {
        UTC_TIME => 2,
        GENERALIZED_TIME => 4,
        _ => return None,
    })?;
    let year = match (tag, number(year)?) {
        (UTC_TIME, year) if year < CENTURY_BEGINS => year + 2000,
        (UTC_TIME, year) => year + 1900,
        (_, year) => year,
    };
    let fields: Vec<i64> = rest.chunks(2).map(number).collect::<Option<_>>()?;
    let &[month, day, hour, minute, second] = fields.as_slice() else {
        return None;
    };
    let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    seconds
        .checked_mul(1_000_000_000)
        .map(Timestamp::from_nanos)
}

fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns the number of days from 1970-01-01 to a date in the Gregorian calendar. Years begin in
/// March in this calculation.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let since_march = (month + 9) % 12;
    let leap_days = year / 4 - year / 100 + year / 400;
    // 719,468 is the number of days from 0000-03-01 to 1970-01-01.
    year * 365 + leap_days + (153 * since_march + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wrap(tag: u8, held: &[u8]) -> Vec<u8> {
        let len = u16::try_from(held.len()).expect("short").to_be_bytes();
        [&[tag, 0x82, len[0], len[1]], held].concat()
    }

    fn certificate(with_version: bool, tag: u8, end: &[u8]) -> Vec<u8> {
        let validity = [wrap(UTC_TIME, b"240101000000Z"), wrap(tag, end)].concat();
        let mut fields = Vec::new();
        if with_version {
            fields.extend(wrap(VERSION, &[2, 1, 2]));
        }
        fields.extend([2, 1, 7]);
        fields.extend(wrap(SEQUENCE, &[5, 0]));
        fields.extend(wrap(SEQUENCE, &[]));
        fields.extend(wrap(SEQUENCE, &validity));
        wrap(SEQUENCE, &wrap(SEQUENCE, &fields))
    }

    #[test]
    fn the_end_is_read_in_both_ways_of_writing_it() {
        for (tag, end, seconds) in [
            (UTC_TIME, &b"240229120000Z"[..], 1_709_208_000),
            (UTC_TIME, b"991231235959Z", 946_684_799),
            (GENERALIZED_TIME, b"20500101000000Z", 2_524_608_000),
        ] {
            for with_version in [true, false] {
                let end = certificate_end(&certificate(with_version, tag, end));
                assert_eq!(end, Some(Timestamp::from_parts(seconds, 0)));
            }
        }
        for (tag, end) in [
            (UTC_TIME, &b"2402291200Z"[..]),
            (UTC_TIME, b"2x0229120000Z"),
            (4, b"240229120000Z"),
        ] {
            assert_eq!(certificate_end(&certificate(true, tag, end)), None);
        }
    }

    proptest! {
        #[test]
        fn damage_is_survived(at in 0_usize..60, byte: u8, len in 0_usize..70) {
            let mut bytes = certificate(true, UTC_TIME, b"240229120000Z");
            let at = at.min(bytes.len() - 1);
            bytes[at] = byte;
            let _ = certificate_end(bytes.get(..len).unwrap_or(&bytes));
        }
    }
}
