//! TLS of an nginx: its directives, and certificates that openssl creates when the lab is brought
//! up.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::host::address::Addresses;
use crate::machine::tool;
use crate::path::PathSpec;
use crate::quantity::Size;
use crate::side::Side;

/// Maximum length of a certificate chain.
const LONGEST_CHAIN: u8 = 8;

/// Maximum number of names in one certificate.
const MOST_NAMES: u16 = 2000;

/// The settings of a server's TLS. Absent settings have nginx's own default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// The key of each certificate.
    pub key: Key,
    /// The number of certificates that the server sends: its own, followed by those of its issuers.
    /// The root is not sent.
    pub chain: u8,
    /// The number of additional names in the server's certificate, about 30 bytes each.
    pub names: u16,
    /// The port of the OCSP responder in the server's certificate, which clients ask whether the
    /// certificate is revoked (RFC 6960). The server on this port is an [`Ocsp`](super::Ocsp).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ocsp_port: Option<u16>,
    /// The directive `ssl_protocols`: `TLSv1.2`, `TLSv1.3`, or both. Both is the default here,
    /// because nginx's own default depends on its version.
    pub protocols: Vec<String>,
    /// The directive `ssl_ecdh_curve`: the groups for the key exchange.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// The directive `ssl_session_cache`, off or shared by the workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_cache: Option<bool>,
    /// The directive `ssl_session_tickets`, on by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_tickets: Option<bool>,
    /// The directive `ssl_buffer_size`, 16 KiB by default: the maximum size of one record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_size: Option<Size>,
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            key: Key::default(),
            chain: 1,
            names: 0,
            ocsp_port: None,
            protocols: vec!["TLSv1.2".to_owned(), "TLSv1.3".to_owned()],
            groups: Vec::new(),
            session_cache: None,
            session_tickets: None,
            buffer_size: None,
        }
    }
}

/// A kind of key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Key {
    /// ECDSA over P-256.
    #[default]
    EcdsaP256,
    /// RSA of 2048 bits.
    Rsa2048,
    /// RSA of 4096 bits, slow to sign with.
    Rsa4096,
}

impl Key {
    /// Returns the arguments of `openssl req` for a new key of this kind.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::EcdsaP256 => &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
            Self::Rsa2048 => &["-newkey", "rsa:2048"],
            Self::Rsa4096 => &["-newkey", "rsa:4096"],
        }
    }
}

