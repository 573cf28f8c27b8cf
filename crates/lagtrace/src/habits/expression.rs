//! The flags and expressions of `ss` and `netstat`, as those of `lagtrace sockets`.

/// Flags of `ss` that `lagtrace sockets` has too.
const SAME: &str = "tuxla46";
/// Flags of `ss` and `netstat` whose content is always shown, or does not matter. Here, `p`, `i`
/// and `o` take values.
const SHOWN: &str = "npeimoHrKNWO";

/// What the arguments of `ss` select, as arguments of `lagtrace sockets`.
#[derive(Debug, Default)]
pub(super) struct Selected {
    pub(super) words: Vec<String>,
}

impl Selected {
    /// Translates all arguments of `ss` or `netstat`.
    pub(super) fn of(words: &[String]) -> Self {
        let mut selected = Self::default();
        for word in words {
            match word.strip_prefix('-') {
                Some(letters) if !letters.starts_with('-') => {
                    let kept = letters.chars().filter(|letter| SAME.contains(*letter));
                    let kept: String = kept.collect();
                    if !kept.is_empty() {
                        selected.words.push(format!("-{kept}"));
                    }
                }
                _ => {}
            }
        }
        let operands = words.iter().filter(|word| !word.starts_with('-'));
        let operands: Vec<&str> = operands.map(String::as_str).collect();
        selected.words.extend(expression(&operands));
        selected
    }
}

/// Returns true for a cluster of flags that only `ss` and `netstat` have in this form.
pub(super) fn is_cluster(word: &str, next: Option<&str>) -> bool {
    let Some(letters) = word.strip_prefix('-') else {
        return false;
    };
    let is_known = |letter| SAME.contains(letter) || SHOWN.contains(letter);
    let has_shown = letters.contains(|letter| SHOWN.contains(letter));
    // `-p 80`, `-i 10ms` and `-o FILE` are lagtrace's own, alone and with a value.
    let is_own = match letters {
        "p" => next.is_some_and(|next| next.starts_with(|c: char| c.is_ascii_digit())),
        "i" => next.is_some_and(|next| next.starts_with(|c: char| c.is_ascii_digit())),
        "o" => next.is_some_and(|next| !next.starts_with('-')),
        _ => letters.ends_with('p') && next.is_some_and(|next| next.parse::<u16>().is_ok()),
    };
    !letters.is_empty() && letters.chars().all(is_known) && has_shown && !is_own
}

/// Returns the part of a cluster that `lagtrace sockets` has too; empty if there is none.
pub(super) fn kept(word: &str) -> Option<String> {
    let letters: String = word
        .chars()
        .filter(|letter| SAME.contains(*letter))
        .collect();
    (!letters.is_empty()).then(|| format!("-{letters}"))
}

/// Returns true for a word that begins or continues an expression of `ss`.
pub(super) fn is_expression(word: &str) -> bool {
    if word.starts_with('(') {
        return true;
    }
    let word = word.trim_start_matches(['!', ' ']);
    let first = word.split([' ', '=']).next().unwrap_or_default();
    matches!(
        first,
        "sport" | "dport" | "state" | "dst" | "src" | "exclude"
    )
}

/// Translates an expression: ports, states and addresses. What has no counterpart is left out.
pub(super) fn expression(words: &[&str]) -> Vec<String> {
    let spaced = words.join(" ").replace(['(', ')', '!', '='], " ");
    let mut words = spaced
        .split_whitespace()
        .filter(|word| !matches!(*word, "and" | "or" | "eq" | "&&" | "||"));
    let (mut selected, mut ports) = (Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        match word {
            "sport" | "dport" => {
                ports.extend(words.next().map(|port| port.trim_start_matches(':')))
            }
            "state" | "exclude" => match words.next() {
                Some("listening" | "listen") => selected.push("-l".to_owned()),
                Some("time-wait" | "all" | "closed") => selected.push("-a".to_owned()),
                _ => {}
            },
            "dst" | "src" => selected.extend(words.next().map(str::to_owned)),
            end => selected.push(end.to_owned()),
        }
    }
    ports.dedup();
    let is_number = |port: &&str| port.parse::<u16>().is_ok();
    if !ports.is_empty() && ports.iter().all(is_number) {
        selected.extend(["-p".to_owned(), ports.join(",")]);
    }
    selected
}
