//! Connections: their ends, and how they begin and end.

use lagtrace_core::observed::segment::TcpFlags;

use super::{REQUEST, RESPONSE};
use crate::subject::{ACK, Analysis, Ends, Fed, SYN, Subject, end};

const FIN: TcpFlags = TcpFlags::FIN.with(TcpFlags::ACK);

/// The last step of a connection that the driver sends.
#[derive(Clone, Copy)]
enum Until {
    Syn,
    Refusal,
    Handshake,
    Request,
    Response,
    End,
}

fn connect(analysis: &mut Analysis, ends: &Ends, until: Until) {
    let (asked, told) = (1 + REQUEST.len() as u32, 1 + RESPONSE.len() as u32);
    match until {
        Until::Syn => return analysis.tcp(&ends.up(0, 0).flags(SYN), b""),
        Until::Refusal => {
            analysis.tcp(&ends.up(0, 0).flags(SYN), b"");
            let refusal = ends.down(0, 1).flags(TcpFlags::RST.with(ACK));
            return analysis.tcp(&refusal, b"");
        }
        _ => analysis.open(ends),
    }
    if matches!(until, Until::Handshake) {
        return;
    }
    analysis.tcp(&ends.up(1, 1), REQUEST);
    if matches!(until, Until::Request) {
        return;
    }
    analysis.tcp(&ends.down(1, asked), RESPONSE);
    analysis.tcp(&ends.up(asked, told).flags(ACK), b"");
    if matches!(until, Until::End) {
        analysis.tcp(&ends.up(asked, told).flags(FIN), b"");
        analysis.tcp(&ends.down(told, asked + 1).flags(FIN), b"");
        analysis.tcp(&ends.up(asked + 1, told + 1).flags(ACK), b"");
    }
}

fn fed(until: Until, of: fn(u32) -> Ends) -> Box<dyn Subject> {
    Fed::by(Analysis::new(), move |analysis, key| {
        connect(analysis, &of(key), until);
    })
}

fn by_port(key: u32) -> Ends {
    Ends::new(
        end(1 + (key >> 15), 1_024 + (key & 0x7fff) as u16),
        end(9_000_000, 80),
    )
}

fn by_client(key: u32) -> Ends {
    Ends::new(end(1 + key, 40_000), end(9_000_000, 80))
}

fn by_server(key: u32) -> Ends {
    Ends::new(end(1, 40_000), end(100_000 + key, 80))
}

fn by_service(key: u32) -> Ends {
    Ends::new(
        end(1 + (key >> 14), 60_000),
        end(9_000_000, 1 + (key & 0x3fff) as u16),
    )
}

pub(super) fn ended_by_port(_: u32) -> Box<dyn Subject> {
    fed(Until::End, by_port)
}

pub(super) fn ended_by_client(_: u32) -> Box<dyn Subject> {
    fed(Until::End, by_client)
}

pub(super) fn ended_by_server(_: u32) -> Box<dyn Subject> {
    fed(Until::End, by_server)
}

pub(super) fn ended_by_service(_: u32) -> Box<dyn Subject> {
    fed(Until::End, by_service)
}

pub(super) fn idle_by_client(_: u32) -> Box<dyn Subject> {
    fed(Until::Response, by_client)
}

pub(super) fn unanswered_by_port(_: u32) -> Box<dyn Subject> {
    fed(Until::Request, by_port)
}

pub(super) fn unanswered_by_server(_: u32) -> Box<dyn Subject> {
    fed(Until::Request, by_server)
}

pub(super) fn silent_by_port(_: u32) -> Box<dyn Subject> {
    fed(Until::Handshake, by_port)
}

pub(super) fn unaccepted_by_client(_: u32) -> Box<dyn Subject> {
    fed(Until::Syn, by_client)
}

pub(super) fn unaccepted_by_server(_: u32) -> Box<dyn Subject> {
    fed(Until::Syn, by_server)
}

pub(super) fn refused_by_port(_: u32) -> Box<dyn Subject> {
    fed(Until::Refusal, by_port)
}

pub(super) fn refused_by_client(_: u32) -> Box<dyn Subject> {
    fed(Until::Refusal, by_client)
}

/// Requests that a server passes on to another.
pub(super) fn passed_on(_: u32) -> Box<dyn Subject> {
    Fed::by(Analysis::new(), move |analysis, key| {
        let (front, back) = (
            by_client(key),
            Ends::new(
                end(9_000_000, 20_000 + (key & 0x7fff) as u16),
                end(9_100_000 + key % 300, 8_080),
            ),
        );
        connect(analysis, &front, Until::Request);
        connect(analysis, &back, Until::End);
        let asked = 1 + REQUEST.len() as u32;
        analysis.tcp(&front.down(1, asked), RESPONSE);
    })
}
