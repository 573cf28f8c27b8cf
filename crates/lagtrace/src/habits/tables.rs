//! The flags of other tools, by the command at which people type them.

use super::flag::{Flag, same, taken, told, told_value};

/// Tables of flags.
type Tables = &'static [&'static [Flag]];

/// All commands that know flags of other tools. An option of lagtrace itself has precedence over
/// all of these, and an earlier table over a later one.
pub(super) const ALL: &[(&str, Tables)] = &[
    ("diagnose", &[DIAGNOSE, LOAD_TOOLS, CURL]),
    ("load", &[LOAD, LOAD_TOOLS, CURL]),
    ("probe", &[PING, CURL]),
    ("analyze", &[ANALYZE]),
    ("capture", &[CAPTURE]),
    ("sockets", &[SS]),
    ("watch", &[WATCH]),
    ("route", &[TRACEROUTE]),
];

const DIAGNOSE: &[Flag] = &[told_value(
    "-n --requests",
    "diagnose measures for a time: -d 10s; `lagtrace load URL -n N` sends N requests",
)];

const LOAD: &[Flag] = &[
    same("-m", "verb"),
    same("-C", "cookie"),
    same("-D", "body"),
    same("-r", "keep_going"),
    same("--disable-keepalive", "fresh"),
    same("--urls-from-file -i --input-file", "urls"),
    taken("--h1"),
];

/// wrk, wrk2, oha, hey, ab and h2load.
const LOAD_TOOLS: &[Flag] = &[
    same("-R", "rate"),
    same("-z", "duration"),
    taken("--latency -U --u_latency -B --batch_latency"),
    taken("--no-tui --latency-correction"),
    told_value(
        "--script",
        "lagtrace runs no scripts; `lagtrace load` has -X, -H, --body, -b and --urls FILE",
    ),
    told_value("-T --content-type", "-H 'Content-Type: TYPE'"),
    told_value("-a", "-u NAME:PASSWORD"),
];

/// What only changes curl's own output, and what lagtrace does otherwise.
const CURL: &[Flag] = &[
    taken("-s --silent"),
    taken("-S --show-error"),
    taken("-# --progress-bar"),
    taken("-N --no-buffer"),
    taken("-f --fail"),
    taken("-g --globoff"),
    taken("--http1.1"),
    taken("--include"),
    told_value(
        "-w --write-out",
        "`lagtrace probe -m http URL` shows name, TCP, TLS, first and last byte",
    ),
    told_value(
        "-m --max-time --connect-timeout",
        "--timeout TIME limits each response",
    ),
    told(
        "-O --remote-name",
        "lagtrace keeps no responses; --format json keeps the result",
    ),
    told(
        "--http3",
        "HTTP/3 is not spoken; `lagtrace capture udp port 443` reads its handshakes",
    ),
    told_value(
        "--retry",
        "lagtrace counts failed requests instead of repeating them",
    ),
    told_value("--trace --trace-ascii", "-v tells more about each step"),
    told_value("--url", "write the URL alone, as the first argument"),
];

/// ping, hping3 and nping.
const PING: &[Flag] = &[
    taken("-S --syn"),
    taken("-n --numeric"),
    taken("-D -O"),
    same("-t", "ttl"),
    same("-d --data", "size"),
    same("-y --dontfrag", "dont_fragment"),
    told_value(
        "-w",
        "-c N ends after N probes, and Ctrl-C at any time, with the result",
    ),
    told("-f --flood", "lagtrace floods nobody: -i 1ms"),
    told("--fast", "-i 100ms"),
    told("--faster", "-i 100us"),
    told("-F --fin", "--flags F"),
    told("-R --rst", "--flags R"),
    told("-P --push", "--flags P"),
    told("-A --ack", "--flags A"),
    told("-U --urg", "--flags U"),
    told("-T --traceroute", "lagtrace route HOST:PORT"),
    told_value("-a --spoof", "lagtrace does not send under other addresses"),
];

