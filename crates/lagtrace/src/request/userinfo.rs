//! The user name and password in a URL (`https://user:password@host/`).

/// Returns the URL, which has a scheme, without its user name and password, and these as `NAME:PASSWORD`; `None` if it
/// has none.
pub(crate) fn without(url: &str) -> Option<(String, String)> {
    let start = url.find("://")? + 3;
    let (scheme, rest) = url.split_at(start);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (userinfo, host) = authority.rsplit_once('@')?;
    let (name, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
    let user = format!("{}:{}", decoded(name), decoded(password));
    Some((format!("{scheme}{host}{path}"), user))
}

/// Decodes percent-encoded bytes.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digits: Vec<u8> = rest.clone().take(2).collect();
        let code = std::str::from_utf8(&digits).ok();
        let code = code.filter(|code| code.len() == 2);
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(code) if byte == b'%' => {
                bytes.push(code);
                rest.nth(1);
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_passwords_are_taken_out_of_urls() {
        for (url, plain, user) in [
            ("http://u:p@h/", "http://h/", "u:p"),
            (
                "https://us%20er:p%40w@h:81/a@b?c",
                "https://h:81/a@b?c",
                "us er:p@w",
            ),
            ("http://u:a@b@h", "http://h", "u:a@b"),
            ("http://%zz:%@h/", "http://h/", "%zz:%"),
        ] {
            let found = without(url);
            assert_eq!(found, Some((plain.to_owned(), user.to_owned())), "{url}");
        }
        for url in [
            "http://h/a@b",
            "h:80",
            "http://h?x=u@h",
            "3@http://h/",
            "2@/path",
            "u@h",
        ] {
            assert_eq!(without(url), None, "{url}");
        }
    }
}
