//! Quantities in the notation of scenarios: `8ms`, `5Mbit`, `16kB`.
//!
//! Input: text. Output: a [`Duration`], a [`Rate`] or a [`Size`]; and back, so that a scenario can
//! be passed to another process and parsed there.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A transfer rate in bits per second, written `64kbit`, `5Mbit` or `1Gbit` (powers of 1000).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate(u64);

impl Rate {
    /// Returns the rate of `bits` per second; `None` for zero, because such a link would never
    /// deliver anything.
    pub(crate) fn from_bits_per_second(bits: u64) -> Option<Self> {
        (bits > 0).then_some(Self(bits))
    }

    /// Returns the bits per second, at least 1.
    pub(crate) fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Returns the time that sending `bytes` takes on a link with this rate, rounded up to a
    /// nanosecond.
    pub(crate) fn time_for(self, bytes: u64) -> Duration {
        let nanos = (u128::from(bytes) * 8 * 1_000_000_000).div_ceil(u128::from(self.0));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the number of bytes that a link with this rate carries in a time, rounded down.
    pub(crate) fn bytes_in(self, time: Duration) -> u64 {
        let bytes = time.as_nanos().saturating_mul(u128::from(self.0)) / 8_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// A number of bytes, written `1500B`, `16kB` or `1MB` (powers of 1000).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size(u64);

impl Size {
    /// Returns the size of `bytes` bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Returns the number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

const TIMES: [(&str, u64); 4] = [
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];
const RATES: [(&str, u64); 4] = [
    ("Gbit", 1_000_000_000),
    ("Mbit", 1_000_000),
    ("kbit", 1_000),
    ("bit", 1),
];
const SIZES: [(&str, u64); 3] = [("MB", 1_000_000), ("kB", 1_000), ("B", 1)];

/// The error for a text that is not a quantity of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {kind}: write a whole number and one of {units}")]
pub struct BadQuantity {
    text: String,
    kind: &'static str,
    units: String,
}

fn parse(text: &str, kind: &'static str, units: &[(&str, u64)]) -> Result<u64, BadQuantity> {
    let bad = || BadQuantity {
        text: text.to_owned(),
        kind,
        units: units
            .iter()
            .map(|(name, _)| *name)
            .collect::<Vec<_>>()
            .join(", "),
    };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units
        .iter()
        .find(|(name, _)| *name == unit.trim())
        .ok_or_else(bad)?;
    let number: u64 = number.parse().map_err(|_| bad())?;
    number.checked_mul(*factor).ok_or_else(bad)
}

/// Writes an amount in the largest unit that gives a whole number, so that [`parse`] reads it back
/// without loss.
fn format(amount: u64, units: &[(&str, u64)]) -> String {
    let (name, factor) = units
        .iter()
        .find(|(_, factor)| amount >= *factor && amount.is_multiple_of(*factor))
        .unwrap_or(&units[units.len() - 1]);
    format!("{}{name}", amount / factor)
}

/// Reads a time such as `8ms`, `250us` or `1s`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, BadQuantity> {
    parse(text, "time", &TIMES).map(Duration::from_nanos)
}

/// Writes a time in a form that [`parse_duration`] reads back.
pub(crate) fn format_duration(time: Duration) -> String {
    format(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), &TIMES)
}

impl FromStr for Rate {
    type Err = BadQuantity;
    fn from_str(text: &str) -> Result<Self, BadQuantity> {
        let bits = parse(text, "rate", &RATES)?;
        Self::from_bits_per_second(bits).ok_or_else(|| BadQuantity {
            text: text.to_owned(),
            kind: "rate above zero",
            units: "bit, kbit, Mbit, Gbit".to_owned(),
        })
    }
}

impl FromStr for Size {
    type Err = BadQuantity;
    fn from_str(text: &str) -> Result<Self, BadQuantity> {
        parse(text, "amount of bytes", &SIZES).map(Self)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format(self.0, &RATES))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format(self.0, &SIZES))
    }
}

impl TryFrom<String> for Rate {
    type Error = BadQuantity;
    fn try_from(text: String) -> Result<Self, BadQuantity> {
        text.parse()
    }
}

impl TryFrom<String> for Size {
    type Error = BadQuantity;
    fn try_from(text: String) -> Result<Self, BadQuantity> {
        text.parse()
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> Self {
        rate.to_string()
    }
}

impl From<Size> for String {
    fn from(size: Size) -> Self {
        size.to_string()
    }
}

/// `#[serde(with = "duration")]` for a [`Duration`] written as text.
pub(crate) mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::format_duration(*time))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        super::parse_duration(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// `#[serde(with = "optional_duration")]` for a time that may be left out.
pub(crate) mod optional_duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => to.serialize_some(&super::format_duration(*time)),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| super::parse_duration(&text).map_err(D::Error::custom))
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_rates_and_sizes_read_as_people_write_them() {
        assert_eq!(parse_duration("8ms"), Ok(Duration::from_millis(8)));
        assert_eq!(parse_duration("0ms"), Ok(Duration::ZERO));
        assert_eq!(parse_duration("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(
            "5Mbit".parse::<Rate>().map(Rate::bits_per_second),
            Ok(5_000_000)
        );
        assert_eq!("16kB".parse::<Size>().map(Size::bytes), Ok(16_000));
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in [
            "",
            "ms",
            "8",
            "8 minutes",
            "-1ms",
            "1.5ms",
            "99999999999999999999s",
            "18446744073709551615s",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert!("0Mbit".parse::<Rate>().is_err());
        assert!("16kbit".parse::<Size>().is_err());
    }

    #[test]
    fn writing_and_reading_back_loses_nothing() {
        for nanos in [0, 1, 999, 1_000, 8_000_000, 8_000_001, 3_600_000_000_000] {
            let time = Duration::from_nanos(nanos);
            assert_eq!(parse_duration(&format_duration(time)), Ok(time));
        }
    }

    #[test]
    fn a_rate_carries_its_bytes_in_its_time() {
        let rate = Rate::from_bits_per_second(8_000_000).expect("not zero");
        assert_eq!(rate.time_for(1_000), Duration::from_millis(1));
        assert_eq!(rate.bytes_in(Duration::from_millis(1)), 1_000);
        assert_eq!(
            Rate::from_bits_per_second(1).map(|slow| slow.time_for(u64::MAX)),
            Some(Duration::from_nanos(u64::MAX))
        );
    }
}
