//! What is to be watched, as the programs read it (`struct watch_config`).

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::kernel::{KernelError, MAX_PORTS, WatchOptions};

/// Where cgroups of version 2 are.
const CGROUPS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// Payload kept of a turn's first segment, in bytes: a request's line, and a
/// response's status.
const REQUEST_BYTES: u32 = 64;
const RESPONSE_BYTES: u32 = 16;

/// The settings, or what is wrong with what was asked for.
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
    let cgroup = options.cgroup.as_deref().map(cgroup_id).transpose()?;
    let (request, response) = match options.keeps_payload {
        true => (REQUEST_BYTES, RESPONSE_BYTES),
        false => (0, 0),
    };
    let mut bytes: Vec<u8> = ports.iter().flat_map(|port| port.to_ne_bytes()).collect();
    bytes.extend(count.to_ne_bytes());
    bytes.extend(options.pid.unwrap_or_default().to_ne_bytes());
    bytes.extend(cgroup.unwrap_or_default().to_ne_bytes());
    bytes.extend(request.to_ne_bytes());
    bytes.extend(response.to_ne_bytes());
    Ok(bytes)
}

/// The kernel's number of a cgroup is its directory's inode.
fn cgroup_id(path: &Path) -> Result<u64, KernelError> {
    let is_mounted = CGROUPS.iter().any(|mount| path.starts_with(mount));
    let below = path.strip_prefix("/").unwrap_or(path);
    let places = match is_mounted {
        true => vec![path.to_owned()],
        false => CGROUPS.map(|mount| Path::new(mount).join(below)).to_vec(),
    };
    // The mount's own folder may be one of version 1.
    let is_group = |place: &&PathBuf| place.join("cgroup.controllers").exists();
    let found = places
        .iter()
        .filter(is_group)
        .find_map(|place| fs::metadata(place).ok());
    found
        .map(|directory| directory.ino())
        .ok_or_else(|| KernelError::NoCgroup {
            path: path.to_owned(),
        })
}
