//! The lab's means on the machine: its programs and files, processes, network namespaces, and the
//! privileges for them.

pub(crate) mod file;
pub(crate) mod helper;
pub(crate) mod namespace;
pub(crate) mod privilege;
pub(crate) mod process;
pub(crate) mod tool;
pub(crate) mod user;
