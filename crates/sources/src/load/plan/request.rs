//! The bytes of HTTP/1.1 requests.

use lagtrace_core::observed::experiment::Experiment;

use super::{Lane, Plan};
use crate::load::jar::Jar;
use crate::url::Url;

impl Plan {
    /// Returns the initial cookies of a connection of `lane`; `None` if cookies are not kept.
    pub(in crate::load) fn jar(&self, lane: &Lane) -> Option<Jar> {
        let paths = self.urls_of(lane).into_iter();
        let paths = paths.map(|url| url.path().to_owned()).collect();
        let given = lane.target.fields.iter().filter(|field| is_cookie(field));
        let given: Vec<&str> = given
            .filter_map(|field| Some(field.split_once(':')?.1))
            .collect();
        let is_tls = lane.target.url.is_tls();
        self.protocol
            .keeps_cookies
            .then(|| Jar::new(paths, is_tls, &given.join(";")))
    }

    /// Returns the request's bytes of `lane` for each URL. If connections keep cookies, the bytes
    /// contain none.
    pub(in crate::load) fn requests(&self, lane: &Lane) -> Vec<Vec<u8>> {
        let mut lane = lane.clone();
        if self.protocol.keeps_cookies {
            lane.target.fields.retain(|field| !is_cookie(field));
        }
        let urls = self.urls_of(&lane).into_iter();
        urls.map(|url| request_bytes(&lane, url)).collect()
    }
}

fn is_cookie(field: &str) -> bool {
    let name = field.split(':').next().unwrap_or_default();
    name.trim().eq_ignore_ascii_case("cookie")
}

/// Returns the bytes of a lane's request for `url`.
fn request_bytes(lane: &Lane, url: &Url) -> Vec<u8> {
    let target = &lane.target;
    let closes = lane.experiment == Some(Experiment::ConnectionClose);
    let has_content = !target.body.is_empty() || target.method.has_content();
    let own = [
        Some(("Host", url.authority().to_string())),
        Some((
            "User-Agent",
            format!("lagtrace/{}", env!("CARGO_PKG_VERSION")),
        )),
        Some(("Accept", "*/*".to_owned())),
        has_content.then(|| ("Content-Length", target.body.len().to_string())),
        closes.then(|| ("Connection", "close".to_owned())),
    ];
    let is_given = |name: &str| {
        target.fields.iter().any(|field| {
            let given = field.split(':').next().unwrap_or_default();
            given.eq_ignore_ascii_case(name)
        })
    };
    let mut head = format!("{} {} HTTP/1.1\r\n", target.method.as_str(), url.path());
    for (name, value) in own
        .into_iter()
        .flatten()
        .filter(|(name, _)| !is_given(name))
    {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    for field in &target.fields {
        head.push_str(field);
        head.push_str("\r\n");
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&target.body);
    bytes
}

#[cfg(test)]
mod tests {
    use lagtrace_core::observed::event::{Phase, TargetId};

    use super::*;
    use crate::load::plan::{Method, Target};

    fn request(method: Method, fields: &[&str], body: &str) -> String {
        let url: Url = "http://shop.example:8080/a?b=c".parse().expect("a URL");
        let lane = Lane {
            target: Target {
                id: TargetId::Subject,
                address: ([127, 0, 0, 1], 8080).into(),
                url,
                method,
                fields: fields.iter().map(|&field| field.to_owned()).collect(),
                body: body.into(),
            },
            phase: Phase::Baseline,
            experiment: None,
            connections: 1,
        };
        String::from_utf8(request_bytes(&lane, &lane.target.url)).expect("text")
    }

    #[test]
    fn a_request_identifies_its_sender_and_says_how_long_it_is() {
        let plain = request(Method::Get, &[], "");
        assert!(plain.starts_with("GET /a?b=c HTTP/1.1\r\nHost: shop.example:8080\r\n"));
        assert!(plain.contains("\r\nUser-Agent: lagtrace/"), "{plain}");
        assert!(!plain.contains("Content-Length") && plain.ends_with("\r\n\r\n"));
        let order = request(Method::Post, &["host: other", "X-A: 1"], "{}");
        assert!(order.contains("\r\nContent-Length: 2\r\n"), "{order}");
        assert!(
            order.ends_with("\r\nhost: other\r\nX-A: 1\r\n\r\n{}"),
            "{order}"
        );
        assert!(!order.contains("Host: shop.example"), "{order}");
        assert!(request(Method::Put, &[], "").contains("Content-Length: 0"));
    }
}
