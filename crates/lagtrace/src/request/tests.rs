//! Tests of requests as they are sent.

use std::time::Duration;

use clap::Parser;
use lagtrace_sources::url::Url;

use super::*;
use crate::tls::Tls;

/// The options of requests alone.
#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    tls: Tls,
    #[arg(short = '4')]
    ipv4: bool,
    #[arg(short = '6')]
    ipv6: bool,
    url: Vec<String>,
}

/// Returns the bytes of the request that a command line makes.
fn sent(arguments: &[&str]) -> Result<String> {
    let line = [&["lagtrace"], arguments].concat();
    let mut line = Line::try_parse_from(line).expect("options");
    line.options.adopt(&mut line.url, &mut line.tls)?;
    let settled = line.options.settle(Duration::from_secs(2))?;
    let url: Url = line
        .url
        .first()
        .map_or("http://h/", String::as_str)
        .parse()?;
    let url = settled.url(url)?;
    let mut text = format!("{} {}\n", settled.request.method, url.path());
    let fields = settled.request.fields.iter();
    for field in fields
        .chain(["(length)".to_owned()].iter())
        .chain(&settled.request.body_fields)
    {
        text.push_str(&format!("{field}\n"));
    }
    if let Some(body) = settled.request.body {
        text.push_str(&String::from_utf8_lossy(&body));
    }
    Ok(text)
}

fn failure(arguments: &[&str]) -> String {
    let failure = sent(arguments).expect_err("a failure");
    format!("{failure} / {}", failure.hint_text().unwrap_or_default())
}

#[test]
fn parts_of_a_body_are_joined_in_the_order_of_the_command_line() {
    let text = sent(&[
        "--data",
        "a=1",
        "--json",
        "{}",
        "--data-raw",
        "@x",
        "--data-urlencode",
        "q=ä b",
    ]);
    let text = text.expect("a request");
    assert!(text.ends_with("a=1{}&@x&q=%C3%A4+b"), "{text}");
    assert!(text.contains("Content-Type: application/json\n"), "{text}");
    let text = sent(&[
        "-G",
        "--data-urlencode",
        "q=ä b",
        "--data",
        "x=%2F",
        "http://h/?y",
    ]);
    assert!(
        text.expect("a request")
            .starts_with("GET /?y&q=%c3%a4+b&x=%2f\n")
    );
}

#[test]
fn own_fields_give_way_to_given_ones() {
    let text = sent(&[
        "-u",
        "u:p",
        "-A",
        "",
        "-H",
        "accept: x",
        "-H",
        "Referer:",
        "-e",
        "r",
        "-b",
        "a=1",
        "-b",
        "b=2",
    ]);
    assert_eq!(
        text.expect("a request"),
        "GET /\nAuthorization: Basic dTpw\nCookie: a=1; b=2\naccept: x\n(length)\n"
    );
    let text = sent(&["http://me:pw@h/", "-H", "Authorization: Bearer x"]).expect("a request");
    assert!(
        !text.contains("Basic") && text.contains("Bearer x"),
        "{text}"
    );
}

#[test]
fn a_curl_command_is_overridden_by_the_command_line() {
    let text = sent(&[
        "--from-curl",
        "curl 'http://h/a' -H 'Authorization: old' -H 'X: 1' -d a=1",
        "-H",
        "authorization: new",
        "--data",
        "b=2",
    ]);
    let text = text.expect("a request");
    assert!(
        text.contains("X: 1\nauthorization: new\n") && !text.contains("old"),
        "{text}"
    );
    assert!(
        text.starts_with("POST /a\n") && text.ends_with("\nb=2"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_sent_is_refused_by_its_name() {
    for (command, words) in [
        ("curl -T file http://h/", "-T (--upload-file)"),
        ("curl --digest -u a:b http://h/", "--digest"),
        ("curl -x http://p:3128 http://h/", "-x (--proxy)"),
        ("curl --frobnicate http://h/", "--frobnicate"),
        ("curl -u name http://h/", "no password"),
        ("curl http://h/ http://i/", "several URLs"),
        ("curl 'http://h/{a,b}'", "-g"),
        ("curl 'http://h/[1-3]'", "-g"),
        ("curl -H 'a: b'", "names no URL"),
        ("wget http://h/", "does not begin with curl"),
        ("curl http://h/ -H", "-H in the curl command has no value"),
        ("curl --http2 http://h/", "--http2-prior-knowledge"),
        ("curl -d a -F b=c http://h/", "--form and --data"),
        ("curl -I -d a http://h/", "HEAD has no body"),
        ("curl -b cookies.txt http://h/", "--cookie (-b)"),
        (
            "curl -H 'Transfer-Encoding: chunked' -d a http://h/",
            "Transfer-Encoding",
        ),
    ] {
        let told = failure(&["--from-curl", command]);
        assert!(told.contains(words), "{command}: {told}");
    }
}

#[test]
fn no_failure_repeats_a_secret() {
    for arguments in [
        &["-H", "s3cret"][..],
        &["-H", "X: s3cret\u{1}"],
        &["-H", ": s3cret"],
        &["-u", "s3cret\n:x", "-H", "b c: s3cret"],
        &["-b", "s3cret"],
        &["--oauth2-bearer", "s3cret\r\n"],
        &["--form", "s3cret"],
        &["--data", "s3cret", "--form", "a=s3cret"],
        &["--from-curl", "curl -u s3cret http://h/"],
        &["--from-curl", "curl -H 'Authorization: s3cret"],
        &["--from-curl", "curl -d 's3cret' -T x http://h/"],
        &["--from-curl", "curl --from s3cret"],
    ] {
        if let Err(failure) = sent(arguments) {
            let told = format!("{failure} {:?} {failure:?}", failure.hint_text());
            assert!(!told.contains("s3cret"), "{arguments:?}: {told}");
        }
    }
}

#[test]
fn urls_are_cleaned_as_by_curl() {
    for (url, path) in [
        ("http://h/a//b/./c/../d?x=../y", "/a//b/d?x=../y"),
        ("http://h/..", "/"),
        ("http://h/%2e%2e/ä", "/%2e%2e/%c3%a4"),
        ("http://h/a/.", "/a/"),
        ("http://h?x=/../y", "/?x=/../y"),
        ("http://h/{seq}/{rand:1:5}", "/{seq}/{rand:1:5}"),
    ] {
        let text = sent(&["--from-curl", &format!("curl '{url}'")]).expect(url);
        assert_eq!(text.lines().next(), Some(format!("GET {path}").as_str()));
    }
}
