//! Writing JSON. Each serializer is another copy of the code for each type of a report, a third of
//! a megabyte in all. Therefore everything here goes through the same one.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

/// Writes a value without white space.
///
/// # Errors
/// Returns the writer's error.
pub(crate) fn write(to: &mut dyn Write, value: &(impl Serialize + ?Sized)) -> io::Result<()> {
    let mut serializer = Serializer::with_formatter(to, Layout::Compact(CompactFormatter));
    Ok(value.serialize(&mut serializer)?)
}

/// Returns a value as text without white space.
pub(crate) fn compact(value: &(impl Serialize + ?Sized)) -> String {
    text(value, Layout::Compact(CompactFormatter))
}

/// Returns a value as indented text.
pub(crate) fn indented(value: &(impl Serialize + ?Sized)) -> String {
    text(value, Layout::Indented(PrettyFormatter::new()))
}

/// Returns a value as a tree.
pub(crate) fn tree(value: &(impl Serialize + ?Sized)) -> Value {
    serde_json::from_slice(compact(value).as_bytes()).expect("it was just written")
}

fn text(value: &(impl Serialize + ?Sized), layout: Layout) -> String {
    let mut bytes = Vec::new();
    let to: &mut dyn Write = &mut bytes;
    let written = value.serialize(&mut Serializer::with_formatter(to, layout));
    written.expect("our types have string keys only, and memory takes all");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

/// The white space between the tokens of a document.
enum Layout {
    Compact(CompactFormatter),
    Indented(PrettyFormatter<'static>),
}

/// Passes on the calls that write white space.
macro_rules! pass_on {
    ($($call:ident($($argument:ident: $of:ty),*);)*) => {
        $(fn $call<W: ?Sized + Write>(&mut self, to: &mut W $(, $argument: $of)*) -> io::Result<()> {
            match self {
                Self::Compact(layout) => layout.$call(to $(, $argument)*),
                Self::Indented(layout) => layout.$call(to $(, $argument)*),
            }
        })*
    };
}

impl Formatter for Layout {
    pass_on! {
        begin_array();
        end_array();
        begin_array_value(is_first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(is_first: bool);
        begin_object_value();
        end_object_value();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_ways_give_what_the_library_gives() {
        let value = json!({"a": [1, 2.5, "\n", null, {}, []], "b": {"c": true}});
        let mut written = Vec::new();
        write(&mut written, &value).expect("memory takes all");
        assert_eq!(written, value.to_string().as_bytes());
        assert_eq!(compact(&value), value.to_string());
        assert_eq!(
            indented(&value),
            serde_json::to_string_pretty(&value).expect("text")
        );
        assert_eq!(tree(&value), value);
    }
}
