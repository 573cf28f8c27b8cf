//! What people type from habit, and what they get.

use std::ffi::OsString;

use clap::{CommandFactory as _, FromArgMatches as _};

use super::tables;
use crate::arguments::Arguments;
use crate::failure::Result;

/// What a line ends in.
enum Leads {
    /// What another line does.
    As(&'static str),
    /// An answer that contains this text in its one line.
    Told(&'static str),
}
use Leads::{As, Told};

/// Lines by tool.
const HABITS: &[(&str, &[(&str, Leads)])] = &[
    ("lagtrace itself", OWN),
    ("curl", CURL),
    ("wrk and wrk2", WRK),
    ("oha and hey", OHA),
    ("ab and h2load", AB),
    ("tcpdump", TCPDUMP),
    ("tshark and wireshark", TSHARK),
    ("ss and netstat", SS),
    ("ping", PING),
    ("hping3", HPING),
    ("traceroute and mtr", TRACEROUTE),
    ("strace and iperf", STRACE),
];

const OWN: &[(&str, Leads)] = &[
    (
        "http://h.example/cart",
        As("diagnose http://h.example/cart"),
    ),
    (
        "-q http://h.example/ -c 5",
        As("-q diagnose http://h.example/ -c 5"),
    ),
    (
        "--format json localhost:8080",
        As("--format json diagnose http://localhost:8080/"),
    ),
    ("10.0.0.5:8443/a", As("diagnose https://10.0.0.5:8443/a")),
    ("[::1]:80", As("diagnose http://[::1]:80/")),
    ("shop.example/cart", As("diagnose http://shop.example/cart")),
    ("slow.pcap", As("analyze slow.pcap")),
    (
        "client.pcapng server.pcapng --full",
        As("analyze client.pcapng server.pcapng --full"),
    ),
    ("- -c 10", As("analyze - -c 10")),
    ("report.json", As("view report.json")),
    ("8080", Told("sudo lagtrace watch -p 8080")),
    (":443", Told("lagtrace diagnose https://localhost:443/")),
    ("shop.example", Told("lagtrace probe shop.example")),
    (
        "nagle-delayed-ack",
        Told("lagtrace explain nagle-delayed-ack"),
    ),
    (
        "analyze slow.pcap --json",
        As("analyze slow.pcap --format json"),
    ),
    ("--json watch -p 80", As("--format json watch -p 80")),
    (
        "diagnose http://h/ --json",
        Told("--format json prints the report"),
    ),
    ("analyze slow.pcap -vvv", As("analyze slow.pcap -v")),
];

const CURL: &[(&str, Leads)] = &[
    ("curl http://h/", Told("lagtrace diagnose http://h/")),
    (
        "curl -sS -o /dev/null -w %{time_total} http://h/",
        Told("lagtrace probe -m http http://h/"),
    ),
    (
        "curl -X POST -H 'A: b' -d x=1 http://h/",
        Told("http://h/ (and your -X, -H, --data)"),
    ),
    ("diagnose -sS http://h/", As("diagnose http://h/")),
    ("diagnose -i http://h/", As("diagnose http://h/")),
    ("diagnose -f --http1.1 http://h/", As("diagnose http://h/")),
    ("probe -m http -sS http://h/", As("probe -m http http://h/")),
    ("load http://h/ --max-time 5", Told("--timeout TIME")),
    (
        "diagnose http://h/ -w '%{time_total}'",
        Told("lagtrace probe -m http URL"),
    ),
    (
        "diagnose http://h/ -O",
        Told("--format json keeps the result"),
    ),
];

const WRK: &[(&str, Leads)] = &[
    (
        "wrk -t2 -c100 -d10s http://h/",
        Told("lagtrace load http://h/ -t 2 -c 100 -d 10s"),
    ),
    (
        "wrk2 -R 500 http://h/",
        Told("lagtrace load http://h/ --rate 500"),
    ),
    (
        "load -t2 -c100 -d10s http://h/",
        As("load http://h/ -t 2 -c 100 -d 10s"),
    ),
    ("load http://h/ --latency", As("load http://h/")),
    ("load http://h/ -R500", As("load http://h/ --rate 500")),
    ("load http://h/ -s post.lua", Told("--body")),
    (
        "diagnose -R 500 --latency http://h/",
        As("diagnose --rate 500 http://h/"),
    ),
    ("diagnose http://h/ -s x.lua", Told("lagtrace load has -X")),
];

const OHA: &[(&str, Leads)] = &[
    (
        "hey -z 10s -c 50 http://h/",
        Told("lagtrace load http://h/ -d 10s -c 50"),
    ),
    (
        "oha -q 500 -m POST http://h/",
        Told("lagtrace load http://h/ -X POST --rate 500"),
    ),
    (
        "load -z 10s -c 50 http://h/",
        As("load -d 10s -c 50 http://h/"),
    ),
    (
        "load -n 200 -m POST http://h/",
        As("load -n 200 -X POST http://h/"),
    ),
    ("load http://h/ -q 500", Told("--rate 500")),
    ("load http://h/ --no-tui", As("load http://h/")),
    ("diagnose -z 10s http://h/", As("diagnose -d 10s http://h/")),
    (
        "diagnose -n 200 http://h/",
        As("diagnose --requests 200 http://h/"),
    ),
];

const AB: &[(&str, Leads)] = &[
    (
        "ab -k -c 10 -n 1000 http://h/",
        Told("lagtrace load http://h/ -c 10 -n 1000"),
    ),
    (
        "ab -t 10 -p body -T text/plain http://h/",
        Told("-d 10 -X POST --body body"),
    ),
    (
        "h2load -n 100 -c 4 -m 8 https://h/",
        Told("-n 100 -c 4 --http2 --streams 8"),
    ),
    (
        "load -k -c 10 -n 1000 http://h/",
        As("load -c 10 -n 1000 -k http://h/"),
    ),
    (
        "load -r -c 10 http://h/",
        As("load --keep-going -c 10 http://h/"),
    ),
    ("load --h1 -c 10 http://h/", As("load -c 10 http://h/")),
    ("load http://h/ -T text/plain", Told("Content-Type: TYPE")),
];

const TCPDUMP: &[(&str, Leads)] = &[
    (
        "tcpdump -nn -i any port 80",
        Told("sudo lagtrace capture -i any port 80"),
    ),
    (
        "tcpdump -r slow.pcap -A",
        Told("lagtrace analyze slow.pcap"),
    ),
    (
        "tcpdump -i lo -w a.pcap -c 9 host ::1",
        Told("capture -i lo -w a.pcap -c 9 host ::1"),
    ),
    (
        "capture -nn -i any tcp port 80",
        As("capture -i any tcp port 80"),
    ),
    (
        "capture -i any tcp port 80 -w a.pcap",
        As("capture -i any -w a.pcap tcp port 80"),
    ),
    ("capture -s 0 -i lo", As("capture -i lo")),
    ("capture -r slow.pcap", Told("lagtrace analyze FILE")),
    ("capture -X -i lo", Told("--show hex")),
    ("analyze -nn -r slow.pcap", As("analyze slow.pcap")),
    ("analyze slow.pcap -A", Told("--stream N --show text")),
    (
        "analyze -r slow.pcap tcp port 80",
        Told("--where 'server=:80'"),
    ),
    (
        "analyze slow.pcap -i any",
        Told("sudo lagtrace capture -i IF"),
    ),
    ("watch -i any -p 80", Told("watch sees all interfaces")),
];

const TSHARK: &[(&str, Leads)] = &[
    (
        "tshark -r slow.pcap -Y http",
        Told("lagtrace analyze slow.pcap"),
    ),
    (
        "tshark -i eth0 -f 'tcp port 80'",
        Told("sudo lagtrace capture -i eth0 tcp port 80"),
    ),
    ("wireshark slow.pcap", Told("lagtrace view slow.pcap")),
    ("analyze -r slow.pcap -Y http", Told("--where")),
    ("analyze -n -r slow.pcap -T fields", Told("--format json")),
    ("analyze slow.pcap -z conv,tcp", Told("--connections")),
    ("analyze slow.pcap -q", As("analyze -q slow.pcap")),
    (
        "capture -f 'tcp port 80' -i lo",
        As("capture -i lo 'tcp port 80'"),
    ),
];

const SS: &[(&str, Leads)] = &[
    ("ss -tlnp", Told("sudo lagtrace sockets -tl")),
    ("ss -tn sport = :80", Told("sudo lagtrace sockets -t -p 80")),
    ("netstat -tulpn", Told("sudo lagtrace sockets -tul")),
    ("sockets -tnp", As("sockets -t")),
    ("sockets -tinmop sport = :80", As("sockets -t -p 80")),
    (
        "sockets -tan state established dst 10.0.0.5",
        As("sockets -ta 10.0.0.5"),
    ),
    ("sockets -p", As("sockets")),
    ("sockets -tp 8080", As("sockets -t -p 8080")),
    (
        "sockets -tno '( sport = :80 or dport = :443 )'",
        As("sockets -t -p 80,443"),
    ),
    ("sockets -E", As("sockets -f")),
    ("sockets -s", Told("-a lists all sockets")),
];

const PING: &[(&str, Leads)] = &[
    ("ping -c 3 h.example", Told("lagtrace probe h.example -c 3")),
    (
        "ping -i 0.2 -s 1400 -M do 10.0.0.5",
        Told("probe 10.0.0.5 -i 0.2 --size 1400"),
    ),
    ("probe h.example -c 3 -n", As("probe h.example -c 3")),
    ("probe h.example -i 0.2", As("probe h.example -i 200ms")),
    ("probe h.example -W 1", As("probe h.example -W 1s")),
    ("probe h.example -t 5", As("probe h.example --ttl 5")),
    ("probe h.example -f", Told("-i 1ms")),
    ("probe h.example -w 5", Told("-c N")),
    (
        "probe h.example -M do",
        As("probe h.example --dont-fragment"),
    ),
];

const HPING: &[(&str, Leads)] = &[
    (
        "hping3 -S -p 80 -c 5 h.example",
        Told("lagtrace probe h.example:80 -c 5"),
    ),
    (
        "hping3 -2 -p 53 h.example",
        Told("lagtrace probe h.example:53 -m udp"),
    ),
    (
        "probe -S -p 80 h.example -c 5",
        As("probe -p 80 h.example -c 5"),
    ),
    ("probe -i u10000 h.example", As("probe -i 10ms h.example")),
    ("probe -1 h.example", As("probe -m icmp h.example")),
    ("probe h.example --fast", Told("-i 100ms")),
    ("probe -R -p 80 h.example", Told("--flags R")),
    ("probe --flood h.example", Told("lagtrace floods nobody")),
];

const TRACEROUTE: &[(&str, Leads)] = &[
    (
        "traceroute -T -p 443 h.example",
        Told("lagtrace route h.example -T -p 443"),
    ),
    ("tracert -d h.example", Told("lagtrace route h.example -n")),
    (
        "tcptraceroute h.example 443",
        Told("lagtrace route h.example:443"),
    ),
    (
        "mtr h.example",
        Told("lagtrace route h.example --continuous"),
    ),
    (
        "mtr -r -c 20 h.example",
        Told("lagtrace route h.example -c 20"),
    ),
    (
        "route -T -p 443 -q 5 h.example",
        As("route -T -p 443 --probes 5 h.example"),
    ),
    ("route -P 443 h.example", As("route -p 443 h.example")),
    ("route -e h.example", As("route h.example")),
    ("route -r h.example", Told("-c N for mtr's -r")),
];

const STRACE: &[(&str, Leads)] = &[
    ("strace -f -p 4711", Told("sudo lagtrace watch --pid 4711")),
    (
        "strace -e trace=setsockopt -p 4711",
        Told("sockets --trace --pid 4711"),
    ),
    ("watch -f --pid 4711", As("watch --pid 4711")),
    (
        "watch --pid 4711 -e trace=network",
        Told("lagtrace sockets --trace"),
    ),
    (
        "iperf3 -c 10.0.0.5",
        Told("probe 10.0.0.5:80 --loaded http://10.0.0.5/"),
    ),
    (
        "watch -p 80 -w a.pcap",
        Told("sudo lagtrace capture -w FILE"),
    ),
];

/// Splits a line as a shell does, by spaces and single quotes.
fn words(line: &str) -> Vec<OsString> {
    let mut words = vec![OsString::from("lagtrace")];
    for (at, part) in line.split('\'').enumerate() {
        if at % 2 == 1 {
            words.push(part.into());
        } else {
            words.extend(part.split_whitespace().map(OsString::from));
        }
    }
    words
}

/// Returns what the program would do.
fn done(line: &str) -> Result<String> {
    let words = super::read(words(line), &Arguments::command())?;
    let matches = super::known(Arguments::command()).try_get_matches_from(words)?;
    super::answered(&matches)?;
    Ok(format!("{:?}", Arguments::from_arg_matches(&matches)?))
}

#[test]
fn habits_end_in_what_is_meant_or_in_one_line() {
    let mut wrong = Vec::new();
    for (_, lines) in HABITS {
        for (line, ends) in *lines {
            match (done(line), ends) {
                (Ok(is), As(other)) => {
                    let same = done(other).expect("a line of lagtrace itself");
                    if is != same {
                        wrong.push(format!("{line}: not as {other}\n{is}\n{same}"));
                    }
                }
                (Err(failure), Told(text)) => {
                    let hint = failure.hint_text().unwrap_or_default();
                    if !hint.contains(text) || hint.contains('\n') {
                        wrong.push(format!("{line}: {failure} / {hint}"));
                    }
                }
                (Ok(is), Told(_)) => wrong.push(format!("{line}: was taken as {is}")),
                (Err(failure), As(_)) => wrong.push(format!("{line}: {failure}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(HABITS.len() > 10 && HABITS.iter().all(|(_, lines)| lines.len() >= 6));
}

#[test]
fn flags_that_are_other_names_name_options() {
    let root = Arguments::command();
    for (name, flags) in tables::ALL {
        let command = root.find_subcommand(name).expect("a command");
        for flag in flags.iter().copied().flatten() {
            if let super::flag::Means::Option(id) = flag.means {
                let mut all = command.get_arguments();
                assert!(all.any(|it| it.get_id() == id), "{name} {}", flag.names);
            }
        }
    }
    super::known(root).debug_assert();
}

#[test]
fn what_is_carried_over_is_quoted_and_secrets_are_not_repeated() {
    let hint = |line: &str| {
        let failure = done(line).expect_err("an answer");
        failure.hint_text().unwrap_or_default().to_owned()
    };
    let told = hint("wrk -H 'A: $(reboot)' http://h/");
    assert_eq!(told, "lagtrace load http://h/ -H 'A: $(reboot)'");
    let told = hint("curl -u me:secret -H 'Authorization: secret' http://h/");
    assert!(
        !told.contains("secret") && told.contains("-u, -H"),
        "{told}"
    );
}

/// Returns the commands in a document: in indented lines and between backticks.
fn commands(text: &str) -> Vec<String> {
    let indented = text.lines().filter_map(|line| line.strip_prefix("    "));
    let spans = text.split('`').skip(1).step_by(2);
    let all = indented.chain(spans).filter_map(|it| {
        let it = it.strip_prefix("sudo ").unwrap_or(it);
        let it = it.split(" #").next().unwrap_or_default();
        it.strip_prefix("lagtrace ").map(str::to_owned)
    });
    all.filter(|it| !it.contains(['$', '<', '|', '\n']))
        .collect()
}

/// Puts words of a kind in place of the words that stand for them.
fn filled(command: &str) -> String {
    let names = [
        ("HOST:PORT", "h.example:80"),
        ("COMMAND --help", "help output"),
        ("URL", "http://h.example/"),
        ("FILE", "file.pcap"),
        ("PORT", "80"),
        ("HOST", "h.example"),
        ("IF", "lo"),
    ];
    let fill = |text: String, (name, value): (&str, &str)| text.replace(name, value);
    names.into_iter().fold(command.to_owned(), fill)
}

#[test]
fn the_commands_of_the_readme_are_right() {
    let commands = commands(include_str!("../../../../README.md"));
    assert!(commands.len() >= 20, "{commands:?}");
    for command in commands {
        let filled = filled(&command);
        let is_help = filled.starts_with("help ");
        assert!(
            is_help || done(&filled).is_ok(),
            "{command}: {:?}",
            done(&filled).err()
        );
    }
}
