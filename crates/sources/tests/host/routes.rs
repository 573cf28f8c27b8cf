//! Routes compared with `ip route get`, and the tick with the kernel's configuration.

use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

use lagtrace_sources::{route, timer};

use crate::world::{Pair, can_run, skip};

#[test]
fn routes_read_as_ip_prints_them() {
    if !can_run(true, &["ip"]) {
        return;
    }
    let pair = Pair::new();
    let (net, net6) = (&pair.net, &pair.net6);
    let client = &pair.client;
    client.run(&format!(
        "ip route add 192.0.2.0/24 via {net}.2 rto_min 20ms quickack 1 mtu 1400"
    ));
    client.run(&format!("ip route add 2001:db8::/32 via {net6}:2 mtu 1300"));
    client.run(&format!("ip route add 198.51.100.0/24 via inet6 {net6}:2"));
    let lookup = |target: &str| {
        let target: IpAddr = target.parse().expect("an address");
        client.visit(|| route::lookup(target))
    };
    let mut routes = Vec::new();
    for target in [
        format!("{net}.2"),
        format!("{net}.1"),
        format!("{net6}:2"),
        format!("{net6}:1"),
        "192.0.2.7".to_owned(),
        "2001:db8::7".to_owned(),
        "198.51.100.7".to_owned(),
    ] {
        let route = lookup(&target).expect("there is a route");
        let line = client.run(&format!("ip route get {target}"));
        let words: Vec<&str> = line.split_whitespace().collect();
        let after = |key: &str| {
            let at = words.iter().position(|&word| word == key)?;
            words.get(at + 1).map(|&word| word.to_owned())
        };
        let via = after("via").map(|via| match via.as_str() {
            "inet6" => {
                words[words.iter().position(|&w| w == "inet6").expect("it is") + 1].to_owned()
            }
            _ => via,
        });
        assert_eq!(Some(&route.interface), after("dev").as_ref(), "{line}");
        assert_eq!(route.source.map(|a| a.to_string()), after("src"), "{line}");
        assert_eq!(route.gateway.map(|a| a.to_string()), via, "{line}");
        assert_eq!(route.is_local, words[0] == "local", "{line}");
        let mtu = after("mtu").map_or(if route.is_local { 65_536 } else { 1500 }, |mtu| {
            mtu.parse().expect("a number")
        });
        assert_eq!(route.mtu, Some(mtu), "{line}");
        routes.push(route);
    }
    let quick = &routes[4];
    assert!(
        quick.quickack && quick.rto_min == Some(Duration::from_millis(20)),
        "{quick:?}"
    );
    let timers = client.visit(|| timer::read(Some(quick)));
    assert!(timers.delack_max < Duration::from_millis(20), "{timers:?}");
    let error = lookup("203.0.113.1").expect_err("no route").to_string();
    assert!(
        error.contains("203.0.113.1") && error.contains("unreachable"),
        "{error}"
    );
}

#[test]
fn the_tick_is_the_configured_one() {
    let sources = [
        ("zcat", "/proc/config.gz".to_owned()),
        (
            "cat",
            format!(
                "/boot/config-{}",
                rustix::system::uname().release().to_string_lossy()
            ),
        ),
    ];
    let configuration = sources.into_iter().find_map(|(tool, path)| {
        let output = Command::new(tool).arg(path).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines()
            .find_map(|line| line.strip_prefix("CONFIG_HZ=")?.parse::<u32>().ok())
    });
    let Some(configured) = configuration else {
        skip("the kernel's configuration");
        return;
    };
    assert_eq!(timer::read(None).hz, Some(configured));
}
