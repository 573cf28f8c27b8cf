//! Rejection of flags that cannot be combined, and of flags of other tools that lagtrace does not
//! have, or has under another name.

use clap::error::Error;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::{Method, Options};
use crate::failure::{Failure, Result};

/// A flag of another tool.
struct Flag {
    short: Option<char>,
    long: &'static str,
    has_value: bool,
    /// The advice on what to do instead.
    hint: &'static str,
}

const fn flag(
    short: Option<char>,
    long: &'static str,
    has_value: bool,
    hint: &'static str,
) -> Flag {
    Flag {
        short,
        long,
        has_value,
        hint,
    }
}

const FLAGS: [Flag; 12] = [
    flag(
        Some('g'),
        "gateway",
        true,
        "source routes are obsolete: routers drop packets that have them (RFC 7126 §4.3, RFC 5095)",
    ),
    flag(
        Some('l'),
        "flowlabel",
        true,
        "the kernel labels each flow itself, and --paths tries several; mtr's -l is --format ndjson",
    ),
    flag(
        Some('r'),
        "report",
        false,
        "use -c N for mtr's -r, and --bypass-routing for traceroute's -r",
    ),
    flag(
        None,
        "back",
        false,
        "--format json shows the remaining TTL of each answer (reply_ttl)",
    ),
    flag(
        Some('F'),
        "filename",
        true,
        "for a file of targets, `xargs -n 1 lagtrace route <FILE`; for the largest packet, --mtu",
    ),
    flag(
        Some('U'),
        "dns-port",
        false,
        "use --method paris -p 53 for traceroute's -U, and --max-unknown for mtr's -U",
    ),
    flag(
        Some('B'),
        "bitpattern",
        true,
        "the content of a packet does not change its path; its length may: --size",
    ),
    flag(Some('e'), "mpls", false, "MPLS labels are always shown"),
    flag(
        Some('A'),
        "as-path-lookups",
        false,
        "--asn FILE shows the owners of the hops",
    ),
    flag(Some('j'), "json", false, "--format json"),
    flag(Some('C'), "csv", false, "--format csv"),
    flag(Some('P'), "remote-port", true, "-p PORT, or HOST:PORT"),
];

/// A flag of another tool that was given; hidden from the help.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Foreign(Option<usize>);

impl Args for Foreign {
    fn augment_args(command: Command) -> Command {
        FLAGS.iter().fold(command, |command, flag| {
            let action = if flag.has_value {
                ArgAction::Append
            } else {
                ArgAction::Count
            };
            let arg = Arg::new(flag.long)
                .long(flag.long)
                .hide(true)
                .action(action);
            command.arg(match flag.short {
                Some(short) => arg.short(short),
                None => arg,
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Foreign {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, Error> {
        let is_given = |flag: &Flag| {
            if flag.has_value {
                matches.contains_id(flag.long)
            } else {
                matches.get_count(flag.long) > 0
            }
        };
        Ok(Self(FLAGS.iter().position(is_given)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Foreign {
    fn check(self) -> Result<()> {
        let Some(flag) = self.0.and_then(|at| FLAGS.get(at)) else {
            return Ok(());
        };
        let name = match flag.short {
            Some(short) => format!("-{short} (--{})", flag.long),
            None => format!("--{}", flag.long),
        };
        refuse(&format!("{name} is not supported"), flag.hint)
    }
}

/// Rejects flags that would otherwise be ignored.
pub(super) fn check(options: &Options, port: Option<u16>) -> Result<()> {
    let (probes, look) = (&options.probes, &options.look);
    let method = probes.method();
    options.foreign.check()?;
    if probes.first_ttl > probes.max_hops {
        return refuse(
            "the first hop is greater than the last one",
            "give -f a number that is not greater than that of -m",
        );
    }
    let has_own_port = matches!(
        method,
        Method::TcpConnect | Method::InConnection | Method::Icmp
    );
    if probes.packets.source_port.is_some() && has_own_port {
        return refuse(
            "the source port cannot be set with this method",
            "--source-port works with tcp, udp, paris and dublin",
        );
    }
    if probes.packets.size.is_some() && matches!(method, Method::InConnection | Method::TcpConnect)
    {
        return refuse(
            "the packet size cannot be set with this method",
            "leave out --size, or use --method tcp",
        );
    }
    if look.paths > 1 && matches!(method, Method::Udp | Method::TcpConnect) {
        return refuse(
            "this method cannot show parallel paths, because each probe is a separate flow",
            "--paths works with tcp, paris, dublin, in-connection and icmp",
        );
    }
    // A port that is part of the target is accepted: an echo request goes to the target's host.
    if method == Method::Icmp && probes.port.is_some() {
        return refuse("ICMP echo requests have no port", "leave out -p");
    }
    if probes.port.is_some_and(|own| port != Some(own)) {
        return refuse(
            "the port is given twice, with the host and with -p",
            "leave out one of them",
        );
    }
    Ok(())
}

fn refuse(what: &str, hint: &str) -> Result<()> {
    Err(Failure::new(what.to_owned()).hint(hint))
}
