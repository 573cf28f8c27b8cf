//! The files of a recording: captured into a scratch folder, converted as the scenario specifies,
//! compressed, and moved to their destination in one step.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::drawn::Drawn;
use super::label::Label;
use crate::error::Error;
use crate::machine::tool;
use crate::scenario::{CaptureFormat, CaptureSpec};

/// Maximum number of packets that editcap can leave out.
const MOST_LEFT_OUT: usize = 512;

/// A folder next to the recordings, removed on drop.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub(super) fn new(corpus: &Path) -> Result<Self, Error> {
        // Several threads of this process may record at the same time.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = corpus.join(format!(".recording-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).map_err(Error::file("create", &path))?;
        let path = fs::canonicalize(&path).map_err(Error::file("find", &path))?;
        Ok(Self { path })
    }

    pub(super) fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).map_err(Error::file("create", &path))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that cannot be removed is hidden, so it does no harm.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Converts a capture as the scenario specifies, and returns its path.
pub(super) fn shape(file: &Path, spec: &CaptureSpec, seed: u64) -> Result<PathBuf, Error> {
    if let Some(vlan) = spec.vlan {
        super::vlan::tag(file, vlan)?;
    }
    let is_pcapng = spec.format == CaptureFormat::Pcapng;
    if !is_pcapng && spec.lose == 0.0 {
        return Ok(file.to_owned());
    }
    tool::require("editcap", "wireshark-common")?;
    let shaped = if is_pcapng {
        file.with_extension("pcapng")
    } else {
        file.with_extension("less.pcap")
    };
    let mut editcap = tool::command("editcap");
    editcap.args(["-F", kind(spec.format)]);
    editcap.arg(file).arg(&shaped);
    editcap.args(left_out(file, spec.lose, seed)?);
    tool::run_with_input(editcap, "")?;
    if is_pcapng {
        return Ok(shaped);
    }
    fs::rename(&shaped, file).map_err(Error::file("replace", file))?;
    Ok(file.to_owned())
}

/// Applies the drawn parameters to an otherwise finished capture, and returns its path.
pub(super) fn redo(file: &Path, spec: &CaptureSpec, drawn: &Drawn) -> Result<PathBuf, Error> {
    let &Drawn {
        snapshot,
        format,
        begin_percent,
        ..
    } = drawn;
    if (snapshot, format, begin_percent) == (None, None, None) {
        return Ok(file.to_owned());
    }
    tool::require("editcap", "wireshark-common")?;
    let format = format.unwrap_or(spec.format);
    let place = match format {
        CaptureFormat::Pcapng => file.with_extension("pcapng"),
        CaptureFormat::Pcap | CaptureFormat::PcapMicro => file.with_extension("pcap"),
    };
    let redone = place.with_extension("redone");
    let mut editcap = tool::command("editcap");
    editcap.args(["-F", kind(format)]);
    if let Some(bytes) = snapshot {
        editcap.args(["-s", &bytes.to_string()]);
    }
    if begin_percent.is_some() {
        editcap.arg("-r");
    }
    editcap.arg(file).arg(&redone);
    if let Some(percent) = begin_percent {
        let packets = count_packets(file, "frame")?;
        let first = packets * u64::from(percent) / 100 + 1;
        editcap.arg(format!("{first}-{packets}"));
    }
    tool::run_with_input(editcap, "")?;
    fs::rename(&redone, &place).map_err(Error::file("replace", &place))?;
    Ok(place)
}

/// Returns the name of a format for editcap.
fn kind(format: CaptureFormat) -> &'static str {
    match format {
        CaptureFormat::Pcap => "nsecpcap",
        CaptureFormat::PcapMicro => "pcap",
        CaptureFormat::Pcapng => "pcapng",
    }
}

/// Returns the numbers of the packets to leave out of a file: evenly spaced, with an offset from
/// the seed.
fn left_out(file: &Path, share: f64, seed: u64) -> Result<Vec<String>, Error> {
    if share == 0.0 {
        return Ok(Vec::new());
    }
    let packets = count_packets(file, "frame")?;
    let every = (1.0 / share).round().max(2.0) as u64;
    let first = seed % every + 1;
    let numbers = (first..=packets).step_by(usize::try_from(every).unwrap_or(usize::MAX));
    Ok(numbers
        .take(MOST_LEFT_OUT)
        .map(|number| number.to_string())
        .collect())
}

/// Compresses the captures, writes the label, and moves both to their destination, which is
/// replaced.
pub(super) fn publish(
    scratch: &Scratch,
    captures: &[PathBuf],
    label: &Label,
    place: &Path,
) -> Result<PathBuf, Error> {
    let ready = scratch.folder("ready")?;
    for capture in captures {
        let name = capture.file_name().unwrap_or_default();
        let moved = ready.join(name);
        fs::rename(capture, &moved).map_err(Error::file("move", capture))?;
        let mut gzip = tool::command("gzip");
        // -n stores no time and no name, so that equal captures give equal files.
        gzip.args(["-9", "-n", "-f"]).arg(&moved);
        tool::run_with_input(gzip, "")?;
    }
    let file = ready.join("truth.json");
    let mut text = serde_json::to_vec_pretty(label).expect("a label is text and numbers");
    text.push(b'\n');
    fs::write(&file, text).map_err(Error::file("write", &file))?;
    if place.exists() {
        fs::remove_dir_all(place).map_err(Error::file("replace", place))?;
    }
    fs::rename(&ready, place).map_err(Error::file("create", place))?;
    Ok(place.to_owned())
}

/// Counts the packets of a file that match a display filter.
pub(super) fn count_packets(file: &Path, filter: &str) -> Result<u64, Error> {
    tool::require("tshark", "tshark")?;
    let mut tshark = tool::command("tshark");
    // Some fields depend on later packets, so tshark needs two passes (-2). -n prevents name
    // lookups.
    tshark.args(["-n", "-2", "-r"]).arg(file);
    tshark.args(["-Y", filter, "-T", "fields", "-e", "frame.number"]);
    let text = tool::output_of(tshark)?;
    Ok(text.lines().filter(|line| !line.trim().is_empty()).count() as u64)
}
