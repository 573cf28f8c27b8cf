//! The header fields of a request, in curl's order: lagtrace's own, the given ones, and those that
//! describe the body.

use std::time::Duration;

use lagtrace_sources::request::{AGENT, check_placeholders};

use super::body::{Body, odd_range};
use super::{Options, secrets};
use crate::failure::{Failure, Result};

/// The encodings that curl accepts with `--compressed`.
const ENCODINGS: &str = "deflate, gzip, br, zstd";

/// The fields of a request.
pub(super) struct Fields {
    pub(super) host: Option<String>,
    pub(super) fields: Vec<String>,
    pub(super) body_fields: Vec<String>,
}

/// A given header field.
struct Given<'a> {
    name: &'a str,
    line: String,
    /// True if the field only takes the place of lagtrace's own, and is not sent.
    is_removal: bool,
}

impl Fields {
    /// Returns the fields that the options and the lines of `-H` give. `timeout` is the deadline of
    /// a call of gRPC.
    pub(super) fn of(
        options: &Options,
        lines: &[String],
        body: Option<&Body>,
        timeout: Duration,
    ) -> Result<Self> {
        let given = (1..).zip(lines);
        let given = given.map(|(number, line)| parse(number, line));
        let given = given.collect::<Result<Vec<Given<'_>>>>()?;
        let has = |name: &str| {
            given
                .iter()
                .any(|field| field.name.eq_ignore_ascii_case(name))
        };
        let is_json = body.is_some_and(|body| body.is_json);
        let mut fields = Vec::new();
        for (name, value) in own(options)? {
            if !(has(name) || is_json && name == "Accept") {
                fields.push(format!("{name}: {value}"));
            }
        }
        let is_form = body.is_some_and(|body| body.is_form);
        let sent = given.iter().filter(|field| {
            let is_host = field.name.eq_ignore_ascii_case("host");
            let is_kind = field.name.eq_ignore_ascii_case("content-type");
            !(field.is_removal || is_host || (is_form && is_kind))
        });
        fields.extend(sent.map(|field| field.line.clone()));
        if is_json {
            let own = ["Content-Type", "Accept"]
                .into_iter()
                .filter(|name| !has(name));
            fields.extend(own.map(|name| format!("{name}: application/json")));
        }
        if options.grpc.is_some() {
            fields.push("TE: trailers".to_owned());
            fields.push(format!(
                "grpc-timeout: {}m",
                timeout.as_millis().clamp(1, 99_999_999)
            ));
        }
        let host = given
            .iter()
            .find(|field| field.name.eq_ignore_ascii_case("host"));
        let host = host.map(|field| {
            let value = field.line.split_once(':').map_or("", |(_, value)| value);
            value.trim().to_owned()
        });
        let kind = body.filter(|body| !body.is_json && !body.kind.is_empty());
        let kind = kind.filter(|body| body.is_form || !has("content-type"));
        for field in &fields {
            check_placeholders(field.as_bytes())
                .map_err(|wrong| odd_range("a header field", &wrong))?;
        }
        check_coding(&given, body)?;
        Ok(Self {
            host,
            fields,
            body_fields: kind
                .map(|body| format!("Content-Type: {}", body.kind))
                .into_iter()
                .collect(),
        })
    }
}

/// Returns lagtrace's own fields, each unless `-H` gives one of its name.
fn own(options: &Options) -> Result<Vec<(&'static str, String)>> {
    let sender = &options.sender;
    let mut own = Vec::new();
    if let Some(user) = &sender.user {
        let coded = secrets::base64(user.as_bytes());
        own.push(("Authorization", format!("Basic {coded}")));
    }
    if let Some(token) = &sender.oauth2_bearer {
        own.push(("Authorization", format!("Bearer {token}")));
    }
    if let Some(range) = &sender.range {
        own.push(("Range", format!("bytes={range}")));
    }
    let agent = sender.user_agent.as_deref().unwrap_or(AGENT);
    let referer = sender.referer.as_deref().unwrap_or_default();
    // curl writes `;auto` for redirects, which it does not send.
    let referer = referer.strip_suffix(";auto").unwrap_or(referer);
    let cookies = sender.cookie.iter().map(|cookies| cookies.trim());
    let cookies: Vec<&str> = cookies.filter(|cookies| !cookies.is_empty()).collect();
    if let Some(odd) = cookies.iter().position(|cookies| !cookies.contains('=')) {
        let told = format!("option {} of --cookie (-b) has no NAME=VALUE", odd + 1);
        let hint = "write cookies as NAME=VALUE; NAME=VALUE; files of cookies are not read";
        return Err(Failure::new(told).hint(hint));
    }
    for (name, value) in [
        ("User-Agent", agent),
        ("Accept", "*/*"),
        (
            "Accept-Encoding",
            if sender.compressed { ENCODINGS } else { "" },
        ),
        ("Referer", referer),
        ("Cookie", cookies.join("; ").as_str()),
    ] {
        if !value.is_empty() {
            own.push((name, value.to_owned()));
        }
    }
    let odd = own.iter().find(|(_, value)| value.bytes().any(is_control));
    match odd {
        None => Ok(own),
        Some((name, _)) => Err(control_in(name)),
    }
}

/// Parses a header field in curl's notation. Errors do not repeat it, because it can be a secret.
fn parse(number: usize, line: &str) -> Result<Given<'_>> {
    let hint = "write it as -H 'NAME: VALUE'; `NAME:` leaves the field out, `NAME;` sends it empty";
    let nameless = || Failure::new(format!("header field {number} has no name")).hint(hint);
    let (name, value, is_empty) = match (line.split_once(':'), line.strip_suffix(';')) {
        (Some((name, value)), _) => (name, value, false),
        (None, Some(name)) => (name, "", true),
        (None, None) => {
            return Err(Failure::new(format!("header field {number} has no colon")).hint(hint));
        }
    };
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(nameless());
    }
    if value.bytes().any(is_control) {
        return Err(control_in(name));
    }
    Ok(Given {
        name,
        line: if is_empty {
            format!("{name}:")
        } else {
            line.to_owned()
        },
        is_removal: !is_empty && value.trim().is_empty(),
    })
}

fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && byte != b'\t'
}

fn control_in(name: &str) -> Failure {
    let told = format!("the header field {name} contains a control character");
    Failure::new(told).hint("a field is one line; give each field an -H of its own")
}

/// Returns an error for a body in chunks, which lagtrace does not send.
fn check_coding(given: &[Given<'_>], body: Option<&Body>) -> Result<()> {
    let is_coded = |field: &Given<'_>| {
        field.name.eq_ignore_ascii_case("transfer-encoding") && !field.is_removal
    };
    if body.is_some() && given.iter().any(is_coded) {
        let told = "a body with Transfer-Encoding is not supported: lagtrace sends its length";
        return Err(Failure::new(told).hint("leave out the field Transfer-Encoding"));
    }
    Ok(())
}
