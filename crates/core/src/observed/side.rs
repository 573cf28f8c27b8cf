//! The two ends of a connection.

/// The end that sent or held something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The requesting end.
    Client,
    /// The answering end.
    Server,
}

impl Side {
    /// Returns the other end.
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// An item for each side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerSide<T> {
    pub(crate) client: T,
    pub(crate) server: T,
}

impl<T> PerSide<T> {
    /// Returns the item of a side.
    #[inline]
    pub(crate) const fn get(&self, side: Side) -> &T {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    /// Returns the item of a side.
    #[inline]
    pub(crate) const fn get_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// Returns both items.
    pub(crate) const fn each(&self) -> [&T; 2] {
        [&self.client, &self.server]
    }
}
