//! The parser of conditions.

use std::net::IpAddr;

use super::field::{FIELDS, Field, Kind};
use super::{Condition, Fault, Operator, Value};
use crate::duration;

/// Maximum nesting of parentheses and negations.
const DEEPEST: usize = 64;

/// The operators, and whether each is negated. A longer operator comes before the shorter ones that
/// it begins with.
const OPERATORS: [(&str, Operator, bool); 9] = [
    ("==", Operator::Equal, false),
    ("!=", Operator::Equal, true),
    ("!~", Operator::Contains, true),
    ("<=", Operator::AtMost, false),
    (">=", Operator::AtLeast, false),
    ("=", Operator::Equal, false),
    ("~", Operator::Contains, false),
    ("<", Operator::Less, false),
    (">", Operator::More, false),
];

/// Parses a whole condition.
pub(super) fn parse(text: &str) -> Result<Condition, Fault> {
    let mut reader = Reader { text, at: 0 };
    let condition = reader.any(0)?;
    reader.skip_spaces();
    match reader.rest() {
        "" => Ok(condition),
        _ => Err(reader.fault("expected `and`, `or` or the end")),
    }
}

/// Returns the field with this name. If there is none, the error suggests the field that may have
/// been meant.
pub(crate) fn field(name: &str) -> Result<Field, String> {
    Field::named(name).ok_or_else(|| match nearest(name) {
        Some(near) => format!("there is no field `{name}`; did you mean `{near}`?"),
        None => format!("there is no field `{name}`; `lagtrace analyze --help` lists all fields"),
    })
}

struct Reader<'a> {
    text: &'a str,
    /// The number of bytes parsed so far.
    at: usize,
}

impl<'a> Reader<'a> {
    fn any(&mut self, depth: usize) -> Result<Condition, Fault> {
        let mut condition = self.all(depth)?;
        while self.take_word("or") || self.take("||") {
            let other = self.all(depth)?;
            condition = Condition::Or(Box::new(condition), Box::new(other));
        }
        Ok(condition)
    }

    fn all(&mut self, depth: usize) -> Result<Condition, Fault> {
        let mut condition = self.one(depth)?;
        while self.take_word("and") || self.take("&&") {
            let other = self.one(depth)?;
            condition = Condition::And(Box::new(condition), Box::new(other));
        }
        Ok(condition)
    }

    fn one(&mut self, depth: usize) -> Result<Condition, Fault> {
        self.skip_spaces();
        if depth == DEEPEST {
            return Err(self.fault("nested too deep"));
        }
        if self.take_word("not") || self.take("!") {
            return Ok(Condition::Not(Box::new(self.one(depth + 1)?)));
        }
        let open = self.at;
        if self.take("(") {
            let condition = self.any(depth + 1)?;
            if self.take(")") {
                return Ok(condition);
            }
            let what = format!(
                "expected `)` for the `(` at character {}",
                self.place(open) + 1
            );
            return Err(self.fault(&what));
        }
        self.test()
    }

