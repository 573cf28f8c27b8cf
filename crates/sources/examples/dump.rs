use lagtrace_core::decode::Packet;
use lagtrace_sources::kernel::{Sighting, Watch, WatchOptions};
fn main() {
    let port = std::env::args().nth(1).unwrap().parse().unwrap();
    let mut w = Watch::start(&WatchOptions {
        ports: vec![port],
        keeps_payload: true,
        ..Default::default()
    })
    .unwrap();
    let mut p = |s: Sighting<'_>| {
        if let Sighting::Packet(Packet::Tcp(s, _)) = s {
            println!(
                "{} {} seq {} len {} ack {} {}",
                s.at.as_nanos(),
                if s.ip.is_own { "out" } else { "in" },
                s.seq,
                s.payload_len,
                s.ack,
                format!("{:?}", s.flow).replace(" ", "")
            );
        }
    };
    for _ in 0..200 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        w.take(&mut p);
    }
    let t = w.finish(&mut p);
    eprintln!("{t:?}");
}
