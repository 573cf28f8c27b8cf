//! The output line for an answer.

use std::time::Duration;

use lagtrace_core::observed::event::{
    Coming, ProbeAnswer, ProbeMethod, ProbePhases, ProbeReply, ProbeSample, ProbeStep, ProbeTls,
    ReplySegment, Stamp, tls_version_name,
};
use lagtrace_core::observed::segment::TcpFlags;
use lagtrace_core::observed::time::Timestamp;
use serde_json::{Map, Value, json};

use super::is_good;
use crate::clock;
use crate::words;

/// Returns the line for people, in the style of `hping3`; it includes the target if there are
/// several.
pub(super) fn text(sample: &ProbeSample, with_target: bool) -> String {
    let mut words = vec![format!("#{:<3}", sample.number)];
    if with_target {
        words.push(target(sample));
    }
    words.extend(sample.step.and_then(step));
    words.push(format!("{:<12}", answer(sample.answer)));
    if let Some(rtt) = sample.rtt {
        let by = if sample.stamp == Stamp::User {
            " (own clock)"
        } else {
            ""
        };
        words.push(format!("{:>8}{by}", words::time(rtt)));
    }
    match sample.coming {
        Coming::InTime => {}
        Coming::Late => words.push("late".to_owned()),
        Coming::Again => words.push("again".to_owned()),
    }
    if sample.syn_retransmissions > 0 {
        let times = u64::from(sample.syn_retransmissions);
        words.push(format!("SYN repeated {}", words::plural(times, "time")));
    }
    words.extend(sample.ttl.map(|ttl| format!("ttl {ttl}")));
    if let Some(reply) = &sample.reply {
        words.extend(packet(sample, reply));
    }
    if let Some(phases) = &sample.phases {
        words.push(spent(phases));
    }
    words.join(" ")
}

/// Returns the probe's value in a sweep; ports are not included, because they are printed with the
/// packet.
fn step(step: ProbeStep) -> Option<String> {
    match step {
        ProbeStep::SourcePort(_) => None,
        ProbeStep::Size(size) => Some(format!("{size:>5} bytes")),
        ProbeStep::Flags(flags) => Some(format!("{:<11}", TcpFlags(flags).to_string())),
    }
}

/// Returns the target; without the port for ICMP, which has no ports.
fn target(sample: &ProbeSample) -> String {
    match sample.method {
        ProbeMethod::Icmp => sample.endpoint.addr.to_string(),
        _ => sample.endpoint.to_string(),
    }
}

fn packet(sample: &ProbeSample, reply: &ProbeReply) -> Vec<String> {
    let mut words = Vec::new();
    if !is_good(sample.answer) && reply.from != sample.endpoint.addr {
        words.push(format!("from {}", reply.from));
    }
    words.extend(
        reply
            .dont_fragment
            .filter(|is| *is)
            .map(|_| "DF".to_owned()),
    );
    words.extend(reply.id.map(|id| format!("id {id}")));
    words.extend(reply.len.map(|len| format!("len {len}")));
    if reply.source_port > 0 {
        words.push(format!("sport {}", reply.source_port));
    }
    words.extend(reply.segment.as_ref().map(segment));
    words
}

fn segment(segment: &ReplySegment) -> String {
    let mut words = vec![
        segment.flags.to_string(),
        format!("seq {}", segment.seq),
        format!("win {}", segment.window),
    ];
    let options = &segment.options;
    words.extend(options.mss.map(|mss| format!("mss {mss}")));
    words.extend(options.sack_permitted.then(|| "sackOK".to_owned()));
    words.extend(options.timestamps.map(|_| "TS".to_owned()));
    words.extend(options.window_scale.map(|shift| format!("wscale {shift}")));
    words.join(" ")
}

/// Describes the phases of the time, in order.
fn spent(phases: &ProbePhases) -> String {
    let names = ["resolve", "connect", "TLS", "", "first byte", "rest"];
    let hello = phases.hello.map_or_else(String::new, |hello| {
        format!(" (first byte after {})", words::time(hello))
    });
    let named = names.iter().zip(phases.all());
    let mut parts: Vec<String> = named
        .filter(|(name, _)| !name.is_empty())
        .filter_map(|(name, took)| Some((name, took?)))
        .map(|(name, took)| match *name {
            "TLS" => format!("TLS {}{hello}", words::time(took)),
            name => format!("{name} {}", words::time(took)),
        })
        .collect();
    parts.extend(phases.tls.as_ref().map(agreed));
    parts.join(" · ")
}

fn agreed(tls: &ProbeTls) -> String {
    let resumed = if tls.is_resumed { "resumed" } else { "full" };
    let version = tls_version_name(tls.version);
    let ends = tls
        .certificate_ends
        .map_or_else(String::new, |end| format!(" · certificate to {}", day(end)));
    format!("{resumed} {version} {}{ends}", tls.cipher)
}

