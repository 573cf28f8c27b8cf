//! Redirects that are followed before anything is measured, with single requests.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use lagtrace_core::observed::event::{ProbeAnswer, TargetId};
use lagtrace_sources::probe::{self, Answers, Asked, ProbePlan};
use lagtrace_sources::request::{Method, Request};
use lagtrace_sources::tls::Carried;
use lagtrace_sources::url::Url;

use super::Options;
use crate::failure::{Failure, Result};
use crate::lookup::{self, Family};
use crate::tls::Tls;
use crate::words;

/// The place at which redirects end, and the request for it.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) url: Url,
    pub(crate) request: Request,
    /// Each redirect that was followed, in words.
    pub(crate) steps: Vec<String>,
    /// The time that all of them took.
    pub(crate) took: Duration,
}

impl Followed {
    /// Returns the redirects in words; `None` if there were none.
    pub(crate) fn text(&self) -> Option<String> {
        (!self.steps.is_empty()).then(|| {
            format!(
                "{}. A user who begins there pays {} for that in addition; the load goes to the \
                 last place at once.",
                self.steps.join(", then "),
                words::time(self.took)
            )
        })
    }
}

/// The way in which redirects are followed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Follow<'a> {
    pub(crate) options: &'a Options,
    pub(crate) tls: &'a Tls,
    pub(crate) family: Family,
    pub(crate) timeout: Duration,
}

impl Follow<'_> {
    /// Follows redirects from `url` on, if the options ask for that, as curl does: after a status of
    /// 301 to 303, POST becomes GET unless `-X` names it; credentials stay with the first origin.
    pub(crate) fn from(&self, url: Url, request: Request) -> Result<Followed> {
        let mut followed = Followed {
            url,
            request,
            steps: Vec::new(),
            took: Duration::ZERO,
        };
        let answer = &self.options.answer;
        if !answer.location {
            return Ok(followed);
        }
        // The last request shows that no redirect follows.
        let most = answer.most_redirects();
        while followed.steps.len() <= usize::from(most) {
            let begun = Instant::now();
            let Some((status, location)) = self.ask(&followed.url, &followed.request)? else {
                return Ok(followed);
            };
            let took = begun.elapsed();
            let next = joined(&followed.url, &location)?;
            let step = format!(
                "{} leads to {next} (status {status}, {})",
                followed.url,
                words::time(took)
            );
            followed.steps.push(step);
            followed.took += took;
            self.change(&mut followed.request, status, (&followed.url, &next));
            followed.url = next;
        }
        let told = format!("more than {most} redirects: {} leads further", followed.url);
        Err(Failure::new(told)
            .hint("--max-redirs N allows more; see whether they lead in a circle"))
    }

    /// Makes one request; returns the status and the place of a redirect.
    fn ask(&self, url: &Url, request: &Request) -> Result<Option<(u16, String)>> {
        let place = self.options.way.place(url)?;
        let unix = self.options.way.unix_socket.clone();
        let address = if unix.is_some() {
            Ipv4Addr::LOCALHOST.into()
        } else {
            lookup::address(&place.host, self.family, &mut Vec::new())?
        };
        let client = self.tls.client([url], Carried::Http1)?;
        let peer = client.map(|client| client.to(url.host())).transpose()?;
        let asked = Asked {
            url: url.clone(),
            request: request.clone(),
            peer,
            is_http2: false,
            unix,
        };
        let plan = ProbePlan {
            count: 1,
            timeout: self.timeout,
            ..ProbePlan::new(TargetId::Subject, SocketAddr::new(address, place.port))
        };
        let stop = AtomicBool::new(false);
        let Answers { samples, location } = probe::http(&plan, &asked, &stop, |_| {})?;
        let statuses = samples.iter().filter_map(|sample| match sample.answer {
            ProbeAnswer::Status(status) => Some(status),
            _ => None,
        });
        Ok(statuses.into_iter().next().zip(location))
    }

    fn change(&self, request: &mut Request, status: u16, (from, to): (&Url, &Url)) {
        let is_named = self.options.method.is_some();
        let becomes_get = match status {
            301 | 302 => request.method == Method::POST,
            303 => request.method != Method::HEAD,
            _ => false,
        };
        if becomes_get && !is_named {
            request.method = Method::GET;
            request.body = None;
            request.body_fields.clear();
        }
        let origin = |url: &Url| (url.is_tls(), url.authority());
        if origin(from) != origin(to) {
            let secrets = ["authorization", "cookie"];
            request.fields.retain(|field| {
                let name = field.split(':').next().unwrap_or_default();
                !secrets.contains(&name.trim().to_ascii_lowercase().as_str())
            });
            request.host = None;
        }
    }
}

/// Returns the URL that `location` means at `base` (RFC 3986 §5.2).
fn joined(base: &Url, location: &str) -> Result<Url> {
    let origin = format!("{}://{}", base.scheme().as_str(), base.authority());
    let path = base.path().split(['?', '#']).next().unwrap_or("/");
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let text = match location {
        whole if whole.contains("://") => whole.to_owned(),
        other if other.starts_with("//") => format!("{}:{other}", base.scheme().as_str()),
        path if path.starts_with('/') => format!("{origin}{path}"),
        query if query.starts_with('?') => format!("{origin}{path}{query}"),
        beside => format!("{origin}{folder}/{beside}"),
    };
    text.parse().map_err(|error| {
        let told = format!("{base} redirects to an address that cannot be requested");
        Failure::from(error)
            .during(told)
            .hint("leave out -L to measure the redirect itself")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_relative_to_the_url() {
        let base: Url = "https://h.example:8443/a/b?c=d".parse().expect("a URL");
        for (location, want) in [
            ("http://i.example/x", "http://i.example/x"),
            ("//i.example/x", "https://i.example/x"),
            ("/x?y", "https://h.example:8443/x?y"),
            ("x", "https://h.example:8443/a/x"),
            ("?x", "https://h.example:8443/a/b?x"),
        ] {
            assert_eq!(joined(&base, location).expect(location).to_string(), want);
        }
        assert!(joined(&base, "ftp://x/").is_err());
    }
}
