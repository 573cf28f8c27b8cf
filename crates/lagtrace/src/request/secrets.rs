//! Secrets of a request: header fields that contain some, and the command line, which other users
//! see in `ps`.

use lagtrace_sources::command_line;

/// Long options whose values can be secrets.
const OPTIONS: [&str; 13] = [
    "cookie",
    "data",
    "data-ascii",
    "data-binary",
    "data-raw",
    "data-urlencode",
    "form",
    "form-string",
    "from-curl",
    "header",
    "json",
    "oauth2-bearer",
    "user",
];
/// Short options whose values can be secrets, and short options without a value, which can stand
/// before them in one argument.
const SHORT: &[u8] = b"HubF";
const FLAGS: &[u8] = b"kqvGLIy46";
/// What stands for each byte of a secret.
const BLANK: u8 = b'x';

/// Overwrites the secrets on this process's command line. What cannot be found stays, since nothing
/// else can be done about it.
pub(crate) fn blank() {
    let _ = command_line::edit_arguments(blank_in);
}

fn blank_in(arguments: &mut [u8]) {
    let mut is_value = false;
    for argument in arguments.split_mut(|&byte| byte == 0) {
        let secret = if core::mem::take(&mut is_value) {
            Some(0)
        } else {
            secret_in(argument)
        };
        match secret {
            Some(at) if at >= argument.len() => is_value = at > 0,
            Some(at) => blank_value(argument.get_mut(at..).unwrap_or_default()),
            None => blank_password(argument),
        }
    }
}

/// Returns where in an argument the value of a secret option begins: at its end, if the value is
/// the next argument.
fn secret_in(argument: &[u8]) -> Option<usize> {
    if let Some(long) = argument.strip_prefix(b"--") {
        let end = long.iter().position(|&byte| byte == b'=');
        let name = long.get(..end.unwrap_or(long.len()))?;
        let is_secret = OPTIONS.iter().any(|option| option.as_bytes() == name);
        return is_secret.then(|| end.map_or(argument.len(), |end| end + 3));
    }
    let letters = argument.strip_prefix(b"-")?;
    let at = letters.iter().position(|letter| !FLAGS.contains(letter))?;
    let is_secret = SHORT.contains(letters.get(at)?);
    let is_joined = letters.get(at + 1) == Some(&b'=');
    is_secret.then_some(at + 2 + usize::from(is_joined))
}

/// Overwrites a value, unless it is the name of a file.
fn blank_value(value: &mut [u8]) {
    if value.first() != Some(&b'@') {
        value.fill(BLANK);
    }
}

/// Overwrites the password of a URL.
fn blank_password(argument: &mut [u8]) {
    let text = String::from_utf8_lossy(argument);
    let Some(start) = text.find("://").map(|at| at + 3) else {
        return;
    };
    let authority = text.get(start..).unwrap_or_default();
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((userinfo, _)) = authority.rsplit_once('@') else {
        return;
    };
    let end = start + userinfo.len();
    let begin = userinfo.find(':').map_or(end, |colon| start + colon + 1);
    if text.len() == argument.len()
        && let Some(password) = argument.get_mut(begin..end)
    {
        password.fill(BLANK);
    }
}

/// Encodes bytes for HTTP Basic (RFC 4648 §4).
pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let part = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = part(0) << 16 | part(1) << 8 | part(2);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit) & 0x3f) as usize;
            let is_there = digit <= group.len();
            let character = DIGITS.get(value).filter(|_| is_there).copied();
            text.push(character.unwrap_or(b'=').into());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blanked(arguments: &[&str]) -> Vec<String> {
        let mut bytes = arguments.join("\0").into_bytes();
        bytes.push(0);
        blank_in(&mut bytes);
        bytes.pop();
        let text = String::from_utf8(bytes).expect("text");
        text.split('\0').map(str::to_owned).collect()
    }

    #[test]
    fn secrets_are_overwritten_and_the_rest_is_kept() {
        for (given, want) in [
            (&["-H", "A: b", "x"][..], &["-H", "xxxx", "x"][..]),
            (&["-HA: b", "-k"], &["-Hxxxx", "-k"]),
            (&["-ku", "me:pw", "-c", "5"], &["-ku", "xxxxx", "-c", "5"]),
            (
                &["--json={}", "--json", "{}"],
                &["--json=xx", "--json", "xx"],
            ),
            (
                &["--data", "@file", "--data-raw", ""],
                &["--data", "@file", "--data-raw", ""],
            ),
            (
                &["--from-curl", "curl -u a:b"],
                &["--from-curl", "xxxxxxxxxxx"],
            ),
            (
                &["http://me:pw@h/a:b@c", "-c20"],
                &["http://me:xx@h/a:b@c", "-c20"],
            ),
            (&["http://h/?a=u:p@h"], &["http://h/?a=u:p@h"]),
            (
                &["-dH", "-cu", "--header-x", "y"],
                &["-dH", "-cu", "--header-x", "y"],
            ),
            (&["--user"], &["--user"]),
        ] {
            assert_eq!(blanked(given), want, "{given:?}");
        }
    }

    #[test]
    fn names_and_passwords_are_encoded() {
        for (text, coded) in [
            ("", ""),
            ("a", "YQ=="),
            ("ab", "YWI="),
            ("user:pa", "dXNlcjpwYQ=="),
        ] {
            assert_eq!(base64(text.as_bytes()), coded);
        }
        assert_eq!(base64(&[0xff, 0xfe, 0xfd]), "//79");
    }
}
