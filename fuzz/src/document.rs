//! Changes of JSON documents that leave them readable.

use serde_json::{Map, Value, json};

/// Numbers and texts for which views are likely to be wrong.
const NUMBERS: [u64; 8] = [
    0,
    1,
    999,
    1 << 31,
    1 << 32,
    1 << 53,
    i64::MAX as u64,
    u64::MAX,
];
const TEXTS: [&str; 6] = [
    "",
    "</script><fuzzed>",
    "\u{1b}]0;x\u{7}\u{9b}2J\r\n",
    "\u{202e}\u{200b}\u{301}",
    "server-think",
    "\u{fffd}\u{10ffff}\u{ff21}",
];
/// The share of changes that are left to the fuzzer's own mutations of bytes: one in so many.
const OTHERS: u64 = 4;

/// Returns the document with one to four changes; `None` if it is not JSON, or this change is left
/// to the fuzzer.
pub fn changed(bytes: &[u8], seed: u32) -> Option<Vec<u8>> {
    let mut draw = Draw(u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    if draw.below(OTHERS) == 0 {
        return None;
    }
    let mut value: Value = serde_json::from_slice(bytes).ok()?;
    for _ in 0..=draw.below(4) {
        let count = places(&value);
        let at = draw.below(count);
        change(&mut value, &mut { at }, &mut draw);
    }
    serde_json::to_vec(&value).ok()
}

/// Pseudo-random numbers (xorshift).
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % bound.max(1)
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

/// Returns the number of values in a document.
fn places(value: &Value) -> u64 {
    1 + match value {
        Value::Array(list) => list.iter().map(places).sum(),
        Value::Object(map) => map.values().map(places).sum(),
        _ => 0,
    }
}

/// Changes the value number `at`, counted in order. Returns true if it was found.
fn change(value: &mut Value, at: &mut u64, draw: &mut Draw) -> bool {
    if *at == 0 {
        change_here(value, draw);
        return true;
    }
    *at -= 1;
    match value {
        Value::Array(list) => list.iter_mut().any(|inner| change(inner, at, draw)),
        Value::Object(map) => map.values_mut().any(|inner| change(inner, at, draw)),
        _ => false,
    }
}

fn change_here(value: &mut Value, draw: &mut Draw) {
    match value {
        Value::Number(number) => {
            *value = match (number.as_u64(), draw.below(4)) {
                (Some(known), 0) => json!(known.wrapping_mul(1000)),
                (_, 1) => json!(-(draw.one_of(&NUMBERS).min(1 << 62) as i64)),
                (None, 2) => json!(draw.one_of(&[0.0, -1.0, 1e-300, 1e300, 0.5])),
                _ => json!(draw.one_of(&NUMBERS)),
            }
        }
        Value::String(_) => *value = json!(draw.one_of(&TEXTS)),
        Value::Bool(is) => *is = !*is,
        Value::Array(list) if draw.below(2) == 0 => {
            // Few documents have an item of a kind many times.
            let times = draw.below(40) as usize;
            if let Some(first) = list.first().cloned() {
                list.extend(core::iter::repeat_n(first, times));
            }
        }
        Value::Array(list) => list.clear(),
        Value::Object(map) => change_fields(map, draw),
        Value::Null => *value = json!(draw.one_of(&NUMBERS)),
    }
}

/// Removes a field.
fn change_fields(map: &mut Map<String, Value>, draw: &mut Draw) {
    let at = draw.below(map.len() as u64) as usize;
    if let Some(name) = map.keys().nth(at).cloned() {
        map.remove(&name);
    }
}
