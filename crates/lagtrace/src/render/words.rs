//! The report's vocabulary in plain words.

use lagtrace_core::exchange::wait::{Owner, WaitKind};
use lagtrace_core::report::{EvidenceKind, Verdict};

use super::page::Tone;

/// Returns the name of an owner of time.
pub(crate) fn owner(owner: Owner) -> &'static str {
    match owner {
        Owner::Client => "client",
        Owner::Server => "server",
        Owner::Path => "path",
        Owner::Resolver => "resolver",
        Owner::Proxy => "proxy",
        Owner::Unknown => "unknown",
    }
}

/// Returns the name of a kind of wait.
pub(crate) fn wait(kind: WaitKind) -> &'static str {
    kind.in_words()
}

/// Returns the words that open the headline of a finding that only locates time, by its owner and
/// the certainty of the location.
pub(crate) fn place_only(owner: Owner, certainty: Verdict) -> &'static str {
    match (owner, certainty > Verdict::Possible) {
        (Owner::Client, true) => "In the client, reason unknown:",
        (Owner::Client, false) => "Possibly in the client, reason unknown:",
        (Owner::Server, true) => "In the server, reason unknown:",
        (Owner::Server, false) => "Possibly in the server, reason unknown:",
        (Owner::Path, true) => "On the path, reason unknown:",
        (Owner::Path, false) => "Possibly on the path, reason unknown:",
        (Owner::Resolver, true) => "In the resolver, reason unknown:",
        (Owner::Resolver, false) => "Possibly in the resolver, reason unknown:",
        (Owner::Proxy, true) => "In the proxy, reason unknown:",
        (Owner::Proxy, false) => "Possibly in the proxy, reason unknown:",
        (Owner::Unknown, _) => "Place and reason unknown:",
    }
}

/// Returns the words that open a finding's headline, by its verdict.
pub(crate) fn verdict(verdict: Verdict) -> (&'static str, Tone) {
    match verdict {
        Verdict::Proven => ("Proven:", Tone::Bad),
        Verdict::Strong => ("Strong evidence:", Tone::Bad),
        Verdict::Possible => ("Possible:", Tone::Caution),
    }
}

/// Returns the source of a kind of evidence, as a noun within a sentence.
pub(crate) fn evidence(kind: EvidenceKind) -> &'static str {
    match kind {
        EvidenceKind::Wire => "packets",
        EvidenceKind::OwnSocket => "our own sockets",
        EvidenceKind::ForeignSocket => "the server's sockets",
        EvidenceKind::KernelTrace => "the kernel's trace",
        EvidenceKind::Configuration => "configuration",
        EvidenceKind::Counter => "kernel counters",
        EvidenceKind::Intervention => "an experiment",
    }
}

/// Returns the source of a kind of evidence, as a label.
pub(crate) fn evidence_label(kind: EvidenceKind) -> &'static str {
    match kind {
        EvidenceKind::Wire => "Packets",
        EvidenceKind::OwnSocket => "Our sockets",
        EvidenceKind::ForeignSocket => "Server's sockets",
        EvidenceKind::KernelTrace => "Kernel trace",
        EvidenceKind::Configuration => "Configuration",
        EvidenceKind::Counter => "Kernel counters",
        EvidenceKind::Intervention => "Experiment",
    }
}

/// Joins items to a list: `a, b and c`.
pub(crate) fn list<T: AsRef<str>>(items: &[T]) -> String {
    match items {
        [] => String::new(),
        [only] => only.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", first.join(", "), last.as_ref())
        }
    }
}

/// Returns `text` with a capital first letter.
pub(crate) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// Returns `text` as a sentence: with a full stop, unless it ends with `.`, `!`, `?` or `…`.
pub(crate) fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() || text.ends_with(['.', '!', '?', '…']) {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}
