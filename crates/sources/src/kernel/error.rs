//! The reasons why the kernel cannot be watched.

mod portable;

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{MAX_GROUPS, MAX_PIDS, MAX_PORTS};
use crate::open_files::TooFewFiles;

/// A reason why the kernel cannot be watched. It can be sent to another process.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum KernelError {
    /// The kernel does not allow this user to watch.
    #[error("watching the kernel is not permitted")]
    NotPermitted(
        #[source]
        #[serde(with = "portable")]
        io::Error,
    ),
    /// The kernel provides no type information (BTF).
    #[error("this kernel has no type information (no {})", .0.display())]
    NoTypes(PathBuf),
    /// The kernel rejected the programs that are needed.
    #[error("the kernel did not accept {program}")]
    Refused {
        /// The rejected program, or its rejected part.
        program: String,
        /// The error from the kernel.
        #[source]
        #[serde(with = "portable")]
        source: io::Error,
    },
    /// The limit of open files leaves no room for the programs and their maps.
    #[error("the programs that observe the kernel cannot be loaded")]
    TooFewFiles(#[from] TooFewFiles),
    /// Neither a port nor a process is given.
    #[error("neither a port nor a process was given")]
    NothingAsked,
    /// More ports than the maximum.
    #[error("{0} ports are too many; at most {MAX_PORTS}")]
    TooManyPorts(usize),
    /// The cgroup does not exist.
    #[error("no cgroup {} (version 2)", .path.display())]
    NoCgroup {
        /// The requested path.
        path: PathBuf,
    },
    /// The process does not exist.
    #[error("no process {0}")]
    NoProcess(u32),
    /// More processes than the maximum.
    #[error("{0} processes are too many; at most {MAX_PIDS}")]
    TooManyProcesses(usize),
    /// More cgroups than the maximum.
    #[error("{0} cgroups are too many; at most {MAX_GROUPS}")]
    TooManyGroups(usize),
    /// The user may not read the list of tracepoints.
    #[error("reading the kernel's list of tracepoints is not permitted")]
    TracepointsNotPermitted(
        #[source]
        #[serde(with = "portable")]
        io::Error,
    ),
    /// The kernel restricts performance events, to which programs on tracepoints are attached.
    #[error("kernel.perf_event_paranoid = {level} does not permit programs on tracepoints")]
    EventsRestricted {
        /// The value of the kernel's setting.
        level: u32,
        /// The error from the kernel.
        #[source]
        #[serde(with = "portable")]
        source: io::Error,
    },
    /// The kernel has no tracepoints for system calls.
    #[error("this kernel has no tracepoints of system calls")]
    NoTracepoints(
        #[source]
        #[serde(with = "portable")]
        io::Error,
    ),
    /// The request does not fit what the privileged half does at the moment, or its answer does not
    /// fit the request.
    #[error("the privileged half and the half that reads do not agree on what is being done")]
    OutOfTurn,
    /// The privileged half did not answer.
    #[error("the process with the privileges did not answer")]
    Unanswered(
        #[source]
        #[serde(with = "portable")]
        io::Error,
    ),
    /// The records of the programs cannot be read.
    #[error("reading the records of the kernel's programs failed")]
    Unreadable(
        #[source]
        #[serde(with = "portable")]
        io::Error,
    ),
    /// The build lacks the feature `live`.
    #[error("this build cannot watch the kernel: it was made without the feature `live`")]
    LeftOut,
}

