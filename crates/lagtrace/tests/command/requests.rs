//! Tests of requests that are copied from curl: what a recording server receives from curl itself
//! and from `--from-curl` is the same. No privilege is needed.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use super::program::{Run, has_tool, program};

/// Maximum time for a request to arrive.
const PATIENCE: Duration = Duration::from_secs(20);
/// Text that no output and no process list may contain.
const SECRET: &str = "s3cretW0rd";

/// A curl command as it is found in browsers and documents. `{URL}` stands for the server's origin.
struct Case {
    name: &'static str,
    /// The command for bash.
    bash: &'static str,
    /// The same for cmd; empty if there is none.
    cmd: &'static str,
}

const fn case(name: &'static str, bash: &'static str) -> Case {
    Case {
        name,
        bash,
        cmd: "",
    }
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { name: "Chrome, GET", bash: r#"curl '{URL}/search?q=red+shoes&page=2' \
  -H 'accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8' \
  -H 'accept-language: en-GB,en;q=0.9' \
  -b 'sid=a1b2c3; theme=dark' \
  -H 'cache-control: no-cache' \
  -H 'sec-ch-ua: "Chromium";v="130", "Not?A_Brand";v="99"' \
  -H 'sec-ch-ua-mobile: ?0' \
  -H 'user-agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36'"#, cmd: r#"curl ^"{URL}/search?q=red+shoes^&page=2^" ^
  -H ^"accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8^" ^
  -H ^"accept-language: en-GB,en;q=0.9^" ^
  -b ^"sid=a1b2c3; theme=dark^" ^
  -H ^"cache-control: no-cache^" ^
  -H ^"sec-ch-ua: ^\^"Chromium^\^";v=^\^"130^\^", ^\^"Not?A_Brand^\^";v=^\^"99^\^"^" ^
  -H ^"sec-ch-ua-mobile: ?0^" ^
  -H ^"user-agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36^""# },
    Case { name: "Chrome, POST of JSON", bash: r#"curl '{URL}/api/cart' \
  -H 'content-type: application/json' \
  -H 'origin: http://shop.example' \
  --data-raw $'{"text":"It\'s on sale\u0021","price":9.5}' \
  --compressed"#, cmd: r#"curl ^"{URL}/api/cart^" ^
  -H ^"content-type: application/json^" ^
  -H ^"origin: http://shop.example^" ^
  --data-raw ^"^{^\^"text^\^":^\^"It's on sale^!^\^",^\^"price^\^":9.5^}^" ^
  --compressed"# },
    Case { name: "Chrome, POST of a form", bash: r"curl '{URL}/login' \
  -H 'content-type: application/x-www-form-urlencoded' \
  -H 'referer: http://shop.example/login' \
  --data-raw 'user=me%40shop.example&password=100%25+sure' \
  --insecure", cmd: r#"curl ^"{URL}/login^" ^
  -H ^"content-type: application/x-www-form-urlencoded^" ^
  -H ^"referer: http://shop.example/login^" ^
  --data-raw ^"user=me^%^40shop.example^&password=100^%^25+sure^" ^
  --insecure"# },
    Case { name: "Chrome, lines in a body", bash: "curl '{URL}/notes' -H 'content-type: text/plain' --data-raw $'first\\nsecond\\n'",
        cmd: "curl \"{URL}/notes\" -H \"content-type: text/plain\" --data-raw ^\"first^\n\nsecond^\n\n^\"" },
    case("Firefox, GET", r"curl '{URL}/news' --compressed -H 'User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0' -H 'Accept: */*' -H 'Accept-Encoding: gzip, deflate, br, zstd' -H 'Connection: keep-alive' -H 'DNT: 1' -H 'If-None-Match: W/abc'"),
    case("Firefox, POST", r#"curl '{URL}/graph' -X POST -H 'Content-Type: application/json' -H 'Connection: keep-alive' -H 'Priority: u=0' --data-raw '{"query":"{ me { name } }"}'"#),
    Case { name: "Firefox, upload", bash: "curl '{URL}/up' -X POST -H 'Content-Type: multipart/form-data; boundary=---------------------------77' --data-binary $'-----------------------------77\\r\\nContent-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\\r\\nContent-Type: text/plain\\r\\n\\r\\nhello\\r\\n-----------------------------77--\\r\\n'", cmd: "" },
    Case { name: "an older Chrome", bash: r#"curl "{URL}/old?x=1" -H "Connection: keep-alive" -H "Accept: */*" --data "a=1" --compressed"#,
        cmd: "curl \"{URL}/old?x=1\" ^\r\n  -H \"Connection: keep-alive\" ^\r\n  -H \"Accept: */*\" ^\r\n  --data \"a=1\" ^\r\n  --compressed" },
    case("payments", r#"curl {URL}/v1/charges \
  -u "sk_test_4eC39:" \
  -d amount=2000 \
  -d currency=eur \
  -d "description=Order no. 5 (two pairs)""#),
    case("repositories", r#"curl -L \
  -H "Accept: application/vnd.forge+json" \
  -H "Authorization: Bearer token-1234" \
  -H "X-Forge-Api-Version: 2022-11-28" \
  {URL}/repos/me/shop/issues?state=open"#),
    case("a chat hook", r#"curl -X POST -H 'Content-type: application/json' --data '{"text":"Hello, World!"}' {URL}/services/T0/B0/xyz"#),
    case("GraphQL", r#"curl {URL}/graphql --request POST --header 'Content-Type: application/json' --header 'Authorization: Bearer abc.def' --data '{
  "query": "query($id: ID!) { order(id: $id) { total } }",
  "variables": {"id": "7"}
}'"#),
    case("an upload", r#"curl -F "file=@picture.png" -F 'meta={"album":"summer","size":2};type=application/json' -F name="Anna B." {URL}/photos"#),
    case("an upload with names", r"curl --form 'f=@notes.txt;filename=new name.txt;type=text/markdown' --form 'raw=<notes.txt' --form-string 'literal=@not;type=a file' {URL}/form"),
    case("a search", r#"curl -G {URL}/search --data-urlencode "q=two words & more/é" --data-urlencode "lang=de" -d limit=10"#),
    case("encoded data", r"curl {URL}/submit --data-urlencode 'comment=50% off, today!' --data-urlencode notes@notes.txt --data-urlencode '=a b' --data-urlencode plain"),
    case("JSON from a file", r"curl --json @order.json {URL}/orders"),
    case("JSON in parts", r#"curl --json '{"a":1,' --json '"b":2}' -H 'Accept: text/plain' {URL}/orders"#),
    case("a deletion", r"curl -X DELETE {URL}/orders/17 --oauth2-bearer abc123"),
    case("only the head", r"curl -I {URL}/big.iso"),
    case("a file put", r"curl -X PUT {URL}/objects/key -H 'Content-Type: application/octet-stream' --data-binary @picture.png"),
    case("lines of a file", r"curl {URL}/lines -d @notes.txt -d end=1"),
    case("cookies", r"curl -b 'a=1' --cookie 'b=2; c=3' {URL}/"),
    case("credentials in the URL", r"curl http://us%20er:p%40ss@127.0.0.1:{PORT}/private"),
    case("a search engine", r#"curl -XGET "{URL}/logs/_search?pretty" -H 'Content-Type: application/json' -d'
{
  "query": { "match_all": {} }
}
'"#),
    case("fields left out", r"curl {URL}/ -H 'Accept:' -H 'Expect:' -H 'X-Empty;' -H 'X-Tight:1' -H 'Host: shop.example'"),
    case("who asks", r"curl -A 'agent/1' -e 'http://a.example/;auto' -r 0-99 {URL}/part"),
    case("output elsewhere", r"$ curl --compressed -sS -o /dev/null -D - -w '%{http_code}\n' {URL}/ 2>/dev/null | cat"),
    case("letters in one word", r"curl -sSgXPOST -HX-A:1 -dfoo {URL}/{a}[1]"),
    case("a path with dots", r"curl {URL}/a/./b/../c//d?x=../y#part"),
    case("a token", r"curl -X POST {URL}/oauth/token -u 'id:pass word' -d grant_type=client_credentials -d scope=read%20write"),
    case("a preflight", r"curl -i -X OPTIONS {URL}/api -H 'Origin: http://shop.example' -H 'Access-Control-Request-Method: PUT'"),
    case("a purge", r"curl -X PURGE --url {URL}/page --max-time 5"),
    case("another address", r"curl --resolve shop.test:{PORT}:127.0.0.1 http://shop.test:{PORT}/here"),
    case("another host", r"curl --connect-to shop.test:80:127.0.0.1:{PORT} http://shop.test/there"),
    case("a patch", r#"curl --request PATCH {URL}/users/1 --header "Content-Type: application/merge-patch+json" --header "If-Match: \"v1\"" --data "{\"name\":\"Ann\"}""#),
    case("an empty body", r"curl -d '' {URL}/empty"),
    case("data as they are", r"curl {URL}/raw --data-raw '@notes.txt' --data-ascii x=y"),
];

/// A server that records requests. Each connection carries one.
struct Recorder {
    port: u16,
    received: Receiver<Vec<u8>>,
}

impl Recorder {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, received) = channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sender = sender.clone();
                thread::spawn(move || {
                    let request = answer(stream);
                    let _ = sender.send(request);
                });
            }
        });
        Self { port, received }
    }

    fn next(&self, what: &str) -> String {
        let request = self.received.recv_timeout(PATIENCE);
        let request = request.unwrap_or_else(|_| panic!("no request from {what}"));
        normal(&request)
    }

    /// Returns the text for this server.
    fn insert(&self, text: &str) -> String {
        let url = format!("http://127.0.0.1:{}", self.port);
        text.replace("{URL}", &url)
            .replace("{PORT}", &self.port.to_string())
    }
}

/// Reads a request, and answers that it was the last one on its connection.
fn answer(mut stream: TcpStream) -> Vec<u8> {
    let (mut request, mut buffer) = (Vec::new(), [0; 16 * 1024]);
    let end = loop {
        let len = stream.read(&mut buffer).unwrap_or(0);
        request.extend_from_slice(&buffer[..len]);
        let end = request.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            break end + 4;
        }
        if len == 0 {
            return request;
        }
    };
    let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    let length = length.map_or(0, |length| length.trim().parse::<usize>().unwrap());
    while request.len() < end + length {
        let len = stream.read(&mut buffer).unwrap_or(0);
        assert!(len > 0, "a body that is too short");
        request.extend_from_slice(&buffer[..len]);
    }
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let _ = stream.shutdown(Shutdown::Write);
    // What follows the length would be part of the request as well.
    let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
    let _ = stream.read_to_end(&mut request);
    request
}

/// Returns a request with fixed values in place of those that each program chooses itself: the
/// boundary of a form, and the default `User-Agent`, by which operators recognise lagtrace.
fn normal(request: &[u8]) -> String {
    let mut text: String = request.iter().map(|&byte| char::from(byte)).collect();
    let mark = "boundary=------------------------";
    if let Some(at) = text.find(mark).map(|at| at + mark.len()) {
        let boundary: String = text[at..]
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect();
        if boundary.len() == 16 {
            text = text.replace(&boundary, "BOUNDARY");
        }
    }
    let lines = text.split("\r\n").map(|line| {
        let is_own =
            line.starts_with("User-Agent: curl/") || line.starts_with("User-Agent: lagtrace/");
        if is_own { "User-Agent: OWN" } else { line }
    });
    lines.collect::<Vec<_>>().join("\r\n")
}

/// Writes the files that the commands name.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in [
        ("picture.png", &b"\x89PNG\r\n\x1a\n\0\0binary"[..]),
        ("notes.txt", b"one & two\r\nthree\n"),
        ("order.json", b"{\n  \"id\": 7\n}\n"),
    ] {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

/// Runs the program in a folder, with the command on standard input.
fn lagtrace_in(folder: &Path, arguments: &[&str], input: &str) -> Run {
    let mut child = Command::new(program())
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    Run::new(child.wait_with_output().unwrap())
}

#[test]
fn copied_requests_are_equal_to_those_of_curl() {
    if !has_tool("copied_requests_are_equal_to_those_of_curl", "curl") {
        return;
    }
    let (recorder, folder) = (Recorder::start(), folder());
    let mut wrong = Vec::new();
    for case in CASES {
        let bash = recorder.insert(case.bash.strip_prefix("$ ").unwrap_or(case.bash));
        let ran = Command::new("bash")
            .args(["-c", &bash])
            .current_dir(folder.path())
            .env("http_proxy", "")
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}: {ran:?}", case.name);
        let want = recorder.next("curl");
        let texts = [case.bash, case.cmd]
            .into_iter()
            .filter(|text| !text.is_empty());
        for text in texts.map(|text| recorder.insert(text)) {
            for command in [
                &[
                    "load",
                    "-n",
                    "1",
                    "-c",
                    "1",
                    "-q",
                    "--yes",
                    "--from-curl",
                    "@-",
                ][..],
                &["probe", "-c", "1", "-q", "--from-curl", "@-"],
            ] {
                let run = lagtrace_in(folder.path(), command, &text);
                assert_eq!(run.code, Some(0), "{}: {command:?} {run:#?}", case.name);
                // With -L, a request of its own looks for redirects first.
                let count = if text.contains(" -L") { 2 } else { 1 };
                let got: Vec<String> = (0..count).map(|_| recorder.next("lagtrace")).collect();
                let is_same = got.iter().all(|got| *got == want);
                if !is_same {
                    wrong.push(format!(
                        "{} {}:\n{want}\n-- got --\n{got:#?}",
                        case.name, command[0]
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(CASES.len() >= 30);
}

/// Starts the program with the secret in many of its options, and returns its arguments.
fn secretive(command: &str, url: &str, more: &[&str]) -> Vec<String> {
    let secret = |text: &str| text.replace("SECRET", SECRET);
    let mut arguments: Vec<String> = [command, &url.replace("://", &secret("://me:SECRET@"))]
        .map(str::to_owned)
        .into();
    for (option, value) in [
        ("-H", "Authorization: Bearer SECRET"),
        ("--header", "X-Api-Key: SECRET"),
        ("-b", "sid=SECRET"),
        ("--json", "{\"password\":\"SECRET\"}"),
    ] {
        arguments.extend([option.to_owned(), secret(value)]);
    }
    arguments.extend(["--yes".to_owned(), "-c1".to_owned()]);
    arguments.extend(more.iter().map(|&word| word.to_owned()));
    arguments
}

/// Returns the command lines of a process and of its children, as everyone sees them.
fn command_lines(pid: u32) -> Vec<String> {
    let children = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(children).unwrap_or_default();
    let pids = children
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok());
    let mut lines: Vec<String> = pids.flat_map(command_lines).collect();
    let own = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    lines.push(String::from_utf8_lossy(&own).replace('\0', " "));
    lines
}

#[test]
fn secrets_are_in_no_process_list_and_in_no_output() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (page, seen) = (file("page.html"), file("observations.ndjson"));
    for (command, more) in [
        ("load", vec!["-n", "2", "--html", &page]),
        (
            "diagnose",
            vec![
                "-n",
                "20",
                "-d",
                "1s",
                "-v",
                "--html",
                &page,
                "--observations",
                &seen,
            ],
        ),
        ("diagnose", vec!["-n", "20", "-d", "1s", "--format", "json"]),
        ("probe", vec!["-m", "http", "-v"]),
    ] {
        let mut arguments = secretive(command, &url, &more);
        if command == "probe" {
            arguments.retain(|argument| argument != "--yes");
        }
        let child = Command::new(program())
            .args(&arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut lines, mut sent) = (Vec::new(), false);
        let pid = child.id();
        listener.set_nonblocking(true).unwrap();
        let ended = thread::spawn(move || Run::new(child.wait_with_output().unwrap()));
        while !ended.is_finished() {
            let Ok((stream, _)) = listener.accept() else {
                thread::yield_now();
                continue;
            };
            stream.set_nonblocking(false).unwrap();
            if lines.is_empty() {
                lines = command_lines(pid);
            }
            thread::spawn(move || refuse_all(stream));
            sent = true;
        }
        let run = ended.join().unwrap();
        assert!(sent && lines.len() >= 2, "{lines:?} {run:#?}");
        assert!(lines[0].contains("--json"), "{lines:?}");
        let mut outputs = vec![lines.join("\n"), run.stdout, run.stderr];
        outputs.extend(more.iter().filter_map(|file| fs::read_to_string(file).ok()));
        for output in outputs {
            assert!(!output.contains(SECRET), "{command}: {output}");
        }
    }
}

/// Answers each request on a connection with status 401.
fn refuse_all(mut stream: TcpStream) {
    let mut buffer = [0; 16 * 1024];
    let answer = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";
    while stream.read(&mut buffer).is_ok_and(|len| len > 0) && stream.write_all(answer).is_ok() {}
}

#[test]
fn requests_that_may_change_something_need_a_yes_and_are_few() {
    let recorder = Recorder::start();
    let url = recorder.insert("{URL}/orders/{seq}?id={uuid}");
    let options = ["--json", "{\"n\":{seq},\"x\":{rand:5:9}}", "-c", "2"];
    for command in ["load", "diagnose"] {
        let run = lagtrace_in(
            Path::new("."),
            &[&[command, &url][..], &options].concat(),
            "",
        );
        assert_eq!(run.code, Some(2), "{run:#?}");
        assert!(
            run.stderr.contains("--yes") && run.stderr.contains("POST"),
            "{run:#?}"
        );
        assert!(recorder.received.try_recv().is_err(), "{command} sent one");
    }
    let run = lagtrace_in(
        Path::new("."),
        &[&["load", &url, "--yes", "--format", "json"][..], &options].concat(),
        "",
    );
    assert!(run.stderr.contains("200 times"), "{run:#?}");
    let report = run.expect(0).json();
    assert_eq!(report["load"]["responses"], 200, "{report:#}");
    let mut numbers: Vec<u32> = (0..200)
        .map(|_| {
            let request = recorder.next("lagtrace");
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            let number = head.split(['/', '?']).nth(2).unwrap();
            let body: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!(body["n"].to_string(), number, "{request}");
            assert!((5..=9).contains(&body["x"].as_u64().unwrap()), "{request}");
            number.parse().unwrap()
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=200).collect::<Vec<u32>>());
}

#[test]
fn wrong_options_of_requests_say_what_to_do_and_repeat_no_secret() {
    let url = "http://127.0.0.1:9/";
    for (arguments, words) in [
        (&["load", url, "-d", "password=s3cretW0rd"][..], "--data"),
        (&["load", url, "-H", "s3cretW0rd"], "NAME: VALUE"),
        (
            &["diagnose", url, "--from-curl", "curl -u me:s3cretW0rd x"],
            "--from-curl",
        ),
        (
            &["load", "--from-curl", "curl -T s3cretW0rd x"],
            "--upload-file",
        ),
        (&["load", url, "--data", "@/nowhere/s"], "/nowhere/s"),
        (&["load", url, "-x", "http://p:1"], "proxy"),
        (
            &["load", url, "--json", "{rand:9:1}", "--yes"],
            "{rand:FIRST:LAST}",
        ),
        (
            &["load", "https://127.0.0.1:9/", "--cert", "/nowhere/c"],
            "/nowhere/c",
        ),
    ] {
        let run = lagtrace_in(Path::new("."), arguments, "");
        assert_eq!(run.code, Some(2), "{run:#?}");
        assert!(run.stderr.contains(words), "{words}: {run:#?}");
        assert!(!run.stderr.contains(SECRET), "{run:#?}");
    }
}

/// Answers every request of a service by its path: `/old` leads to `/new`, which is there, and
/// `/private` needs a login.
fn by_path(mut stream: impl std::io::Read + std::io::Write) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(len @ 1..) = stream.read(&mut buffer) {
        let request = String::from_utf8_lossy(&buffer[..len]).into_owned();
        let head = match request.split(' ').nth(1).unwrap_or_default() {
            "/old" => "302 Found\r\nLocation: /new?from=old",
            "/private" => "401 Unauthorized",
            _ => "200 OK",
        };
        let answer = format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n");
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Starts such a service, and returns its origin.
fn service() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || by_path(stream));
        }
    });
    url
}

#[test]
fn redirects_are_told_or_followed_and_other_statuses_name_what_helps() {
    let url = service();
    let run = |command: &str, path: &str, more: &[&str]| {
        let url = format!("{url}{path}");
        let arguments = [&[command, &url, "-c", "1", "--format", "json"][..], more].concat();
        lagtrace_in(Path::new("."), &arguments, "")
    };
    for (command, limit) in [("load", ["-n", "5"]), ("diagnose", ["-d", "1s"])] {
        let told = run(command, "/old", &limit).json();
        assert!(told["notes"].to_string().contains("-L"), "{told:#}");
        let followed = run(command, "/old", &[&limit[..], &["-L"]].concat());
        assert!(followed.stderr.contains("/new?from=old"), "{followed:#?}");
        assert!(followed.stderr.contains("302"), "{followed:#?}");
        let outcomes = followed.json()["load"]["outcomes"].to_string();
        assert!(
            outcomes.contains("200") && !outcomes.contains("302"),
            "{outcomes}"
        );
        let refused = run(command, "/private", &limit).json();
        assert!(
            refused["notes"].to_string().contains("--from-curl"),
            "{refused:#}"
        );
        let other = run(
            command,
            "/",
            &[&limit[..], &["--expect-status", "201"]].concat(),
        );
        assert_eq!(other.code, Some(1), "{other:#?}");
        let report = other.json();
        assert!(
            report["notes"].to_string().contains("unexpected-status"),
            "{report:#}"
        );
        assert_eq!(report["findings"][0]["cause"], "http-error", "{report:#}");
        let refused = [&limit[..], &["--expect-status", "401"]].concat();
        let expected = run(command, "/private", &refused);
        assert_eq!(expected.code, Some(0), "{expected:#?}");
        assert_eq!(expected.json()["findings"], serde_json::json!([]));
    }
}

#[test]
fn probes_follow_redirects_and_repeat_no_request_that_changes_something_unasked() {
    let url = service();
    let old = format!("{url}/old");
    let probe = |more: &[&str]| {
        let arguments = [&["probe", "-m", "http", &old, "-c", "2"][..], more].concat();
        lagtrace_in(Path::new("."), &arguments, "")
    };
    let redirect = probe(&[]);
    assert!(redirect.stdout.contains("302"), "{redirect:#?}");
    let followed = probe(&["-L"]);
    assert!(followed.stderr.contains("/new?from=old"), "{followed:#?}");
    assert!(followed.stdout.contains("200"), "{followed:#?}");
    let unasked = probe(&["-X", "DELETE"]);
    assert_eq!(unasked.code, Some(2), "{unasked:#?}");
    assert!(unasked.stderr.contains("DELETE") && unasked.stderr.contains("--yes"));
    let agreed = probe(&["-X", "DELETE", "--yes"]);
    assert!(agreed.stderr.contains("2 times"), "{agreed:#?}");
    assert!(agreed.stdout.contains("2 sent, 2 answered"), "{agreed:#?}");
}

#[test]
fn a_service_at_a_unix_socket_is_diagnosed_without_packets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || by_path(stream));
        }
    });
    let path = path.display().to_string();
    let socket = ["--unix-socket", &path, "--format", "json"];
    let options = ["diagnose", "http://app.example/", "-d", "1s", "-c", "2"];
    let report = lagtrace_in(Path::new("."), &[&options[..], &socket].concat(), "").json();
    assert!(
        report["notes"].to_string().contains("unix-socket"),
        "{report:#}"
    );
    assert!(
        report["load"]["responses"].as_u64().unwrap() > 10,
        "{report:#}"
    );
    let options = ["probe", "-m", "http", "http://app.example/", "-c", "2"];
    let run = lagtrace_in(Path::new("."), &[&options[..], &socket].concat(), "").expect(0);
    assert!(run.json()["probes"].to_string().contains("200"), "{run:#?}");
}
