use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<Url, UrlError> {
    text.parse()
}

#[test]
fn takes_what_people_type() {
    for (text, authority, port, path) in [
        ("http://example.org", "example.org", 80, "/"),
        (
            "http://Example.ORG:8080/a/b?c=d#e",
            "example.org:8080",
            8080,
            "/a/b?c=d",
        ),
        ("HTTP://127.0.0.1:80", "127.0.0.1", 80, "/"),
        ("http://[::1]:8080/x", "[::1]:8080", 8080, "/x"),
        ("http://[2001:db8::1]", "[2001:db8::1]", 80, "/"),
        ("http://host?q", "host", 80, "/?q"),
        ("http://host:/", "host", 80, "/"),
        ("localhost:9000/p", "localhost:9000", 9000, "/p"),
        ("host/a?b=http://c", "host", 80, "/a?b=http://c"),
        ("https://h", "h", 443, "/"),
        ("HTTPS://h:443/x", "h", 443, "/x"),
        ("https://h:80/", "h:80", 80, "/"),
        ("http://h:443/", "h:443", 443, "/"),
    ] {
        let url = parse(text).expect(text);
        assert_eq!(
            (url.authority().as_str(), url.port(), url.path()),
            (authority, port, path),
            "{text}"
        );
        assert_eq!(parse(&url.to_string()), Ok(url), "{text}");
    }
}

#[test]
fn refuses_and_says_what_and_where() {
    for (text, words) in [
        ("", "has no host"),
        ("http://", "has no host"),
        ("http:///x", "has no host"),
        ("http://:80/", "has no host"),
        ("ftp://h/", "`ftp`"),
        ("http://me:pw@h/", "user name"),
        ("http://h:0/", "`0`"),
        ("http://h:65536/", "`65536`"),
        ("http://h:+80/", "`+80`"),
        ("http://h:80:80/", "`80:80`"),
        ("http://::1/", "`::1`"),
        ("http://[::1/", "`[::1`"),
        ("http://[::1]x/", "`[::1]x`"),
        ("http://[fe80::1%25eth0]/", "`[fe80::1%25eth0]`"),
        ("http://h/a b", "' ' at byte 10"),
        ("http://h/\r\nX: y", "at byte 9"),
        ("http://h\u{e4}/", "at byte 8"),
        ("http://a*b/", "`a*b`"),
    ] {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    assert_eq!(
        parse(&"x".repeat(9000)),
        Err(UrlError::TooLong { len: 9000 })
    );
}

#[test]
fn never_repeats_a_password() {
    let error = parse("http://me:secret@h/").expect_err("refused");
    assert!(!error.to_string().contains("secret"));
}

proptest! {
    #[test]
    fn never_panics_and_never_lets_a_line_break_through(text in ".{0,80}") {
        if let Ok(url) = parse(&text) {
            prop_assert!(url.path().starts_with('/'));
            prop_assert!(!url.to_string().contains(['\r', '\n', ' ']));
            prop_assert_eq!(parse(&url.to_string()), Ok(url));
        }
    }
}
