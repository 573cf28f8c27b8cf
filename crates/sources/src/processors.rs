//! Who uses the processors of this host, by `/proc`. Everybody may read these files, unless `/proc`
//! is mounted with `hidepid`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use lagtrace_core::observed::load_level::{ProcessorUse, ProcessorUser};
use rustix::param::clock_ticks_per_second;

/// Maximum number of processes that are read.
const MAX_PROCESSES: usize = 1 << 15;
/// Maximum number of threads that are read of a process.
const MAX_THREADS: usize = 4096;
/// Maximum number of other processes that are named.
const MOST_NAMED: usize = 3;

/// The processor times of all processes at one instant.
#[derive(Clone, Debug)]
pub struct ProcessorTimes {
    at: Instant,
    host: HostTimes,
    waited: Option<Duration>,
    processes: BTreeMap<u32, Process>,
    /// The target's processes, each with the time that its threads waited for a processor.
    service: Option<BTreeMap<u32, Duration>>,
}

/// The line of `/proc/stat` for all processors, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct HostTimes {
    processors: u32,
    busy: u64,
}

/// A process in `/proc/PID/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    name: String,
    /// Processor time in ticks, of all threads.
    ticks: u64,
    /// Start time in ticks since boot. With the number, it identifies the process.
    started: u64,
    /// The number of its parent.
    parent: u32,
}

/// Who uses the processors apart from a load.
#[derive(Clone, Debug)]
pub struct UsualUse {
    from: ProcessorTimes,
    to: ProcessorTimes,
    /// Processors that programs use which have started since and that the load does not need.
    unrelated: f64,
}

impl UsualUse {
    /// Returns the use between two instants without load.
    pub fn between(from: ProcessorTimes, to: ProcessorTimes) -> Self {
        Self {
            from,
            to,
            unrelated: 0.0,
        }
    }

    /// Notes the use between two instants with one request at a time, which needs about one
    /// processor: what programs that have started since use beyond it has nothing to do with the load.
    pub fn note_single_requests(&mut self, before: &ProcessorTimes, after: &ProcessorTimes) {
        let used = before.until(after, Some(self));
        let started = before.since_start(after, self);
        let beyond = (used.rose + used.own).saturating_sub(used.wall);
        self.unrelated =
            beyond.min(started).as_secs_f64() / used.wall.as_secs_f64().max(f64::MIN_POSITIVE);
    }

