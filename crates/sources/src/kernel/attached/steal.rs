//! Steal time during a watch: processor time that the hypervisor gave to other guests.

use std::fs;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;

/// The steal time when watching began.
#[derive(Debug)]
pub(super) struct Steal(Option<Duration>);

impl Steal {
    pub(super) fn new() -> Self {
        Self(counted())
    }

    /// Returns the steal time since watching began, summed over all processors; `None` if the
    /// kernel does not report it.
    pub(super) fn since(&self) -> Option<Duration> {
        Some(counted()?.saturating_sub(self.0?))
    }
}

fn counted() -> Option<Duration> {
    let ticks = read(&fs::read_to_string("/proc/stat").ok()?)?;
    Some(Duration::from_secs(ticks) / u32::try_from(clock_ticks_per_second()).ok()?)
}

/// Parses the eighth number, in ticks, of the line for all processors (`proc_stat(5)`).
fn read(text: &str) -> Option<u64> {
    let figures = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    figures.split_whitespace().nth(7)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_of_all_processors_is_read() {
        let text = "cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(read(text), Some(80));
        assert_eq!(read("cpu  10 20 30 40\n"), None, "a kernel before 2.6.11");
    }
}
