//! The process state that all connections of a server share: workers, warm-up, stops and clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, Once, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::options::{OwnServer, Stops, Thinking};

/// The process of a service.
pub(super) struct Process {
    begun: Instant,
    stops: Option<Stops>,
    warm: Once,
    /// The number of requests whose work was begun.
    requests: AtomicU64,
    /// The number of idle workers; `None` if there is one for every connection.
    idle: Option<Mutex<u16>>,
    returned: Condvar,
}

/// A busy worker. It becomes idle when this value is dropped.
pub(super) struct Worker<'a>(&'a Process);

impl Process {
    pub(super) fn new(server: &OwnServer) -> Self {
        Self {
            begun: Instant::now(),
            stops: server.thinking.stops.clone(),
            warm: Once::new(),
            requests: AtomicU64::new(0),
            idle: server.accepting.workers.map(Mutex::new),
            returned: Condvar::new(),
        }
    }

    /// Waits for a free worker.
    pub(super) fn worker(&self) -> Worker<'_> {
        if let Some(idle) = &self.idle {
            let idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self.returned.wait_while(idle, |idle| *idle == 0);
            *waited.unwrap_or_else(PoisonError::into_inner) -= 1;
        }
        Worker(self)
    }

    /// Sleeps until the process next checks its connections, if it checks them only at intervals.
    pub(super) fn wait_for_tick(&self, tick: Duration) {
        if !tick.is_zero() {
            sleep(tick - remainder(self.begun.elapsed(), tick));
        }
    }

    /// Sleeps until the end of the current stop, if there is one.
    pub(super) fn wait_while_stopped(&self) {
        let Some(stops) = &self.stops else { return };
        let elapsed = self.begun.elapsed();
        let since_stop = remainder(elapsed, stops.every);
        // The first stop begins after one interval.
        if elapsed >= stops.every && since_stop < stops.time {
            sleep(stops.time - since_stop);
        }
    }

    /// Performs the work for one request.
    pub(super) fn think(&self, thinking: &Thinking) {
        self.warm.call_once(|| sleep(thinking.warm_up));
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let one_in = u64::from(thinking.one_in.unwrap_or(1));
        if number % one_in == one_in - 1 {
            sleep(thinking.time);
        }
        self.wait_while_stopped();
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        if let Some(idle) = &self.0.idle {
            *idle.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            self.0.returned.notify_one();
        }
    }
}

/// Returns the remainder of a time after division by a period.
fn remainder(time: Duration, period: Duration) -> Duration {
    let left = time.as_nanos() % period.as_nanos().max(1);
    Duration::from_nanos(u64::try_from(left).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_taken_and_given_back() {
        let mut server = OwnServer::default();
        server.accepting.workers = Some(1);
        let process = Process::new(&server);
        for _ in 0..3 {
            drop(process.worker());
        }
        let idle = process.idle.as_ref().expect("it has one worker");
        let worker = process.worker();
        assert_eq!(idle.lock().map(|idle| *idle).ok(), Some(0));
        drop(worker);
        assert_eq!(idle.lock().map(|idle| *idle).ok(), Some(1));
    }

    #[test]
    fn whole_periods_leave_a_remainder() {
        let ms = Duration::from_millis;
        assert_eq!(remainder(ms(130), ms(50)), ms(30));
        assert_eq!(remainder(ms(100), ms(50)), ms(0));
        assert_eq!(remainder(ms(100), ms(0)), ms(0));
    }
}
