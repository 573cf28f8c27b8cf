//! Options for the certificates that are accepted.

use std::path::PathBuf;

use clap::Args;
use lagtrace_core::observed::event::RequestFailure;
use lagtrace_sources::tls::{Carried, Identity, TlsClient, TlsError, TlsFault, Trust};
use lagtrace_sources::url::Url;

use crate::failure::{Failure, Result};

/// Options for `https` URLs.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct Tls {
    /// Accept any certificate
    #[arg(short = 'k', long)]
    pub(crate) insecure: bool,
    /// Trust the authorities in FILE (PEM) instead of those of this host
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) cacert: Option<PathBuf>,
    /// Identify by the certificate in FILE (PEM), if the server asks for one
    #[arg(short = 'E', long, value_name = "FILE")]
    pub(crate) cert: Option<PathBuf>,
    /// The private key of --cert, if FILE of that does not contain it (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
}

impl Tls {
    /// Returns the files that are read.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = PathBuf> {
        [&self.cacert, &self.cert, &self.key]
            .into_iter()
            .flatten()
            .cloned()
    }

    /// Returns the client's side of TLS; `None` if no URL requires TLS.
    pub(crate) fn client<'a>(
        &self,
        urls: impl IntoIterator<Item = &'a Url>,
        carried: Carried,
    ) -> Result<Option<TlsClient>> {
        if !urls.into_iter().any(Url::is_tls) {
            return Ok(None);
        }
        let trust = match (&self.cacert, self.insecure) {
            (Some(path), _) => Trust::Authorities(path.clone()),
            (None, true) => Trust::Anyone,
            (None, false) => Trust::Platform,
        };
        let identity = self.cert.clone().map(|certificate| Identity {
            certificate,
            key: self.key.clone(),
        });
        let client = TlsClient::identified(&trust, carried, identity.as_ref());
        let client = client.map_err(|error| {
            let has_none = matches!(error, TlsError::NoAuthorities { .. });
            let failure = Failure::from(error);
            if has_none {
                failure.hint("install ca-certificates, or give a file with --cacert")
            } else {
                failure
            }
        });
        client.map(Some)
    }
}

/// Describes a TLS failure, and how to resolve it, in whole sentences.
pub(crate) fn sentence(fault: &TlsFault) -> String {
    let remedy = match fault.failure {
        RequestFailure::Certificate if fault.is_name => {
            " Use a name that it contains (--address IP still connects to this host), or accept \
             any certificate with -k."
        }
        RequestFailure::Certificate => {
            " If it is your own, give its authority's certificate with --cacert FILE, or accept \
             any certificate with -k."
        }
        _ => "",
    };
    format!("TLS failed: {}.{remedy}", fault.text)
}
