//! The protocol of a connection, and its state.

use std::sync::Arc;

use crate::http::ResponseReader;
use crate::http2::{Encoded, Session};
use crate::load::jar::Jar;

/// The protocol to use on a connection.
#[derive(Clone, Debug)]
pub(in crate::load) enum Dialect {
    /// HTTP/1.1.
    Http1 {
        /// True if responses have no body, regardless of their header fields.
        is_head_request: bool,
        /// The initial cookies, if cookies are kept.
        jar: Option<Jar>,
    },
    /// HTTP/2, with the requests that can be sent.
    Http2(Arc<[Encoded]>),
}

/// The protocol of a connection, with its state.
#[derive(Debug)]
pub(super) enum Speech {
    Http1(ResponseReader, Option<Jar>),
    Http2 {
        requests: Arc<[Encoded]>,
        session: Option<Box<Session>>,
        /// True if the server has announced that it accepts no further requests (GOAWAY).
        leaves: bool,
    },
}

impl Speech {
    pub(super) fn new(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Http1 {
                is_head_request,
                jar,
            } => {
                let mut reader = ResponseReader::new(is_head_request);
                if jar.is_some() {
                    reader.keep_field("set-cookie");
                }
                Self::Http1(reader, jar)
            }
            Dialect::Http2(requests) => Self::Http2 {
                requests,
                session: None,
                leaves: false,
            },
        }
    }

    pub(super) fn reset(&mut self) {
        match self {
            Self::Http1(reader, _) => reader.reset(),
            Self::Http2 {
                session, leaves, ..
            } => (*session, *leaves) = (None, false),
        }
    }
}

/// Stores in the jar the cookies that a response to a request of `part` sets.
pub(super) fn fill(jar: &mut Option<Jar>, reader: &mut ResponseReader, part: u16) {
    if let Some(jar) = jar {
        let cookies = reader.take_values();
        cookies.iter().for_each(|cookie| jar.set(cookie, part));
    }
}
