//! Verifiers of server certificates.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::TlsError;
use crate::files;

/// Maximum length of a file of certificates; all authorities of a host take a few hundred KiB.
const MOST_BYTES: u64 = 64 << 20;

/// Returns the certificate authorities that this host trusts. They are read from the place where
/// this host's TLS libraries keep them.
pub(super) fn platform() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first();
        let why = why.map_or_else(String::new, |error| format!(": {error}"));
        return Err(TlsError::NoAuthorities { why });
    }
    Ok(roots)
}

/// A verifier that trusts the certificates in a file. Each of them counts as an authority's
/// certificate and, as in other programs, also as a server's own. A certificate from `openssl req
/// -x509` is both.
#[derive(Debug)]
pub(super) struct Named {
    certificates: Vec<CertificateDer<'static>>,
    authorities: Arc<WebPkiServerVerifier>,
}

impl Named {
    /// Reads the certificates of a PEM file.
    pub(super) fn read(path: &Path, provider: Arc<CryptoProvider>) -> Result<Self, TlsError> {
        let failure = |why: String| TlsError::Read {
            path: path.to_owned(),
            why,
        };
        let text = match files::read(path, MOST_BYTES) {
            Ok(Some(text)) => text,
            Ok(None) => return Err(failure("it is longer than 64 MiB".to_owned())),
            Err(error) => return Err(failure(error.to_string())),
        };
        let certificates = CertificateDer::pem_slice_iter(&text)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| failure(error.to_string()))?;
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            let added = roots.add(certificate.clone());
            added.map_err(|error| failure(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(failure("it holds none in PEM".to_owned()));
        }
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let authorities = builder
            .build()
            .map_err(|error| failure(error.to_string()))?;
        Ok(Self {
            certificates,
            authorities,
        })
    }
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verdict = self.authorities.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        // The library rejects an authority's certificate if a server uses it as its own. It does so
        // after checking the dates and before checking the name.
        let is_other = matches!(
            &verdict,
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
        );
        if is_other && self.certificates.iter().any(|known| known == end_entity) {
            let parsed = ParsedCertificate::try_from(end_entity)?;
            verify_server_name(&parsed, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        verdict
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// A verifier that accepts any certificate. The server must still prove that it has the private
/// key.
#[derive(Debug)]
pub(super) struct Anyone {
    provider: Arc<CryptoProvider>,
}

impl Anyone {
    pub(super) fn new(provider: Arc<CryptoProvider>) -> Self {
        Self { provider }
    }
}

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
