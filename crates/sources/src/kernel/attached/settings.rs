//! Conversion of the watch options to `struct watch_config`, which the programs read.

use std::path::Path;

use crate::kernel::{KernelError, MAX_PORTS, WatchOptions};
use crate::socket::cgroup;

/// Number of payload bytes that are kept of an exchange's first segment in each direction: enough
/// for a request line and a response's status line.
const REQUEST_BYTES: u32 = 64;
const RESPONSE_BYTES: u32 = 16;

/// Returns the settings, or the error in the options.
pub(super) fn config(options: &WatchOptions) -> Result<Vec<u8>, KernelError> {
    if options.ports.is_empty() && options.pid.is_none() && options.cgroup.is_none() {
        return Err(KernelError::NothingAsked);
    }
    if let Some(pid) = options.pid
        && !Path::new("/proc").join(pid.to_string()).exists()
    {
        return Err(KernelError::NoProcess(pid));
    }
    if options.ports.len() > MAX_PORTS {
        return Err(KernelError::TooManyPorts(options.ports.len()));
    }
    let mut ports = [0; MAX_PORTS];
    for (place, &port) in ports.iter_mut().zip(&options.ports) {
        *place = port;
    }
    let count = u32::try_from(options.ports.len()).unwrap_or_default();
    let cgroup = options.cgroup.as_deref().map(numbered).transpose()?;
    let (request, response) = if options.keeps_payload {
        (REQUEST_BYTES, RESPONSE_BYTES)
    } else {
        (0, 0)
    };
    let mut bytes: Vec<u8> = ports.iter().flat_map(|port| port.to_ne_bytes()).collect();
    bytes.extend(count.to_ne_bytes());
    bytes.extend(options.pid.unwrap_or_default().to_ne_bytes());
    bytes.extend(cgroup.unwrap_or_default().to_ne_bytes());
    bytes.extend(request.to_ne_bytes());
    bytes.extend(response.to_ne_bytes());
    // The kernel's namespace numbers have 32 bits (`struct ns_common`).
    let namespace = options.namespace.map(u32::try_from);
    bytes.extend(
        namespace
            .map_or(0, |inode| inode.unwrap_or(u32::MAX))
            .to_ne_bytes(),
    );
    Ok(bytes)
}

fn numbered(path: &Path) -> Result<u64, KernelError> {
    let number = cgroup::number_of(&path.to_string_lossy());
    number.ok_or_else(|| KernelError::NoCgroup {
        path: path.to_owned(),
    })
}