    /// Returns the processors that a process used, 0 to 1 for each of its threads.
    fn of(&self, pid: u32) -> f64 {
        let length = self.to.at.saturating_duration_since(self.from.at);
        process_time(&self.from, &self.to, pid).as_secs_f64()
            / length.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

impl ProcessorTimes {
    /// Reads the current times; `None` if the kernel does not tell. `service` are the processes of
    /// the target; `None` if they are not known.
    pub fn read(service: Option<&[u32]>) -> Option<Self> {
        let host = host(&fs::read_to_string("/proc/stat").ok()?)?;
        let pressure = fs::read_to_string("/proc/pressure/cpu").ok();
        let (at, processes) = (Instant::now(), processes());
        let service = service.map(|pids| with_descendants(pids, &processes));
        Some(Self {
            at,
            host,
            waited: pressure.and_then(|text| waited(&text)),
            processes,
            service: service.map(|pids| pids.into_iter().map(|pid| (pid, queued(pid))).collect()),
        })
    }

    /// Returns who used the processors from this instant until `later`. `usual` was measured before.
    pub fn until(&self, later: &Self, usual: Option<&UsualUse>) -> ProcessorUse {
        let wall = later.at.saturating_duration_since(self.at);
        let mut used = ProcessorUse {
            processors: later.host.processors,
            wall,
            busy: time(later.host.busy.saturating_sub(self.host.busy)),
            service: later.service.as_ref().map(|_| Duration::ZERO),
            queued: self.queued_until(later),
            some_waited: self
                .waited
                .zip(later.waited)
                .map(|(before, after)| after.saturating_sub(before)),
            ..ProcessorUse::default()
        };
        let own = own(&later.processes);
        for (&pid, process) in &later.processes {
            let time = time(process.since(self.processes.get(&pid)));
            if time.is_zero() {
                continue;
            }
            if own.contains(&pid) {
                used.own += time;
            } else if later.serves(pid) {
                used.busiest = used.busiest.max(time);
                used.service = used.service.map(|sum| sum + time);
            } else {
                used.by_others += time;
                used.rose += usual.map_or(Duration::ZERO, |usual| {
                    time.saturating_sub(wall.mul_f64(usual.of(pid).min(1e3)))
                });
                let name = process.name.clone();
                used.others.push(ProcessorUser { pid, name, time });
            }
        }
        if let Some(usual) = usual {
            let unrelated = wall.mul_f64(usual.unrelated);
            used.rose -= unrelated.min(self.since_start(later, usual));
        }
        used.others
            .sort_by_key(|user| (std::cmp::Reverse(user.time), user.pid));
        used.others.truncate(MOST_NAMED);
        used
    }

    /// Returns the processor time until `later` of all processes that have started after `usual` was
    /// measured, except lagtrace and the target's.
    fn since_start(&self, later: &Self, usual: &UsualUse) -> Duration {
        let own = own(&later.processes);
        let has_started = |pid: &u32, process: &Process| {
            let before = usual.to.processes.get(pid);
            before.is_none_or(|before| before.started != process.started)
        };
        let started = later.processes.iter().filter(|(pid, process)| {
            has_started(pid, process) && !own.contains(pid) && !later.serves(**pid)
        });
        started
            .map(|(pid, process)| time(process.since(self.processes.get(pid))))
            .sum()
    }

    fn serves(&self, pid: u32) -> bool {
        let service = self.service.as_ref();
        service.is_some_and(|service| service.contains_key(&pid))
    }

    /// Returns the time that the target's threads waited for a processor until `later`.
    fn queued_until(&self, later: &Self) -> Duration {
        let (Some(before), Some(after)) = (&self.service, &later.service) else {
            return Duration::ZERO;
        };
        let waits = after.iter().map(|(pid, after)| {
            let before = before.get(pid).copied().unwrap_or_default();
            after.saturating_sub(before)
        });
        waits.sum()
    }
}

/// Returns the processor time of a process between two instants.
fn process_time(from: &ProcessorTimes, to: &ProcessorTimes, pid: u32) -> Duration {
    let process = to.processes.get(&pid);
    time(process.map_or(0, |process| process.since(from.processes.get(&pid))))
}

/// Returns these processes and those that they started, as a server that forks for each connection
/// does. What the first process of a host started is no part of it.
fn with_descendants(pids: &[u32], processes: &BTreeMap<u32, Process>) -> BTreeSet<u32> {
    let mut known: BTreeSet<u32> = pids.iter().copied().collect();
    let mut latest: Vec<u32> = pids.iter().copied().filter(|&pid| pid > 1).collect();
    while !latest.is_empty() {
        let is_child = |process: &Process| latest.contains(&process.parent);
        let children = processes.iter().filter(|(_, process)| is_child(process));
        let children: Vec<u32> = children.map(|(&pid, _)| pid).collect();
        latest = children
            .into_iter()
            .filter(|&pid| known.insert(pid))
            .collect();
    }
    known
}

/// Returns the time that all threads of a process have waited for a processor
/// (`/proc/PID/task/TID/schedstat`, the second number).
fn queued(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let waited = |text: String| text.split_whitespace().nth(1)?.parse().ok();
    let each = threads.take(MAX_THREADS).filter_map(|thread| {
        let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        waited(text).map(Duration::from_nanos)
    });
    each.sum()
}

impl Process {
    /// Returns the ticks since `before`, which is the state of the process with the same number.
    fn since(&self, before: Option<&Self>) -> u64 {
        let before = before.filter(|before| before.started == self.started);
        self.ticks
            .saturating_sub(before.map_or(0, |before| before.ticks))
    }
}

/// Returns the numbers of this process and of its keeper, which is its parent or its child.
fn own(processes: &BTreeMap<u32, Process>) -> Vec<u32> {
    let me = std::process::id();
    let name = processes.get(&me).map(|own| own.name.as_str());
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    let parent = parent.and_then(|pid| u32::try_from(pid).ok());
    let is_keeper = |pid: &u32| processes.get(pid).map(|it| it.name.as_str()) == name;
    [me].into_iter().chain(parent.filter(is_keeper)).collect()
}

fn time(ticks: u64) -> Duration {
    let per_second = clock_ticks_per_second().max(1);
    Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / per_second))
}

/// Parses `/proc/stat` (`proc_stat(5)`): all times except those of idle processors count as busy.
fn host(text: &str) -> Option<HostTimes> {
    let figures = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user, nice, system, idle, iowait, irq, softirq, steal; the guests' times are part of user.
    let times: Vec<u64> = figures
        .split_whitespace()
        .take(8)
        .map_while(|figure| figure.parse().ok())
        .collect();
    let idle: u64 = times.get(3..5)?.iter().sum();
    let is_processor = |line: &&str| {
        let number = line.strip_prefix("cpu");
        number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
    };
    Some(HostTimes {
        processors: u32::try_from(text.lines().filter(is_processor).count()).ok()?,
        busy: times.iter().sum::<u64>().saturating_sub(idle),
    })
}

/// Parses the total of the line `some` of `/proc/pressure/cpu`.
fn waited(text: &str) -> Option<Duration> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some
        .split_whitespace()
        .find_map(|word| word.strip_prefix("total="))?;
    Some(Duration::from_micros(total.parse().ok()?))
}

fn processes() -> BTreeMap<u32, Process> {
    let Ok(folder) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    let numbers = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let read = |pid: u32| {
        let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Some((pid, process(&String::from_utf8_lossy(&text))?))
    };
    numbers.take(MAX_PROCESSES).filter_map(read).collect()
}

