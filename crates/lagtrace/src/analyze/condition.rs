//! Conditions on exchanges: `latency>50ms and status=200 and request~"/api"`.
//!
//! ```text
//! condition = all { "or" all }            also ||
//! all       = one { "and" one }           also &&
//! one       = "not" one | "(" condition ")" | test      also !
//! test      = field operator value
//! operator  = "=" | "==" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "!~"
//! ```
//! What an exchange does not have (a status, where it is no HTTP) is equal to
//! nothing, and neither less nor more than anything.

mod field;
mod parse;

use std::fmt;
use std::str::FromStr;

use lagtrace_core::report::ExchangeRecord;

pub(super) use field::Field;

/// A condition that an exchange meets or does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Both.
    And(Box<Condition>, Box<Condition>),
    /// One or both.
    Or(Box<Condition>, Box<Condition>),
    /// Not this.
    Not(Box<Condition>),
    /// A field held against a value.
    Test(Field, Operator, Value),
}

/// How a field is held against a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    /// `=`
    Equal,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    More,
    /// `>=`
    AtLeast,
    /// `~`: contains.
    Contains,
}

/// What a field is held against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Nanoseconds, or a count.
    Number(u64),
    /// Words.
    Text(String),
    /// An address, a port, or both.
    End(Option<std::net::IpAddr>, Option<u16>),
}

/// What cannot be read, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The whole expression.
    text: String,
    /// The character that it begins at, from 0.
    at: usize,
    /// What is wrong.
    what: String,
}

impl Condition {
    /// Whether `record` meets it.
    pub(super) fn holds(&self, record: &ExchangeRecord) -> bool {
        match self {
            Self::And(one, other) => one.holds(record) && other.holds(record),
            Self::Or(one, other) => one.holds(record) || other.holds(record),
            Self::Not(inner) => !inner.holds(record),
            Self::Test(field, operator, value) => field.test(record, *operator, value),
        }
    }
}

/// The field of that name, if it can be sorted by.
pub(super) fn field_to_sort_by(name: &str) -> Result<Field, String> {
    match parse::field(name)? {
        field if field.is_number() => Ok(field),
        _ => Err(format!("`{name}` is neither a duration nor a number")),
    }
}

impl FromStr for Condition {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        parse::parse(text)
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    /// What is wrong, and the expression with a mark under the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} at character {}", self.what, self.at + 1)?;
        writeln!(f, "  {}", self.text.replace(char::is_control, " "))?;
        write!(f, "  {}^", " ".repeat(self.at))
    }
}

#[cfg(test)]
mod tests;
