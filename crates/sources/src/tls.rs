//! The client side of TLS: trust, session resumption, and descriptions of failures. This module
//! creates the state of connections. Its only I/O is reading the certificates of authorities.

mod identity;
pub(crate) mod secure;
mod sessions;
mod trust;
mod validity;

use std::path::PathBuf;
use std::sync::Arc;

use lagtrace_core::observed::event::{ProbeAnswer, RequestFailure};
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, ConfigBuilder, Error,
    InvalidMessage, WantsVerifier, client::WantsClientCert,
};

use crate::url::Host;
use sessions::Sessions;

/// Maximum number of a certificate's names that the report shows.
const MOST_NAMES: usize = 3;

/// The trust anchors for a server's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The certificate authorities that this host trusts.
    #[default]
    Platform,
    /// Only the certificate authorities in this PEM file.
    Authorities(PathBuf),
    /// Any certificate is accepted.
    Anyone,
}

/// The application protocol of a connection, which ALPN offers (RFC 7301).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carried {
    /// Only HTTP/1.1.
    #[default]
    Http1,
    /// Only HTTP/2.
    Http2,
}

impl Carried {
    /// Returns the protocol's name for ALPN.
    const fn protocol(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 => b"h2",
        }
    }
}

/// The certificate by which this side identifies itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// PEM file with the certificate and those of its authorities.
    pub certificate: PathBuf,
    /// PEM file with the private key; `None` if it is in the same file.
    pub key: Option<PathBuf>,
}

/// A reason why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file with certificates of authorities could not be read.
    #[error("the certificates in {} could not be read: {why}", path.display())]
    Read {
        /// File that was read.
        path: PathBuf,
        /// The reason why the file could not be read.
        why: String,
    },
    /// A file with the client's certificate or its private key could not be used.
    #[error("the client's {what} in {} could not be used: {why}", path.display())]
    Identity {
        /// The part that could not be used.
        what: &'static str,
        /// File that was read.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// No certificate of an authority is installed on this host.
    #[error("no authority's certificate was found on this host{why}")]
    NoAuthorities {
        /// The reason, with a colon before it; may be empty.
        why: String,
    },
    /// The host's name is not valid as a TLS server name.
    #[error("`{host}` is not a name that TLS can request")]
    Name {
        /// Name of the host.
        host: String,
    },
    /// The TLS library rejected its configuration.
    #[error("TLS could not be set up")]
    Setup(#[from] Error),
}

/// The client side of TLS. All connections of a run use the same client and share its sessions.
#[derive(Clone, Debug)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
}

impl TlsClient {
    /// Creates a client that trusts `trust` and offers the protocol `carried`.
    pub fn new(trust: &Trust, carried: Carried) -> Result<Self, TlsError> {
        Self::identified(trust, carried, None)
    }

    /// Creates a client that also presents a certificate to servers that ask for one.
    pub fn identified(
        trust: &Trust,
        carried: Carried,
        identity: Option<&Identity>,
    ) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = with_trust(builder, trust, &provider)?;
        let mut config = match identity {
            Some(identity) => identity::present(builder, identity)?,
            None => builder.with_no_client_auth(),
        };
        config.resumption = Resumption::store(Arc::new(Sessions::default()));
        config.alpn_protocols = vec![carried.protocol().to_vec()];
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// Returns the peer for one host. The host's name is sent to the server (SNI, RFC 6066 §3), and
    /// the server's certificate must contain it.
    pub fn to(&self, host: &Host) -> Result<TlsPeer, TlsError> {
        let name = match host {
            Host::Address(address) => ServerName::IpAddress((*address).into()),
            Host::Name(name) => {
                let wrong = |_| TlsError::Name { host: name.clone() };
                ServerName::try_from(name.clone()).map_err(wrong)?
            }
        };
        Ok(TlsPeer {
            config: Arc::clone(&self.config),
            name,
        })
    }
}

fn with_trust(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    trust: &Trust,
    provider: &Arc<rustls::crypto::CryptoProvider>,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TlsError> {
    Ok(match trust {
        Trust::Platform => builder.with_root_certificates(trust::platform()?),
        Trust::Authorities(path) => {
            let named = trust::Named::read(path, Arc::clone(provider))?;
            let builder = builder.dangerous();
            builder.with_custom_certificate_verifier(Arc::new(named))
        }
        Trust::Anyone => {
            let anyone = trust::Anyone::new(Arc::clone(provider));
            let builder = builder.dangerous();
            builder.with_custom_certificate_verifier(Arc::new(anyone))
        }
    })
}

/// A host for connections with TLS.
#[derive(Clone, Debug)]
pub struct TlsPeer {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsPeer {
    /// Returns the same peer without stored sessions.
    pub(crate) fn anew(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::store(Arc::new(Sessions::default()));
        Self {
            config: Arc::new(config),
            name: self.name.clone(),
        }
    }

    /// Creates the state of a new connection. Its ClientHello is ready to be sent.
    pub(crate) fn begin(&self) -> Result<ClientConnection, Error> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }
}

/// A failure in TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFault {
    /// The request's failure to report.
    pub failure: RequestFailure,
    /// Description of the failure: a clause without a full stop.
    pub text: String,
    /// True if only the name in the certificate is wrong.
    pub is_name: bool,
    /// True if the answer was not TLS at all.
    pub is_plain: bool,
}

impl TlsFault {
    /// Returns the fault for a handshake that the server ended without an alert, or that did not
    /// finish in time.
    pub(crate) fn within_handshake(failure: RequestFailure) -> Self {
        let text = match failure {
            RequestFailure::TlsTimeout => "the TLS handshake was not complete in time",
            _ => "the server closed the connection within the TLS handshake",
        };
        Self {
            failure,
            text: text.to_owned(),
            is_name: false,
            is_plain: false,
        }
    }

