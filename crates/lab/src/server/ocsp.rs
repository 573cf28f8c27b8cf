//! openssl's OCSP responder, which reports whether a certificate is revoked (RFC 6960).

use std::path::Path;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::program::Program;
use super::service_port::ServicePort;
use super::tls::certificates;

/// The responder for the certificate of another service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ocsp {
    /// The service whose certificate is checked: an nginx with TLS and a chain of two or more
    /// certificates.
    pub of: String,
}

/// Returns the program that runs the responder. The certificate's issuer, number 1 of its chain,
/// signs the responder's answers.
pub(super) fn lay(folder: &Path, service: ServicePort<'_>, ocsp: &Ocsp) -> Program {
    let home = certificates(&folder.join("nginx"), &ocsp.of);
    let file = |name: &str| home.join(name).display().to_string();
    let named = [
        ("-index", file("register")),
        ("-CA", file("1.pem")),
        ("-rsigner", file("1.pem")),
        ("-rkey", file("1.key")),
        ("-port", service.port.to_string()),
    ];
    let words = named
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value]);
    Program {
        tool: "openssl",
        arguments: ["ocsp", "-text", "-ignore_err"]
            .map(str::to_owned)
            .into_iter()
            .chain(words)
            .collect(),
        user: None,
        ends_by: Signal::TERM,
    }
}
