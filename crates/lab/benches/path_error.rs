//! Measures how exactly the path emulator keeps its delay, and how much it carries:
//! `cargo bench -p lagtrace-lab`, as root.
//!
//! Delay: datagrams leave the client at a steady rate over a round trip of 20 ms. tcpdump
//! timestamps each one as it enters and as it leaves the path. The output is the excess of the
//! measured delay over the configured one.
//!
//! Throughput: small datagrams, sent as fast as one thread can, and bulk TCP, with and without
//! offload. The output is the data that arrived.

#![allow(clippy::print_stdout)]

use std::collections::HashMap;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::num::NonZeroU64;
use std::path::Path;
use std::time::{Duration, Instant};

use lagtrace_lab::{Family, Helper, Lab, PathCounters, RecordingOptions, Scenario};

const ONE_WAY: Duration = Duration::from_millis(10);
const SECONDS: u64 = 5;
const PORT: u16 = 9;

fn main() -> Result<(), Box<dyn Error>> {
    let scenario = Scenario::by_name("nagle-delayed-ack")?.with_round_trip(2 * ONE_WAY);
    let helper = Helper::program(env!("CARGO_BIN_EXE_lagtrace-lab-helper"));
    for rate in [1_000, 10_000] {
        let lab = match Lab::bring_up(&scenario, &helper) {
            Ok(lab) => lab,
            Err(error) => {
                println!("skipped: {error}");
                return Ok(());
            }
        };
        measure(&lab, rate)?;
        lab.take_down()?;
    }
    for (name, path) in [
        ("plain", ""),
        ("offload", "offload = true\n"),
        ("3 hops, 4 members", FULL),
    ] {
        let lab = Lab::bring_up(&throughput_scenario(path)?, &helper)?;
        flood(&lab, name)?;
        bulk(&lab, name)?;
        lab.take_down()?;
    }
    Ok(())
}

/// The path settings that make the emulator look into packets.
const FULL: &str = "hops = [{}, {}, {}]\nmembers = [{}, {}, {}, {}]\n\
    to_client = { mtu = 1500, drop = [{ flags = 'rst', per_flow = true }] }\n";

/// Returns a scenario with a round trip of 5 ms and these further path settings.
fn throughput_scenario(path: &str) -> Result<Scenario, lagtrace_lab::Error> {
    let text = format!(
        "name = 'throughput'\ntitle = 'throughput'\ntarget = 'none'\n\
         [path]\nround_trip = '5ms'\n{path}\n\
         [[service]]\nname = 'none'\nport = 80\nserver = {{ kind = 'nobody' }}\n"
    );
    Scenario::parse("throughput", &text)
}

/// The duration of each throughput measurement.
const LASTS: Duration = Duration::from_secs(3);

/// Measures small datagrams, sent as fast as they can be.
fn flood(lab: &Lab, name: &str) -> Result<(), Box<dyn Error>> {
    let receiver = lab
        .server()
        .within(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)))?;
    let sender = lab
        .client()
        .within(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
    let before = counters(lab)?.to_server;
    let begun = Instant::now();
    while begun.elapsed() < LASTS {
        for _ in 0..64 {
            sender.send_to(&[0; 22], (lab.server().address(Family::V4), PORT))?;
        }
    }
    let lasted = begun.elapsed().as_secs_f64();
    let after = counters(lab)?.to_server;
    drop(receiver);
    println!(
        "{name}, small datagrams: {:.0} packets/s arrived, {} dropped by the path",
        (after.delivered - before.delivered) as f64 / lasted,
        after.dropped() - before.dropped()
    );
    Ok(())
}

