//! One request at a time as a stream of HTTP/2.

use lagtrace_core::observed::event::ProbeAnswer;
use lagtrace_core::observed::time::Timestamp;

use super::client::{Answered, Client};
use super::wire::Wire;
use crate::http2::{Event, Session};

impl Client<'_> {
    /// Sends one request and reads its response.
    pub(super) fn ask_by_stream(
        &self,
        wire: &mut Wire,
        session: &mut Session,
        deadline: Timestamp,
    ) -> Answered {
        let mut answered = Answered::nothing();
        let asked = session.ask(0);
        let (mut buffer, mut events) = ([0; 16 * 1024], Vec::new());
        loop {
            send_all(wire, session);
            let len = match self.read(wire, &mut buffer, deadline) {
                Ok(Some(len)) => len,
                Ok(None) => return answered.cut(),
                Err(_) => return answered,
            };
            if len == 0 {
                return answered;
            }
            let now = self.clock.now();
            let bytes = buffer.get(..len).unwrap_or_default();
            if session.feed(bytes, &mut events).is_err() {
                answered.answer = ProbeAnswer::NotHttp;
                return answered;
            }
            let mut leaves = false;
            for event in events.drain(..) {
                match event {
                    Event::Bytes(id, _) if id == asked => {
                        answered.first.get_or_insert(now);
                    }
                    Event::Done(id, status) if id == asked => {
                        answered.answer = ProbeAnswer::Status(status);
                        answered.is_reusable = true;
                    }
                    Event::CallFailed(id, code) if id == asked => {
                        answered.answer = ProbeAnswer::Grpc(code);
                        answered.is_reusable = true;
                    }
                    Event::Reset(id) | Event::Unseen(id) if id == asked => return answered,
                    Event::Leaves(last) if last < asked => return answered,
                    Event::Leaves(_) => leaves = true,
                    _ => {}
                }
            }
            if answered.answer != ProbeAnswer::Closed {
                // What is owed to the server, such as acknowledgements, goes out with this answer.
                send_all(wire, session);
                answered.is_reusable &= !leaves && !session.is_used_up();
                return answered;
            }
        }
    }
}

/// Sends everything that the session has to send.
fn send_all(wire: &mut Wire, session: &mut Session) {
    let mut out = Vec::new();
    loop {
        session.take_output(&mut out);
        if out.is_empty() {
            return;
        }
        wire.send(&out);
        out.clear();
    }
}
