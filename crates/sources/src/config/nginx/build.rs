//! The compile-time settings of an nginx. They are read from its binary, which is not run.
//!
//! The binary contains the text that `nginx -V` prints: its release and its configure arguments,
//! including the paths of its files (`src/core/nginx.c`, `ngx_show_version_info()`).

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::directive::Version;

/// Maximum number of bytes searched in a binary.
const MAX_BINARY: u64 = 64 << 20;
/// Maximum number of bytes of configure arguments. Compiler flags are part of them.
const MAX_ARGUMENTS: usize = 64 << 10;
/// `NGX_PREFIX` of a build without `--prefix` (`auto/options`).
const DEFAULT_PREFIX: &str = "/usr/local/nginx";
/// `NGX_CONF_PATH` of a build without `--conf-path`, below the prefix.
const DEFAULT_CONF: &str = "conf/nginx.conf";

/// The release of an nginx, and the default paths of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// The release; `None` if it was not found in the binary.
    pub version: Option<Version>,
    /// The directory that relative paths are resolved against.
    pub prefix: PathBuf,
    /// The main configuration file; absolute, or below the prefix.
    pub conf: PathBuf,
}

impl Build {
    /// Reads a binary; `None` if it contains no configure arguments.
    pub(crate) fn read(binary: impl Read) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        binary.take(MAX_BINARY).read_to_end(&mut bytes)?;
        Ok(Self::find(&bytes))
    }

    fn find(binary: &[u8]) -> Option<Self> {
        let arguments = text_after(binary, b"configure arguments:")?;
        let value = |name: &str| option(&arguments, name);
        let prefix = value("--prefix=").unwrap_or_else(|| DEFAULT_PREFIX.into());
        let conf = value("--conf-path=").unwrap_or_else(|| DEFAULT_CONF.into());
        Some(Self {
            version: text_after(binary, b"nginx version: ").and_then(|text| parse_version(&text)),
            prefix: PathBuf::from(prefix),
            conf: PathBuf::from(conf),
        })
    }

    /// Returns the paths of a packaged build, for a binary that does not contain its configure
    /// arguments. Of the usual paths, the first ones are returned whose configuration file
    /// `exists`.
    pub(crate) fn guess(exists: &dyn Fn(&Path) -> bool) -> Self {
        const USUAL: [(&str, &str); 4] = [
            ("/usr/share/nginx", "/etc/nginx/nginx.conf"),
            ("/usr/local/nginx", "/usr/local/nginx/conf/nginx.conf"),
            (
                "/usr/local/openresty/nginx",
                "/usr/local/openresty/nginx/conf/nginx.conf",
            ),
            ("/usr/local/etc/nginx", "/usr/local/etc/nginx/nginx.conf"),
        ];
        let (prefix, conf) = USUAL
            .into_iter()
            .find(|(_, conf)| exists(Path::new(conf)))
            .unwrap_or(USUAL[0]);
        Self {
            version: None,
            prefix: PathBuf::from(prefix),
            conf: PathBuf::from(conf),
        }
    }
}

/// Returns the text after a marker, up to the end of the line or string.
fn text_after(binary: &[u8], marker: &[u8]) -> Option<String> {
    let (first, rest) = marker.split_first()?;
    let mut from = 0;
    loop {
        from += binary.get(from..)?.iter().position(|byte| byte == first)? + 1;
        if binary[from..].starts_with(rest) {
            break;
        }
    }
    let text = &binary[from + rest.len()..];
    let text = &text[..text.len().min(MAX_ARGUMENTS)];
    let end = text.iter().position(|byte| matches!(byte, 0 | b'\n'));
    Some(String::from_utf8_lossy(&text[..end.unwrap_or(text.len())]).into_owned())
}

/// Returns the value of a configure option. The last occurrence counts.
fn option(arguments: &str, name: &str) -> Option<String> {
    let mut found = None;
    let mut quote = None;
    let mut word = String::new();
    for letter in arguments.chars().chain([' ']) {
        match (letter, quote) {
            ('\'' | '"', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            (' ', None) => {
                found = word.strip_prefix(name).map(str::to_string).or(found);
                word.clear();
            }
            (letter, _) => word.push(letter),
        }
    }
    found
}

/// Parses the release in `nginx/1.22.1`, or in the name of a derivative, such as
/// `openresty/1.21.4.1`. The first three numbers are those of nginx.
fn parse_version(text: &str) -> Option<Version> {
    let (_, numbers) = text.split_once('/')?;
    let mut numbers = numbers
        .split(|letter: char| !letter.is_ascii_digit())
        .map(|number| number.parse().ok());
    let mut next = || numbers.next().flatten();
    Some((next()?, next()?, next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configure_arguments_are_found_in_a_binary() {
        let binary = b"\x7fELF cc configure nginx version: nginx/1.22.1\n\0junk\0\
            configure arguments: --with-cc-opt='-g --prefix=/no' --prefix=/usr/share/nginx \
            --conf-path=\"/etc/my nginx/nginx.conf\" --with-threads\n\0more";
        let build = Build::read(&binary[..]).expect("reads").expect("found");
        assert_eq!(build.version, Some((1, 22, 1)));
        assert_eq!(build.prefix, Path::new("/usr/share/nginx"));
        assert_eq!(build.conf, Path::new("/etc/my nginx/nginx.conf"));
    }

    #[test]
    fn a_plain_build_has_the_plain_places() {
        let build = Build::find(b"nginx version: openresty/1.21.4.1\nconfigure arguments:\n\0");
        let build = build.expect("found");
        assert_eq!(build.version, Some((1, 21, 4)));
        assert_eq!(build.prefix, Path::new(DEFAULT_PREFIX));
        assert_eq!(build.conf, Path::new(DEFAULT_CONF));
        assert_eq!(Build::find(b"configure nothing"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_binary_is_read(bytes: Vec<u8>, text: String) {
            Build::find(&bytes);
            Build::find(format!("nginx version: {text}\0configure arguments:{text}").as_bytes());
        }
    }
}
