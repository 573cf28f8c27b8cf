//! eBPF programs: they observe what the command line names, and nothing else.

use std::net::TcpListener;

use super::{Asked, listener, of_servers};
use crate::keeper::{Observed, ObservedCalls, Processes, Scope};
use crate::kernel::{
    CallOptions, CallsRequest, Request as Asks, Sample, WatchOptions, WatchRequest,
};
use crate::privilege::NetworkNamespace;
use crate::privilege::message::{Reply, Request};
use crate::socket::cgroup::{Group, Groups};
use crate::socket::survey::Choice;

/// Returns true if the keeper carries out the request, as far as the kernel can.
fn is_carried_out(asked: &Asked, asks: Asks) -> bool {
    let bytes = postcard::to_stdvec(&asks).expect("a request");
    match asked.ask(&Request::Kernel(bytes)).0 {
        Reply::Bytes(_) => true,
        Reply::Refused(_) => false,
        reply => panic!("{asks:?}: {reply:?}"),
    }
}

fn watches(asked: &Asked, request: &WatchRequest) -> bool {
    let is_watched = is_carried_out(asked, Asks::StartWatch(request.clone()));
    is_carried_out(asked, Asks::EndWatch);
    is_watched
}

fn traces(asked: &Asked, request: &CallsRequest) -> bool {
    let is_traced = is_carried_out(asked, Asks::StartCalls(request.clone()));
    is_carried_out(asked, Asks::EndCalls);
    is_traced
}

fn of_named(watch: WatchOptions, calls: ObservedCalls) -> Asked {
    Asked::new(Scope {
        observed: Observed::Named {
            watch: Some(Box::new(watch)),
            calls: Some(calls),
        },
        processes: Processes::NamespaceOf(std::process::id()),
        ..Scope::default()
    })
}

#[test]
fn diagnose_watches_the_servers_of_its_ports_without_payload() {
    let (socket, port, find) = listener();
    let own = NetworkNamespace::own().expect("our own").id();
    let own = u32::try_from(own).expect("numbers of namespaces have 32 bits");
    let asked = Asked::new(Scope {
        observed: Observed::Servers,
        processes: Processes::Servers(vec![port]),
        ..Scope::default()
    });
    let wanted = WatchRequest {
        ports: vec![port],
        namespace: Some(own),
        ..WatchRequest::default()
    };
    let calls = CallsRequest {
        ports: vec![port],
        has_accepts: true,
        ..CallsRequest::default()
    };
    // No server has been found yet.
    assert!(!watches(&asked, &wanted) && !traces(&asked, &calls));
    asked.ask(&find);
    assert!(watches(&asked, &wanted) && traces(&asked, &calls));
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let other = other.local_addr().expect("bound").port();
    let own_process = Some(std::process::id());
    for ports in [vec![other], vec![port, other], vec![]] {
        let request = WatchRequest {
            ports: ports.clone(),
            ..wanted.clone()
        };
        assert!(!watches(&asked, &request), "{request:?}");
        let with_pid = WatchRequest {
            pid: own_process,
            ..request
        };
        assert!(!watches(&asked, &with_pid), "{with_pid:?}");
        let request = CallsRequest {
            ports,
            ..calls.clone()
        };
        assert!(!traces(&asked, &request), "{request:?}");
    }
    let with_payload = WatchRequest {
        keeps_payload: true,
        ..wanted.clone()
    };
    assert!(!watches(&asked, &with_payload));
    for namespace in [None, Some(own - 1)] {
        let elsewhere = WatchRequest {
            namespace,
            ..wanted.clone()
        };
        assert!(!watches(&asked, &elsewhere), "{namespace:?}");
    }
    drop(socket);
    asked.end();
}

#[test]
fn a_watch_is_that_of_the_command_line() {
    let pid = std::process::id();
    let named = WatchOptions {
        ports: vec![80, 443],
        pid: Some(pid),
        ..WatchOptions::default()
    };
    let asked = of_named(named, ObservedCalls::default());
    let id = NetworkNamespace::own().expect("our own").id();
    let wanted = WatchRequest {
        ports: vec![80, 443],
        pid: Some(pid),
        namespace: u32::try_from(id).ok(),
        slow_from: Some(1),
        ..WatchRequest::default()
    };
    // The namespace counts once it has been opened as the one that is named.
    assert!(!watches(&asked, &wanted));
    asked.ask(&Request::NamespaceOf(pid));
    assert!(watches(&asked, &wanted));
    let others = [
        WatchRequest {
            ports: vec![80],
            ..wanted.clone()
        },
        WatchRequest {
            ports: vec![],
            ..wanted.clone()
        },
        WatchRequest {
            pid: None,
            ..wanted.clone()
        },
        WatchRequest {
            pid: Some(1),
            ..wanted.clone()
        },
        WatchRequest {
            cgroup: Some(1),
            ..wanted.clone()
        },
        WatchRequest {
            namespace: None,
            ..wanted.clone()
        },
        WatchRequest {
            namespace: Some(1),
            ..wanted.clone()
        },
        WatchRequest {
            keeps_payload: true,
            ..wanted
        },
    ];
    for other in others {
        assert!(!watches(&asked, &other), "{other:?}");
    }
    asked.end();
}

#[test]
fn a_trace_is_that_of_the_command_line() {
    let group = Group::Cgroup("/".to_owned());
    let named = ObservedCalls {
        ports: vec![80],
        pids: vec![std::process::id()],
        groups: vec![group.clone()],
        has_accepts: false,
    };
    let asked = of_named(WatchOptions::default(), named);
    // The worker finds the group as the keeper does. If this host has no groups of version 2, the
    // kernel cannot select by them.
    let found = Groups::find(&[group]).expect("the root of all groups");
    let choice = Choice {
        ports: vec![80],
        pids: vec![std::process::id()],
        groups: Some(found),
        ..Choice::default()
    };
    let wanted = CallsRequest::of(&CallOptions {
        choice,
        ..CallOptions::default()
    });
    assert!(traces(&asked, &wanted));
    let others = [
        CallsRequest {
            ports: vec![],
            ..wanted.clone()
        },
        CallsRequest {
            pids: vec![],
            ..wanted.clone()
        },
        CallsRequest {
            pids: vec![1],
            ..wanted.clone()
        },
        CallsRequest {
            has_accepts: true,
            ..wanted.clone()
        },
        CallsRequest {
            groups: vec![u64::MAX],
            ..wanted.clone()
        },
        CallsRequest {
            groups: [wanted.groups.clone(), vec![u64::MAX]].concat(),
            ..wanted.clone()
        },
        CallsRequest {
            groups: if wanted.groups.is_empty() {
                vec![1]
            } else {
                Vec::new()
            },
            ..wanted
        },
    ];
    for other in others {
        assert!(!traces(&asked, &other), "{other:?}");
    }
    asked.end();
}

#[test]
fn a_command_without_programs_loads_none() {
    let asked = of_servers(&[80]);
    for asks in [
        Asks::StartWatch(WatchRequest::default()),
        Asks::StartCalls(CallsRequest::default()),
        Asks::Sample(Sample::default()),
        Asks::EndWatch,
    ] {
        assert!(!is_carried_out(&asked, asks));
    }
    asked.end();
}