impl KernelError {
    /// Returns advice on how to resolve the error.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NotPermitted(_) => {
                "run it as root, or give it CAP_BPF and CAP_PERFMON (in containers the host's): \
                 sudo setcap cap_bpf,cap_perfmon,cap_net_raw+ep $(command -v lagtrace)"
            }
            Self::NoTypes(_) => {
                "this needs a kernel 5.11 or later with CONFIG_DEBUG_INFO_BTF; `lagtrace capture` \
                 works without it"
            }
            Self::Refused { .. } | Self::Unreadable(_) => "`lagtrace capture` works without it",
            Self::TooFewFiles(reason) => {
                let other = "`lagtrace capture` needs fewer files";
                return Some(format!("{}, or use another way: {other}", reason.hint()));
            }
            Self::NothingAsked => "say what to watch: -p PORT, --pid PID or --cgroup PATH",
            Self::TooManyPorts(_) => "watch by --pid instead",
            Self::TooManyProcesses(_) => "select them with --name or --cgroup instead",
            Self::TooManyGroups(_) => "select a cgroup that contains them",
            Self::TracepointsNotPermitted(_) => {
                "run it as root, or give it CAP_BPF, CAP_PERFMON and CAP_DAC_READ_SEARCH (the files \
                 of tracefs are root's), and CAP_SYS_ADMIN if tracefs is not mounted: sudo \
                 setcap cap_bpf,cap_perfmon,cap_dac_read_search+ep $(command -v lagtrace)"
            }
            Self::EventsRestricted { .. } => {
                "run it as root, or give it CAP_SYS_ADMIN in addition to CAP_BPF and CAP_PERFMON \
                 (with this value, Debian's and Ubuntu's kernels require it), or allow it until the \
                 next boot: sysctl kernel.perf_event_paranoid=2"
            }
            Self::NoTracepoints(_) => {
                "this needs a kernel with CONFIG_FTRACE_SYSCALLS; `lagtrace sockets -f` shows the \
                 current options without it"
            }
            Self::NoProcess(_) => "use the PID in this host's own namespace, from `pgrep NAME`",
            Self::NoCgroup { .. } => "a path as in /proc/PID/cgroup after `0::`",
            Self::OutOfTurn | Self::Unanswered(_) => return None,
            Self::LeftOut => "build it with --features live",
        };
        Some(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    /// Sends an error to another process and back.
    fn sent(error: &KernelError) -> KernelError {
        let bytes = postcard::to_stdvec(error).expect("every error can be sent");
        postcard::from_bytes(&bytes).expect("the bytes of an error")
    }

    fn said(error: &KernelError) -> (String, Option<String>, Option<String>) {
        let source = error.source().map(ToString::to_string);
        (error.to_string(), source, error.hint())
    }

    #[test]
    fn an_error_says_the_same_in_another_process() {
        let other = |text: &str| io::Error::new(io::ErrorKind::NotFound, text);
        let errors = [
            KernelError::NotPermitted(io::ErrorKind::PermissionDenied.into()),
            KernelError::NoTypes("/sys/kernel/btf/vmlinux".into()),
            KernelError::Refused {
                program: "a program".to_owned(),
                source: other("no such hook"),
            },
            KernelError::TooFewFiles(TooFewFiles::OfProcess {
                limit: 32,
                needed: 64,
            }),
            KernelError::NothingAsked,
            KernelError::TooManyPorts(17),
            KernelError::NoCgroup { path: "/a".into() },
            KernelError::NoProcess(7),
            KernelError::TooManyProcesses(2000),
            KernelError::TooManyGroups(2000),
            KernelError::TracepointsNotPermitted(io::Error::from_raw_os_error(libc::EACCES)),
            KernelError::EventsRestricted {
                level: 3,
                source: io::Error::from_raw_os_error(libc::EACCES),
            },
            KernelError::NoTracepoints(io::ErrorKind::InvalidData.into()),
            KernelError::OutOfTurn,
            KernelError::Unanswered(io::ErrorKind::UnexpectedEof.into()),
            KernelError::Unreadable(io::Error::from_raw_os_error(libc::EINVAL)),
            KernelError::LeftOut,
        ];
        for error in &errors {
            assert_eq!(said(&sent(error)), said(error));
        }
    }

    #[test]
    fn the_kind_of_a_failure_survives() {
        let number = io::Error::from_raw_os_error(libc::EPERM);
        let kinds = [
            (number, io::ErrorKind::PermissionDenied),
            (io::ErrorKind::NotFound.into(), io::ErrorKind::NotFound),
            (
                io::ErrorKind::InvalidData.into(),
                io::ErrorKind::InvalidData,
            ),
            (io::Error::other("else"), io::ErrorKind::Other),
        ];
        for (source, kind) in kinds {
            let KernelError::NotPermitted(source) = sent(&KernelError::NotPermitted(source)) else {
                panic!("another error arrived");
            };
            assert_eq!(source.kind(), kind);
        }
    }
}
