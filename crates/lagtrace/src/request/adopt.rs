//! A curl command and the command line become one set of options. What the command line gives goes
//! before what the curl command gives.

use super::curl::{self, Copied};
use super::pieces::Pieces;
use super::{Options, Sender, userinfo};
use crate::failure::{Failure, Result};
use crate::tls::Tls;

impl Options {
    /// Takes over the curl command of `--from-curl`, and the names and passwords in URLs. Returns the
    /// options of the curl command that are not used.
    ///
    /// This runs before the process is confined, because what it may reach follows from the URL and
    /// from the files that the curl command names.
    pub(crate) fn adopt(&mut self, urls: &mut Vec<String>, tls: &mut Tls) -> Result<Vec<String>> {
        let mut unused = Vec::new();
        if let Some(value) = self.from_curl.take() {
            let copied = curl::parse(&curl::text(&value)?)?;
            if !urls.is_empty() {
                let told = "--from-curl and another URL are given";
                return Err(Failure::new(told).hint("the URL is that of the curl command"));
            }
            urls.extend(copied.url.clone());
            unused = self.merge(copied, tls);
        }
        for url in urls {
            let Some((plain, user)) = userinfo::without(url) else {
                continue;
            };
            let is_other = self
                .sender
                .user
                .as_ref()
                .is_some_and(|known| *known != user);
            let is_own = self.sender.user.is_none() && self.sender.oauth2_bearer.is_none();
            if is_own {
                self.sender.user = Some(user);
            } else if is_other && !self.is_curl {
                let told =
                    format!("the user name in the URL of {plain} is another one than before");
                let hint = "all URLs get the same request: give one user, with -u NAME:PASSWORD";
                return Err(Failure::new(told).hint(hint));
            }
            *url = plain;
        }
        Ok(unused)
    }

    fn merge(&mut self, copied: Copied, tls: &mut Tls) -> Vec<String> {
        let own = std::mem::replace(self, copied.options);
        let name = |header: &String| {
            let name = header.split([':', ';']).next().unwrap_or_default();
            name.trim().to_ascii_lowercase()
        };
        let given: Vec<String> = own.headers.iter().map(name).collect();
        self.headers.retain(|header| !given.contains(&name(header)));
        self.headers.extend(own.headers);
        if !own.pieces.0.is_empty() || own.body.is_some() || own.grpc.is_some() {
            self.pieces = Pieces(Vec::new());
        }
        self.pieces.0.extend(own.pieces.0);
        self.method = own.method.or(self.method.take());
        (self.body, self.grpc, self.yes) = (own.body, own.grpc, own.yes);
        self.head |= own.head;
        self.get |= own.get;
        self.sender.take_over(own.sender);
        self.answer.location |= own.answer.location;
        self.answer.max_redirs = own.answer.max_redirs.or(self.answer.max_redirs);
        self.answer.expect_status = own.answer.expect_status;
        let way = &mut self.way;
        way.resolve.splice(0..0, own.way.resolve);
        way.connect_to.splice(0..0, own.way.connect_to);
        way.unix_socket = own.way.unix_socket.or(way.unix_socket.take());
        way.proxy = own.way.proxy;
        way.http2 |= own.way.http2;
        tls.insecure |= copied.tls.insecure && tls.cacert.is_none();
        let cacert = copied.tls.cacert.filter(|_| !tls.insecure);
        tls.cacert = tls.cacert.take().or(cacert);
        if tls.cert.is_none() {
            (tls.cert, tls.key) = (copied.tls.cert, copied.tls.key);
        }
        copied.unused
    }
}

impl Sender {
    /// Takes over what `other` gives.
    fn take_over(&mut self, other: Self) {
        if other.user.is_some() || other.oauth2_bearer.is_some() {
            (self.user, self.oauth2_bearer) = (other.user, other.oauth2_bearer);
        }
        if !other.cookie.is_empty() {
            self.cookie = other.cookie;
        }
        self.user_agent = other.user_agent.or(self.user_agent.take());
        self.referer = other.referer.or(self.referer.take());
        self.range = other.range.or(self.range.take());
        self.compressed |= other.compressed;
    }
}
