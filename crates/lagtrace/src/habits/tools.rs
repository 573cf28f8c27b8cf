//! The commands that do here what other tools do, with the arguments that map.

use std::borrow::Cow;

use super::carried::{
    AB, CURL, Carried, H2LOAD, HPING, IPERF, KnownFlags, MTR, OHA, PING, SENDING, STRACE, TCPDUMP,
    TRACEROUTE, WRK,
};
use super::expression::Selected;

/// Returns the command to type instead of another tool with these arguments; `None` if the word is
/// not the name of one.
pub(super) fn instead(tool: &str, words: &[String]) -> Option<String> {
    let instead = match tool {
        "ping" | "ping6" | "fping" => probe(&GivenFlags::new(words, &PING)),
        "hping3" | "hping" | "nping" => probe(&GivenFlags::new(words, &HPING)),
        "traceroute" | "tracert" | "tcptraceroute" | "tracepath" => traceroute(tool, words),
        "mtr" => mtr(&GivenFlags::new(words, &MTR)),
        "curl" | "wget" => curl(&GivenFlags::new(words, &CURL)),
        "wrk" | "wrk2" => load(&GivenFlags::new(words, &WRK)),
        "oha" | "hey" => oha(tool, &GivenFlags::new(words, &OHA)),
        "ab" => load(&GivenFlags::new(words, &AB)),
        "h2load" => load(&GivenFlags::new(words, &H2LOAD)),
        "tcpdump" | "tshark" | "dumpcap" => capture(&GivenFlags::new(words, &TCPDUMP)),
        "wireshark" => wireshark(&GivenFlags::new(words, &TCPDUMP)),
        "ss" | "netstat" => sockets(words),
        "strace" | "ltrace" => strace(words),
        "iperf" | "iperf3" => iperf(words),
        _ => return None,
    };
    Some(instead)
}

/// The arguments of another tool.
struct GivenFlags {
    flags: Vec<(String, Option<String>)>,
    operands: Vec<String>,
    carried: Carried,
}

impl GivenFlags {
    /// Reads the arguments as getopt does: clusters of letters, values beside or behind them.
    fn new(words: &[String], flags: &KnownFlags) -> Self {
        let takes = |flag: &str| flags.valued.split_whitespace().any(|it| it == flag);
        let mut given = Self {
            flags: Vec::new(),
            operands: Vec::new(),
            carried: flags.carried,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if let Some((long, value)) = word.split_once('=').filter(|_| word.starts_with("--")) {
                given.flags.push((long.to_owned(), Some(value.to_owned())));
            } else if word.starts_with("--") {
                let value = takes(word).then(|| words.next().cloned()).flatten();
                given.flags.push((word.clone(), value));
            } else if let Some(letters) = word.strip_prefix('-').filter(|it| !it.is_empty()) {
                for (at, letter) in letters.char_indices() {
                    let flag = format!("-{letter}");
                    if !takes(&flag) {
                        given.flags.push((flag, None));
                        continue;
                    }
                    let beside = letters.get(at + letter.len_utf8()..).unwrap_or_default();
                    let value = match beside {
                        "" => words.next().cloned(),
                        beside => Some(beside.to_owned()),
                    };
                    given.flags.push((flag, value));
                    break;
                }
            } else {
                given.operands.push(word.clone());
            }
        }
        given
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|(name, _)| name == flag)
    }

    fn value(&self, flag: &str) -> Option<&str> {
        let (_, value) = self.flags.iter().find(|(name, _)| name == flag)?;
        value.as_deref()
    }

    /// Returns the first operand, or a word that stands for it.
    fn operand<'a>(&'a self, otherwise: &'a str) -> Cow<'a, str> {
        self.operands
            .first()
            .map_or(otherwise.into(), |it| quoted(it))
    }

    /// Returns a command with the flags that are carried over behind it.
    fn with(&self, command: String) -> String {
        let forms = self.flags.iter().filter_map(|(flag, value)| {
            let (_, form) = self.carried.iter().find(|(name, _)| name == flag)?;
            let value = value.as_deref().unwrap_or_default();
            Some(form.replace("{}", &quoted(value)))
        });
        forms.fold(command, |command, form| format!("{command} {form}"))
    }
}

/// Returns a word as a shell reads it.
fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-[]".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''")).into()
    }
}

