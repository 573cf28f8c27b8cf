//! A server with known response times: the truth for what is measured against it.
//!
//! `cargo run --release -p lagtrace-sources --example slow_server ADDRESS PAUSE [PERIOD]`
//! answers every request on ADDRESS after PAUSE milliseconds; with PERIOD, at
//! once, but for those of the first PAUSE of each PERIOD, which wait until
//! its end. One thread for each connection, until it is killed.
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
