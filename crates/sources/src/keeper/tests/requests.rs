//! Requests that no worker makes, unless an attacker controls it.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::symlink;
use std::process::Child;

use super::super::raw_sockets;
use super::super::scope::{Desktop, Processes, Scope};
use super::{Asked, end, held, holder, listener, names};
use crate::privilege::limits::MOST_SOCKETS;
use crate::privilege::message::{Purpose, Reply, Request};

#[test]
fn a_descriptor_is_taken_once_and_only_if_it_listens() {
    let asked = Asked::new(Scope {
        packets: true,
        ..Scope::default()
    });
    let ask = |request: &Request, descriptor: BorrowedFd<'_>| {
        let sent = asked.channel.send_request(request, &[descriptor]);
        sent.expect("the keeper lives");
        let answer = asked.channel.receive::<Reply>().expect("well-formed");
        answer.expect("an answer").0
    };
    let is_refused = |reply| matches!(reply, Reply::Refused(_));
    let file = File::open("/dev/null").expect("opens");
    for other in [file.as_fd(), asked.channel.as_fd()] {
        assert!(is_refused(ask(&Request::Answer, other)));
    }
    asked.is_refused(&Request::Answer);
    // The filter is that of this thread, which ends with the test.
    rustix::thread::set_no_new_privs(true).expect("permitted");
    let listener = raw_sockets::delegate().expect("seccomp");
    assert!(is_refused(ask(&Request::DropOutput(0), listener.as_fd())));
    assert_eq!(ask(&Request::Answer, listener.as_fd()), Reply::Done);
    assert!(is_refused(ask(&Request::Answer, listener.as_fd())));
    asked.end();
}

#[test]
fn longer_lists_than_the_worker_sends_are_refused() {
    let asked = Asked::new(Scope {
        processes: Processes::Sockets(Vec::new()),
        ..Scope::default()
    });
    let (socket, ..) = listener();
    let own = held(std::process::id(), socket.as_raw_fd(), &socket);
    let (reply, _) = asked.ask(&Request::Options(vec![own; MOST_SOCKETS]));
    assert!(matches!(reply, Reply::Options(_)), "{reply:?}");
    asked.is_refused(&Request::Options(vec![own; MOST_SOCKETS + 1]));
    asked.is_refused(&Request::Sockets {
        pid: std::process::id(),
        most: usize::MAX,
    });
    asked.end();
}

#[test]
fn inputs_are_not_written_and_outputs_are_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("input"), folder.path().join("output"));
    fs::write(&input, "evidence").expect("written");
    fs::write(&output, "secret").expect("written");
    let asked = Asked::new(Scope {
        inputs: vec![input.clone()],
        outputs: vec![output.clone()],
        ..Scope::default()
    });
    for purpose in [Purpose::Result, Purpose::Stream, Purpose::Public] {
        asked.is_refused(&Request::Output(input.clone(), purpose));
        asked.is_refused(&Request::CheckOutput(input.clone(), purpose));
    }
    asked.is_refused(&Request::Input(output.clone()));
    asked.end();
    assert_eq!(fs::read(&input).expect("there"), b"evidence");
    assert_eq!(fs::read(&output).expect("there"), b"secret");
}

#[test]
fn what_the_user_saves_is_new_and_limited() {
    let folder = tempfile::tempdir().expect("a folder");
    let asked = Asked::new(Scope {
        saves_in: Some(folder.path().to_owned()),
        ..Scope::default()
    });
    let path = |number: u32| {
        folder
            .path()
            .join(format!("lagtrace-watch-{number}.ndjson"))
    };
    let other = folder.path().join("other");
    fs::write(&other, "of somebody else").expect("written");
    symlink(&other, path(1)).expect("a link");
    symlink(folder.path().join("absent"), path(2)).expect("a link");
    fs::write(path(3), "older").expect("written");
    for number in 1..=3 {
        asked.is_refused(&Request::Output(path(number), Purpose::Stream));
    }
    for number in 4..=200 {
        let (reply, _) = asked.ask(&Request::Output(path(number), Purpose::Result));
        if let Reply::Output(place, _) = reply {
            // Somebody was faster.
            if number == 4 {
                fs::write(path(4), "newer").expect("written");
            }
            let (reply, _) = asked.ask(&Request::CommitOutput(place));
            assert_eq!(reply == Reply::Done, number != 4, "{number}: {reply:?}");
        }
    }
    asked.end();
    assert_eq!(fs::read(path(4)).expect("there"), b"newer");
    assert_eq!(fs::read(&other).expect("there"), b"of somebody else");
    // Four of the hundred attempts failed.
    assert_eq!(names(folder.path()).len(), 5 + 96);
}

