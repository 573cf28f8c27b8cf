//! The arguments of `lagtrace sockets`.

use std::time::Duration;

use clap::Args;
use lagtrace_sources::keeper::{Observed, ObservedCalls, Processes};
use lagtrace_sources::kernel::CallOptions;
use lagtrace_sources::socket::cgroup::{Group, GroupError, Groups};
use lagtrace_sources::socket::survey::{Choice, End, Protocols};

use crate::confinement::Needs;
use crate::duration;
use crate::failure::{Failure, Result};
use crate::lookup;
use crate::probe::{Ports, parse_ports};

const AFTER_HELP: &str = "\
TCP sockets are shown unless -u or -x say otherwise. Every user may see the
state of all sockets of this network namespace. The process and the options of
another user's socket need CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH, other
namespaces (containers) need CAP_SYS_ADMIN too. Without these, lagtrace shows
the rest and says what is missing. No process is stopped, traced or changed.

If both ends of a connection are on this host, the processes at both ends are
shown, even across namespaces.

The kernel settings that limit the sockets are listed below them. With -f, the
kernel's counters show which limits were reached in the meantime (!) and which
were not. A single sample cannot show this.

lagtrace sees data that the sender's own stack holds back, for example by
Nagle's algorithm, without any privilege: `-f -i 10ms -d 3s` says in how many
samples.

--trace prints each setsockopt, listen, shutdown, bind and connect as it
happens, in strace's format, with its connection. No process is stopped: BPF
programs at the kernel's tracepoints see the calls. `diagnose` and `watch` trace
the same calls and use them as evidence: who set an option, and whether before
the first data.

Tracing needs a kernel 5.11 or later with type information (BTF), and root
(CAP_BPF, CAP_PERFMON and CAP_DAC_READ_SEARCH; CAP_SYS_ADMIN too if tracefs is
not mounted). All kinds of sockets are traced unless -t, -u or -x say otherwise.
With -p or END, calls on a socket that has no address yet are printed when it
matches. Not visible: options set through io_uring, by 32-bit programs on a
64-bit kernel, or inherited from a listener. Keys (TLS, TCP-MD5) stay in the
kernel.

Examples:
  lagtrace sockets                          all TCP sockets
  sudo lagtrace sockets -u -p 53 -f         which program reads datagrams too slowly
  sudo lagtrace sockets /run/php/fpm.sock   both ends of a Unix socket
  sudo lagtrace sockets -p 8080             both ends of a service, with options
  sudo lagtrace sockets --name nginx -l     the listeners of a program
  lagtrace sockets 10.0.0.5:443 -f          changes, until Ctrl-C
  sudo lagtrace sockets --container 3f2a    sockets of a container, by its id
  lagtrace sockets --cgroup /system.slice/nginx.service
  sudo lagtrace sockets -p 8080 -f -i 10ms -d 3s
  sudo lagtrace sockets -p 8080 --format json | jq '.live[].options.nodelay'
  sudo lagtrace sockets --trace -p 8080     who sets which option, until Ctrl-C
  sudo lagtrace sockets --trace --name nginx -d 10s
  sudo lagtrace sockets --trace --pid 4711 --format ndjson | jq .syntax

Coming from ss and strace:
  ss -tan                sockets -a           ss -tlnp       sockets -l
  ss -tinmop sport = 80  sockets -p 80 -v     ss -E          sockets -f
  ss -uampn              sockets -u           ss -xap        sockets -x
  strace -f -tt -yy -e trace=setsockopt,listen,shutdown,bind,connect -p PID
                         sockets --trace --pid PID";

/// The options of `lagtrace sockets`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Only sockets with one of these ends, local or remote: ADDRESS, HOST:PORT, URL, or the /path
    /// or @name of a Unix socket
    #[arg(value_name = "END")]
    ends: Vec<String>,
    #[command(flatten)]
    kinds: Kinds,
    /// Only sockets with one of these ports, local or remote: 80,443,8000-8010
    #[arg(short, long, value_name = "PORTS", value_parser = parse_ports)]
    port: Option<Ports>,
    /// Only sockets of process PID
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// Only sockets of programs with this name, as in `ps -o comm`
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
    /// Only sockets of processes in this control group or below it, as in /proc/PID/cgroup or as a
    /// mounted path
    #[arg(long, value_name = "PATH")]
    cgroup: Vec<String>,
    /// Only sockets of the container whose id begins with ID (docker, podman, containerd,
    /// kubernetes)
    #[arg(long, value_name = "ID")]
    container: Vec<String>,
    /// Only listening sockets; with -u and -x, also sockets that accept datagrams from any sender
    #[arg(short, long, conflicts_with = "all")]
    listening: bool,
    /// Also closed connections in TIME-WAIT
    #[arg(short, long)]
    all: bool,
    #[command(flatten)]
    family: Family,
    /// Repeat, show changes, and print a summary on Ctrl-C
    #[arg(short, long, group = "lasting")]
    follow: bool,
    /// Print the calls that set up sockets as they happen
    #[arg(long, group = "lasting", conflicts_with_all = ["all", "interval"])]
    trace: bool,
    /// Time from one sample to the next; longer if a sample takes more than a tenth of it
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = duration::parse_positive, requires = "follow")]
    pub(super) interval: Duration,
    /// End after this long
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse_positive, requires = "lasting")]
    pub(super) duration: Option<Duration>,
}