/// Returns the date of a time, as YYYY-MM-DD.
fn day(at: Timestamp) -> String {
    let text = clock::started(Some(at.as_nanos()));
    text.split('T').next().unwrap_or_default().to_owned()
}

/// Returns the answer in a word or two.
pub(super) fn answer(answer: ProbeAnswer) -> String {
    match answer {
        ProbeAnswer::Open => "open".to_owned(),
        ProbeAnswer::Refused => "refused".to_owned(),
        ProbeAnswer::Unreachable(kind, code) => format!("icmp {kind}/{code}"),
        ProbeAnswer::Silence => "no answer".to_owned(),
        ProbeAnswer::Status(status) => format!("status {status}"),
        ProbeAnswer::Unfinished => "not complete in time".to_owned(),
        ProbeAnswer::Closed => "closed".to_owned(),
        ProbeAnswer::NotHttp => "no HTTP".to_owned(),
        ProbeAnswer::Grpc(_) => answer.name(),
        ProbeAnswer::Secured => "secured".to_owned(),
        ProbeAnswer::TlsFailed => "TLS failed".to_owned(),
        ProbeAnswer::NotTrusted => "certificate not accepted".to_owned(),
        ProbeAnswer::NotTls => "no TLS".to_owned(),
        ProbeAnswer::TlsTimeout => "TLS timeout".to_owned(),
        ProbeAnswer::Echo => "echo".to_owned(),
        ProbeAnswer::Datagram => "datagram".to_owned(),
    }
}

/// Returns the line for programs, which is one JSON object.
pub(super) fn json(sample: &ProbeSample, at: Timestamp, is_loaded: bool) -> String {
    let reply = sample.reply.as_deref();
    let segment = reply.and_then(|reply| reply.segment);
    let mut line = json!({
        "type": "answer",
        "at_ns": at.as_nanos(),
        "target": target(sample),
        "during": if is_loaded { "loaded" } else { "idle" },
        "number": sample.number,
        "sent_flags": match sample.step {
            Some(ProbeStep::Flags(flags)) => Some(TcpFlags(flags).to_string()),
            _ => None,
        },
        "sent_size": match sample.step {
            Some(ProbeStep::Size(size)) => Some(size),
            _ => None,
        },
        "answer": answer(sample.answer),
        "rtt_ns": sample.rtt.map(|rtt| rtt.as_nanos() as u64),
        "stamp": if sample.stamp == Stamp::Kernel { "kernel" } else { "user" },
        "noticed_ns": sample.noticed.map(|noticed| noticed.as_nanos() as u64),
        "queued_ns": sample.queued.map(|queued| queued.as_nanos() as u64),
        "is_late": sample.coming == Coming::Late,
        "is_duplicate": sample.coming == Coming::Again,
        "ttl": sample.ttl,
        "syn_retransmissions": sample.syn_retransmissions,
        "from": reply.map(|reply| reply.from.to_string()),
        "source_port": reply.map(|reply| reply.source_port),
        "len": reply.and_then(|reply| reply.len),
        "id": reply.and_then(|reply| reply.id),
        "dont_fragment": reply.and_then(|reply| reply.dont_fragment),
        "flags": segment.map(|segment| segment.flags.to_string()),
        "seq": segment.map(|segment| segment.seq),
        "window": segment.map(|segment| segment.window),
        "mss": segment.and_then(|segment| segment.options.mss),
        "window_scale": segment.and_then(|segment| segment.options.window_scale),
        "sack_permitted": segment.map(|segment| segment.options.sack_permitted),
        "tsval": segment.and_then(|segment| segment.options.timestamps.map(|(value, _)| value)),
    });
    if let (Some(phases), Some(line)) = (&sample.phases, line.as_object_mut()) {
        line.extend(phase_fields(phases));
    }
    line.to_string()
}

/// Returns fields for the phases of the time; `tls_first_byte_ns` is a part of `tls_ns`.
fn phase_fields(phases: &ProbePhases) -> Map<String, Value> {
    let took = |took: Duration| Value::from(took.as_nanos() as u64);
    let named = ProbePhases::NAMES.iter().zip(phases.all());
    let mut fields: Map<String, Value> = named
        .map(|(name, it)| {
            (
                format!("{}_ns", name.replace('-', "_")),
                it.map_or(Value::Null, took),
            )
        })
        .collect();
    if let Some(tls) = &phases.tls {
        let end = tls
            .certificate_ends
            .map(|end| clock::started(Some(end.as_nanos())));
        fields.extend([
            (
                "tls_version".to_owned(),
                tls_version_name(tls.version).into(),
            ),
            ("tls_cipher".to_owned(), tls.cipher.clone().into()),
            ("tls_resumed".to_owned(), tls.is_resumed.into()),
            ("certificate_ends".to_owned(), end.into()),
        ]);
    }
    fields
}
