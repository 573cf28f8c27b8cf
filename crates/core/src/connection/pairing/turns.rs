//! Messages by turns: a run of client bytes, then the run of server bytes that
//! follows.

use super::{Draft, Pairing};
use crate::connection::is_progress;
use crate::exchange::Side;
use crate::mark::{Brief, Data};

impl Pairing {
    /// By turns a response is whole when the next turn begins.
    pub(super) fn finish_turn(&mut self) {
        if let Some(draft) = self.open.back_mut().filter(|draft| draft.is_awaited()) {
            draft.complete_turn();
        }
    }

    /// By turns, with what their first bytes say where the protocol is known.
    pub(super) fn spoken_turn(&mut self, mark: &Brief, data: Data, payload: &[u8]) {
        let Some(protocol) = self.spoken else {
            return self.turn_data(mark, data);
        };
        let begins = self.open.back().is_none_or(Draft::has_response);
        let line = protocol.asks(payload);
        let is_silent = protocol.has_silent_requests() && line.is_none() && !payload.is_empty();
        if mark.by == Side::Client && begins && is_silent {
            return self.finish_turn();
        }
        self.turn_data(mark, data);
        let Some(draft) = self.open.back_mut().filter(|draft| draft.is_awaited()) else {
            return;
        };
        match mark.by {
            Side::Client if begins => draft.line = line,
            Side::Server if draft.response.start == data.span.start => {
                draft.is_error |= protocol.is_error(payload);
                draft.status = draft.status.or(protocol.status(payload));
            }
            _ => {}
        }
    }

    pub(super) fn turn_data(&mut self, mark: &Brief, data: Data) {
        if !is_progress(data.arrival) {
            return;
        }
        match mark.by {
            Side::Client => {
                let is_new_turn = self.open.back().is_none_or(Draft::has_response);
                if is_new_turn {
                    self.finish_turn();
                    self.begin(data.span.start, mark.at, mark.number);
                }
                if let Some(draft) = self.open.back_mut() {
                    draft.request.end = draft.request.end.max(data.span.end);
                }
            }
            Side::Server => {
                if let Some(draft) = self.open.back_mut().filter(|draft| draft.is_awaited()) {
                    draft.extend_turn(data.span, mark.at, mark.number);
                }
            }
        }
    }
}
