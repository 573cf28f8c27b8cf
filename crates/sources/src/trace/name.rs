//! Reverse lookups of host names. They run in parallel with the measurement.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Instant;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use socket2::SockAddr;

/// Number of parallel lookups, so that a slow one does not delay the others.
const THREADS: usize = 4;
/// Maximum number of addresses that are looked up.
const MAX_ADDRESSES: usize = 1_024;
/// Maximum length of a name, in bytes (`NI_MAXHOST`).
const LONGEST: usize = 1_025;

/// Reverse lookups in progress. The system's resolver performs them.
#[derive(Debug)]
pub struct Names {
    ask: mpsc::Sender<IpAddr>,
    answers: mpsc::Receiver<(IpAddr, Option<String>)>,
    asked: BTreeSet<IpAddr>,
    waiting: usize,
}

impl Names {
    /// Starts threads that wait for addresses. After this value is dropped, each thread ends when
    /// its current lookup returns.
    pub fn begin() -> Self {
        let (ask, questions) = mpsc::channel::<IpAddr>();
        let (tell, answers) = mpsc::channel();
        let questions = Arc::new(Mutex::new(questions));
        for _ in 0..THREADS {
            let (questions, tell) = (Arc::clone(&questions), tell.clone());
            // If no thread can be started, only names are missing.
            let _ = std::thread::Builder::new()
                .name("names".to_owned())
                .spawn(move || serve(&questions, &tell));
        }
        Self {
            ask,
            answers,
            asked: BTreeSet::new(),
            waiting: 0,
        }
    }

    /// Requests the name of an address. Repeated requests are ignored.
    pub fn ask(&mut self, address: IpAddr) {
        let is_new = self.asked.len() < MAX_ADDRESSES && self.asked.insert(address);
        if is_new && self.ask.send(address).is_ok() {
            self.waiting += 1;
        }
    }

    /// Returns the names that have arrived, after waiting for others for at most `patience`.
    pub fn collect(&mut self, patience: Duration) -> Vec<(IpAddr, String)> {
        let end = Instant::now() + patience;
        let mut names = Vec::new();
        while self.waiting > 0 {
            let left = end.saturating_duration_since(Instant::now());
            let Ok((address, name)) = self.answers.recv_timeout(left) else {
                break;
            };
            self.waiting -= 1;
            names.extend(name.map(|name| (address, name)));
        }
        names
    }
}

fn serve(questions: &Mutex<mpsc::Receiver<IpAddr>>, tell: &mpsc::Sender<(IpAddr, Option<String>)>) {
    loop {
        let question = match questions.lock() {
            Ok(questions) => questions.recv(),
            Err(_) => return,
        };
        let Ok(address) = question else {
            return;
        };
        if tell.send((address, look_up(address))).is_err() {
            return;
        }
    }
}

/// Returns the name of an address; `None` if it has none.
fn look_up(address: IpAddr) -> Option<String> {
    let address = SockAddr::from(SocketAddr::new(address, 0));
    let mut name = [0 as c_char; LONGEST];
    // SAFETY: `address` is valid for its length, and `name` is valid for writing its length. No
    // service name is requested.
    let result = unsafe {
        libc::getnameinfo(
            address.as_ptr().cast(),
            address.len(),
            name.as_mut_ptr(),
            LONGEST as libc::socklen_t,
            std::ptr::null_mut(),
            0,
            libc::NI_NAMEREQD,
        )
    };
    if result != 0 {
        return None;
    }
    // SAFETY: on success, the C library has written a terminating zero byte within the buffer.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    name.to_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_a_name_and_is_asked_for_once() {
        let mut names = Names::begin();
        for _ in 0..3 {
            names.ask(IpAddr::from([127, 0, 0, 1]));
        }
        let found = names.collect(Duration::from_secs(5));
        assert!(found.len() <= 1 && names.waiting == 0, "{found:?}");
    }
}
