//! The two halves in two threads of the test, and the way between them.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use lagtrace_sources::kernel::{
    Answer, Ask, CallOptions, Calls, KernelError, Programs, Reply, Request, Watch,
};
use rustix::fs::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::of_port;

/// The user and group `nobody`.
const NOBODY: u32 = 65_534;

/// A message to the privileged half: a request, and where the answer goes to.
type Message = (Vec<u8>, Sender<(Vec<u8>, Vec<OwnedFd>)>);

/// The way to the privileged half in another thread. Requests and answers pass as bytes.
#[derive(Clone)]
pub(crate) struct Way(Sender<Message>);

impl Ask for Way {
    fn ask(&mut self, request: Request) -> Answer {
        let gone = || KernelError::Unanswered(io::ErrorKind::BrokenPipe.into());
        let (answer, answers) = channel();
        let request = postcard::to_stdvec(&request).unwrap();
        self.0.send((request, answer)).map_err(|_| gone())?;
        let (bytes, descriptors) = answers.recv().map_err(|_| gone())?;
        let reply: Result<Reply, KernelError> = postcard::from_bytes(&bytes).unwrap();
        reply.map(|reply| (reply, descriptors))
    }
}

/// Starts the privileged half in a thread. The thread ends with the last way to it, or with the
/// request for which `is_last` is true, and returns the requests.
pub(crate) fn privileged(is_last: fn(&Request) -> bool) -> (Way, JoinHandle<Vec<Request>>) {
    let (way, messages) = channel::<Message>();
    let half = thread::spawn(move || {
        let mut programs = Programs::default();
        let mut served = Vec::new();
        for (bytes, answer) in messages {
            let request: Request = postcard::from_bytes(&bytes).unwrap();
            served.push(request.clone());
            if is_last(&request) {
                break;
            }
            let (reply, descriptors) = match programs.serve(request) {
                Ok((reply, descriptors)) => (Ok(reply), descriptors),
                Err(error) => (Err(error), Vec::new()),
            };
            let bytes = postcard::to_stdvec::<Result<Reply, KernelError>>(&reply).unwrap();
            answer.send((bytes, descriptors)).unwrap();
        }
        served
    });
    (Way(way), half)
}

/// Runs `body` in a thread without any privilege: as nobody, without capabilities, and without the
/// system calls that the privileged half needs.
pub(crate) fn unprivileged<T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    thread::spawn(move || {
        let group = Gid::from_raw(NOBODY);
        rustix::thread::set_thread_groups(&[]).unwrap();
        rustix::thread::set_thread_res_gid(group, group, group).unwrap();
        let user = Uid::from_raw(NOBODY);
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        let none = CapabilitySet::empty();
        let none = CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        };
        rustix::thread::set_capabilities(None, none).unwrap();
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
        assert_refused();
        seccompiler::apply_filter(&without_bpf()).unwrap();
        body()
    })
}

/// Checks that this thread cannot load programs.
#[track_caller]
fn assert_refused() {
    let refused = Watch::start(&of_port(1)).unwrap_err();
    assert!(matches!(refused, KernelError::NotPermitted(_)), "{refused}");
    Calls::start(CallOptions::default()).unwrap_err();
}

/// Returns a filter of system calls that ends the thread if it uses the kernel's programs. An error
/// would not do: the reader ignores some errors. A thread that is ended leaves its channels open.
fn without_bpf() -> BpfProgram {
    let calls = [libc::SYS_bpf, libc::SYS_perf_event_open];
    let filter = SeccompFilter::new(
        calls.map(|call| (call, Vec::new())).into(),
        SeccompAction::Allow,
        SeccompAction::KillThread,
        std::env::consts::ARCH.try_into().unwrap(),
    );
    filter.unwrap().try_into().unwrap()
}
