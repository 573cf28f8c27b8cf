//! Conversion of a request to `struct watch_config`, which the programs of a watch read.

use super::{exists, pid_namespace};
use crate::kernel::request::WatchRequest;
use crate::kernel::{KernelError, MAX_PORTS};

/// Number of payload bytes that are kept of an exchange's first segment in each direction: enough
/// for a request line and a response's status line.
const REQUEST_BYTES: u32 = 64;
const RESPONSE_BYTES: u32 = 16;

/// Returns the settings, or the error in the request.
pub(super) fn config(asked: &WatchRequest) -> Result<Vec<u8>, KernelError> {
    if asked.ports.is_empty() && asked.pid.is_none() && asked.cgroup.is_none() {
        return Err(KernelError::NothingAsked);
    }
    asked.pid.map_or(Ok(()), exists)?;
    if asked.ports.len() > MAX_PORTS {
        return Err(KernelError::TooManyPorts(asked.ports.len()));
    }
    let mut ports = [0; MAX_PORTS];
    for (place, &port) in ports.iter_mut().zip(&asked.ports) {
        *place = port;
    }
    let count = u32::try_from(asked.ports.len()).unwrap_or_default();
    let (request, response) = if asked.keeps_payload {
        (REQUEST_BYTES, RESPONSE_BYTES)
    } else {
        (0, 0)
    };
    let mut bytes: Vec<u8> = ports.iter().flat_map(|port| port.to_ne_bytes()).collect();
    bytes.extend(count.to_ne_bytes());
    bytes.extend(asked.pid.unwrap_or_default().to_ne_bytes());
    bytes.extend(asked.cgroup.unwrap_or_default().to_ne_bytes());
    bytes.extend(request.to_ne_bytes());
    bytes.extend(response.to_ne_bytes());
    bytes.extend(asked.namespace.unwrap_or_default().to_ne_bytes());
    bytes.extend(pid_namespace().to_ne_bytes());
    Ok(bytes)
}
