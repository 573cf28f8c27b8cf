//! The script of a trace as it was written: segments, blocks and observations.

use lagtrace_core::observed::segment::TcpFlags;

use crate::block::Line;
use crate::http2;
use crate::sum::Sum;
use crate::tls;

/// A step of the script.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Segment(Box<SegmentLine>),
    Handshake(Sum),
    Repeat(u32, Vec<Item>),
    Connections(u32, Sum, Vec<Item>),
    /// The line's number, a time, and a packet other than a segment of the traced connections.
    Aside(usize, Time, Vec<String>),
    /// Connections from the server's host to its upstream.
    Legs(u32, Sum, Vec<Item>),
    Event(Line),
}

/// A line that describes a segment.
#[derive(Clone, Debug)]
pub(crate) struct SegmentLine {
    pub(crate) number: usize,
    pub(crate) label: Option<String>,
    pub(crate) time: Time,
    pub(crate) by: End,
    pub(crate) flags: TcpFlags,
    pub(crate) payload: Vec<u8>,
    pub(crate) repetition: Repetition,
    pub(crate) late: Option<Sum>,
    pub(crate) queued: Option<Sum>,
    pub(crate) fate: Fate,
    pub(crate) acknowledges: Acknowledges,
    pub(crate) window: Option<u32>,
    pub(crate) ip: IpHeader,
    pub(crate) unless: Option<String>,
    pub(crate) ports: Ports,
}

/// The ports of a segment, if they are not the usual ones.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ports {
    pub(crate) at: Option<u16>,
    pub(crate) from: Option<u16>,
}

/// The earlier segment that a segment repeats.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repetition {
    /// Label of the earlier segment.
    pub(crate) again: Option<String>,
    /// True if the repetition is a copy that the path or the capture made.
    pub(crate) is_copy: bool,
    /// The number of bytes of the earlier segment that are repeated.
    pub(crate) part: Option<usize>,
}

/// The segments that a segment acknowledges, by their labels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Acknowledges {
    pub(crate) ack: Option<String>,
    /// A segment that is reported as arrived beyond missing data.
    pub(crate) sack: Option<String>,
    /// A segment that is reported as arrived twice.
    pub(crate) dsack: Option<String>,
    /// True if the segment acknowledges a number that was never sent.
    pub(crate) is_alien: bool,
}

/// The IP header of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpHeader {
    pub(crate) ttl: u8,
    pub(crate) has_id: bool,
    pub(crate) is_ipv6: bool,
}

/// The time at which a segment passes the capture point.
#[derive(Clone, Debug)]
pub(crate) enum Time {
    After(Sum),
    From(String, Sum),
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Client,
    Server,
}

impl End {
    pub(crate) fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// The fate of a segment on the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    #[default]
    Arrives,
    /// The segment is lost before the capture point.
    Lost,
    /// The segment is lost after the capture point.
    LostBehind,
    /// The segment arrives, but the capture does not contain it.
    Unseen,
}

pub(crate) fn parse(lines: &[Line]) -> Result<Vec<Item>, String> {
    let mut lines = lines.iter();
    let items = block(&mut lines, false)?;
    Ok(items)
}

fn block<'a>(lines: &mut impl Iterator<Item = &'a Line>, inner: bool) -> Result<Vec<Item>, String> {
    let mut items = Vec::new();
    while let Some((number, words)) = lines.next() {
        let in_line = |error: String| format!("line {number}: {error}");
        let parts: Vec<&str> = words.iter().map(String::as_str).collect();
        let item = match parts.as_slice() {
            ["}"] if inner => return Ok(items),
            ["repeat", count, "{"] => {
                let count = number_of(count).map_err(in_line)?;
                Item::Repeat(count, block(lines, true)?)
            }
            ["connections", count, "every", every, "{"] => {
                let count = number_of(count).map_err(in_line)?;
                let every = Sum::parse(every).map_err(in_line)?;
                Item::Connections(count, every, block(lines, true)?)
            }
            ["legs", count, "every", every, "{"] => {
                let count = number_of(count).map_err(in_line)?;
                let every = Sum::parse(every).map_err(in_line)?;
                Item::Legs(count, every, block(lines, true)?)
            }
            ["handshake"] => Item::Handshake(Sum::parse("0")?),
            ["handshake", time] => {
                Item::Handshake(Sum::parse(time.trim_start_matches('+')).map_err(in_line)?)
            }
            _ if parts.contains(&">") => {
                Item::Segment(Box::new(segment(*number, &parts).map_err(in_line)?))
            }
            [time, "ask" | "tell" | "arp" | "ping" | "pong" | "icmp", ..] => Item::Aside(
                *number,
                time_of(time).map_err(in_line)?,
                words.get(1..).unwrap_or_default().to_vec(),
            ),
            _ => Item::Event((*number, words.clone())),
        };
        items.push(item);
    }
    if inner {
        Err("a block is not closed".to_owned())
    } else {
        Ok(items)
    }
}