fn probe(given: &GivenFlags) -> String {
    let host = given.operand("HOST");
    match given.value("-p") {
        Some(port) if given.has("-S") || given.has("-2") => {
            given.with(format!("lagtrace probe {host}:{}", quoted(port)))
        }
        _ => given.with(format!("lagtrace probe {host}")),
    }
}

fn traceroute(tool: &str, words: &[String]) -> String {
    let given = GivenFlags::new(words, &TRACEROUTE);
    let host = given.operand("HOST");
    match given.operands.get(1) {
        Some(port) if tool == "tcptraceroute" => {
            given.with(format!("lagtrace route {host}:{}", quoted(port)))
        }
        _ => given.with(format!("lagtrace route {host}")),
    }
}

fn mtr(given: &GivenFlags) -> String {
    let is_report = given.has("-r") || given.has("--report");
    let rounds = match (given.has("-c"), is_report) {
        (true, _) => "",
        (false, true) => " -c 10",
        (false, false) => " --continuous",
    };
    given.with(format!("lagtrace route {}{rounds}", given.operand("HOST")))
}

fn curl(given: &GivenFlags) -> String {
    let url = match given.value("--url") {
        Some(url) => quoted(url),
        None => given.operand("URL"),
    };
    let form = given.value("-w").or(given.value("--write-out"));
    let command = if form.is_some_and(|form| form.contains("%{time")) {
        format!("lagtrace probe -m http {url}")
    } else {
        format!("lagtrace diagnose {url}")
    };
    let named = given.flags.iter().map(|(flag, _)| flag.as_str());
    let named = named.filter(|flag| SENDING.contains(flag));
    // Here, -d is the duration.
    let named = named.map(|flag| if flag == "-d" { "--data" } else { flag });
    let mut sending: Vec<&str> = named.collect();
    sending.dedup();
    match sending.as_slice() {
        [] => command,
        flags => format!("{command} (and your {})", flags.join(", ")),
    }
}

fn load(given: &GivenFlags) -> String {
    given.with(format!("lagtrace load {}", given.operand("URL")))
}

fn oha(tool: &str, given: &GivenFlags) -> String {
    let command = load(given);
    match given.value("-q") {
        Some(rate) if tool == "oha" => format!("{command} --rate {}", quoted(rate)),
        _ => command,
    }
}

fn capture(given: &GivenFlags) -> String {
    if let Some(file) = given.value("-r") {
        return format!("lagtrace analyze {}", quoted(file));
    }
    let filter = given.value("-f").map(str::to_owned);
    let filter = filter.unwrap_or_else(|| given.operands.join(" "));
    let command = given.with("sudo lagtrace capture".to_owned());
    if filter.is_empty() {
        command
    } else {
        format!("{command} {}", quoted_filter(&filter))
    }
}

/// Returns a filter, which may consist of several words.
fn quoted_filter(filter: &str) -> String {
    let words = filter.split(' ').map(quoted);
    if words.clone().any(|word| word.starts_with('\'')) {
        quoted(filter).into_owned()
    } else {
        filter.to_owned()
    }
}

fn wireshark(given: &GivenFlags) -> String {
    match given
        .value("-r")
        .or(given.operands.first().map(String::as_str))
    {
        Some(file) => format!("lagtrace view {}", quoted(file)),
        None => capture(given),
    }
}

fn sockets(words: &[String]) -> String {
    let selected = Selected::of(words);
    let mut command = "sudo lagtrace sockets".to_owned();
    for word in selected.words {
        command = format!("{command} {}", quoted(&word));
    }
    command
}

fn strace(words: &[String]) -> String {
    let given = GivenFlags::new(words, &STRACE);
    let pid = given.value("-p").unwrap_or("PID");
    let is_set_up = given
        .value("-e")
        .is_some_and(|calls| calls.contains("sockopt"));
    if is_set_up {
        format!("sudo lagtrace sockets --trace --pid {}", quoted(pid))
    } else {
        format!("sudo lagtrace watch --pid {}", quoted(pid))
    }
}

fn iperf(words: &[String]) -> String {
    let given = GivenFlags::new(words, &IPERF);
    let host = given.value("-c").unwrap_or("HOST");
    let host = quoted(host);
    format!(
        "lagtrace probe {host}:80 --loaded http://{host}/ (queues under load; for bytes per second alone, iperf)"
    )
}
