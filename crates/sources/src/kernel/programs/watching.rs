//! The programs of a watch (`bpf/watch.bpf.c`).

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io;

use libbpf_rs::{Link, MapCore as _, MapFlags, Object};

use super::object::{Attached, Wanted, attached, close_open_turns, of_look, refused};
use super::settings::config;
use super::{counts, has_types};
use crate::clock::Clock;
use crate::kernel::KernelError;
use crate::kernel::hooks::{Hooks, OPEN_TURNS};
use crate::kernel::request::{Sample, WatchCounts, WatchRequest};

/// The attached programs of a watch.
pub(super) struct Watching {
    object: Object,
    /// Links of the programs, which detach when they are dropped.
    links: Vec<Link>,
    /// Links of the programs that report segments and threads while the sample is looked at.
    of_look: Vec<Link>,
    /// The times at which reading and writing are observed.
    wanted: Wanted,
    /// Optional programs that are not used.
    lacking: Hooks,
    /// Minimum duration in ns of exchanges that are reported even outside of the sample; 0: none
    /// are.
    slow_from: u64,
    /// The process whose connections are watched.
    pid: Option<u32>,
    /// True if this process has ended.
    is_left: bool,
    /// True if the programs have been detached.
    is_over: bool,
    /// Names of the kernel's drop reasons, which are read when the first drop is seen.
    reasons: OnceCell<BTreeMap<u32, String>>,
}

impl Watching {
    /// Loads the programs, and attaches those that run all the time.
    pub(super) fn start(asked: &WatchRequest) -> Result<Self, KernelError> {
        has_types()?;
        let config = config(asked)?;
        let wanted = if asked.is_for_ports_alone() && asked.slow_from.is_none() {
            Wanted::InLooks
        } else {
            Wanted::Always
        };
        let Attached {
            object,
            links,
            lacking,
        } = attached(&config, asked.without, wanted)?;
        // Without a port, the reads and writes determine the watched connections, so their
        // tracepoints are needed. The iterator is optional: it only adds the last requests.
        let needed = lacking.names().filter(|&name| name != OPEN_TURNS);
        let needed: Vec<&str> = needed.collect();
        if asked.ports.is_empty() && !needed.is_empty() {
            return Err(KernelError::Refused {
                program: needed.join(", "),
                source: io::ErrorKind::NotFound.into(),
            });
        }
        Ok(Self {
            object,
            links,
            of_look: Vec::new(),
            wanted,
            lacking,
            slow_from: asked.slow_from.unwrap_or_default(),
            pid: asked.pid,
            is_left: false,
            is_over: false,
            reasons: OnceCell::new(),
        })
    }

    /// Returns the loaded programs with their maps.
    pub(super) fn object(&self) -> &Object {
        &self.object
    }

    /// Returns the optional programs that are not used.
    pub(super) fn lacking(&self) -> Hooks {
        self.lacking
    }

    /// Begins or ends a sampling period, or changes the sample.
    pub(super) fn sample(&mut self, sample: Sample) -> Result<(), KernelError> {
        if self.is_left {
            return Ok(());
        }
        if self.is_over {
            return Err(KernelError::OutOfTurn);
        }
        let is_on = sample.look > 0;
        if is_on && self.of_look.is_empty() {
            self.of_look = of_look(&self.object, self.lacking, self.wanted)?;
        }
        // The sampling period begins after all programs are attached and ends before they are
        // detached.
        self.control(sample)?;
        if !is_on {
            self.of_look.clear();
        }
        Ok(())
    }

    /// Detaches the programs if they watch this process, which has ended.
    pub(super) fn forget(&mut self, pid: u32) {
        if self.pid == Some(pid) {
            self.detach();
            self.is_left = true;
        }
    }

    /// Passes the sampling parameters to the programs (`struct watch_control`).
    fn control(&self, sample: Sample) -> Result<(), KernelError> {
        // The clock may have been set since the last sampling period.
        let monotonic = -Clock::new().offset_in_kernel();
        let mut value = self.slow_from.to_ne_bytes().to_vec();
        value.extend(sample.mask.to_ne_bytes());
        value.extend(sample.look.to_ne_bytes());
        value.extend(monotonic.to_ne_bytes());
        value.extend(u64::from(sample.is_whole).to_ne_bytes());
        let Some(map) = self.object.maps().find(|map| map.name() == "control") else {
            return Ok(());
        };
        map.update(&0u32.to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(|error| refused("the sample", &error))
    }

    /// Detaches the programs, and reports the exchanges that are still open.
    pub(super) fn detach(&mut self) {
        self.links.clear();
        self.of_look.clear();
        if !self.is_over {
            close_open_turns(&self.object);
        }
        self.is_over = true;
    }

    /// Returns all counts so far.
    pub(super) fn counts(&self) -> WatchCounts {
        counts::of_watch(&self.object, || self.reasons.get_or_init(counts::reasons))
    }
}