/// Measures one TCP connection to the client whose sender is never short of data.
fn bulk(lab: &Lab, name: &str) -> Result<(), Box<dyn Error>> {
    let listener = lab
        .server()
        .within(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)))?;
    let to = (lab.server().address(Family::V4), PORT);
    let mut stream = lab.client().within(|| TcpStream::connect(to))?;
    let before = counters(lab)?;
    let begun = Instant::now();
    let sender = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        let data = vec![b'x'; 1 << 18];
        while begun.elapsed() < LASTS {
            stream.write_all(&data)?;
        }
        Ok(())
    });
    let mut buffer = vec![0; 1 << 18];
    let mut bytes = 0;
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        bytes += length;
    }
    let lasted = begun.elapsed().as_secs_f64();
    let _ = sender.join();
    let after = counters(lab)?;
    let packets = after.to_client.delivered - before.to_client.delivered
        + after.to_server.delivered
        - before.to_server.delivered;
    println!(
        "{name}, bulk TCP: {:.0} Mbit/s, {:.0} packets/s both ways, {} dropped by the path",
        bytes as f64 * 8e-6 / lasted,
        packets as f64 / lasted,
        after.to_client.dropped() - before.to_client.dropped()
    );
    Ok(())
}

fn counters(lab: &Lab) -> Result<PathCounters, Box<dyn Error>> {
    std::thread::sleep(Duration::from_millis(300));
    Ok(lab.path_counters()?.ok_or("no path is emulated")?)
}

fn measure(lab: &Lab, rate: u64) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (entered, left) = (
        folder.path().join("client.pcap"),
        folder.path().join("server.pcap"),
    );
    let options = RecordingOptions {
        filter: format!("udp port {PORT}"),
        snapshot_length: Some(64),
        ..RecordingOptions::default()
    };
    let recording = lab.record(&entered, &left, &options)?;
    let receiver = lab
        .server()
        .within(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)))?;
    let sender = lab
        .client()
        .within(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
    send(&sender, lab.server().address(Family::V4), rate)?;
    let recorded = recording.stop()?;
    drop(receiver);
    let (entered, left) = (stamps(&entered)?, stamps(&left)?);
    let mut errors_us: Vec<f64> = left
        .iter()
        .filter_map(|(number, left)| {
            let taken = Duration::from_nanos(left.checked_sub(*entered.get(number)?)?);
            Some((taken.as_secs_f64() - ONE_WAY.as_secs_f64()) * 1e6)
        })
        .collect();
    errors_us.sort_by(f64::total_cmp);
    let at = |share: f64| {
        errors_us
            .get((errors_us.len() as f64 * share) as usize)
            .copied()
            .unwrap_or(f64::NAN)
    };
    println!(
        "{rate} packets/s over 20 ms: {} of {} arrived; later than asked by p50 {:+.1} us, p90 {:+.1}, p99 {:+.1}, p99.9 {:+.1}, max {:+.1}",
        errors_us.len(),
        entered.len(),
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        errors_us.last().copied().unwrap_or(f64::NAN)
    );
    println!(
        "  recorded: {recorded:?}\n  path: {:?}",
        lab.path_counters()?
    );
    Ok(())
}

/// Sends numbered datagrams at a steady rate.
fn send(socket: &UdpSocket, to: IpAddr, rate: u64) -> Result<(), Box<dyn Error>> {
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    let begun = Instant::now();
    for number in 0..rate * SECONDS {
        let due = Duration::from_nanos(number * 1_000_000_000 / rate);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        socket.send_to(&number.to_be_bytes(), (to, PORT))?;
    }
    Ok(())
}

/// Returns the timestamp of each datagram by its number, from a capture of bare IP packets with
/// timestamps in nanoseconds.
fn stamps(file: &Path) -> Result<HashMap<u64, u64>, Box<dyn Error>> {
    let bytes = std::fs::read(file)?;
    let mut rest = bytes.get(24..).unwrap_or_default();
    let mut stamps = HashMap::new();
    while let Some((head, packet)) = rest.split_at_checked(16) {
        let word = |at: usize| head[at..at + 4].try_into().map(u32::from_ne_bytes);
        let (stamp, length) = (
            u64::from(word(0)?) * 1_000_000_000 + u64::from(word(4)?),
            word(8)? as usize,
        );
        let (packet, after) = packet
            .split_at_checked(length)
            .ok_or("a capture that ends too early")?;
        // 20 bytes of IP and 8 of UDP.
        if let Some(number) = packet.get(28..36) {
            stamps.insert(u64::from_be_bytes(number.try_into()?), stamp);
        }
        rest = after;
    }
    Ok(stamps)
}
