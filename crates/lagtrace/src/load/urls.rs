//! The URLs of a load: one, or several by weight.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use lagtrace_sources::files;
use lagtrace_sources::load::WeightedUrl;
use lagtrace_sources::url::Url;

use crate::confinement;
use crate::failure::{Failure, Result};

/// Maximum size of a file of URLs, in bytes.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// Options for the URLs to request.
#[derive(Clone, Debug, Args)]
pub(super) struct Urls {
    // No doc comment: rustdoc would take the brackets for a link.
    #[arg(
        value_name = "URL",
        required_unless_present_any = ["urls", "from_curl"],
        help = "The service, http[s]://HOST[:PORT]/PATH. Several URLs of one scheme, host and port \
                are requested in turn on the same connections. WEIGHT@URL sets a relative \
                frequency; /PATH alone means the host of the first URL"
    )]
    pub(super) url: Vec<String>,
    /// Also request the URLs in FILE, one per line as above; # begins a comment
    #[arg(long, value_name = "FILE")]
    urls: Option<PathBuf>,
}

impl Urls {
    /// Returns all URLs, at least one; the first is the subject of the load.
    pub(super) fn all(&self) -> Result<Vec<WeightedUrl>> {
        let file = self.read()?;
        let lines = file.lines().map(|line| match line.split_once('#') {
            Some((before, _)) if before.trim().is_empty() => "",
            _ => line.trim(),
        });
        let given = self.url.iter().map(String::as_str);
        let mut all: Vec<WeightedUrl> = Vec::new();
        for text in given.chain(lines).filter(|text| !text.is_empty()) {
            let first = all.first().map(|first| &first.url);
            let next = weighted(text, first)?;
            all.push(next);
        }
        if all.is_empty() {
            Err(Failure::new("the file of --urls contains no URL")
                .hint("write one URL per line, as http[s]://HOST[:PORT]/PATH or WEIGHT@URL"))
        } else {
            Ok(all)
        }
    }

    /// Returns the TCP ports that the load connects to; `None` if they are not on the command line.
    pub(super) fn ports(&self) -> Option<Vec<u16>> {
        if self.urls.is_some() {
            return None;
        }
        confinement::ports(self.url.iter().map(|text| match text.split_once('@') {
            Some((_, url)) if url.contains("://") => url,
            _ => text,
        }))
    }

    fn read(&self) -> Result<String> {
        let Some(path) = &self.urls else {
            return Ok(String::new());
        };
        let name = path.display();
        let text = files::read(path, MAX_FILE).with_context(|| format!("cannot read {name}"))?;
        let text = text.ok_or_else(|| Failure::new(format!("{name} is longer than 4 MiB")))?;
        Ok(String::from_utf8(text).with_context(|| format!("cannot read {name}"))?)
    }
}

fn weighted(text: &str, first: Option<&Url>) -> Result<WeightedUrl> {
    let (weight, rest) = match text.split_once('@') {
        Some((weight, rest)) if weight.bytes().all(|byte| byte.is_ascii_digit()) => (weight, rest),
        _ => ("1", text),
    };
    let wrong = || {
        let told = format!("`{weight}` is not a weight");
        Failure::new(told).hint("a weight is a number from 1 to 1,000,000, as in 3@http://…")
    };
    let weight = weight.parse().map_err(|_| wrong())?;
    let whole = match first {
        Some(first) if rest.starts_with('/') => {
            let scheme = if first.is_tls() { "https" } else { "http" };
            format!("{scheme}://{}{rest}", first.authority())
        }
        _ => rest.to_owned(),
    };
    let url = whole
        .parse()
        .map_err(|error| Failure::from(error).hint("give it as http[s]://HOST[:PORT]/PATH"))?;
    Ok(WeightedUrl { url, weight })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(texts: &[&str]) -> Vec<(u32, String)> {
        let url = texts.iter().map(|&text| text.to_owned()).collect();
        let urls = Urls { url, urls: None };
        let all = urls.all().expect("URLs").into_iter();
        all.map(|url| (url.weight, url.url.to_string())).collect()
    }

    #[test]
    fn weights_stand_before_urls_and_paths_are_of_the_first_host() {
        let given = all(&[
            "http://h.example:81/a",
            "3@http://h.example:81/b",
            "2@/c?d=e@f",
        ]);
        let want = [
            (1, "http://h.example:81/a"),
            (3, "http://h.example:81/b"),
            (2, "http://h.example:81/c?d=e@f"),
        ];
        let want: Vec<_> = want.map(|(weight, url)| (weight, url.to_owned())).into();
        assert_eq!(given, want);
        for wrong in ["@http://h/", "99999999999@http://h/", "/only"] {
            let urls = Urls {
                url: vec![wrong.to_owned()],
                urls: None,
            };
            assert!(urls.all().is_err(), "{wrong}");
        }
    }
}
