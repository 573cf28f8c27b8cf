//! Sums of durations, as they are written in times and costs.

use std::collections::BTreeMap;

/// A number of nanoseconds. It may be negative.
pub(crate) type Nanos = i64;

/// A sum as it was written, before its variables have values.
#[derive(Clone, Debug)]
pub(crate) struct Sum(Vec<Term>);

#[derive(Clone, Debug)]
struct Term {
    sign: i64,
    factor: Factor,
    atom: Atom,
}

#[derive(Clone, Debug)]
enum Factor {
    Number(f64),
    Index,
}

#[derive(Clone, Debug)]
enum Atom {
    Nanos(Nanos),
    Named(String),
    Spread(Nanos, Nanos),
}

/// The values of variables, and the state of the random numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    pub(crate) named: BTreeMap<String, Nanos>,
    pub(crate) index: u32,
    drawn: u64,
}

impl Sum {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        let mut rest = text;
        let mut sign = 1;
        loop {
            let end = rest.find(['+', '-']).unwrap_or(rest.len());
            let (word, tail) = rest.split_at(end);
            terms.push(Term::parse(sign, word).ok_or(format!("`{text}` is no sum"))?);
            let Some(operator) = tail.chars().next() else {
                return Ok(Self(terms));
            };
            sign = if operator == '+' { 1 } else { -1 };
            rest = &tail[1..];
        }
    }

    pub(crate) fn value(&self, values: &mut Values) -> Result<Nanos, String> {
        let mut sum = 0;
        for term in &self.0 {
            let atom = match &term.atom {
                Atom::Nanos(nanos) => *nanos,
                Atom::Named(name) => *values
                    .named
                    .get(name)
                    .ok_or(format!("nothing is called `{name}`"))?,
                Atom::Spread(low, high) => low + values.spread(high - low),
            };
            let factor = match term.factor {
                Factor::Number(number) => number,
                Factor::Index => f64::from(values.index),
            };
            sum += term.sign * (atom as f64 * factor) as Nanos;
        }
        Ok(sum)
    }
}

impl Term {
    fn parse(sign: i64, word: &str) -> Option<Self> {
        let (factor, atom) = match (word.split_once('*'), word.split_once('/')) {
            (Some(("i", atom)), _) => (Factor::Index, atom),
            (Some((factor, atom)), _) => (Factor::Number(factor.parse().ok()?), atom),
            (_, Some((atom, divisor))) => {
                (Factor::Number(1.0 / divisor.parse::<f64>().ok()?), atom)
            }
            _ => (Factor::Number(1.0), word),
        };
        let atom = match atom.split_once("..") {
            Some((low, high)) => Atom::Spread(nanos(low)?, nanos(high)?),
            None => match nanos(atom) {
                Some(nanos) => Atom::Nanos(nanos),
                None => Atom::Named(is_name(atom).then(|| atom.to_owned())?),
            },
        };
        Some(Self { sign, factor, atom })
    }
}

impl Values {
    pub(crate) fn of(named: BTreeMap<String, Nanos>) -> Self {
        Self {
            named,
            ..Self::default()
        }
    }

    /// Returns the next number of a pseudo-random sequence (SplitMix64), from `0..width`. The
    /// sequence is always the same.
    fn spread(&mut self, width: Nanos) -> Nanos {
        self.drawn = self.drawn.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.drawn;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        ((i128::from(mixed >> 32) * i128::from(width)) >> 32) as Nanos
    }
}

/// Parses a duration with its unit, or the number 0, into nanoseconds.
pub(crate) fn nanos(text: &str) -> Option<Nanos> {
    if text == "0" {
        return Some(0);
    }
    let units = [("ms", 1e6), ("us", 1e3), ("ns", 1.0), ("s", 1e9)];
    let (number, unit) = units
        .iter()
        .find_map(|&(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    Some((number.parse::<f64>().ok()? * unit).round() as Nanos)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[test]
fn sums_are_read_as_they_are_written() {
    let mut values = Values::default();
    values.named.insert("rtt".to_owned(), 8_000_000);
    values.index = 2;
    let cases = [
        ("0", 0),
        ("40ms", 40_000_000),
        ("rtt/2+0.2ms", 4_200_000),
        ("2*rtt-8us", 15_992_000),
        ("i*3ms", 6_000_000),
    ];
    for (text, expected) in cases {
        let sum = Sum::parse(text).expect(text);
        assert_eq!(sum.value(&mut values), Ok(expected), "{text}");
    }
    let spread = Sum::parse("40ms..44ms").expect("a spread");
    for _ in 0..100 {
        let value = spread.value(&mut values).expect("has no names");
        assert!((40_000_000..44_000_000).contains(&value), "{value}");
    }
    assert!(Sum::parse("40 parsecs").is_err());
}
