use core::time::Duration;

use super::*;
use crate::cause::settings::tests::{Empty, General, advised, claim, subject, worded};
use crate::claim::Statement;
use crate::facts::Facts;
use crate::facts::KernelFacts;
use crate::observed::event::{ListenerSample, TargetId};
use crate::observed::flow::Endpoint;
use crate::observed::syscall::{
    Accepted, Argument, CalledSocket, Caller, Request, SocketCall, SocketKind,
};
use crate::observed::time::Timestamp;
use crate::report::Verdict;

/// Number of connections.
const ALL: u64 = 4;

fn call(inode: u64, request: Request, sent: u64) -> SocketCall {
    SocketCall {
        at: Timestamp::from_nanos(0),
        took: Duration::ZERO,
        caller: Caller {
            pid: 12,
            tid: 12,
            name: "nginx".to_owned(),
            thread: "nginx".to_owned(),
        },
        fd: 3,
        request,
        result: 0,
        socket: Some(CalledSocket {
            inode,
            cookie: None,
            namespace: None,
            kind: SocketKind::Tcp,
            is_v6: false,
            is_client: false,
            state: "ESTAB".to_owned(),
            local: Some(subject()),
            remote: Some(Endpoint::new([10, 0, 0, 1].into(), 5000)),
        }),
        before: None,
        after: None,
        sent,
    }
}

/// Returns facts of connections on each of which the calls were made.
fn facts(accepted: Accepted, options: &[(i32, i32, &[i32], u64)]) -> Facts {
    let mut facts = Facts::default();
    for inode in 1..=ALL {
        let accept = call(inode, Request::Accept(accepted), 0);
        facts.calls.add_call(&accept);
        for &(level, option, words, sent) in options {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let value = Argument {
                len: 4,
                bytes,
                ..Argument::default()
            };
            let request = Request::SetOption {
                level,
                option,
                value,
            };
            facts.calls.add_call(&call(inode, request, sent));
        }
    }
    facts
}

fn listening(queued: u32, limit: u32, somaxconn: u32) -> ListenerSample {
    ListenerSample {
        local: subject(),
        queued,
        limit,
        embryonic: 0,
        syn_backlog: None,
        somaxconn: Some(somaxconn),
    }
}

/// Returns a strong claim, with general advice, after the calls were compared with it.
fn compared(cause: Id, facts: &Facts, affected: u64, general: General) -> Claim {
    let mut claim = claim(cause, general);
    claim.affected.exchanges = affected;
    let empty = Empty::default();
    let case = empty.case(facts, Some(TargetId::Subject));
    match explained(Conclusion::Claim(Box::new(claim)), &case) {
        Conclusion::Claim(claim) => *claim,
        other => panic!("the finding stays: {other:?}"),
    }
}

#[test]
fn an_option_that_was_set_in_time_contradicts_a_hold() {
    let set = facts(Accepted::default(), &[(6, 1, &[1], 0)]);
    let claim = compared(Id::NagleRoundTrip, &set, 40, &[]);
    assert_eq!(claim.verdict(), Verdict::Possible);
    let finding = worded(&claim);
    assert_eq!(finding.evidence.len(), 1);
    let accepted = "; nginx[12] accepted 4 connections";
    assert!(finding.overturned_by.starts_with(accepted), "{finding:#?}");
}

#[test]
fn an_option_that_was_set_late_explains_only_the_first_requests() {
    let late = facts(Accepted::default(), &[(6, 1, &[1], 200)]);
    let first = compared(
        Id::NagleDelayedAck,
        &late,
        ALL,
        &[("server", "set {TCP_NODELAY} on each")],
    );
    assert_eq!(first.verdict(), Verdict::Strong);
    let change = "set TCP_NODELAY before the first write to each connection";
    assert_eq!(advised(&first), [["nginx[12]", change]]);
    let all = compared(Id::NagleDelayedAck, &late, ALL * 9, &[]);
    assert_eq!(all.verdict(), Verdict::Possible);
}

#[test]
fn an_option_that_nobody_set_is_part_of_the_mechanism_and_advice_on_it_goes() {
    let none = facts(Accepted::default(), &[]);
    let claim = compared(
        Id::NagleDelayedAck,
        &none,
        9,
        &[("server", "set {TCP_NODELAY}")],
    );
    assert_eq!(claim.verdict(), Verdict::Proven);
    assert!(worded(&claim).evidence[1].text.contains("on none of them"));
    assert_eq!(claim.advice.len(), 1);
    let tuned = compared(
        Id::SendBuffer,
        &none,
        9,
        &[("server", "do not set {SO_SNDBUF}"), ("server", "tcp_wmem")],
    );
    assert_eq!(tuned.verdict(), Verdict::Strong);
    assert_eq!(advised(&tuned), [["server", "tcp_wmem"]]);
    let only = compared(
        Id::SendBuffer,
        &none,
        9,
        &[("server", "do not set {SO_SNDBUF}")],
    );
    assert_eq!(only.advice.len(), 1, "some advice stays");
    let paced = compared(Id::Pacing, &none, 9, &[]);
    assert_eq!(paced.evidence.len(), 1, "nothing to say");
}

