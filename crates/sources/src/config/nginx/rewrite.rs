//! The effect of the rewrite module on a request, before or after the location is determined
//! (`src/http/modules/ngx_http_rewrite_module.c`). Internal redirects of nginx are detected but not
//! followed.

use super::pattern::{Match, search};
use super::tree::{Directive, Tree};

/// The combined effect of the rewrite directives of one block.
#[derive(Debug, Default)]
pub(crate) struct Rewriting<'c> {
    /// The directive that answers the request.
    pub(crate) answer: Option<&'c Directive>,
    /// Reasons why another location may answer the request.
    pub(crate) doubts: Vec<String>,
}

/// Evaluates the rewrite directives of a block in order.
pub(crate) fn follow<'c>(tree: &Tree, block: &'c [Directive], uri: &[u8]) -> Rewriting<'c> {
    let mut found = Rewriting::default();
    for directive in block {
        let place = tree.show(directive.at);
        if directive.name == *"if" && directive.block.is_some() {
            if may_leave(directive) {
                let condition = directive.arguments();
                found.doubts.push(format!(
                    "`if {condition}` at {place} may answer or rewrite the request, and was not evaluated"
                ));
            }
        } else if directive.name == *"return" {
            found.answer = Some(directive);
            return found;
        } else if directive.name == *"break" {
            return found;
        } else if directive.name == *"rewrite" {
            match rewrite(directive, uri) {
                Rewrite::Answers => {
                    found.answer = Some(directive);
                    return found;
                }
                Rewrite::Stays => return found,
                Rewrite::Passes => {}
                Rewrite::Leaves(how) => {
                    let text = format!("`rewrite` at {place} {how}");
                    found.doubts.push(text);
                    return found;
                }
            }
        }
    }
    found
}

/// The effect of one `rewrite` on this URI.
enum Rewrite {
    /// The pattern does not match.
    Passes,
    /// The request is answered with a redirect to the client.
    Answers,
    /// The URI is changed and rewriting ends, within the same block.
    Stays,
    /// The request may continue in another location. Contains the reason.
    Leaves(String),
}

fn rewrite(directive: &Directive, uri: &[u8]) -> Rewrite {
    let [pattern, replacement, flags @ ..] = directive.args.as_slice() else {
        return Rewrite::Leaves("has too few arguments".into());
    };
    match search(pattern, uri, false) {
        Match::No => return Rewrite::Passes,
        Match::Unknown(why) => return Rewrite::Leaves(format!("was not evaluated: {why}")),
        Match::Yes => {}
    }
    let is_url = ["http://", "https://", "$scheme"]
        .iter()
        .any(|start| replacement.starts_with(start.as_bytes()));
    let flag = flags.first().map(|word| word.text()).unwrap_or_default();
    match flag.as_str() {
        "redirect" | "permanent" => Rewrite::Answers,
        _ if is_url => Rewrite::Answers,
        "break" => Rewrite::Stays,
        _ => Rewrite::Leaves("changes the URI; the new URI was not followed".into()),
    }
}

/// Returns true if an `if` block can answer the request or move it to another location.
fn may_leave(condition: &Directive) -> bool {
    condition
        .inner()
        .iter()
        .any(|inner| inner.name == *"return" || inner.name == *"rewrite")
}

/// The result of `try_files` if none of its files exists.
pub(crate) enum Fallback {
    /// A status code, sent from the same location.
    Status,
    /// A URI, for which nginx determines the location again.
    Uri(Vec<u8>),
    /// A named location, or a URI made of variables.
    Unknown,
}

/// Parses the last argument of `try_files`.
pub(crate) fn fallback(try_files: &Directive) -> Fallback {
    match try_files.args.last().map(|word| &**word) {
        Some([b'=', ..]) => Fallback::Status,
        Some(uri @ [b'/', ..]) => {
            let path = uri.split(|byte| *byte == b'?').next().unwrap_or(uri);
            if path.contains(&b'$') {
                Fallback::Unknown
            } else {
                Fallback::Uri(path.to_vec())
            }
        }
        _ => Fallback::Unknown,
    }
}

/// Returns true if `try_files` also tries directories, whose index file nginx then serves.
pub(crate) fn tries_directories(try_files: &Directive) -> bool {
    let files = try_files
        .args
        .split_last()
        .map_or(&[][..], |(_, files)| files);
    files.iter().any(|file| file.ends_with(b"/"))
}