#[test]
fn a_browser_gets_one_page_at_the_address_of_the_server() {
    let asked = Asked::new(Scope {
        desktop: Some(Desktop {
            page: tempfile::NamedTempFile::new,
            open: |_| Ok(()),
        }),
        serves_at: Some((Ipv4Addr::LOCALHOST, 0).into()),
        ..Scope::default()
    });
    let show = |url: String| Request::Show(Some(url));
    let digits = "0123456789abcdef".repeat(2);
    // The keeper does not listen yet.
    asked.is_refused(&show(format!("http://127.0.0.1:631/{digits}/")));
    let (_, mut descriptors) = asked.ask(&Request::Listen);
    let listener = TcpListener::from(descriptors.pop().expect("a listener"));
    let at = listener.local_addr().expect("it is bound");
    assert!(at.ip().is_loopback() && TcpStream::connect(at).is_ok());
    asked.is_refused(&Request::Listen);
    for url in [
        format!("http://127.0.0.1:631/{digits}/"),
        format!("http://{at}/admin?op=delete"),
        format!("http://{at}/{digits}"),
        format!("http://{at}/{digits}/?x"),
        format!("http://{at}/{}/", digits.replace('f', "F")),
        format!("http://{at}/{digits}0/"),
        format!("https://{at}/{digits}/"),
        "file:///etc/passwd".to_owned(),
    ] {
        asked.is_refused(&show(url));
    }
    let (reply, _) = asked.ask(&show(format!("http://{at}/{digits}/")));
    assert_eq!(reply, Reply::Bytes(Vec::new()));
    asked.is_refused(&show(format!("http://{at}/{digits}/")));
    let (reply, _) = asked.ask(&Request::Page);
    assert!(matches!(reply, Reply::Bytes(_)), "{reply:?}");
    asked.is_refused(&Request::Page);
    asked.end();
}

/// Starts processes that hold this socket until one has this number. Returns `None` if something
/// else has taken it.
fn holder_with(pid: u32, socket: &TcpListener) -> Option<Child> {
    for _ in 0..500 {
        fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).expect("root");
        let child = holder(socket.try_clone().expect("a copy").into(), &[]);
        if child.id() == pid {
            return Some(child);
        }
        end(child);
    }
    None
}

/// Returns true if the keeper was asked about a process before and after another one had its
/// number, and false if the number was not to be had.
fn asks_about_two_with_one_number(socket: &TcpListener) -> bool {
    let named = holder(socket.try_clone().expect("a copy").into(), &[]);
    let pid = named.id();
    let [sockets, namespace] =
        [Processes::Sockets(vec![pid]), Processes::NamespaceOf(pid)].map(|processes| {
            Asked::new(Scope {
                processes,
                ..Scope::default()
            })
        });
    let options = || match sockets.ask(&Request::Options(vec![held(pid, 0, socket)])).0 {
        Reply::Options(each) => matches!(each[..], [Ok(Some(_))]),
        reply => panic!("{reply:?}"),
    };
    let opens = || namespace.ask(&Request::NamespaceOf(pid)).0 == Reply::Done;
    assert!(options() && opens());
    end(named);
    let later = holder_with(pid, socket);
    let is_had = later.is_some();
    if let Some(later) = later {
        assert!(!options() && !opens());
        end(later);
    }
    sockets.end();
    namespace.end();
    is_had
}

#[test]
fn a_later_process_with_the_same_number_is_another_one() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let (socket, ..) = listener();
    // Processes of other tests take the number now and then.
    assert!((0..20).any(|_| asks_about_two_with_one_number(&socket)));
}