fn segment(number: usize, words: &[&str]) -> Result<SegmentLine, String> {
    let (label, words) = match words.split_first() {
        Some((first, rest)) if first.ends_with(':') => {
            (Some(first.trim_end_matches(':').to_owned()), rest)
        }
        _ => (None, words),
    };
    let [time, from, ">", to, flags, rest @ ..] = words else {
        return Err("a segment is `TIME C > S FLAGS …`".to_owned());
    };
    let by = match (*from, *to) {
        ("C", "S") => End::Client,
        ("S", "C") => End::Server,
        _ => return Err("segments go `C > S` or `S > C`".to_owned()),
    };
    let mut line = SegmentLine {
        number,
        label,
        time: time_of(time)?,
        by,
        flags: flags_of(flags)?,
        payload: Vec::new(),
        repetition: Repetition::default(),
        late: None,
        queued: None,
        fate: Fate::default(),
        acknowledges: Acknowledges::default(),
        window: None,
        ip: IpHeader {
            ttl: 64,
            has_id: true,
            is_ipv6: false,
        },
        unless: None,
        ports: Ports::default(),
    };
    let mut rest = rest.iter().copied().peekable();
    while let Some(word) = rest.next() {
        let mut operand = || rest.next().ok_or(format!("`{word}` lacks its operand"));
        match word {
            "lost" => line.fate = Fate::Lost,
            "lost-behind" => line.fate = Fate::LostBehind,
            "unseen" => line.fate = Fate::Unseen,
            "no-id" => line.ip.has_id = false,
            "alien" => line.acknowledges.is_alien = true,
            "ipv6" => line.ip.is_ipv6 = true,
            "at-port" => line.ports.at = Some(port_of(operand()?)?),
            "from-port" => line.ports.from = Some(port_of(operand()?)?),
            "again" => line.repetition.again = Some(operand()?.to_owned()),
            "copy" => {
                line.repetition.again = Some(operand()?.to_owned());
                line.repetition.is_copy = true;
            }
            "part" => line.repetition.part = Some(number_of(operand()?)? as usize),
            "sack" => line.acknowledges.sack = Some(operand()?.to_owned()),
            "dsack" => line.acknowledges.dsack = Some(operand()?.to_owned()),
            "ack" => line.acknowledges.ack = Some(operand()?.to_owned()),
            "unless" => line.unless = Some(operand()?.to_owned()),
            "late" => line.late = Some(Sum::parse(operand()?)?),
            "queued" => line.queued = Some(Sum::parse(operand()?)?),
            "win" => line.window = Some(number_of(operand()?)?),
            "ttl" => {
                line.ip.ttl = u8::try_from(number_of(operand()?)?).map_err(|e| e.to_string())?
            }
            "data" => line.payload = vec![b'x'; number_of(operand()?)? as usize],
            "http2" => line.payload = http2::frames(operand()?)?,
            "tls" => line.payload = tls::records(operand()?)?,
            "bytes" => line.payload = slice(&line.payload, operand()?)?,
            "text" => {
                let words: Vec<&str> = rest.by_ref().collect();
                line.payload = format!("{}\r\n", words.join(" ")).into_bytes();
            }
            first => line.payload = message(first, &mut rest)?,
        }
    }
    Ok(line)
}

/// Returns the part `FROM..TO` of a payload.
fn slice(whole: &[u8], range: &str) -> Result<Vec<u8>, String> {
    let (from, to) = range.split_once("..").ok_or("a range is FROM..TO")?;
    let end = match to {
        "" => whole.len(),
        to => number_of(to)? as usize,
    };
    let part = whole.get(number_of(from)? as usize..end);
    Ok(part
        .ok_or(format!("{} bytes have no {range}", whole.len()))?
        .to_vec())
}