/// Parses `/proc/PID/stat`. The name is in parentheses, and may contain some itself.
fn process(text: &str) -> Option<Process> {
    let (head, rest) = text.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // The state, field 3, is the first one after the name.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Process {
        name,
        ticks: field(14)?.saturating_add(field(15)?),
        started: field(22)?,
        parent: u32::try_from(field(4)?).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_not_busy_and_each_processor_counts() {
        let text = "cpu  10 20 30 400 50 6 7 8 9 1\ncpu0 1 2 3 4 5 6 7 8\ncpu1 1 2 3\nintr 5\n";
        let expected = HostTimes {
            processors: 2,
            busy: 81,
        };
        assert_eq!(host(text), Some(expected));
        assert_eq!(host("cpu  1 2 3\n"), None);
    }

    #[test]
    fn a_name_may_contain_parentheses_and_blanks() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194304 1 2 3 4 250 50 0 0 20 0 1 0 9876 1 2";
        let read = process(text).expect("a process");
        assert_eq!((read.name.as_str(), read.ticks), ("a) b (c", 300));
        assert_eq!((read.started, read.parent), (9876, 1));
    }

    #[test]
    fn what_a_server_started_belongs_to_it_and_what_the_host_started_does_not() {
        let process = |(pid, parent)| {
            let process = Process {
                name: String::new(),
                ticks: 0,
                started: 0,
                parent,
            };
            (pid, process)
        };
        let all = [(1, 0), (5, 1), (6, 5), (7, 6), (8, 1), (9, 8)];
        let all: BTreeMap<u32, Process> = all.map(process).into();
        let of = |pids: &[u32]| Vec::from_iter(with_descendants(pids, &all));
        assert_eq!(of(&[5]), [5, 6, 7]);
        assert_eq!(of(&[1, 9]), [1, 9]);
    }

    #[test]
    fn pressure_is_read_in_microseconds() {
        let text = "some avg10=0.00 avg60=0.10 avg300=0.0 total=1234\nfull avg10=0.00 total=9\n";
        assert_eq!(waited(text), Some(Duration::from_micros(1234)));
        assert_eq!(waited("full total=9\n"), None);
    }

    #[test]
    fn the_time_of_this_process_is_its_own() {
        let read = || ProcessorTimes::read(Some(&[])).expect("/proc");
        let before = read();
        // The kernel counts the ticks of a process and those of a processor one after the other, so a
        // few must have passed.
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let later = read();
            let used = before.until(&later, None);
            if used.own >= Duration::from_millis(100) {
                assert!(used.busy >= used.own / 2, "{used:?}");
                assert_eq!(used.service, Some(Duration::ZERO));
                return;
            }
            assert!(Instant::now() < deadline, "hardly a tick in 20 s: {used:?}");
        }
    }

    /// Returns the times at an instant, with the ticks and start times of these processes.
    fn times(at: Instant, processes: &[(u32, u64, u64)]) -> ProcessorTimes {
        let process = |&(pid, ticks, started)| {
            let name = String::new();
            let process = Process {
                name,
                ticks,
                started,
                parent: 0,
            };
            (pid, process)
        };
        ProcessorTimes {
            at,
            host: HostTimes::default(),
            waited: None,
            processes: processes.iter().map(process).collect(),
            service: Some(BTreeMap::new()),
        }
    }

    #[test]
    fn what_started_programs_use_beside_single_requests_has_nothing_to_do_with_the_load() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let second = clock_ticks_per_second();
        // Process 1 is there before the load; processes 2 and 3 start later.
        let usual = || UsualUse::between(times(at(0), &[(1, 0, 0)]), times(at(1), &[(1, 0, 0)]));
        let rose = |single: [u64; 3], loaded: [u64; 3]| {
            let mut usual = usual();
            let [one, two, three] = single;
            let before = times(at(1), &[(1, 0, 0)]);
            let after = times(at(2), &[(1, one, 0), (2, two, 9), (3, three, 9)]);
            usual.note_single_requests(&before, &after);
            let later = [
                (1, one + loaded[0], 0),
                (2, two + loaded[1], 9),
                (3, three + loaded[2], 9),
            ];
            after.until(&times(at(3), &later), Some(&usual)).rose
        };
        let seconds = Duration::from_secs;
        // Both use a processor beside one request at a time.
        assert_eq!(rose([0, second, second], [0, second, second]), seconds(1));
        // They share one processor, and two as soon as there are more requests.
        let half = second / 2;
        assert_eq!(rose([0, half, half], [0, second, second]), seconds(2));
        // One request may need several programs at a time, and these were there before.
        assert_eq!(rose([2 * second, 0, 0], [2 * second, 0, 0]), seconds(2));
        // What has started does not hide what the others do for the load.
        assert_eq!(rose([0, second, second], [second, 0, 0]), seconds(1));
    }

    #[test]
    fn a_process_with_the_number_of_an_ended_one_starts_at_zero() {
        let process = |ticks, started| Process {
            name: String::new(),
            ticks,
            started,
            parent: 0,
        };
        assert_eq!(process(9, 1).since(Some(&process(4, 1))), 5);
        assert_eq!(process(9, 2).since(Some(&process(4, 1))), 9);
        assert_eq!(process(9, 2).since(None), 9);
    }
}
