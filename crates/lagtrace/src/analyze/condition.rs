//! Conditions on exchanges: `latency>50ms and status=200 and request~"/api"`.
//!
//! ```text
//! condition = all { "or" all }            also ||
//! all       = one { "and" one }           also &&
//! one       = "not" one | "(" condition ")" | test      also !
//! test      = field operator value
//! operator  = "=" | "==" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "!~"
//! ```
//! An exchange may lack a property: without HTTP, for example, it has no status. A missing property
//! is neither equal to any value, nor less, nor greater.

mod field;
mod parse;

use std::fmt;
use std::str::FromStr;

use lagtrace_core::report::ExchangeRecord;

pub(super) use field::Field;

/// A condition on an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Both conditions hold.
    And(Box<Condition>, Box<Condition>),
    /// At least one of the conditions holds.
    Or(Box<Condition>, Box<Condition>),
    /// The condition does not hold.
    Not(Box<Condition>),
    /// A field compared with a value.
    Test(Field, Operator, Value),
}

/// An operator of a test.
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
    /// `~`: the text contains the value.
    Contains,
}

/// The value with which a field is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// A number: nanoseconds, or a count.
    Number(u64),
    /// A text.
    Text(String),
    /// An address, a port, or both.
    End(Option<std::net::IpAddr>, Option<u16>),
}

/// The error for an expression that cannot be parsed, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The whole expression.
    text: String,
    /// The index of the character at which the error occurred, from 0.
    at: usize,
    /// The message.
    what: String,
}

impl Condition {
    /// Returns true if `record` satisfies the condition.
    pub(crate) fn holds(&self, record: &ExchangeRecord) -> bool {
        match self {
            Self::And(one, other) => one.holds(record) && other.holds(record),
            Self::Or(one, other) => one.holds(record) || other.holds(record),
            Self::Not(inner) => !inner.holds(record),
            Self::Test(field, operator, value) => field.test(record, *operator, value),
        }
    }
}

/// Returns the field with this name, if exchanges can be sorted by it.
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
    /// Writes the message, and the expression with a mark below the position of the error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} at character {}", self.what, self.at + 1)?;
        writeln!(f, "  {}", self.text.replace(char::is_control, " "))?;
        write!(f, "  {}^", " ".repeat(self.at))
    }
}

#[cfg(test)]
mod tests;