    /// Returns the fault for a server that did not select HTTP/2.
    pub(crate) fn no_http2() -> Self {
        Self {
            failure: RequestFailure::Tls,
            text: "the server does not choose HTTP/2 (ALPN)".to_owned(),
            is_name: false,
            is_plain: false,
        }
    }

    /// Returns the fault for an error in the handshake or in a record.
    pub(crate) fn new(error: &Error) -> Self {
        let failure = match error {
            Error::InvalidCertificate(_) | Error::NoCertificatesPresented => {
                RequestFailure::Certificate
            }
            _ => RequestFailure::Tls,
        };
        Self {
            failure,
            text: explain(error),
            is_name: matches!(
                error,
                Error::InvalidCertificate(
                    CertificateError::NotValidForName
                        | CertificateError::NotValidForNameContext { .. }
                )
            ),
            is_plain: matches!(
                error,
                Error::InvalidMessage(InvalidMessage::InvalidContentType)
            ),
        }
    }

    /// Returns the fault in the form of a probe's answer.
    pub(crate) fn answer(&self) -> ProbeAnswer {
        match self.failure {
            RequestFailure::Certificate => ProbeAnswer::NotTrusted,
            RequestFailure::TlsTimeout => ProbeAnswer::TlsTimeout,
            _ if self.is_plain => ProbeAnswer::NotTls,
            _ => ProbeAnswer::TlsFailed,
        }
    }
}

fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => explain_certificate(error),
        Error::NoCertificatesPresented => "the server sent no certificate".to_owned(),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the answer is not TLS: the port may speak plain HTTP".to_owned()
        }
        Error::AlertReceived(AlertDescription::NoApplicationProtocol)
        | Error::NoApplicationProtocol => {
            "the server does not support the requested HTTP version (ALPN)".to_owned()
        }
        Error::AlertReceived(alert) => format!("the server aborted the handshake: alert {alert:?}"),
        Error::PeerIncompatible(why) => format!("the server speaks another TLS: {why:?}"),
        other => other.to_string(),
    }
}

/// Returns the name from a value that the library prints as `DnsName("x")`.
fn plain_name(name: &str) -> &str {
    name.split('"').nth(1).unwrap_or(name)
}

fn explain_certificate(error: &CertificateError) -> String {
    let text = error.to_string();
    match error {
        CertificateError::UnknownIssuer => {
            "the server's certificate is signed by itself or by an authority that is not trusted \
             here"
                .to_owned()
        }
        CertificateError::Expired => "the server's certificate expired".to_owned(),
        CertificateError::ExpiredContext { time, not_after } => {
            let ago = time.as_secs().saturating_sub(not_after.as_secs()) / 86_400;
            format!("the server's certificate expired {ago} days ago")
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let names: Vec<&str> = presented.iter().map(|name| plain_name(name)).collect();
            let names = match names.as_slice() {
                [] => "no name at all".to_owned(),
                names => names.get(..MOST_NAMES).unwrap_or(names).join(", "),
            };
            let expected = expected.to_str();
            format!("the server's certificate is not for {expected} but for {names}")
        }
        CertificateError::NotValidYet => "the server's certificate is not valid yet".to_owned(),
        CertificateError::NotValidForName => {
            "the server's certificate is not valid for the requested name".to_owned()
        }
        // The library webpki returns this error for a self-signed certificate that is marked as an
        // authority's.
        CertificateError::Other(_) if text.contains("CaUsedAsEndEntity") => {
            "the server's certificate is a self-signed CA certificate".to_owned()
        }
        _ => format!("the server's certificate was not accepted: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_says_what_is_wrong() {
        for (error, failure, words) in [
            (
                Error::InvalidCertificate(CertificateError::UnknownIssuer),
                RequestFailure::Certificate,
                "not trusted",
            ),
            (
                Error::InvalidCertificate(CertificateError::Expired),
                RequestFailure::Certificate,
                "expired",
            ),
            (
                Error::InvalidMessage(InvalidMessage::InvalidContentType),
                RequestFailure::Tls,
                "plain HTTP",
            ),
            (
                Error::AlertReceived(AlertDescription::HandshakeFailure),
                RequestFailure::Tls,
                "HandshakeFailure",
            ),
        ] {
            let fault = TlsFault::new(&error);
            assert_eq!(fault.failure, failure);
            assert!(fault.text.contains(words), "{fault:?}");
        }
    }

    #[test]
    fn hosts_that_can_be_asked_for() {
        let client = TlsClient::new(&Trust::Anyone, Carried::Http1).expect("a client");
        for host in ["h.example", "127.0.0.1", "a_b.example"] {
            let url: crate::url::Url = format!("https://{host}/").parse().expect("a URL");
            let peer = client.to(url.host()).expect(host);
            assert!(peer.begin().expect("a state").wants_write());
        }
        let odd = Host::Name("a..b".to_owned());
        assert!(matches!(client.to(&odd), Err(TlsError::Name { .. })));
    }

    #[test]
    fn files_without_authorities_are_refused_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("empty.pem");
        for text in [None, Some("no PEM at all\n")] {
            if let Some(text) = text {
                std::fs::write(&path, text).expect("written");
            }
            let trust = Trust::Authorities(path.clone());
            let error = TlsClient::new(&trust, Carried::Http1).expect_err("nothing to trust");
            assert!(error.to_string().contains("empty.pem"), "{error}");
        }
    }
}