    fn test(&mut self) -> Result<Condition, Fault> {
        let begin = self.at;
        let name = self.while_is(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if name.is_empty() {
            return Err(self.fault("expected a field"));
        }
        let field = field(name).map_err(|what| self.fault_at(begin, what))?;
        self.skip_spaces();
        let place = self.at;
        let Some(&(sign, operator, is_negated)) =
            OPERATORS.iter().find(|(sign, ..)| self.take(sign))
        else {
            return Err(self.fault("expected one of = != < <= > >= ~ !~"));
        };
        let fits = match field.kind() {
            Kind::Duration | Kind::Number => operator != Operator::Contains,
            Kind::Text => matches!(operator, Operator::Equal | Operator::Contains),
            Kind::End => operator == Operator::Equal,
        };
        if !fits {
            return Err(self.fault_at(place, format!("`{sign}` cannot be used with `{name}`")));
        }
        let value = self.value(field.kind())?;
        let test = Condition::Test(field, operator, value);
        Ok(if is_negated {
            Condition::Not(Box::new(test))
        } else {
            test
        })
    }

    fn value(&mut self, kind: Kind) -> Result<Value, Fault> {
        self.skip_spaces();
        let begin = self.at;
        let word = if self.rest().starts_with('"') {
            self.quoted()?
        } else {
            self.while_is(|c| !c.is_whitespace() && c != '(' && c != ')')
                .to_owned()
        };
        if word.is_empty() && begin == self.at {
            return Err(self.fault("expected a value"));
        }
        let value = match kind {
            Kind::Text => Ok(Value::Text(word)),
            Kind::Duration => time(&word),
            Kind::Number => word
                .parse()
                .map(Value::Number)
                .map_err(|_| format!("`{word}` is not a whole number")),
            Kind::End => end(&word),
        };
        value.map_err(|what| self.fault_at(begin, what))
    }

    fn quoted(&mut self) -> Result<String, Fault> {
        let begin = self.at;
        let mut text = String::new();
        let mut is_escaped = false;
        for (at, c) in self.rest().char_indices().skip(1) {
            match c {
                '"' if !is_escaped => {
                    self.at = begin + at + 1;
                    return Ok(text);
                }
                '\\' if !is_escaped => is_escaped = true,
                _ => {
                    is_escaped = false;
                    text.push(c);
                }
            }
        }
        Err(self.fault_at(begin, "the closing quotation mark is missing".to_owned()))
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_spaces(&mut self) {
        self.while_is(char::is_whitespace);
    }

    fn while_is(&mut self, is_meant: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !is_meant(c)).unwrap_or(rest.len());
        self.at += len;
        rest.get(..len).unwrap_or_default()
    }

    fn take(&mut self, sign: &str) -> bool {
        self.skip_spaces();
        let is_there = self.rest().starts_with(sign);
        self.at += if is_there { sign.len() } else { 0 };
        is_there
    }

    /// Consumes a word if the text continues with it and the word ends there.
    fn take_word(&mut self, word: &str) -> bool {
        self.skip_spaces();
        let after = self.rest().strip_prefix(word);
        let is_there = after.is_some_and(|rest| {
            rest.chars()
                .next()
                .is_none_or(|c| c.is_whitespace() || c == '(' || c == '!')
        });
        self.at += if is_there { word.len() } else { 0 };
        is_there
    }

    fn place(&self, at: usize) -> usize {
        self.text.get(..at).unwrap_or_default().chars().count()
    }

    fn fault(&self, what: &str) -> Fault {
        self.fault_at(self.at, what.to_owned())
    }

    fn fault_at(&self, at: usize, what: String) -> Fault {
        Fault {
            text: self.text.to_owned(),
            at: self.place(at),
            what,
        }
    }
}

/// Parses a duration. A unit is required, because a bare number would be ambiguous.
fn time(word: &str) -> Result<Value, String> {
    let has_unit = word == "0" || word.ends_with(|c: char| c.is_ascii_alphabetic());
    let duration = has_unit.then(|| duration::parse(word).ok()).flatten();
    duration
        .map(|duration| Value::Number(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
        .ok_or_else(|| format!("`{word}` is not a duration: write it like 50ms, 1.5s or 200us"))
}

/// Parses an endpoint of a connection: `10.0.0.2:80`, `10.0.0.2`, `:80`, `[::1]:80` or `::1`.
fn end(word: &str) -> Result<Value, String> {
    let fault =
        || format!("`{word}` is not an address: write it like 10.0.0.2:80, 10.0.0.2 or :80");
    if let Ok(addr) = word.parse::<IpAddr>() {
        return Ok(Value::End(Some(addr), None));
    }
    let (addr, port) = word.rsplit_once(':').ok_or_else(fault)?;
    let port = port.parse().map_err(|_| fault())?;
    let addr = match addr.trim_start_matches('[').trim_end_matches(']') {
        "" => None,
        addr => Some(addr.parse().map_err(|_| fault())?),
    };
    Ok(Value::End(addr, Some(port)))
}

/// Returns the field whose name has the longest common prefix with `name`.
fn nearest(name: &str) -> Option<&'static str> {
    let alike = |known: &str| {
        let pairs = known.chars().zip(name.chars());
        pairs.take_while(|(one, other)| one == other).count()
    };
    let names = FIELDS.iter().map(|&(name, _)| name);
    names
        .max_by_key(|known| alike(known))
        .filter(|known| alike(known) >= 3)
}
