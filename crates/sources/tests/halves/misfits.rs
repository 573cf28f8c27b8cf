//! Requests and answers that do not fit.

use std::fs;
use std::path::Path;

use lagtrace_sources::kernel::{
    Answer, Ask, CallOptions, Calls, CallsRequest, Hooks, KernelError, Programs, Reply, Request,
    Sample, Watch, WatchRequest,
};

use crate::of_port;

/// A privileged half that gives the same answer to everything, with a descriptor that is no ring.
struct Odd(Reply, bool);

impl Ask for Odd {
    fn ask(&mut self, _: Request) -> Answer {
        let descriptor = || fs::File::open("/dev/null").unwrap().into();
        let descriptors = self.1.then(descriptor).into_iter().collect();
        Ok((self.0.clone(), descriptors))
    }
}

#[test]
fn answers_that_do_not_fit_are_errors() {
    let watching = |size| Reply::Watching {
        lacking: Hooks(u16::MAX),
        size,
    };
    let tracing = Reply::Tracing { size: 4096 };
    let watch = |reply: &Reply, has_ring| {
        Watch::start_by(Box::new(Odd(reply.clone(), has_ring)), &of_port(1)).unwrap_err()
    };
    let calls = |reply: &Reply, has_ring| {
        let odd = Box::new(Odd(reply.clone(), has_ring));
        Calls::start_by(odd, CallOptions::default()).unwrap_err()
    };
    let unfit = [
        watch(&Reply::Done, true),
        watch(&tracing, true),
        watch(&watching(4096), false),
        calls(&Reply::Done, true),
        calls(&watching(4096), true),
        calls(&tracing, false),
    ];
    for error in unfit {
        assert!(matches!(error, KernelError::OutOfTurn), "{error}");
    }
    let unreadable = [
        watch(&watching(4096), true),
        watch(&watching(4097), true),
        calls(&tracing, true),
    ];
    for error in unreadable {
        assert!(matches!(error, KernelError::Unreadable(_)), "{error}");
    }
}

/// Requests that need no program to be judged.
#[test]
fn what_does_not_fit_is_refused_and_harms_nothing() {
    let mut programs = Programs::default();
    let mut refused = |request| programs.serve(request).unwrap_err();
    let out_of_turn = [
        Request::Sample(Sample::default()),
        Request::DetachWatch,
        Request::CountWatch,
        Request::DetachCalls,
        Request::CountCalls,
    ];
    for request in out_of_turn {
        let error = refused(request);
        assert!(matches!(error, KernelError::OutOfTurn), "{error}");
    }
    if Path::new("/sys/kernel/btf/vmlinux").exists() {
        let error = refused(Request::StartCalls(CallsRequest {
            groups: vec![1; 1025],
            ..CallsRequest::default()
        }));
        assert!(matches!(error, KernelError::TooManyGroups(1025)), "{error}");
        let error = refused(Request::StartCalls(CallsRequest {
            pids: vec![1; 1025],
            ..CallsRequest::default()
        }));
        assert!(
            matches!(error, KernelError::TooManyProcesses(1025)),
            "{error}"
        );
        let error = refused(Request::StartWatch(WatchRequest {
            ports: vec![80; 17],
            ..WatchRequest::default()
        }));
        assert!(matches!(error, KernelError::TooManyPorts(17)), "{error}");
    }
    for request in [Request::EndWatch, Request::EndCalls] {
        let (reply, descriptors) = programs.serve(request).unwrap();
        assert_eq!((reply, descriptors.len()), (Reply::Done, 0));
    }
}