/// tcpdump and tshark, when they read a file.
const ANALYZE: &[Flag] = &[
    taken("-r --read-file"),
    taken("-n --nn --no-name-resolution"),
    taken("-t"),
    taken("-e"),
    taken("-l"),
    taken("-2"),
    told(
        "-X",
        "--stream N --show hex shows the bytes of a connection",
    ),
    told(
        "-x",
        "--stream N --show hex shows the bytes of a connection",
    ),
    told(
        "-A",
        "--stream N --show text shows the bytes of a connection",
    ),
    told_value(
        "-Y --display-filter -R",
        "--where 'server=:80 and latency>50ms' selects exchanges; or tshark -r FILE -Y FILTER -w \
         new.pcap, then lagtrace analyze new.pcap",
    ),
    told_value("-T", "--format json, ndjson, har or perfetto"),
    told_value(
        "-z",
        "--connections lists connections, --exchanges the most costly requests",
    ),
    told_value(
        "-i --interface",
        "sudo lagtrace capture -i IF FILTER reads an interface",
    ),
    told_value("-w", "--annotate FILE copies the capture with comments"),
    told_value(
        "-f",
        "tcpdump -r FILE -w new.pcap FILTER, then lagtrace analyze new.pcap",
    ),
    told_value("-p --port", "--where 'server=:PORT'"),
];

/// tcpdump and tshark on an interface.
const CAPTURE: &[Flag] = &[
    taken("-n --no-name-resolution"),
    taken("-U --packet-buffered"),
    taken("-l -p -K -t -e -S"),
    told_value("-r --read-file", "lagtrace analyze FILE"),
    told(
        "-X",
        "capture -w FILE, then lagtrace analyze FILE --stream N --show hex",
    ),
    told(
        "-x",
        "capture -w FILE, then lagtrace analyze FILE --stream N --show hex",
    ),
    told(
        "-A",
        "capture -w FILE, then lagtrace analyze FILE --stream N --show text",
    ),
    told_value(
        "-Y --display-filter",
        "a filter as of tcpdump, at the end: tcp port 8080",
    ),
    told_value("-a --autostop", "-d TIME or -c COUNT ends the capture"),
    told_value("-G -C -W -b", "one file, until -d TIME or -c COUNT"),
    told(
        "-D --list-interfaces",
        "ip link lists interfaces; `-i any` takes all of them",
    ),
    told_value("-T", "--format json or ndjson"),
    told_value("--port", "the filter at the end: tcp port 8080"),
];

/// ss and netstat.
const SS: &[Flag] = &[
    taken("-n --numeric"),
    taken("-e --extended"),
    taken("-m --memory"),
    taken("--processes"),
    taken("-r --resolve"),
    taken("-H --no-header"),
    taken("-K"),
    same("-E --events", "follow"),
    told("-s --summary", "-a lists all sockets"),
    told("-w --raw", "raw sockets are not shown"),
];

/// tcpdump and strace.
const WATCH: &[Flag] = &[
    taken("-f"),
    taken("-n"),
    taken("-t"),
    told_value("-i --interface", "watch sees all interfaces; leave -i out"),
    told_value(
        "-e --trace",
        "lagtrace sockets --trace --pid PID prints calls on sockets",
    ),
    told_value(
        "-w --write",
        "sudo lagtrace capture -w FILE tcp port PORT keeps packets",
    ),
    told_value("-c --count", "-d TIME ends the watch"),
];

/// traceroute and mtr.
const TRACEROUTE: &[Flag] = &[
    told_value(
        "-g --gateway",
        "source routes are obsolete: routers drop packets that have them (RFC 7126 §4.3, RFC 5095)",
    ),
    told_value(
        "-l --flowlabel",
        "the kernel labels each flow itself, and --paths tries several; mtr's -l is --format ndjson",
    ),
    told(
        "-r --report",
        "use -c N for mtr's -r, and --bypass-routing for traceroute's -r",
    ),
    told(
        "--back",
        "--format json shows the remaining TTL of each answer (reply_ttl)",
    ),
    told_value(
        "-F --filename",
        "for a file of targets, `xargs -n 1 lagtrace route <FILE`; for the largest packet, --mtu",
    ),
    told(
        "-U --dns-port",
        "use --method paris -p 53 for traceroute's -U, and --max-unknown for mtr's -U",
    ),
    told_value(
        "-B --bitpattern",
        "the content of a packet does not change its path; its length may: --size",
    ),
    taken("-e --mpls"),
    told(
        "-A --as-path-lookups",
        "--asn FILE shows the owners of the hops",
    ),
    told("-j", "--format json"),
    told("-C", "--format csv"),
    same("-P --remote-port", "port"),
];
