//! The URI that nginx matches with locations: percent-decoded, without dot segments, double slashes
//! and query.
//!
//! Implemented after nginx's `ngx_http_parse_complex_uri()` (`src/http/ngx_http_parse.c`).

/// A reason for which nginx answers a URI with status 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadUri {
    /// The URI does not begin with a slash, or with a scheme and a host.
    NoPath,
    /// A percent sign without two hexadecimal digits, or an encoded NUL.
    Escape,
    /// `..` leads out of the root.
    AboveRoot,
}

/// Normalises the target of a request.
///
/// `merges_slashes` is the value of the directive `merge_slashes`, which is on by default.
pub(crate) fn normalise(target: &[u8], merges_slashes: bool) -> Result<Vec<u8>, BadUri> {
    let path = decode(path_of(target)?)?;
    let mut uri = vec![b'/'];
    let mut segments = path.split(|byte| *byte == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        match segment {
            b"." => continue,
            b".." => {
                // Remove the last slash, and everything after the slash before it.
                uri.pop();
                let parent = uri.iter().rposition(|byte| *byte == b'/');
                uri.truncate(parent.ok_or(BadUri::AboveRoot)? + 1);
                continue;
            }
            b"" if merges_slashes => continue,
            name => uri.extend_from_slice(name),
        }
        if segments.peek().is_some() {
            uri.push(b'/');
        }
    }
    Ok(uri)
}

/// Returns the path of a target in origin form or absolute form, still encoded.
fn path_of(target: &[u8]) -> Result<&[u8], BadUri> {
    let end = target
        .iter()
        .position(|byte| matches!(byte, b'?' | b'#'))
        .unwrap_or(target.len());
    let target = &target[..end];
    if target.starts_with(b"/") {
        return Ok(target);
    }
    let scheme = target.windows(3).position(|window| window == b"://");
    let after_scheme = &target[scheme.ok_or(BadUri::NoPath)? + 3..];
    let slash = after_scheme.iter().position(|byte| *byte == b'/');
    Ok(slash.map_or(b"/", |at| &after_scheme[at..]))
}

/// Decodes percent-encoded bytes once. A decoded slash or dot has the same meaning as a plain one;
/// a decoded `?` or `#` does not end the path.
fn decode(path: &[u8]) -> Result<Vec<u8>, BadUri> {
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
    let mut decoded = Vec::with_capacity(path.len());
    let mut bytes = path.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let (high, low) = (digit(bytes.next()), digit(bytes.next()));
        let value = high.ok_or(BadUri::Escape)? * 16 + low.ok_or(BadUri::Escape)?;
        match u8::try_from(value) {
            Ok(0) | Err(_) => return Err(BadUri::Escape),
            Ok(value) => decoded.push(value),
        }
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_become_what_locations_see() {
        let table: &[(&str, Result<&str, BadUri>)] = &[
            ("/", Ok("/")),
            ("/a/b?c=/d", Ok("/a/b")),
            ("/a#b", Ok("/a")),
            ("//a///b//", Ok("/a/b/")),
            ("/a/./b/.", Ok("/a/b/")),
            ("/a/../b", Ok("/b")),
            ("/a/..", Ok("/")),
            ("/a/b/..", Ok("/a/")),
            ("/..", Err(BadUri::AboveRoot)),
            ("/a/../../b", Err(BadUri::AboveRoot)),
            ("/...", Ok("/...")),
            ("/%61%2Fb", Ok("/a/b")),
            ("/a/%2e%2E/b", Ok("/b")),
            ("/%2561", Ok("/%61")),
            ("/a%3Fb%23", Ok("/a?b#")),
            ("/%", Err(BadUri::Escape)),
            ("/%4", Err(BadUri::Escape)),
            ("/%zz", Err(BadUri::Escape)),
            ("/%00", Err(BadUri::Escape)),
            ("http://h/x//y", Ok("/x/y")),
            ("http://h", Ok("/")),
            ("http://h?a=/b", Ok("/")),
            ("*", Err(BadUri::NoPath)),
            ("", Err(BadUri::NoPath)),
        ];
        for (target, expected) in table {
            let found = normalise(target.as_bytes(), true);
            let expected = expected.map(|uri| uri.as_bytes().to_vec());
            assert_eq!(found, expected, "{target}");
        }
        assert_eq!(normalise(b"//a//b", false), Ok(b"//a//b".to_vec()));
        assert_eq!(normalise(b"//..", false), Ok(b"/".to_vec()));
    }

    proptest::proptest! {
        #[test]
        fn a_normal_uri_has_no_dots_or_double_slashes(target: Vec<u8>) {
            if let Ok(uri) = normalise(&target, true) {
                assert!(uri.starts_with(b"/"));
                assert!(!uri.windows(2).any(|pair| pair == b"//"));
            }
        }
    }
}
