//! The socket options that explain causes.

use super::{Accepted, Argument, SOL_SOCKET, SOL_TCP};

/// A socket option that explains a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SocketOption {
    NoDelay,
    Cork,
    SendBuffer,
    ReceiveBuffer,
    WindowClamp,
    PacingRate,
    Linger,
}

impl SocketOption {
    /// All options, with their level and number in the kernel.
    const ALL: [(i32, i32, Self); 9] = [
        (SOL_TCP, 1, Self::NoDelay),
        (SOL_TCP, 3, Self::Cork),
        (SOL_TCP, 10, Self::WindowClamp),
        (SOL_SOCKET, 7, Self::SendBuffer),
        (SOL_SOCKET, 32, Self::SendBuffer),
        (SOL_SOCKET, 8, Self::ReceiveBuffer),
        (SOL_SOCKET, 33, Self::ReceiveBuffer),
        (SOL_SOCKET, 13, Self::Linger),
        (SOL_SOCKET, 47, Self::PacingRate),
    ];

    /// Returns the option with this level and number in the kernel.
    pub(crate) fn of(level: i32, option: i32) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|&(of, number, _)| (of, number) == (level, option));
        found.map(|(_, _, option)| option)
    }

    /// Returns the option with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter().map(|(_, _, option)| option);
        all.find(|option| option.name() == name)
    }

    /// Returns the option's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NoDelay => "TCP_NODELAY",
            Self::Cork => "TCP_CORK",
            Self::SendBuffer => "SO_SNDBUF",
            Self::ReceiveBuffer => "SO_RCVBUF",
            Self::WindowClamp => "TCP_WINDOW_CLAMP",
            Self::PacingRate => "SO_MAX_PACING_RATE",
            Self::Linger => "SO_LINGER",
        }
    }

    /// Returns the number that a call sets; 0 if the call switches the option off.
    pub(crate) fn value(self, argument: &Argument) -> Option<i64> {
        let first = argument.number()?;
        let second = argument.bytes.get(4..).and_then(<[u8]>::first_chunk::<4>);
        let second = second.map(|bytes| i32::from_ne_bytes(*bytes));
        Some(match self {
            // Only a timeout of 0 makes `close` reset the connection.
            Self::Linger => i64::from(first != 0 && second == Some(0)),
            // The largest number is no limit.
            Self::PacingRate if first == -1 => 0,
            Self::SendBuffer | Self::ReceiveBuffer => 1.max(first),
            _ => first,
        })
    }

    /// Returns true if an accepted connection has the option from its listener.
    pub(crate) fn is_inherited(self, accepted: &Accepted) -> bool {
        match self {
            Self::NoDelay => accepted.nodelay,
            Self::Cork => accepted.cork,
            Self::SendBuffer => accepted.send_buffer,
            Self::ReceiveBuffer => accepted.receive_buffer,
            Self::WindowClamp | Self::PacingRate | Self::Linger => false,
        }
    }
}