#[test]
fn who_set_an_option_is_named_with_its_value() {
    let cases = [
        (Id::SendBuffer, 7, &[8192][..], "SO_SNDBUF to 8192 bytes"),
        (Id::ZeroWindow, 8, &[4096], "SO_RCVBUF to 4096 bytes"),
        (Id::Pacing, 47, &[125_000], "125000 bytes per second"),
        (
            Id::ConnectionClosed,
            13,
            &[1, 0],
            "a timeout of 0 on all of 4",
        ),
    ];
    for (cause, option, words, text) in cases {
        let set = facts(Accepted::default(), &[(1, option, words, 0)]);
        let claim = compared(cause, &set, 9, &[]);
        let told = &worded(&claim).evidence[1].text;
        assert!(told.contains("nginx[12]") && told.contains(text), "{told}");
        assert_eq!(advised(&claim)[0][0], "nginx[12]");
    }
    // A timeout of five seconds resets nothing, and the largest rate is no limit.
    for (cause, option, words) in [
        (Id::ConnectionClosed, 13, &[1, 5][..]),
        (Id::Pacing, 47, &[-1]),
    ] {
        let set = facts(Accepted::default(), &[(1, option, words, 0)]);
        assert_eq!(compared(cause, &set, 9, &[]).evidence.len(), 1, "{cause}");
    }
}

#[test]
fn a_line_of_the_configuration_is_better_advice_than_the_call() {
    let set = facts(Accepted::default(), &[(1, 7, &[8192], 0)]);
    let empty = Empty::default();
    let mut claim = Claim::blank(Id::SendBuffer, Owner::Server, subject());
    claim.advice = vec![Advice::new("/etc/nginx/nginx.conf:9", "take `sndbuf` out")];
    let piece = Statement::fits(EvidenceKind::Configuration, "nginx has sndbuf");
    claim.evidence = vec![piece];
    let case = empty.case(&set, Some(TargetId::Subject));
    let Conclusion::Claim(claim) = explained(Conclusion::Claim(Box::new(claim)), &case) else {
        panic!("the finding stays");
    };
    assert_eq!(advised(&claim)[0][0], "/etc/nginx/nginx.conf:9");
    assert_eq!(claim.evidence.len(), 2);
}

#[test]
fn the_limit_of_an_accept_queue_is_the_programs_or_the_kernels() {
    let of = |facts: &Facts| {
        let general = &[("server", "a longer queue: listen({backlog})")];
        compared(Id::AcceptQueueOverflow, facts, 9, general)
    };
    let sampled = |sample| Facts {
        kernel: KernelFacts {
            listeners: vec![sample],
            ..KernelFacts::default()
        },
        ..Facts::default()
    };
    let short = of(&sampled(listening(6, 5, 4096)));
    assert_eq!(short.verdict(), Verdict::Proven);
    assert!(
        worded(&short).evidence[1]
            .text
            .contains("somaxconn allows 4096")
    );
    assert_eq!(
        advised(&short),
        [["the program", "raise the backlog of listen() above 5"]]
    );
    let cut = of(&sampled(listening(0, 128, 128)));
    assert_eq!(cut.verdict(), Verdict::Strong, "it was not seen full");
    assert!(advised(&cut)[0][1].starts_with("raise net.core.somaxconn above 128"));
    let mut listened = sampled(listening(0, 128, 128));
    let mut listen = call(9, Request::Listen(511), 0);
    listen.after = Some(128);
    listened.calls.add_call(&listen);
    let named = of(&listened);
    let text = &worded(&named).evidence[1].text;
    assert!(text.contains("nginx[12] asked listen() for 511"), "{text}");
    assert_eq!(
        advised(&named),
        [["server", "raise net.core.somaxconn above 128"]]
    );
    assert_eq!(of(&Facts::default()).evidence.len(), 1, "nothing is known");
}

#[test]
fn a_listener_without_the_option_contradicts() {
    let deferred = Accepted {
        is_deferred: true,
        ..Accepted::default()
    };
    let supported = compared(Id::DeferAccept, &facts(deferred, &[]), 9, &[]);
    assert_eq!(supported.verdict(), Verdict::Proven);
    let not = compared(Id::DeferAccept, &facts(Accepted::default(), &[]), 9, &[]);
    assert_eq!(not.verdict(), Verdict::Possible);
    let open = Accepted {
        fastopen: 16,
        ..Accepted::default()
    };
    let told = compared(Id::FastOpenBlackHole, &facts(open, &[]), 9, &[]);
    assert!(worded(&told).evidence[1].text.contains("queue of 16"));
}
