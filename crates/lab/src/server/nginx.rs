//! The one nginx for all nginx services of a scenario: its folder, its configuration.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::service_port::ServicePort;
use super::{Answer, Nginx, PAGE};
use crate::error::Error;
use crate::machine::file::open_up;
use crate::path::PathSpec;
use crate::quantity::Size;

/// The default number of workers: more than one, as on the machines on which the case was observed.
const WORKERS: u8 = 2;

/// The services of one nginx, each with its block.
pub(crate) type Blocks<'a> = [(ServicePort<'a>, &'a Nginx)];

/// Returns the number of workers of the nginx with these blocks.
pub(crate) fn workers(blocks: &Blocks<'_>) -> u8 {
    blocks
        .iter()
        .filter_map(|(_, nginx)| nginx.workers)
        .max()
        .unwrap_or(WORKERS)
}

/// Returns the error log of a service.
pub(crate) fn service_log(folder: &Path, service: &str) -> PathBuf {
    folder.join("nginx").join(format!("{service}.error.log"))
}

/// Returns the access log of a service, within the folder of the lab's run.
pub(crate) fn access_log(folder: &Path, service: &str) -> PathBuf {
    folder.join("nginx").join(format!("{service}.access.log"))
}

/// Returns nginx's own error log.
pub(crate) fn error_log(folder: &Path) -> PathBuf {
    folder.join("nginx").join("error.log")
}

/// Writes nginx's folder: page and configuration. Returns the arguments to start nginx with; `None`
/// if there are no blocks.
pub(crate) fn lay(
    folder: &Path,
    blocks: &Blocks<'_>,
    hosts: &PathSpec,
) -> Result<Option<Vec<String>>, Error> {
    if blocks.is_empty() {
        return Ok(None);
    }
    let home = folder.join("nginx");
    let pages = home.join("html");
    fs::create_dir_all(&pages).map_err(Error::file("create", &pages))?;
    let page = pages.join("index.html");
    fs::write(&page, PAGE).map_err(Error::file("write", &page))?;
    for (service, nginx) in blocks {
        if let Some(tls) = &nginx.tls {
            tls.lay(&home, service.name, hosts)?;
        }
        if let Answer::Bytes(sizes) = &nginx.answer {
            lay_files(&files(&home, service.name), sizes.as_slice())?;
        }
    }
    let configuration = home.join("nginx.conf");
    let text = configure(&home, worker_user(), blocks);
    fs::write(&configuration, text).map_err(Error::file("write", &configuration))?;
    [&home, &pages, &page, &configuration]
        .into_iter()
        .try_for_each(|path| open_up(path))?;
    let argument = |path: &Path| path.display().to_string();
    Ok(Some(vec![
        "-p".to_owned(),
        argument(&home),
        "-c".to_owned(),
        argument(&configuration),
        "-e".to_owned(),
        argument(&error_log(folder)),
    ]))
}

/// Writes the files of a service that serves files of these sizes.
fn lay_files(folder: &Path, sizes: &[Size]) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
    open_up(folder)?;
    let names = sizes.iter().map(Size::to_string);
    let index = std::iter::once("index.html".to_owned());
    let sizes = sizes.first().into_iter().chain(sizes);
    for (name, size) in index.chain(names).zip(sizes) {
        let file = folder.join(name);
        fs::write(&file, text(*size)).map_err(Error::file("write", &file))?;
        open_up(&file)?;
    }
    Ok(())
}

/// Returns the folder of the files that a service serves.
fn files(home: &Path, service: &str) -> PathBuf {
    home.join(format!("{service}.files"))
}

/// Returns a text of this size: numbered lines, which compress well with any method.
fn text(size: Size) -> String {
    let length = usize::try_from(size.bytes()).unwrap_or(usize::MAX);
    let mut text = String::with_capacity(length.saturating_add(64));
    for number in 1_u64.. {
        if text.len() >= length {
            break;
        }
        let _ = writeln!(
            text,
            "{number:8} a line of the lab's text, as long as its others"
        );
    }
    text.truncate(length);
    text
}

/// Returns the user under which distributions run a web server's workers; root if there is no such
/// user.
fn worker_user() -> &'static str {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let exists = |user: &&str| {
        passwd
            .lines()
            .any(|line| line.split(':').next() == Some(user))
    };
    ["www-data", "nginx", "http"]
        .into_iter()
        .find(exists)
        .unwrap_or("root")
}

