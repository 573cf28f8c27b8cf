//! The checks of the fuzz targets. Those of the core are the files of its tests.

#[path = "../../crates/core/tests/hostile/analyzer.rs"]
mod analyzer;
#[path = "../../crates/core/tests/hostile/conversation.rs"]
mod conversation;
#[path = "../../crates/core/tests/hostile/decode.rs"]
mod decode;
pub mod document;
#[path = "../../crates/core/tests/hostile/protocols.rs"]
#[allow(dead_code, reason = "the tests also read recordings")]
mod protocols;

/// Analyzes what is said in a protocol, and checks the result.
pub fn conversation(protocol: &str, bytes: &[u8]) {
    let found = protocols::KINDS.iter().find(|kind| kind.name == protocol);
    conversation::check(found.expect("a protocol of this name"), bytes);
}

/// Decodes any bytes, and checks the result.
pub fn decode(bytes: &[u8]) {
    decode::check(bytes);
}

/// Analyzes any bytes as a capture file, and checks the result.
pub fn analyze(bytes: &[u8]) {
    analyzer::check(bytes);
}
