//! Suspects that can be checked on this host: packet filters and full queues.

use lagtrace_core::observed::event::{EventBody, FirewallState, ListenerSample};
use lagtrace_sources::firewall;
use lagtrace_sources::privilege::NetworkNamespace;

use super::Investigation;
use crate::failure::Result;
use crate::words;

impl Investigation<'_> {
    /// Checks the rules and the queues that the subject's connections pass.
    pub(super) fn suspects(&mut self) -> Result<()> {
        self.firewall()?;
        self.backlog();
        Ok(())
    }

    fn firewall(&mut self) -> Result<()> {
        let endpoint = self.subject().target.endpoint();
        match NetworkNamespace::own() {
            Ok(own) => {
                let state = firewall::read(&own, endpoint, false);
                self.tell_firewall("firewall", state);
            }
            Err(error) => self.refused("firewall", &error, "whether packet filter rules block"),
        }
        let state = self.subject().server.as_ref().and_then(|server| {
            let is_elsewhere = !server.namespace().is_own();
            is_elsewhere.then(|| firewall::read(server.namespace(), server.endpoint(), false))
        });
        if let Some(state) = state {
            self.tell_firewall("its firewall", state);
        }
        Ok(())
    }

    fn tell_firewall(&mut self, step: &str, state: FirewallState) {
        let text = match state.blocking_rules {
            Some(0) => "no rule drops or rejects this traffic".to_owned(),
            Some(rules) => format!(
                "{} could match",
                words::plural(rules.into(), "blocking rule")
            ),
            None => format!("not read: {}", state.because),
        };
        self.console.outcome(step, &text);
        self.feed.observe_now(EventBody::Firewall(state));
    }

    fn backlog(&mut self) {
        let Some(server) = &self.subject().server else {
            return;
        };
        match server.listeners() {
            Ok(listeners) => {
                for listener in listeners {
                    self.console.outcome("backlog", &describe(&listener));
                    self.feed.observe_now(EventBody::Listener(listener));
                }
            }
            Err(error) => self.refused("backlog", &error, "how full the server's queues are"),
        }
    }
}

fn describe(listener: &ListenerSample) -> String {
    let syn = match listener.syn_backlog {
        Some(limit) => format!("{} of {limit} half open", listener.embryonic),
        None => format!("{} half open", listener.embryonic),
    };
    format!(
        "{}: {} of {} places in the accept queue used, {syn}",
        listener.local, listener.queued, listener.limit
    )
}