/// Returns the configuration, formatted as by an administrator.
fn configure(home: &Path, user: &str, blocks: &Blocks<'_>) -> String {
    let workers = workers(blocks);
    let home = home.display().to_string();
    let mut text = format!(
        "user {user};\n\
         worker_processes {workers};\n\
         worker_rlimit_nofile 16384;\n\
         daemon off;\n\
         pid {home}/nginx.pid;\n\
         \n\
         events {{\n    worker_connections 4096;\n}}\n\
         \n\
         http {{\n\
         \x20   types {{ text/html html; }}\n\
         \x20   default_type text/plain;\n\
         \x20   client_body_temp_path {home}/body;\n\
         \x20   proxy_temp_path {home}/proxy;\n\
         \x20   fastcgi_temp_path {home}/fastcgi;\n\
         \x20   uwsgi_temp_path {home}/uwsgi;\n\
         \x20   scgi_temp_path {home}/scgi;\n\
         \x20   log_format stamps '$msec $request_time $remote_addr $remote_port $connection_requests $status $request';\n\
         \x20   access_log off;\n\
         \x20   sendfile on;\n\
         \x20   keepalive_timeout 65;\n\
         \x20   keepalive_requests 1000000000;\n"
    );
    for (_, nginx) in blocks {
        for directive in &nginx.http {
            let _ = writeln!(text, "    {}", written(directive, &home));
        }
    }
    for (service, nginx) in blocks {
        text.push_str(&block(&home, *service, nginx));
    }
    text.push_str("}\n");
    text
}

/// Returns a service's `server` block.
fn block(home: &str, service: ServicePort<'_>, nginx: &Nginx) -> String {
    let ServicePort { name, port } = service;
    let mut words = nginx.listen.clone().unwrap_or_default();
    if nginx.tls.is_some() {
        words.push_str(" ssl");
    }
    let mut lines = vec![
        format!("listen {port} {words}"),
        format!("listen [::]:{port} {words}"),
        format!("error_log {home}/{name}.error.log info"),
    ];
    if let Some(tls) = &nginx.tls {
        lines.extend(tls.directives(Path::new(home), name));
    }
    lines.extend(
        nginx
            .server_name
            .as_ref()
            .map(|host| format!("server_name {host}")),
    );
    lines.extend(
        nginx
            .tcp_nodelay
            .map(|on| format!("tcp_nodelay {}", on_off(on))),
    );
    lines.extend(
        nginx
            .tcp_nopush
            .map(|on| format!("tcp_nopush {}", on_off(on))),
    );
    lines.extend(
        nginx
            .access_log
            .then(|| format!("access_log {home}/{name}.access.log stamps")),
    );
    lines.push(match &nginx.answer {
        Answer::Page => format!("root {home}/html"),
        Answer::Return(status) => format!("return {status} \"{status} from the lab\\n\""),
        Answer::Bytes(_) => format!("root {}", files(Path::new(home), name).display()),
    });
    let mut text = format!("\n    # {name}\n    server {{\n");
    lines.extend(nginx.directives.iter().cloned());
    for line in lines {
        let _ = writeln!(text, "        {}", written(&line, home));
    }
    text.push_str("    }\n");
    text
}

/// Returns a directive as written in the file. A block is not changed. Any other directive gets a
/// semicolon at its end.
fn written(directive: &str, home: &str) -> String {
    let directive = directive.trim().replace("{folder}", home);
    if directive.ends_with(['}', ';']) {
        directive
    } else {
        directive + ";"
    }
}

fn on_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Server;

    #[test]
    fn what_a_scenario_says_in_nginxs_own_words_is_in_the_configuration() {
        let text = r#"
kind = "nginx"
workers = 1
listen = "backlog=1"
http = ["upstream app { server 127.0.0.1:9; }"]
directives = ["limit_rate 20k", "location /x { root {folder}/html; }"]
"#;
        let Ok(Server::Nginx(nginx)) = toml::from_str(text) else {
            panic!("no nginx")
        };
        let port = ServicePort {
            name: "raw",
            port: 80,
        };
        let text = configure(Path::new("/run/n"), "nobody", &[(port, &nginx)]);
        for line in [
            "worker_processes 1;",
            "    upstream app { server 127.0.0.1:9; }\n",
            "listen 80 backlog=1;",
            "listen [::]:80 backlog=1;",
            "limit_rate 20k;\n",
            "location /x { root /run/n/html; }\n",
            "error_log /run/n/raw.error.log info;",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
