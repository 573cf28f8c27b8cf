//! The flags of other tools, and those that lagtrace has in another form.

/// Flags of a tool that are carried over, each with its form here; `{}` stands for its value.
pub(super) type Carried = &'static [(&'static str, &'static str)];

/// The flags of a tool.
pub(super) struct KnownFlags {
    /// Flags that take a value.
    pub(super) valued: &'static str,
    pub(super) carried: Carried,
}

pub(super) const WRK: KnownFlags = KnownFlags {
    valued: "-c -d -t -s -H -R -T --connections --duration --threads --script --header --rate \
             --timeout",
    carried: &[
        ("-t", "-t {}"),
        ("--threads", "-t {}"),
        ("-c", "-c {}"),
        ("--connections", "-c {}"),
        ("-d", "-d {}"),
        ("--duration", "-d {}"),
        ("-R", "--rate {}"),
        ("--rate", "--rate {}"),
        ("-H", "-H {}"),
        ("--header", "-H {}"),
    ],
};
/// oha and hey; hey's -q is a rate for each connection, so that it is not carried over.
pub(super) const OHA: KnownFlags = KnownFlags {
    valued: "-n -c -p -z -q -w -o -m -H -t -T -A -d -D -a -x",
    carried: &[
        ("-n", "-n {}"),
        ("-c", "-c {}"),
        ("-z", "-d {}"),
        ("-m", "-X {}"),
        ("-H", "-H {}"),
        ("-D", "--body {}"),
    ],
};
pub(super) const AB: KnownFlags = KnownFlags {
    valued: "-n -c -t -s -b -B -p -u -T -C -H -A -P -X -g -e -z -y -x -v -m",
    carried: &[
        ("-n", "-n {}"),
        ("-c", "-c {}"),
        ("-t", "-d {}"),
        ("-H", "-H {}"),
        ("-m", "-X {}"),
        ("-p", "-X POST --body {}"),
    ],
};
pub(super) const H2LOAD: KnownFlags = KnownFlags {
    valued: "-n -c -t -m -i -H -D -d -r -w -W -T",
    carried: &[
        ("-n", "-n {}"),
        ("-c", "-c {}"),
        ("-t", "-t {}"),
        ("-D", "-d {}"),
        ("-m", "--http2 --streams {}"),
        ("-H", "-H {}"),
        ("-d", "-X POST --body {}"),
        ("-i", "--urls {}"),
    ],
};
pub(super) const PING: KnownFlags = KnownFlags {
    valued: "-c -i -w -W -s -t -I -M -p -Q -S -l -m",
    carried: &[
        ("-c", "-c {}"),
        ("-i", "-i {}"),
        ("-W", "-W {}"),
        ("-s", "--size {}"),
        ("-t", "--ttl {}"),
        ("-I", "-I {}"),
        ("-4", "-4"),
        ("-6", "-6"),
    ],
};
pub(super) const HPING: KnownFlags = KnownFlags {
    valued: "-c -i -p -s -d -t -a -w -o -I -E -M -L -N -C -K -H",
    carried: &[
        ("-c", "-c {}"),
        ("-i", "-i {}"),
        ("-s", "-s {}"),
        ("-d", "--size {}"),
        ("-t", "--ttl {}"),
        ("-I", "-I {}"),
        ("-2", "-m udp"),
    ],
};
pub(super) const TRACEROUTE: KnownFlags = KnownFlags {
    valued: "-f -m -p -q -w -z -i -s -g -t -l -N -h",
    carried: &[
        ("-T", "-T"),
        ("-I", "-I"),
        ("-n", "-n"),
        ("-d", "-n"),
        ("-p", "-p {}"),
        ("-f", "-f {}"),
        ("-m", "-m {}"),
        ("-h", "-m {}"),
        ("-q", "--probes {}"),
        ("-w", "-w {}"),
        ("-s", "-s {}"),
        ("-i", "-i {}"),
    ],
};
pub(super) const MTR: KnownFlags = KnownFlags {
    valued: "-c -i -P -m -f -s -a -I -Q -B -M -L -Z -G -U -y -F",
    carried: &[
        ("-c", "-c {}"),
        ("-T", "-T"),
        ("-P", "-p {}"),
        ("-n", "-n"),
        ("-m", "-m {}"),
        ("-f", "-f {}"),
        ("-i", "-z {}"),
        ("-s", "--size {}"),
    ],
};
pub(super) const TCPDUMP: KnownFlags = KnownFlags {
    valued: "-i -w -r -c -s -f -Y -R -T -e -z -a -b -G -C -W -d -o -E -y -F -B -j -M -m -V -Z",
    carried: &[("-i", "-i {}"), ("-w", "-w {}"), ("-c", "-c {}")],
};
/// curl's flags with a value. Only the flags are named again: their values may be secret.
pub(super) const CURL: KnownFlags = KnownFlags {
    valued: "-X -H -d -F -u -b -c -o -w -m -A -e -x -T -E -K -r -C -D -y -Y -z --request --header \
             --data --data-raw --data-binary --data-urlencode --data-ascii --json --form --user \
             --cookie --cookie-jar --output --write-out --max-time --connect-timeout --user-agent \
             --referer --proxy --upload-file --resolve --connect-to --unix-socket --cert --key \
             --cacert --url --retry --limit-rate --max-redirs --interface --dump-header --config",
    carried: &[],
};
/// curl's flags that change what is sent.
pub(super) const SENDING: &[&str] = &[
    "-X",
    "-H",
    "-d",
    "-F",
    "-u",
    "-b",
    "-A",
    "-e",
    "-G",
    "-I",
    "-L",
    "-T",
    "-E",
    "-k",
    "-x",
    "--request",
    "--header",
    "--data",
    "--data-raw",
    "--data-binary",
    "--data-urlencode",
    "--json",
    "--form",
    "--user",
    "--cookie",
    "--user-agent",
    "--referer",
    "--get",
    "--head",
    "--location",
    "--resolve",
    "--connect-to",
    "--unix-socket",
    "--cert",
    "--key",
    "--cacert",
    "--insecure",
    "--proxy",
    "--http2",
    "--http2-prior-knowledge",
    "--compressed",
];

pub(super) const STRACE: KnownFlags = KnownFlags {
    valued: "-p -e -o -s -P -a -b -E -u -O -S",
    carried: &[],
};
pub(super) const IPERF: KnownFlags = KnownFlags {
    valued: "-c -p -t -P -b -i -n -w -l -B",
    carried: &[],
};
