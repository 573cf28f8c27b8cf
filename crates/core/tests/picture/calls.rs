//! The calls on sockets in a picture.

use std::net::SocketAddr;
use std::time::Duration;

use lagtrace_core::observed::event::{Event, EventBody, Phase};
use lagtrace_core::observed::syscall::{CalledSocket, Caller, Request, SocketCall, SocketKind};
use lagtrace_core::observed::time::Timestamp;

use super::{analyzer, captures, drawn, feed, reading};

/// Returns a call on the listener at `local`.
fn listening(local: &str, inode: u64) -> SocketCall {
    let local: SocketAddr = local.parse().expect("an address");
    SocketCall {
        at: Timestamp::from_nanos(1_000),
        took: Duration::ZERO,
        caller: Caller::default(),
        fd: 3,
        request: Request::Listen(511),
        result: 0,
        socket: Some(CalledSocket {
            inode,
            cookie: None,
            namespace: None,
            kind: SocketKind::Tcp,
            is_v6: false,
            is_client: false,
            state: "LISTEN".to_owned(),
            local: Some(local.into()),
            remote: None,
        }),
        before: None,
        after: None,
        sent: 0,
    }
}

#[test]
fn the_picture_has_the_calls_on_the_sockets_of_its_services() {
    let captures = captures();
    let (_, bytes) = captures.first().expect("a capture");
    let segments = reading::segments(bytes);
    let (_, picture) = drawn(&segments, None);
    let service: SocketAddr = picture.services[0].server.parse().expect("an address");
    let everywhere = format!("0.0.0.0:{}", service.port());
    let ends = [&*service.to_string(), &everywhere, "10.9.9.9:1"];
    let calls: Vec<SocketCall> = ends
        .into_iter()
        .zip(1..)
        .map(|(local, inode)| listening(local, inode))
        .collect();
    let mut analyzer = analyzer(None);
    feed(&mut analyzer, &segments);
    for call in &calls {
        let body = EventBody::SocketCall(Box::new(call.clone()));
        analyzer.observe(Event::here(call.at, Phase::Baseline, body));
    }
    let (_, picture) = analyzer.finish_with_picture();
    let picture = picture.expect("a picture was requested");
    let drawn = picture.sockets.iter().map(|socket| socket.local.as_deref());
    assert_eq!(drawn.collect::<Vec<_>>(), [ends[0], ends[1]].map(Some));
    let [call] = &*picture.sockets[0].calls else {
        panic!("{:#?}", picture.sockets);
    };
    assert_eq!((&*call.call, &*call.value), ("listen", "511"));
}
