//! Observations that sources pass in, as plain data.

pub mod datagram;
pub mod event;
pub mod experiment;
pub mod flow;
pub mod icmp;
pub mod kernel_span;
pub mod load_level;
pub mod packet;
pub mod passage;
pub mod point;
pub mod route;
pub mod segment;
pub mod side;
pub mod sockets;
pub mod syscall;
pub(crate) mod tcp;
pub mod time;
