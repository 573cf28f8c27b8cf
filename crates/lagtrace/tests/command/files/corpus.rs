//! The recordings that tests share.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Returns the file of one end, `client` or `server`, of a recording of the corpus.
pub(crate) fn recording(name: &str, end: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../corpus")
        .join(name);
    let files = [format!("{end}.pcap.gz"), format!("{end}.pcapng.gz")];
    let mut paths = files.iter().map(|file| folder.join(file));
    let path = paths.find(|path| path.is_file());
    path.unwrap_or_else(|| panic!("corpus/{name} has no capture of the {end}'s"))
}

/// Returns the output of tshark for a file.
pub(crate) fn tshark(file: &std::path::Path, arguments: &[&str]) -> String {
    let output = Command::new("tshark")
        .arg("-n")
        .arg("-r")
        .arg(file)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "tshark {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}
