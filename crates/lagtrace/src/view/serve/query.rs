//! The queries of requests. Each field must be named, and named once; nothing else is accepted.

use std::net::SocketAddr;
use std::ops::Range;
use std::result::Result;

use lagtrace_core::exchange::wait::Owner;
use lagtrace_core::observed::flow::Endpoint;
use lagtrace_core::views::picture::{ExchangeKey, PicturePart};
use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error, StrDeserializer};

use super::request::Refusal;

/// Parses `service=…&owner=…&from_ns=…&to_ns=…&low_ns=…&high_ns=…`, the selection of a reader:
/// exchanges that begin in `from..to` after the start of the picture and have a latency in
/// `low..high`. Without `service` or `owner`, all of them.
pub(super) fn part(query: &str, services: usize) -> Result<PicturePart, Refusal> {
    const NAMES: [&str; 6] = ["service", "owner", "from_ns", "to_ns", "low_ns", "high_ns"];
    let [service, owner, from, to, low, high] = fields(query, NAMES)?;
    Ok(PicturePart {
        service: service.map(|text| index(text, services)).transpose()?,
        owner: owner.map(self::owner).transpose()?,
        begun_ns: range(from, to)?,
        latency_ns: range(low, high)?,
    })
}

/// Parses `client=…&server=…&first_packet=…&ordinal=…`, the key of an exchange.
pub(super) fn key(query: &str) -> Result<ExchangeKey, Refusal> {
    let [client, server, first, ordinal] =
        fields(query, ["client", "server", "first_packet", "ordinal"])?;
    Ok(ExchangeKey {
        client: endpoint(client)?,
        server: endpoint(server)?,
        first_packet: number(first)?,
        ordinal: u32::try_from(number(ordinal)?).map_err(|_| Refusal::Malformed)?,
    })
}

/// Returns the values of the fields with these names.
fn fields<'a, const N: usize>(
    query: &'a str,
    names: [&str; N],
) -> Result<[Option<&'a str>; N], Refusal> {
    let mut values = [None; N];
    for field in query.split('&') {
        let (name, value) = field.split_once('=').ok_or(Refusal::Malformed)?;
        let place = names.iter().position(|known| *known == name);
        let known = place.and_then(|place| values.get_mut(place));
        let empty = known.filter(|value| value.is_none());
        *empty.ok_or(Refusal::Malformed)? = Some(value);
    }
    Ok(values)
}

/// Parses digits; the standard library's numbers may have a sign.
fn number(text: Option<&str>) -> Result<u64, Refusal> {
    let text = text.ok_or(Refusal::Malformed)?;
    let is_number = text.bytes().all(|digit| digit.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number.ok_or(Refusal::Malformed)
}

fn range(from: Option<&str>, to: Option<&str>) -> Result<Range<u64>, Refusal> {
    let range = number(from)?..number(to)?;
    if range.is_empty() {
        return Err(Refusal::Malformed);
    }
    Ok(range)
}

fn index(text: &str, count: usize) -> Result<u8, Refusal> {
    let index = u8::try_from(number(Some(text))?).ok();
    let index = index.filter(|index| usize::from(*index) < count);
    index.ok_or(Refusal::Malformed)
}

fn owner(text: &str) -> Result<Owner, Refusal> {
    let text: StrDeserializer<'_, Error> = text.into_deserializer();
    Owner::deserialize(text).map_err(|_| Refusal::Malformed)
}

fn endpoint(text: Option<&str>) -> Result<Endpoint, Refusal> {
    let address: Option<SocketAddr> = text.and_then(|text| text.parse().ok());
    address.map(Endpoint::from).ok_or(Refusal::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_is_whole_or_refused() {
        let whole =
            "service=1&owner=server&from_ns=0&to_ns=9&low_ns=3&high_ns=18446744073709551615";
        let part = |query: &str| super::part(query, 2);
        assert_eq!(
            part(whole),
            Ok(PicturePart {
                service: Some(1),
                owner: Some(Owner::Server),
                begun_ns: 0..9,
                latency_ns: 3..u64::MAX,
            })
        );
        let least = part("high_ns=2&low_ns=1&to_ns=2&from_ns=1").expect("any order, no service");
        assert_eq!((least.service, least.owner), (None, None));
        for (from, to) in [
            ("service=1", "service=2"),
            ("service=1", "service=-1"),
            ("service=1", "service="),
            ("service=1", "service=256"),
            ("owner=server", "owner=Server"),
            ("owner=server", "owner="),
            ("from_ns=0", "from_ns=+0"),
            ("from_ns=0", "from_ns=0.5"),
            ("from_ns=0", "from_ns=1e0"),
            ("from_ns=0", "from_ns=9"),
            ("from_ns=0", "from_ns=%30"),
            ("from_ns=0&", ""),
            ("to_ns=9", "to_ns"),
            ("to_ns=9", "to_ns=9&to_ns=9"),
            ("low_ns=3", "low_ns=3&lower=3"),
            ("low_ns=3", "low_ns=4&&"),
            ("551615", "551616"),
        ] {
            let changed = whole.replacen(from, to, 1);
            assert_ne!(changed, whole);
            assert_eq!(part(&changed), Err(Refusal::Malformed), "{changed}");
        }
        assert_eq!(part(""), Err(Refusal::Malformed));
    }

    #[test]
    fn a_key_is_whole_or_refused() {
        let whole = "client=10.0.0.1:4000&server=[fd00::1]:80&first_packet=7&ordinal=0";
        let key = super::key(whole).expect("a key");
        assert_eq!(key.server.to_string(), "[fd00::1]:80");
        assert_eq!((key.first_packet, key.ordinal), (7, 0));
        for (from, to) in [
            ("client=10.0.0.1:4000", "client=10.0.0.1"),
            ("client=10.0.0.1:4000", "client=example.org:80"),
            ("client=10.0.0.1:4000&", ""),
            ("ordinal=0", "ordinal=4294967296"),
            ("packet=7", "packet="),
            ("packet=7", "packet=x"),
        ] {
            let changed = whole.replacen(from, to, 1);
            assert_eq!(super::key(&changed), Err(Refusal::Malformed), "{changed}");
        }
    }
}