impl Tls {
    pub(super) fn check(&self) -> Result<(), String> {
        if !(1..=LONGEST_CHAIN).contains(&self.chain) {
            return Err(format!(
                "a chain of {} certificates: 1 to {LONGEST_CHAIN} are possible",
                self.chain
            ));
        }
        if self.names > MOST_NAMES {
            return Err(format!(
                "a certificate of {} names: {MOST_NAMES} are possible",
                self.names
            ));
        }
        if self.protocols.is_empty() {
            return Err("it speaks no version of TLS".to_owned());
        }
        let known = |version: &String| matches!(version.as_str(), "TLSv1.2" | "TLSv1.3");
        if let Some(version) = self.protocols.iter().find(|version| !known(version)) {
            return Err(format!("`{version}` is neither TLSv1.2 nor TLSv1.3"));
        }
        let is_word = |group: &String| {
            !group.is_empty()
                && group
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        match self.groups.iter().find(|group| !is_word(group)) {
            Some(group) => Err(format!("`{group}` is no group")),
            None => Ok(()),
        }
    }

    /// Returns the directives of the service's nginx block, to be used after the certificates were
    /// created.
    pub(super) fn directives(&self, home: &Path, service: &str) -> Vec<String> {
        let folder = certificates(home, service);
        let mut lines = vec![
            format!("ssl_certificate {}/chain.pem", folder.display()),
            format!("ssl_certificate_key {}/0.key", folder.display()),
            format!("ssl_protocols {}", self.protocols.join(" ")),
        ];
        if !self.groups.is_empty() {
            lines.push(format!("ssl_ecdh_curve {}", self.groups.join(":")));
        }
        lines.extend(self.session_cache.map(|on| {
            if on {
                format!("ssl_session_cache shared:{service}:1m")
            } else {
                "ssl_session_cache off".to_owned()
            }
        }));
        lines.extend(self.session_tickets.map(|on| {
            let word = if on { "on" } else { "off" };
            format!("ssl_session_tickets {word}")
        }));
        lines.extend(
            self.buffer_size
                .map(|size| format!("ssl_buffer_size {}", size.bytes())),
        );
        lines
    }

    /// Creates the keys and certificates of a service. Number 0 is the server's own; each is issued
    /// by the next, and the last by a root that is not sent.
    pub(super) fn lay(&self, home: &Path, service: &str, hosts: &PathSpec) -> Result<(), Error> {
        let folder = certificates(home, service);
        fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
        let root = usize::from(self.chain);
        for number in (0..=root).rev() {
            self.make(&folder, number, root, hosts)?;
        }
        let mut chain = String::new();
        for number in 0..root {
            let file = folder.join(format!("{number}.pem"));
            chain += &fs::read_to_string(&file).map_err(Error::file("read", &file))?;
        }
        let written = [("chain.pem", chain), ("register", REGISTER.to_owned())];
        for (name, text) in written {
            let file = folder.join(name);
            fs::write(&file, text).map_err(Error::file("write", &file))?;
        }
        Ok(())
    }

    fn describe_server(&self, hosts: &PathSpec) -> String {
        let mut text = describe("www.lab.test", "CA:FALSE");
        if let Some(port) = self.ocsp_port {
            let host = Addresses::of(hosts, Side::Server).v4;
            let _ = writeln!(text, "authorityInfoAccess = OCSP;URI:http://{host}:{port}/");
        }
        text.push_str("subjectAltName = @names\n[names]\nDNS.1 = www.lab.test\n");
        for name in 0..self.names {
            let _ = writeln!(text, "DNS.{} = tenant-{name:04}.shop.lab.test", name + 2);
        }
        text
    }

    fn make(
        &self,
        folder: &Path,
        number: usize,
        root: usize,
        hosts: &PathSpec,
    ) -> Result<(), Error> {
        let names = folder.join(format!("{number}.names"));
        let is_server = number == 0;
        let text = if is_server {
            self.describe_server(hosts)
        } else {
            describe_authority(number)
        };
        fs::write(&names, text).map_err(Error::file("write", &names))?;
        let mut command = tool::command("openssl");
        command
            .current_dir(folder)
            .args(["req", "-x509", "-nodes", "-sha256", "-days", "30"])
            .args(self.key.arguments())
            .args(["-config", &format!("{number}.names")])
            .args(["-keyout", &format!("{number}.key")])
            .args(["-out", &format!("{number}.pem")]);
        if number < root {
            vouch(&mut command, number + 1);
        }
        if is_server {
            command.args(["-set_serial", &format!("0x{SERIAL}")]);
        }
        tool::run_with_input(command, "")
    }
}

fn vouch(command: &mut Command, by: usize) {
    command
        .args(["-CA", &format!("{by}.pem")])
        .args(["-CAkey", &format!("{by}.key")]);
}

/// Returns the folder of a service's certificates.
pub(super) fn certificates(home: &Path, service: &str) -> PathBuf {
    home.join(format!("{service}.tls"))
}

/// The serial number of each server's certificate.
const SERIAL: &str = "4C6162";

/// The database of openssl's responder: one certificate, valid, not revoked.
const REGISTER: &str = "V\t491231235959Z\t\t4C6162\tunknown\t/O=lagtrace lab/CN=www.lab.test\n";

/// Returns the configuration of a certificate for openssl; the certificate's own extensions must be
/// appended.
fn describe(subject: &str, constraint: &str) -> String {
    format!(
        "[req]\nprompt = no\ndistinguished_name = subject\nx509_extensions = extensions\n\
         [subject]\nO = lagtrace lab\nCN = {subject}\n\
         [extensions]\nbasicConstraints = {constraint}\nsubjectKeyIdentifier = hash\n"
    )
}

fn describe_authority(number: usize) -> String {
    describe(
        &format!("lagtrace-lab authority {number}"),
        "critical,CA:TRUE",
    )
}