fn time_of(word: &str) -> Result<Time, String> {
    if let Some(sum) = word.strip_prefix('+') {
        return Ok(Time::After(Sum::parse(sum)?));
    }
    let (label, sum) = word
        .strip_prefix('@')
        .map(|rest| rest.split_once('+').unwrap_or((rest, "0")))
        .ok_or("a time is `+SUM` or `@LABEL+SUM`")?;
    Ok(Time::From(label.to_owned(), Sum::parse(sum)?))
}

/// Parses TCP flags in tcpdump's notation.
fn flags_of(word: &str) -> Result<TcpFlags, String> {
    word.chars().try_fold(TcpFlags::default(), |flags, letter| {
        let flag = match letter {
            'S' => TcpFlags::SYN,
            'F' => TcpFlags::FIN,
            'R' => TcpFlags::RST,
            'P' => TcpFlags::PSH,
            '.' => TcpFlags::ACK,
            other => return Err(format!("`{other}` is no flag")),
        };
        Ok(flags.with(flag))
    })
}

/// Returns the head of a request or a response, with as much of the body as `len` states.
fn message<'a>(
    first: &str,
    rest: &mut core::iter::Peekable<impl Iterator<Item = &'a str>>,
) -> Result<Vec<u8>, String> {
    let mut head = match first {
        "GET" | "HEAD" | "POST" | "PUT" | "SUBSCRIBE" => {
            let path = rest.next().ok_or("a request has a path")?;
            format!("{first} {path} HTTP/1.1\r\nHost: a\r\n")
        }
        status if status.len() == 3 && status.parse::<u16>().is_ok() => {
            format!("HTTP/1.1 {status} Status\r\nServer: s\r\n")
        }
        other => return Err(format!("`{other}` is neither payload nor option")),
    };
    let mut lengths = None;
    while let Some(&word) = rest.peek() {
        match word {
            "close" => head.push_str("Connection: close\r\n"),
            "events" => head.push_str("Content-Type: text/event-stream; charset=utf-8\r\n"),
            "host" => {
                rest.next();
                let name = rest.peek().ok_or("`host` lacks its operand")?;
                head = head.replace("Host: a\r\n", &format!("Host: {name}\r\n"));
            }
            "gzip" => head.push_str("Content-Encoding: gzip\r\n"),
            "expect" => head.push_str("Expect: 100-continue\r\n"),
            "location" => {
                rest.next();
                let place = rest.peek().ok_or("`location` lacks its operand")?;
                head.push_str(&format!("Location: {place}\r\n"));
            }
            "ocsp" => head.push_str("Content-Type: application/ocsp-response\r\n"),
            "len" | "body" => {
                rest.next();
                let value = *rest.peek().ok_or(format!("`{word}` lacks its operand"))?;
                match word {
                    "body" => head.push_str(&format!("Content-Length: {}\r\n", number_of(value)?)),
                    _ => lengths = Some(value),
                }
            }
            _ => break,
        }
        rest.next();
    }
    let (length, carried) = match lengths {
        Some(lengths) => match lengths.split_once('+') {
            Some((head, body)) => (number_of(head)? as usize, number_of(body)? as usize),
            None => (number_of(lengths)? as usize, 0),
        },
        None => (head.len() + 2, 0),
    };
    pad(&mut head, length)?;
    let mut bytes = head.into_bytes();
    bytes.resize(length + carried, b'x');
    Ok(bytes)
}

/// Adds a header field to the head so that it has `length` bytes.
fn pad(head: &mut String, length: usize) -> Result<(), String> {
    const FIELD: &str = "X: \r\n";
    let spare = length.checked_sub(head.len() + 2);
    match spare {
        Some(0) => {}
        Some(spare) if spare >= FIELD.len() => {
            head.push_str(&format!("X: {}\r\n", "x".repeat(spare - FIELD.len())));
        }
        _ => {
            return Err(format!(
                "a head of {length} bytes is too short for what it says"
            ));
        }
    }
    head.push_str("\r\n");
    Ok(())
}

fn port_of(word: &str) -> Result<u16, String> {
    word.parse().map_err(|_| format!("`{word}` is no port"))
}

pub(crate) fn number_of(word: &str) -> Result<u32, String> {
    word.parse().map_err(|_| format!("`{word}` is no number"))
}
