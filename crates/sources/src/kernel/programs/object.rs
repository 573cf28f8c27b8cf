//! Loads the eBPF programs of a watch and attaches them to their tracepoints.

use std::io;
use std::os::fd::AsFd as _;

use libbpf_rs::btf::{Btf, BtfType};
use libbpf_rs::{Iter, Link, MapCore as _, Object, ObjectBuilder, OpenObject};

use crate::kernel::KernelError;
use crate::kernel::hooks::{Hooks, OPEN_TURNS};

/// The programs, built from `bpf/watch.bpf.c` by `scripts/build-bpf`.
const OBJECT: &[u8] = include_bytes!("../../../bpf/watch.bpf.o");
/// Programs that report individual segments and threads. They are attached only during sampling
/// periods (see `sampling`).
const OF_LOOK: [&str; 4] = [
    "netif_receive_skb",
    "net_dev_start_xmit",
    "sched_switch",
    "sched_waking",
];
/// Programs that report the reads and writes of all processes on the host. With
/// [`Wanted::InLooks`], they are attached only during sampling periods.
const OF_PROGRAMS: [&str; 2] = ["sock_recv_length", "sock_send_length"];

/// The times at which reading and writing are observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// At all times. This is needed if the process that reads or writes determines which
    /// connections are watched, or if any slow request is reported.
    Always,
    /// Only during sampling periods. The duration of every request is known from TCP's own
    /// timestamps.
    InLooks,
}

impl Wanted {
    /// Returns true if the program is attached only during sampling periods.
    fn is_of_look(self, name: &str) -> bool {
        OF_LOOK.contains(&name) || (self == Self::InLooks && OF_PROGRAMS.contains(&name))
    }
}

/// The attached programs. Dropping the links detaches them.
pub(super) struct Attached {
    pub(super) object: Object,
    pub(super) links: Vec<Link>,
    /// Optional programs that are missing.
    pub(super) lacking: Hooks,
}

/// Loads and attaches the programs except those in `without`.
pub(super) fn attached(
    config: &[u8],
    without: Hooks,
    wanted: Wanted,
) -> Result<Attached, KernelError> {
    // Keeps the library from printing: its messages are in the errors.
    libbpf_rs::set_print(None);
    let lacking = lacking(without);
    let (object, mut lacking) =
        load(config, lacking).or_else(|error| load_less(config, lacking).ok_or(error))?;
    let is_lasting = |name: &str| !wanted.is_of_look(name) && name != OPEN_TURNS;
    let links = attach(&object, is_lasting, &mut lacking)?;
    Ok(Attached {
        object,
        links,
        lacking,
    })
}

/// Loads the programs without the one that the kernel rejects. If no single program is the reason,
/// all optional programs are left out.
fn load_less(config: &[u8], lacking: Hooks) -> Option<(Object, Hooks)> {
    let mut less = Hooks::singles().chain([Hooks::ALL]);
    less.find_map(|one| load(config, lacking.and(one)).ok())
}

/// Copies the settings into the memory that the programs read.
pub(super) fn configure(open: &mut OpenObject, config: &[u8]) -> Result<(), KernelError> {
    let is_config = |name: &std::ffi::OsStr| name.to_string_lossy().ends_with(".rodata.config");
    for mut map in open.maps_mut() {
        if is_config(map.name())
            && let Some(place) = map
                .initial_value_mut()
                .and_then(|all| all.get_mut(..config.len()))
        {
            place.copy_from_slice(config);
            return Ok(());
        }
    }
    let source = io::Error::from(io::ErrorKind::NotFound);
    Err(KernelError::Refused {
        program: "its own settings".to_owned(),
        source,
    })
}

/// Returns the optional programs whose hook this kernel does not have, and those in `without`.
fn lacking(without: Hooks) -> Hooks {
    let types = Btf::from_vmlinux().ok();
    let is_there = |name: &str| {
        let hook = match name {
            OPEN_TURNS => "bpf_iter__bpf_sk_storage_map".to_owned(),
            tracepoint => format!("btf_trace_{tracepoint}"),
        };
        let found = types
            .as_ref()
            .map(|types| types.type_by_name::<BtfType<'_>>(&hook).is_some());
        found.unwrap_or(true)
    };
    Hooks::of(|name| without.has(name) || !is_there(name))
}

/// Loads the programs except those in `lacking`; also returns the programs left out.
fn load(config: &[u8], lacking: Hooks) -> Result<(Object, Hooks), KernelError> {
    let mut open = ObjectBuilder::default()
        .open_memory(OBJECT)
        .map_err(|error| refused("reading its own programs", &error))?;
    configure(&mut open, config)?;
    for mut program in open.progs_mut() {
        if lacking.has(&program.name().to_string_lossy()) {
            program.set_autoload(false);
        }
    }
    let object = open
        .load()
        .map_err(|error| refused("the programs", &error))?;
    Ok((object, lacking))
}

/// Attaches the programs that run only during sampling periods, except missing ones. They run until
/// the links are dropped.
pub(super) fn of_look(
    object: &Object,
    mut lacking: Hooks,
    wanted: Wanted,
) -> Result<Vec<Link>, KernelError> {
    attach(object, |name| wanted.is_of_look(name), &mut lacking)
}

/// Ends the last exchange of each open connection. If the kernel cannot run the program, these
/// exchanges are not reported.
pub(super) fn close_open_turns(object: &Object) {
    let program = object
        .progs_mut()
        .find(|program| program.name() == OPEN_TURNS);
    let connections = object.maps().find(|map| map.name() == "connections");
    let (Some(program), Some(connections)) = (program, connections) else {
        return;
    };
    let link = program.attach_iter(connections.as_fd());
    if let Ok(mut turns) = link.and_then(|link| Iter::new(&link)) {
        // The program writes nothing to the iterator. It reports the exchanges as records.
        let _ = io::copy(&mut turns, &mut io::sink());
    }
}

/// Attaches the programs that `is_wanted` selects. An optional program that cannot be attached is
/// added to `lacking`.
fn attach(
    object: &Object,
    is_wanted: impl Fn(&str) -> bool,
    lacking: &mut Hooks,
) -> Result<Vec<Link>, KernelError> {
    let mut links = Vec::new();
    for program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        if !is_wanted(&name) || lacking.has(&name) {
            continue;
        }
        match program.attach() {
            Ok(link) => links.push(link),
            Err(_) if lacking.add(&name) => {}
            Err(error) => return Err(refused(&name, &error)),
        }
    }
    Ok(links)
}

/// Converts an error of libbpf into a [`KernelError`].
pub(super) fn refused(program: &str, error: &libbpf_rs::Error) -> KernelError {
    let kind = match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => {
            return KernelError::NotPermitted(io::ErrorKind::PermissionDenied.into());
        }
        libbpf_rs::ErrorKind::NotFound => io::ErrorKind::NotFound,
        _ => io::ErrorKind::Other,
    };
    let source = io::Error::new(kind, error.to_string());
    KernelError::Refused {
        program: program.to_owned(),
        source,
    }
}
