//! The tunable behind the name of a directive or of a socket option.

use super::table::directives;
use crate::claim::Tunable;
use crate::observed::syscall::SocketOption;

/// Returns what the socket option or directive of this name turns: options of nginx's `listen`, and
/// of a program's command line, have names of their own for what others call otherwise.
pub(in crate::cause) fn tunable(name: &str) -> Option<Tunable> {
    Some(match name {
        "backlog" | "--backlog" | "--listen" => Tunable::AcceptQueue,
        "TCP_DEFER_ACCEPT" | "deferred" => Tunable::DeferAccept,
        "tcp_nodelay" => Tunable::Option(SocketOption::NoDelay),
        "sndbuf" => Tunable::Option(SocketOption::SendBuffer),
        "rcvbuf" => Tunable::Option(SocketOption::ReceiveBuffer),
        _ => match SocketOption::named(name) {
            Some(option) => Tunable::Option(option),
            None => Tunable::Directive(directives().find(|known| *known == name)?),
        },
    })
}
