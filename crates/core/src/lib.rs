//! Bytes and observations in, one [`Report`](report::Report) out.
//!
//! Sources hand in [`Segment`](segment::Segment)s and [`Event`](event::Event)s;
//! the analyzer folds them into connections, pairs requests with responses,
//! cuts each exchange into waits that tile it, weighs causes and concludes.
//! Nothing here reads a clock, a file, a socket or the environment, and bad
//! traffic is a fact in the report, never an `Err`.
#![forbid(unsafe_code)]

pub mod analyzer;
mod approach;
pub mod call;
pub mod cause;
pub mod compare;
mod conclude;
mod connection;
pub mod connections;
pub mod datagram;
pub mod decode;
pub mod delivery;
mod dns;
pub mod event;
pub mod exchange;
pub mod experiment;
mod facts;
pub mod flow;
pub mod follow;
pub mod handshake;
mod handshakes;
pub mod histogram;
mod http;
pub mod icmp;
pub mod joined;
pub mod live;
mod mark;
mod modes;
pub mod numbering;
mod own;
mod protocol;
mod quic;
pub mod report;
pub mod route;
pub mod segment;
mod served;
mod service;
mod slots;
mod table;
mod tile;
pub mod time;
mod timeline;
mod told;
pub mod turn;
pub mod wait;
