//! Writes a large capture to standard output. It looks like the capture of a busy server.
//!
//! `generate_capture CONNECTIONS PACKETS [SEED] [held]` generates `CONNECTIONS` connections with
//! `PACKETS` packets each on average. They carry HTTP/1.1 on port 80, with and without keep-alive.
//! Responses have a few bytes to megabytes and begin in slow start. There are delayed and selective
//! acknowledgements and some losses, and each client has its own round-trip time. `held` leaves all
//! connections open. Equal arguments give equal bytes. Timestamps are in nanoseconds, and the
//! capture point is the server.
#![allow(clippy::print_stderr)]

mod chance;
mod connection;
mod frame;
mod generator;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use generator::Traffic;

const SYNTAX: &str = "usage: generate_capture CONNECTIONS PACKETS [SEED] [held]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse().ok());
    let (Some(connections), Some(packets)) = (number(0), number(1)) else {
        eprintln!("{SYNTAX}");
        return ExitCode::from(2);
    };
    let is_held = arguments.iter().any(|argument| argument == "held");
    let traffic = Traffic::new(connections, packets, number(2).unwrap_or(1), is_held);
    let mut output = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    let written = traffic
        .write(&mut output)
        .and_then(|count| output.flush().map(|()| count));
    match written {
        Ok(count) => {
            eprintln!("{count} packets of {connections} connections");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: writing: {error}");
            ExitCode::from(2)
        }
    }
}
