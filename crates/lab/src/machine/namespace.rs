//! Named network namespaces, compatible with `ip netns`: creating, entering and deleting them.
//!
//! Only threads and child processes created for this purpose enter a namespace; no thread of the
//! caller ever changes its namespace.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;

use rustix::mount::mount_bind;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::Error;
use crate::machine::tool;

/// A file, and the machine's file that it replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostFile {
    pub(crate) source: CString,
    pub(crate) target: CString,
}

/// A network namespace with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Namespace {
    name: String,
    /// The files that processes inside see in place of the machine's files.
    files: Vec<HostFile>,
}

impl Namespace {
    /// Returns the namespace with this name, which need not exist yet.
    pub(crate) fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            files: Vec::new(),
        }
    }

    /// Returns the namespace with files that its processes see in place of the machine's.
    pub(crate) fn with_files(mut self, files: Vec<HostFile>) -> Self {
        self.files = files;
        self
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path at which `ip netns` keeps the namespace.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.name)
    }

    /// Creates the namespace, which contains only a loopback that is down.
    pub(crate) fn create(&self) -> Result<(), Error> {
        tool::run("ip", ["netns", "add", &self.name])
    }

    /// Gives the namespace this additional name, for a host with two names.
    pub(crate) fn share(&self, other: &Self) -> Result<(), Error> {
        // A name is a file on which the namespace is mounted, as with `ip netns`.
        let name = || -> io::Result<()> {
            File::create_new(self.path())?;
            Ok(mount_bind(other.path(), self.path())?)
        };
        name().map_err(|source| Error::Namespace {
            operation: "give a second name to the host",
            namespace: self.name.clone(),
            source,
        })
    }

    /// Deletes the namespace's name; the namespace itself is removed with its last process. It is
    /// not an error if the name does not exist.
    pub(crate) fn delete(&self) -> Result<(), Error> {
        if !self.path().exists() {
            return Ok(());
        }
        tool::run("ip", ["netns", "delete", &self.name])
    }

    /// Runs `work` on a thread inside the namespace. `operation` is the name used in errors.
    pub(crate) fn within<T: Send>(
        &self,
        operation: &'static str,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> Result<T, Error> {
        let enter_and_work = || -> io::Result<T> {
            let namespace = File::open(self.path())?;
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            work()
        };
        let done = std::thread::scope(|scope| scope.spawn(enter_and_work).join());
        let done = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        done.map_err(|source| Error::Namespace {
            operation,
            namespace: self.name.clone(),
            source,
        })
    }

    /// Makes a command's child run inside the namespace.
    pub(crate) fn enter(&self, command: &mut Command) -> Result<(), Error> {
        let namespace = File::open(self.path()).map_err(|source| Error::Namespace {
            operation: "start a process",
            namespace: self.name.clone(),
            source,
        })?;
        before_exec::enter(command, namespace);
        if !self.files.is_empty() {
            before_exec::see(command, self.files.clone());
        }
        Ok(())
    }
}

pub(crate) mod before_exec {
    //! Work of a child process between fork and exec. Only system calls are allowed there, because
    //! other threads' locks may be held forever.
    #![allow(unsafe_code)]

    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
    use rustix::process::{Signal, set_parent_process_death_signal, setsid};
    use rustix::thread::{
        LinkNameSpaceType, UnshareFlags, move_into_link_name_space, set_thread_gid,
        set_thread_groups, set_thread_uid, unshare_unsafe,
    };

    use super::HostFile;
    use crate::machine::user::User;

    /// Moves the child into a network namespace.
    pub(crate) fn enter(command: &mut Command, namespace: File) {
        let enter = move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(())
        };
        // SAFETY: one setns(2) on a descriptor that the closure owns; nothing is allocated.
        unsafe { command.pre_exec(enter) };
    }

    /// Replaces some of the machine's files for the child. The child's own files are mounted over
    /// them in a mount namespace that only the child and its children have, so the mounts are not
    /// visible outside. Whatever the machine unmounts is unmounted in this namespace too, so that
    /// no file system is kept in use.
    pub(crate) fn see(command: &mut Command, files: Vec<HostFile>) {
        let see = move || {
            // SAFETY: a new mount namespace does not change the child's descriptors.
            unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
            let downstream = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
            mount_change(c"/", downstream)?;
            for file in &files {
                mount_bind(&*file.source, &*file.target)?;
            }
            Ok(())
        };
        // SAFETY: unshare(2) and mount(2) with paths that are C strings already; nothing is
        // allocated.
        unsafe { command.pre_exec(see) };
    }

    /// Makes the child get `signal` when the thread that started it ends.
    pub(crate) fn die_with_parent(command: &mut Command, signal: Signal) {
        let ask = move || {
            set_parent_process_death_signal(Some(signal))?;
            Ok(())
        };
        // SAFETY: one prctl(2); nothing is allocated.
        unsafe { command.pre_exec(ask) };
    }

    /// Moves the child into a control group, given as the group's open `cgroup.procs`.
    pub(crate) fn join_group(command: &mut Command, procs: File) {
        let join = move || {
            // 0 means the process that writes it.
            rustix::io::write(&procs, b"0")?;
            Ok(())
        };
        // SAFETY: one write(2) to a descriptor that the closure owns; nothing is allocated.
        unsafe { command.pre_exec(join) };
    }

    /// Gives the child its own System V shared memory, which is removed when the child ends.
    pub(crate) fn own_shared_memory(command: &mut Command) {
        let leave = || {
            // SAFETY: this flag changes neither descriptors nor the state of any thread.
            unsafe { unshare_unsafe(UnshareFlags::NEWIPC) }?;
            Ok(())
        };
        // SAFETY: one unshare(2); nothing is allocated, and the child has a single thread.
        unsafe { command.pre_exec(leave) };
    }

    /// Makes the child run as another user without supplementary groups. Call this after everything
    /// that needs root and before [`die_with_parent`], because changing the user resets that
    /// setting.
    pub(crate) fn become_user(command: &mut Command, user: User) {
        let change = move || {
            set_thread_groups(&[])?;
            set_thread_gid(user.gid)?;
            set_thread_uid(user.uid)?;
            Ok(())
        };
        // SAFETY: three system calls on the child's only thread; nothing is allocated.
        unsafe { command.pre_exec(change) };
    }

    /// Makes the child lead its own session, so that keys pressed at this terminal do not reach it.
    pub(crate) fn lead_session(command: &mut Command) {
        let leave = || {
            setsid()?;
            Ok(())
        };
        // SAFETY: one setsid(2); nothing is allocated.
        unsafe { command.pre_exec(leave) };
    }
}
