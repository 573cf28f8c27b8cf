//! The point of an observation, and the origin of its timestamp.

use serde::{Deserialize, Serialize};

/// An observation point within one run: a capture file, an interface, or a host's socket layer. The
/// records of one point are in time order.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct PointId(pub u16);

/// The origin of a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stamp {
    /// The kernel, at the device or socket.
    Kernel,
    /// The program. It may have woken up late, which makes the time too long.
    User,
}
