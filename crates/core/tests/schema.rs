//! Tests that the committed JSON Schemas describe the current types.
#![allow(
    clippy::disallowed_methods,
    reason = "the crate does no I/O; this test reads the files that it guards"
)]

use std::fs;
use std::path::Path;

use lagtrace_core::report::{ExchangeRecord, Picture, Report};
use lagtrace_core::views::compare::Comparison;
use schemars::{JsonSchema, schema_for};

/// Compares the schema of a type with its file, or writes the file if `UPDATE_SCHEMA` is set.
fn check<T: JsonSchema>(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../schema")
        .join(file);
    let text = serde_json::to_string_pretty(&schema_for!(T)).expect("a schema is plain JSON");
    let wanted = format!("{text}\n");
    if std::env::var("UPDATE_SCHEMA").is_ok_and(|value| value == "1") {
        fs::write(&path, &wanted).expect("the schema directory can be written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "schema/{file} is stale: run `UPDATE_SCHEMA=1 cargo test -p lagtrace-core --test schema` \
         and commit it. If a field changed its meaning, raise the schema's version."
    );
}

#[test]
fn report_schema_is_fresh() {
    check::<Report>("report-2.json");
}

#[test]
fn comparison_schema_is_fresh() {
    check::<Comparison>("comparison-1.json");
}

#[test]
fn exchange_schema_is_fresh() {
    check::<ExchangeRecord>("exchange-1.json");
}

#[test]
fn picture_schema_is_fresh() {
    check::<Picture>("picture-1.json");
}
