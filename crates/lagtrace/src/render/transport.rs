//! The transport of a load run's connections: protocol, TLS, socket options.

use lagtrace_core::report::{Figures, LoadRun, TlsUse, Transport};

use super::page::{Page, Tone};
use super::quantity;

/// Writes the transport and the TLS handshakes.
pub(super) fn write(page: &mut Page, load: &LoadRun) {
    let Some(transport) = &load.transport else {
        return;
    };
    page.paragraph(0, Tone::Dim, &manner(transport));
    if let Some(tls) = &transport.tls {
        page.paragraph(0, Tone::Dim, &handshakes(tls));
    }
}

fn manner(transport: &Transport) -> String {
    let mut parts = vec![transport.protocol.clone()];
    if let Some(tls) = &transport.tls {
        parts.push(format!("{} ({})", tls.version, tls.cipher));
    }
    if transport.at_once > 1 {
        parts.push(format!(
            "up to {} concurrent requests per connection",
            transport.at_once
        ));
    }
    if let Some(path) = &transport.unix_socket {
        parts.push(format!("Unix socket {path}"));
    }
    if !transport.sources.is_empty() {
        parts.push(format!("from {}", transport.sources.join(", ")));
    }
    parts.extend(transport.options.iter().cloned());
    parts.join(" · ")
}

fn handshakes(tls: &TlsUse) -> String {
    let of_kind = |figures: &Figures, kind: &str| match figures.count {
        0 => format!("none {kind}"),
        1 => format!("one {kind} in {}", quantity::duration(figures.p50)),
        count => format!(
            "{} {kind} in {} (median; at most {})",
            quantity::count(count),
            quantity::duration(figures.p50),
            quantity::duration(figures.max),
        ),
    };
    format!(
        "TLS handshakes: {}, {}. Request times do not include them, except for requests that were \
         due while they waited for a handshake.",
        of_kind(&tls.full_ns, "full"),
        of_kind(&tls.resumed_ns, "resumed"),
    )
}
