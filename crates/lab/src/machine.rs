//! Access to the machine: programs and files, processes, network namespaces, and the privileges
//! that these need.

pub(crate) mod file;
pub(crate) mod helper;
pub(crate) mod namespace;
pub(crate) mod privilege;
pub(crate) mod process;
pub(crate) mod tool;
pub(crate) mod user;
