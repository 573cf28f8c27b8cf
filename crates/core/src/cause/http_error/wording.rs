//! What each kind of error says, and what helps.

use super::Wording;
use crate::protocol::http::status::StatusMeaning;

/// What is the same for all kinds.
const ANY: Wording = Wording {
    summary: "",
    ruled_out: &[],
    overturned_by: "the same request succeeding from elsewhere",
    fix: &[],
};

const UNAUTHENTICATED: Wording = Wording {
    summary: "{service} refuses {part} of the requests because they lack valid credentials \
              ({statuses}).",
    fix: &[("client", "send valid credentials{credentials}")],
    ..ANY
};

const FORBIDDEN: Wording = Wording {
    summary: "{service} forbids {part} of the requests ({statuses}).",
    fix: &[
        (
            "client",
            "send what permitted clients send: credentials, a cookie, a Host{credentials}",
        ),
        (
            "server",
            "find the rule that forbids them: an access list, the permissions of a file, a filter \
             of requests",
        ),
    ],
    ..ANY
};

const MISSING: Wording = Wording {
    summary: "{service} finds nothing at the path of {part} of the requests ({statuses}). Either \
              they are wrong, or the server lacks what they ask for.",
    fix: &[
        ("client", "check path and Host of the requests"),
        (
            "server",
            "if the requests are right, find out which file or route is missing",
        ),
    ],
    ..ANY
};

const METHOD: Wording = Wording {
    summary: "{service} does not allow the method of {part} of the requests ({statuses}).",
    fix: &[(
        "client",
        "use a method that the response's Allow field names{method}",
    )],
    ..ANY
};

const MISDIRECTED: Wording = Wording {
    summary: "{service} does not answer for the host that {part} of the requests name on their \
              connection ({statuses}).",
    fix: &[
        (
            "client",
            "name the same host in the URL, in Host and in TLS (SNI), and reuse a connection for no \
             other host",
        ),
        (
            "server",
            "configure the name that clients use, with a certificate for it",
        ),
    ],
    ..ANY
};

const TOO_MANY: Wording = Wording {
    summary: "{service} limits the requests of its clients, and refuses {part} of them as too many \
              ({statuses}).{let_through}",
    fix: &[
        ("client", "send fewer requests in the same time{slower}"),
        (
            "server",
            "raise the limit of requests, if it can serve more of them",
        ),
    ],
    ..ANY
};

const REJECTED: Wording = Wording {
    summary: "{service} rejects {part} of the requests as wrong ({statuses}).",
    fix: &[
        (
            "client",
            "read the body of such a response: it usually says what is wrong with the request",
        ),
        (
            "server",
            "if the requests are right, find in its error log why it rejects them",
        ),
    ],
    ..ANY
};

const BAD_GATEWAY: Wording = Wording {
    summary: "{service} is a gateway, and got no valid answer from the server behind it for {part} \
              of the requests ({statuses}).",
    fix: &[(
        "server",
        "check that the server behind it runs, listens where the gateway connects, and speaks the \
         configured protocol; the gateway's error log says which of them fails",
    )],
    ..ANY
};

const UNAVAILABLE: Wording = Wording {
    summary: "{service} says that it cannot serve {part} of the requests now ({statuses}): a limit \
              is reached, or no server behind it is available.{let_through}",
    fix: &[
        (
            "server",
            "if it is a gateway, check that a server behind it runs and passes its health checks",
        ),
        (
            "server",
            "otherwise raise the limit that is reached (requests, connections, workers), or add \
             capacity; its error log says which",
        ),
    ],
    ..ANY
};

const GATEWAY_TIMEOUT: Wording = Wording {
    summary: "{service} is a gateway, and the server behind it did not answer {part} of the \
              requests in the time allowed ({statuses}).",
    fix: &[(
        "server",
        "find out why the server behind it does not answer in time: diagnose that server directly; \
         the gateway's error log names it",
    )],
    ..ANY
};

const FAILED: Wording = Wording {
    summary: "{service} fails on {part} of the requests ({statuses}).",
    fix: &[(
        "server",
        "read its error log: the program failed while it handled these requests",
    )],
    ..ANY
};

/// Errors without a common meaning.
const VARIOUS: Wording = Wording {
    summary: "{service} answers {part} of the requests with errors of several kinds ({statuses}).",
    fix: &[("server", "read its error log")],
    ..ANY
};

/// Statuses that the user does not expect.
pub(super) const UNEXPECTED: Wording = Wording {
    summary: "{service} answers {part} of the requests with other statuses than expected \
              ({statuses}).",
    fix: &[
        (
            "client",
            "read the body of such a response, and check path and content of the requests",
        ),
        ("server", "read its error log"),
    ],
    ..ANY
};

/// The title for such statuses.
pub(super) const UNEXPECTED_TITLE: &str = "The server answers with other statuses than expected";

/// The end of each summary.
pub(super) const NO_MEASURE: Wording = Wording {
    summary: " The latency of errors says nothing about requests that succeed.",
    ..Wording::NONE
};

/// The end of the summary if all errors came at the beginning.
pub(super) const AT_FIRST: Wording = Wording {
    summary: " All of them came within the first {beginning}: it may have been starting.",
    ..Wording::NONE
};

/// Returns the title for errors of which most have this meaning; `None` if the cause's own says
/// all.
pub(super) const fn title(meaning: Option<StatusMeaning>) -> Option<&'static str> {
    Some(match meaning {
        Some(StatusMeaning::Unauthenticated) => {
            "The server refuses requests without valid credentials"
        }
        Some(StatusMeaning::Forbidden) => "The server forbids requests",
        Some(StatusMeaning::Missing) => "The server has nothing at the requested path",
        Some(StatusMeaning::Method) => "The server does not allow the method of requests",
        Some(StatusMeaning::Misdirected) => "The server does not answer for the requested host",
        Some(StatusMeaning::TooMany) => "The server limits the requests of its clients",
        Some(StatusMeaning::Rejected) => "The server rejects requests as wrong",
        Some(StatusMeaning::BadGateway) => {
            "The gateway gets no valid answer from the server behind it"
        }
        Some(StatusMeaning::Unavailable) => "The server says that it is unavailable",
        Some(StatusMeaning::GatewayTimeout) => {
            "The server behind the gateway does not answer in time"
        }
        Some(StatusMeaning::Failed) => "The server fails on requests",
        None => return None,
    })
}

/// Returns the texts for errors of which most have this meaning.
pub(super) const fn of(meaning: Option<StatusMeaning>) -> &'static Wording {
    match meaning {
        Some(StatusMeaning::Unauthenticated) => &UNAUTHENTICATED,
        Some(StatusMeaning::Forbidden) => &FORBIDDEN,
        Some(StatusMeaning::Missing) => &MISSING,
        Some(StatusMeaning::Method) => &METHOD,
        Some(StatusMeaning::Misdirected) => &MISDIRECTED,
        Some(StatusMeaning::TooMany) => &TOO_MANY,
        Some(StatusMeaning::Rejected) => &REJECTED,
        Some(StatusMeaning::BadGateway) => &BAD_GATEWAY,
        Some(StatusMeaning::Unavailable) => &UNAVAILABLE,
        Some(StatusMeaning::GatewayTimeout) => &GATEWAY_TIMEOUT,
        Some(StatusMeaning::Failed) => &FAILED,
        None => &VARIOUS,
    }
}
