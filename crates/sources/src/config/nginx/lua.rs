//! Skips the Lua code of OpenResty's `*_by_lua_block { … }`. Braces and quotes in it follow the
//! rules of Lua, not of nginx.

use super::lex::Lexer;

/// Returns true if this directive's block is Lua code.
pub(crate) fn is_lua_block(name: &[u8]) -> bool {
    name.ends_with(b"_by_lua_block")
}

/// Reads up to and including the `}` that closes the block. Its `{` has been read. Returns `false`
/// if the text ends first.
pub(crate) fn skip_block(lexer: &mut Lexer<'_>) -> bool {
    let mut depth = 1u32;
    while let Some(byte) = lexer.bump() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return true,
            b'}' => depth -= 1,
            b'"' | b'\'' => skip_string(lexer, byte),
            b'[' => {
                skip_long_bracket(lexer);
            }
            b'-' if lexer.peek() == Some(b'-') => skip_comment(lexer),
            _ => {}
        }
    }
    false
}

/// Skips a short string. It ends at its closing quote, or at the end of the line if it is unclosed.
fn skip_string(lexer: &mut Lexer<'_>, quote: u8) {
    while let Some(byte) = lexer.bump() {
        match byte {
            b'\\' => {
                lexer.bump();
            }
            b'\n' => return,
            byte if byte == quote => return,
            _ => {}
        }
    }
}

/// Skips a comment. It extends from `--` to the end of the line, or to the end of a long bracket
/// directly after `--`.
fn skip_comment(lexer: &mut Lexer<'_>) {
    lexer.bump();
    if lexer.peek() == Some(b'[') {
        lexer.bump();
        if skip_long_bracket(lexer) {
            return;
        }
    }
    while lexer.bump().is_some_and(|byte| byte != b'\n') {}
}

/// Skips a long bracket after its first `[`: `[ … ]]` or `=[ … ]=]`, with any number of `=`.
/// Returns `false` and reads nothing if no long bracket begins here.
fn skip_long_bracket(lexer: &mut Lexer<'_>) -> bool {
    let rest = lexer.rest();
    let level = rest.iter().take_while(|byte| **byte == b'=').count();
    if rest.get(level) != Some(&b'[') {
        return false;
    }
    for _ in 0..=level {
        lexer.bump();
    }
    // The number of `=` since the last `]`; `None` if no `]` is open.
    let mut closing = None;
    while let Some(byte) = lexer.bump() {
        closing = match (byte, closing) {
            (b']', Some(count)) if count == level => return true,
            (b']', _) => Some(0),
            (b'=', Some(count)) => Some(count + 1),
            _ => None,
        };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lua_ends_where_lua_says() {
        let table = [
            ("}x", Some("x")),
            (" if a then b = {1, {2}} end }x", Some("x")),
            (" s = \"}\" t = '\\'}' }x", Some("x")),
            (" -- } \n }x", Some("x")),
            (" --[[ } \n } ]] }x", Some("x")),
            (" --[==[ } ]] ]=] } ]==] }x", Some("x")),
            (" s = [[ } ]] .. [=[ ]] } ]=] }x", Some("x")),
            (" t[1] = t[t[2]] }x", Some("x")),
            (" s = [[ ]]] }x", Some("x")),
            (" { ", None),
            (" [[ } ", None),
            ("", None),
        ];
        for (text, expected) in table {
            let mut lexer = Lexer::new(text.as_bytes());
            let found = skip_block(&mut lexer);
            assert_eq!(found, expected.is_some(), "{text}");
            if let Some(rest) = expected {
                assert_eq!(lexer.rest(), rest.as_bytes(), "{text}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_end(bytes: Vec<u8>) {
            skip_block(&mut Lexer::new(&bytes));
        }
    }
}
