//! The certificate that this side presents.

use std::path::Path;

use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder};

use super::{Identity, TlsError};
use crate::files;

/// Maximum length of a file with a certificate or a key.
const MOST_BYTES: u64 = 1 << 20;

/// Returns the configuration that presents the certificate.
pub(super) fn present(
    builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    identity: &Identity,
) -> Result<ClientConfig, TlsError> {
    let path = &identity.certificate;
    let certificates = CertificateDer::pem_slice_iter(&read(path, "certificate")?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| failure("certificate", path, error.to_string()))?;
    if certificates.is_empty() {
        let why = "it holds none in PEM".to_owned();
        return Err(failure("certificate", path, why));
    }
    let path = identity.key.as_ref().unwrap_or(path);
    let key = PrivateKeyDer::from_pem_slice(&read(path, "private key")?).map_err(|_| {
        let why = "it holds none in PEM that is not encrypted".to_owned();
        failure("private key", path, why)
    })?;
    let config = builder.with_client_auth_cert(certificates, key);
    config.map_err(|error| failure("private key", path, error.to_string()))
}

fn read(path: &Path, what: &'static str) -> Result<Vec<u8>, TlsError> {
    match files::read(path, MOST_BYTES) {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(failure(what, path, "it is longer than 1 MiB".to_owned())),
        Err(error) => Err(failure(what, path, error.to_string())),
    }
}

fn failure(what: &'static str, path: &Path, why: String) -> TlsError {
    TlsError::Identity {
        what,
        path: path.to_owned(),
        why,
    }
}
