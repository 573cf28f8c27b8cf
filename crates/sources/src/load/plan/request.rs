//! The requests of a lane in HTTP/1.1.

use std::sync::Arc;

use lagtrace_core::observed::experiment::Experiment;

use super::{Lane, Plan};
use crate::http2::Encoded;
use crate::load::jar::Jar;
use crate::request::{Request, is_named};
use crate::url::Url;

/// A lane's request for one URL.
#[derive(Debug)]
pub(in crate::load) struct Prepared {
    /// The bytes; empty if placeholders vary them.
    pub(in crate::load) bytes: Vec<u8>,
    /// The request, if placeholders vary its bytes.
    varied: Option<Varied>,
}

#[derive(Debug)]
struct Varied {
    request: Request,
    url: Url,
    closes: bool,
}

impl Prepared {
    fn new(request: &Request, url: &Url, closes: bool) -> Self {
        let varied = request.varies(url).then(|| Varied {
            request: request.clone(),
            url: url.clone(),
            closes,
        });
        Self {
            bytes: match &varied {
                None => request.http1(url, closes),
                Some(_) => Vec::new(),
            },
            varied,
        }
    }

    /// Returns the bytes of the next request, if they differ from those of others.
    pub(in crate::load) fn own(&self) -> Option<Vec<u8>> {
        let varied = self.varied.as_ref()?;
        Some(varied.request.http1(&varied.url, varied.closes))
    }
}

impl Plan {
    /// Returns the initial cookies of a connection of `lane`; `None` if cookies are not kept.
    pub(in crate::load) fn jar(&self, lane: &Lane) -> Option<Jar> {
        let paths = self.urls_of(lane).into_iter();
        let paths = paths.map(|url| url.path().to_owned()).collect();
        let fields = &lane.target.request.fields;
        let given = fields.iter().filter(|field| is_named(field, "cookie"));
        let given: Vec<&str> = given
            .filter_map(|field| Some(field.split_once(':')?.1))
            .collect();
        let is_tls = lane.target.url.is_tls();
        self.protocol
            .keeps_cookies
            .then(|| Jar::new(paths, is_tls, &given.join(";")))
    }

    /// Returns the request of `lane` for each URL. If connections keep cookies, it contains none.
    pub(in crate::load) fn requests(&self, lane: &Lane) -> Vec<Prepared> {
        let mut request = lane.target.request.clone();
        if self.protocol.keeps_cookies {
            request.fields.retain(|field| !is_named(field, "cookie"));
        }
        let closes = lane.experiment == Some(Experiment::ConnectionClose);
        let urls = self.urls_of(lane).into_iter();
        urls.map(|url| Prepared::new(&request, url, closes))
            .collect()
    }

    /// Returns the request of `lane` for each URL, encoded for HTTP/2.
    pub(in crate::load) fn encoded(&self, lane: &Lane) -> Arc<[Encoded]> {
        let urls = self.urls_of(lane).into_iter();
        urls.map(|url| Encoded::of(&lane.target.request, url))
            .collect()
    }
}
