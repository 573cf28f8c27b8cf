//! Name resolution as other programs on this system perform it.

use std::io;
use std::net::ToSocketAddrs;
use std::sync::mpsc;

use core::net::IpAddr;
use core::time::Duration;

use lagtrace_core::observed::event::{Event, EventBody, Phase, Resolution};

use crate::clock::Clock;
use crate::url::Host;

/// Resolves `host` with `getaddrinfo`, as configured in `nsswitch.conf`. Reports the time taken, at
/// most `timeout`.
///
/// A literal address takes no time. A lookup cannot be cancelled. After `timeout`, it continues on
/// a separate thread until the system's own limits end it, and its result is ignored.
pub fn resolve(host: &Host, timeout: Duration, mut sink: impl FnMut(Event)) -> Resolution {
    let clock = Clock::new();
    let begun = clock.now();
    let mut resolution = Resolution {
        name: host.to_string(),
        addresses: Vec::new(),
        took: Duration::ZERO,
        failure: None,
    };
    let mut ended = begun;
    match host {
        Host::Address(address) => resolution.addresses.push(*address),
        Host::Name(name) => {
            let outcome = look_up(name.clone(), timeout);
            ended = clock.now();
            resolution.took = ended.since(begun);
            match outcome {
                Ok(addresses) => resolution.addresses = addresses,
                Err(error) => resolution.failure = Some(words(&error)),
            }
        }
    }
    let body = EventBody::Resolution(resolution.clone());
    sink(Event::here(ended, Phase::Baseline, body));
    resolution
}

fn look_up(name: String, timeout: Duration) -> io::Result<Vec<IpAddr>> {
    let (sender, answers) = mpsc::channel();
    std::thread::Builder::new()
        .name("resolve".to_owned())
        .spawn(move || {
            let answer = (name.as_str(), 0).to_socket_addrs();
            // Fails after the timeout, when the receiver no longer exists.
            let _ = sender.send(answer.map(|found| found.map(|a| a.ip()).collect::<Vec<_>>()));
        })?;
    let no_answer =
        |_| io::Error::new(io::ErrorKind::TimedOut, format!("no answer in {timeout:?}"));
    let mut addresses = answers.recv_timeout(timeout).map_err(no_answer)??;
    let mut seen = Vec::new();
    addresses.retain(|address| {
        let is_new = !seen.contains(address);
        seen.push(*address);
        is_new
    });
    Ok(addresses)
}

/// Returns the resolver's own message, without the text that the standard library puts before it.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let own = text.strip_prefix("failed to lookup address information: ");
    own.unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve_text(text: &str) -> Resolution {
        let url: crate::url::Url = text.parse().expect("a URL");
        let mut events = Vec::new();
        let resolution = resolve(url.host(), Duration::from_secs(10), |event| {
            events.push(event)
        });
        let [event] = &events[..] else {
            panic!("one event");
        };
        assert_eq!(event.body, EventBody::Resolution(resolution.clone()));
        resolution
    }

    #[test]
    fn literal_addresses_take_no_time() {
        for (text, address) in [("127.0.0.1:80", "127.0.0.1"), ("[::1]:80", "::1")] {
            let resolution = resolve_text(text);
            let address: IpAddr = address.parse().expect("an address");
            assert_eq!(resolution.addresses, [address]);
            assert_eq!(resolution.took, Duration::ZERO);
        }
    }

    #[test]
    fn localhost_is_this_host() {
        let resolution = resolve_text("localhost");
        assert_eq!(resolution.failure, None);
        assert!(!resolution.addresses.is_empty());
        assert!(resolution.addresses.iter().all(IpAddr::is_loopback));
        assert!(!resolution.took.is_zero());
    }

    #[test]
    fn a_name_that_does_not_exist_fails_in_the_resolvers_words() {
        // Names below `.invalid` never exist (RFC 6761 §6.4).
        let resolution = resolve_text("no-such-host.invalid");
        assert_eq!(resolution.addresses, Vec::<IpAddr>::new());
        let failure = resolution.failure.expect("no address");
        assert!(!failure.contains("failed to lookup"), "{failure}");
    }
}
