//! Accepting of connections, each on its own thread, for all built-in servers.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The stack size of a connection's thread.
const STACK: usize = 128 << 10;

/// Serves each connection on its own thread, as long as the process runs. If more than `most`
/// connections are open, further ones are closed. After each accepted connection, the listener
/// pauses for `between`.
pub(crate) fn serve_all<S>(listener: &TcpListener, most: usize, between: Duration, serve: S)
where
    S: Fn(&TcpStream) + Send + Sync + 'static,
{
    let serve = Arc::new(serve);
    let open = Arc::new(AtomicUsize::new(0));
    for connection in listener.incoming() {
        let Ok(connection) = connection else {
            // The client was gone before it was accepted, or too many files are open. In the second
            // case, an immediate retry would fail as well.
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        if open.fetch_add(1, Ordering::Relaxed) >= most {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (serve, still_open) = (Arc::clone(&serve), Arc::clone(&open));
        let thread = thread::Builder::new().stack_size(STACK).spawn(move || {
            serve(&connection);
            still_open.fetch_sub(1, Ordering::Relaxed);
        });
        if thread.is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
        thread::sleep(between);
    }
}
