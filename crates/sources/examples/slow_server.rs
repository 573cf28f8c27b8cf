//! A server with known response times, to check measurements against.
//!
//! `cargo run --release -p lagtrace-sources --example slow_server ADDRESS PAUSE [PERIOD]` answers
//! every request on ADDRESS after PAUSE milliseconds. With PERIOD, requests in the first PAUSE
//! milliseconds of each PERIOD wait until those have passed, and all others are answered
//! immediately. Each connection has its own thread. The server runs until it is killed.
#![allow(clippy::print_stdout)]

#[path = "../tests/servers/fake.rs"]
mod fake;

use std::process::ExitCode;
use std::time::Duration;

use fake::Server;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let millis = |at: usize| {
        let text = arguments.get(at)?;
        text.parse().ok().map(Duration::from_millis)
    };
    let (Some(address), Some(pause)) = (arguments.first(), millis(1)) else {
        println!("usage: slow_server ADDRESS PAUSE [PERIOD]");
        return ExitCode::from(2);
    };
    let server = match millis(2) {
        Some(period) => Server::start_at(address, fake::freeze_for(pause, period)),
        None => Server::start_at(address, fake::answer_after(pause)),
    };
    println!("listening on {}", server.address);
    loop {
        std::thread::park();
    }
}