impl Options {
    /// Returns what the survey needs although it is confined.
    pub(crate) fn needs(&self) -> Needs {
        let mut needs = Needs::network();
        needs.scope.processes = Processes::Sockets(self.pid.clone());
        needs.connect_to(Some(Vec::new()));
        if self.trace {
            let calls = ObservedCalls {
                ports: self.ports(),
                pids: self.pid.clone(),
                groups: self.asked_groups(),
                has_accepts: false,
            };
            needs.scope.observed = Observed::Named {
                watch: None,
                calls: Some(calls),
            };
        }
        needs
    }
}

/// The kinds of sockets.
#[derive(Debug, Args)]
struct Kinds {
    /// TCP sockets, in addition to -u or -x
    #[arg(short, long)]
    tcp: bool,
    /// UDP sockets
    #[arg(short, long)]
    udp: bool,
    /// Unix sockets
    #[arg(short = 'x', long)]
    unix: bool,
}

/// The address family.
#[derive(Debug, Args)]
struct Family {
    /// IPv4 only
    #[arg(short = '4', conflicts_with = "six")]
    four: bool,
    /// IPv6 only
    #[arg(short = '6')]
    six: bool,
}

impl Options {
    pub(super) fn is_following(&self) -> bool {
        self.follow
    }

    pub(super) fn is_tracing(&self) -> bool {
        self.trace
    }

    /// Returns the requested calls: their callers, and the sockets that they are made on.
    pub(super) fn calls(&self) -> Result<CallOptions> {
        if let Some(path) = self.ends.iter().find(|text| is_path(text)) {
            let refusal = anyhow::anyhow!("--trace cannot select by the path {path}");
            return Err(
                Failure::from(refusal).hint("select with --pid or --name, together with -x")
            );
        }
        Ok(CallOptions {
            choice: self.choice()?,
            is_any_kind: !(self.kinds.tcp || self.kinds.udp || self.kinds.unix),
            has_accepts: false,
        })
    }

    /// Returns the requested sockets. Names are resolved and groups are looked up.
    pub(super) fn choice(&self) -> Result<Choice> {
        let mut ends = Vec::new();
        for text in self.ends.iter().filter(|text| !is_path(text)) {
            let (host, port) = lookup::parse(text)?;
            // The duration of the lookup is irrelevant to the sockets, so its events are dropped.
            let addresses = lookup::addresses(&host, &mut Vec::new())?;
            ends.extend(addresses.into_iter().map(|address| End { address, port }));
        }
        let paths = self.ends.iter().filter(|text| is_path(text));
        Ok(Choice {
            protocols: self.protocols(),
            paths: paths.cloned().collect(),
            ports: self.ports(),
            ends,
            pids: self.pid.clone(),
            names: self.name.clone(),
            groups: self.groups()?,
            listening: self.listening,
            all_states: self.all,
            is_v6: (self.family.four || self.family.six).then_some(self.family.six),
        })
    }

    /// Returns the requested protocols. A path selects Unix sockets even without -x.
    fn protocols(&self) -> Protocols {
        let unix = self.kinds.unix || self.ends.iter().any(|text| is_path(text));
        let is_end = |text: &String| !is_path(text);
        let others = self.kinds.udp || unix && !self.ends.iter().any(is_end);
        Protocols {
            tcp: self.kinds.tcp || !others,
            udp: self.kinds.udp,
            unix,
        }
    }

    fn ports(&self) -> Vec<u16> {
        self.port.clone().map(|ports| ports.0).unwrap_or_default()
    }

    fn asked_groups(&self) -> Vec<Group> {
        let cgroups = self.cgroup.iter().cloned().map(Group::Cgroup);
        let containers = self.container.iter().cloned().map(Group::Container);
        cgroups.chain(containers).collect()
    }

    fn groups(&self) -> Result<Option<Groups>> {
        let asked = self.asked_groups();
        if asked.is_empty() {
            return Ok(None);
        }
        Groups::find(&asked).map(Some).map_err(|error| {
            let hint = match error {
                GroupError::NoCgroup(_) => {
                    "give the path after `0::` in /proc/PID/cgroup, or the mounted path; \
                     `systemd-cgls` lists control groups"
                }
                GroupError::NoContainer(_) => {
                    "`docker ps`, `podman ps` and `crictl ps` list the ids of running containers"
                }
                GroupError::ManyContainers { .. } => "give more digits of the id",
            };
            Failure::from(error).hint(hint)
        })
    }

    /// Returns the selection of sockets in words, for the report.
    pub(super) fn subject(&self) -> String {
        let ports = self.port.iter().flat_map(|ports| &ports.0);
        let words = self
            .ends
            .iter()
            .cloned()
            .chain(ports.map(|port| format!(":{port}")))
            .chain(self.pid.iter().map(|pid| format!("[{pid}]")))
            .chain(self.name.iter().cloned())
            .chain(self.cgroup.iter().cloned())
            .chain(self.container.iter().cloned());
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Returns true if the text is the name of a Unix socket.
fn is_path(text: &str) -> bool {
    text.starts_with(['/', '@'])
}
