//! The rule of the cause `error-reply`.

use core::cmp::Reverse;

use super::evidence;
use super::first_packets::FirstPackets;
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Statement};
use crate::exchange::wait::Owner;
use crate::exchange::{Exchange, Outcome, ReplyError};
use crate::observed::packet::PacketNumber;
use crate::protocol::reply_error::Trouble;
use crate::report::{Affected, EvidenceKind, count, counted};
use crate::service::Counts;
use crate::stats::Merge;

/// What is the same for all kinds of trouble.
const ANY: Wording = Wording {
    summary: "",
    ruled_out: &[],
    overturned_by: "the same requests answered without an error",
    fix: &[],
};

const FULL: Wording = Wording {
    summary: "{service} refuses {part} of the requests because too many connections are open \
              ({errors}).",
    fix: &[
        (
            "client",
            "open fewer connections and reuse them: a pool of limited size, or a pooler in front of \
             the server",
        ),
        (
            "server",
            "raise its limit of connections (maxclients of Redis, max_connections of PostgreSQL and \
             MySQL, -c of memcached)",
        ),
    ],
    ..ANY
};

const NO_ROOM: Wording = Wording {
    summary: "{service} has no room left for {part} of the requests ({errors}).",
    fix: &[
        (
            "server",
            "give it more memory or disk, or let it drop what is old (maxmemory and \
             maxmemory-policy of Redis, -m of memcached)",
        ),
        ("client", "store less, or let it expire"),
    ],
    ..ANY
};

const CREDENTIALS: Wording = Wording {
    summary: "{service} refuses {part} of the requests because the client lacks valid credentials or \
              a permission ({errors}).",
    fix: &[
        ("client", "log in with valid credentials"),
        (
            "server",
            "grant this user or address what it needs (ACL of Redis, pg_hba.conf and GRANT)",
        ),
    ],
    ..ANY
};

const NOT_READY: Wording = Wording {
    summary: "{service} does not serve {part} of the requests because it is starting, stopping or not \
              in charge of the data ({errors}).",
    fix: &[
        (
            "server",
            "find in its log why it is not ready: loading its data, recovering, shutting down, no \
             majority",
        ),
        ("client", "try again later, or ask the server in charge"),
    ],
    ..ANY
};

const BUSY: Wording = Wording {
    summary: "{service} gives up {part} of the requests because others are in their way, or because \
              they took too long ({errors}).",
    fix: &[
        (
            "server",
            "find what holds the lock or runs so long (SLOWLOG of Redis, pg_stat_activity and \
             pg_locks, SHOW ENGINE INNODB STATUS)",
        ),
        ("client", "shorter transactions, always in the same order"),
    ],
    ..ANY
};

const READ_ONLY: Wording = Wording {
    summary: "{service} accepts none of the writes among {part} of the requests ({errors}).",
    fix: &[
        ("client", "write to the primary server"),
        (
            "server",
            "if it is the primary, find in its log why it accepts no writes: a failed snapshot, too \
             few replicas, a setting",
        ),
    ],
    ..ANY
};

const REQUEST: Wording = Wording {
    summary: "{service} answers {part} of the requests with an error ({errors}).",
    fix: &[(
        "client",
        "log these errors: their text says what is wrong with the request",
    )],
    ..ANY
};

const FEW: u64 = 2;

/// Counts replies that report an error, in protocols other than HTTP.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    errors: Counts<ReplyError>,
    packets: FirstPackets,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::ERROR;

    fn observe(&mut self, exchange: &Exchange) {
        if let Outcome::Failed(error) = exchange.outcome {
            self.errors.add(error, 1);
            let numbers = exchange.packets.last.map(PacketNumber::get);
            self.packets.extend(numbers);
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let (failed, all) = (self.errors.sum(), case.ledger.uncut());
        let trouble = self.trouble();
        // Programs often provoke an error on purpose, such as a row that exists already.
        let is_servers = !matches!(trouble, Trouble::Request | Trouble::Credentials);
        let is_many =
            failed >= FEW && failed as f64 >= all as f64 * evidence::FAILING_SHARE && is_servers;
        if failed == 0 || !(is_many || failed * 2 >= all) {
            return Conclusion::Nothing;
        }
        let culprit = if is_servers {
            Owner::Server
        } else {
            Owner::Unknown
        };
        let mut claim = evidence::bare_claim(Id::ErrorReply, culprit, case);
        claim.affected = Affected {
            exchanges: failed,
            of: all,
        };
        let text = format!(
            "{} of {} were answered by an error",
            count(failed),
            counted(all, "request", "requests")
        );
        claim.evidence = vec![
            Statement::shows(EvidenceKind::Wire, text)
                .count(failed)
                .packets(&self.packets),
        ];
        claim.basis = Basis::new(failed, false);
        if let Some(title) = title(trouble) {
            title.clone_into(&mut claim.text.title);
        }
        of(trouble).tell(&mut claim, &[("errors", &self.list())]);
        Conclusion::Claim(Box::new(claim))
    }
}

impl Rule {
    /// Returns the trouble that most errors report.
    fn trouble(&self) -> Trouble {
        let mut sums = Counts::<Trouble>::default();
        for (error, count) in self.errors.iter() {
            sums.add(error.trouble, count);
        }
        let most = sums
            .iter()
            .max_by_key(|&(trouble, count)| (count, Reverse(trouble)));
        most.map(|(trouble, _)| trouble).unwrap_or_default()
    }

    /// Returns the errors with their numbers, the most frequent first.
    fn list(&self) -> String {
        let mut errors: Vec<_> = self.errors.iter().collect();
        errors.sort_by_key(|&(error, count)| (Reverse(count), error));
        let list = errors.iter().map(|(error, times)| {
            let code = if error.code.is_empty() {
                "of another kind"
            } else {
                error.code
            };
            format!("{code} ×{}", count(*times))
        });
        list.take(4).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the title for a kind of trouble; `None` if the cause's own says all.
const fn title(trouble: Trouble) -> Option<&'static str> {
    Some(match trouble {
        Trouble::Full => "The server refuses clients because too many connections are open",
        Trouble::NoRoom => "The server has no room left for requests",
        Trouble::Credentials => "The server refuses clients without valid credentials",
        Trouble::NotReady => "The server is starting, stopping or not in charge",
        Trouble::Busy => "The server gives up requests that others block",
        Trouble::ReadOnly => "The server accepts no writes",
        Trouble::Request => return None,
    })
}

const fn of(trouble: Trouble) -> &'static Wording {
    match trouble {
        Trouble::Full => &FULL,
        Trouble::NoRoom => &NO_ROOM,
        Trouble::Credentials => &CREDENTIALS,
        Trouble::NotReady => &NOT_READY,
        Trouble::Busy => &BUSY,
        Trouble::ReadOnly => &READ_ONLY,
        Trouble::Request => &REQUEST,
    }
}
