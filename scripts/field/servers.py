"""The functions that start each kind of server. Each returns a list of processes, with the port
and the environment of each. `drawn` contains the trial's parameters."""

import glob
import os
import shutil
import string
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
# Debian's own Python, which finds the modules of Debian's packages.
PYTHON = "/usr/bin/python3"
PACKAGES = [
    "apache2-bin",
    "gunicorn",
    "haproxy",
    "iproute2",
    "mariadb-server",
    "nginx-light",
    "openssl",
    "php8.2-fpm",
    "postgresql",
    "python3-grpcio",
    "python3-psycopg2",
    "python3-pymysql",
    "python3-redis",
    "python3-websockets",
    "redis-server",
    "tcpdump",
    "uvicorn",
]
# Commands that may be installed without their Debian package.
COMMANDS = {"go": "golang-go", "node": "nodejs", "javac": "default-jdk-headless"}


@dataclass
class Setting:
    """The folder, the ports and the parameters with which a server is started."""

    folder: Path
    built: Path
    port: int
    upstream: int
    drawn: dict = field(default_factory=dict)

    def write(self, name, file=None, **more):
        """Writes a configuration from the template `name`, and returns its path."""
        values = {**self.drawn, **vars(self), **more}
        template = string.Template((PROGRAMS / name).read_text())
        file = file or self.folder / name
        file.write_text(template.substitute(values))
        return file


@dataclass
class Process:
    command: list
    port: int
    environment: dict = field(default_factory=dict)


def install(more=()):
    missing = [package for command, package in COMMANDS.items() if not shutil.which(command)]
    installer = Path(__file__).parents[1] / "install-packages"
    subprocess.run([installer, *PACKAGES, *more, *missing], check=True)


def build(folder):
    """Compiles the programs of all trials, once."""
    environment = {**os.environ, "GO111MODULE": "off", "CGO_ENABLED": "0"}
    go = ["go", "build", "-o", folder / "web", PROGRAMS / "web.go"]
    subprocess.run(go, check=True, env=environment)
    subprocess.run(["javac", "-d", folder, PROGRAMS / "Web.java"], check=True)


def go_at(s, port, habit, pause=0, count=1):
    return Process([s.built / "web", f":{port}", habit, pause, count], port)


def go(s):
    return [go_at(s, s.port, s.drawn["habit"], s.drawn.get("pause", 1), s.drawn.get("count", 1))]


def node(s):
    habit = [s.drawn["habit"], s.drawn.get("pause", 0), s.drawn.get("count", 1)]
    return [Process(["node", PROGRAMS / "web.js", s.port, *habit], s.port)]


def java(s):
    options = [f"-Xmx{s.drawn['heap']}m", "-XX:+UseSerialGC"]
    if s.drawn["nodelay"]:
        options.append("-Dsun.net.httpserver.nodelay=true")
    # Live data of 70 % of the heap overfills the old generation, which is two thirds of the heap.
    live = round(s.drawn["heap"] * 0.7) if s.drawn["is_full"] else 0
    return [Process(["java", *options, "-cp", s.built, "Web", s.port, 16, live], s.port)]


def http_server(s):
    return [Process([PYTHON, PROGRAMS / "simple.py", s.port, s.drawn["habit"]], s.port)]


def gunicorn(s):
    command = ["gunicorn", "-w", s.drawn["workers"], "-b", f"0.0.0.0:{s.port}"]
    command += ["--chdir", PROGRAMS, "wsgi:application"]
    return [Process(command, s.port, {"PAUSE": str(s.drawn["pause"])})]


def uvicorn(s):
    names = {"PAUSE": "pause", "PIECES": "count", "HABIT": "habit"}
    environment = {name: str(s.drawn.get(key, 1)) for name, key in names.items()}
    command = ["uvicorn", "--app-dir", PROGRAMS, "--host", "0.0.0.0", "--port", s.port]
    command += ["--no-access-log", "asgi:application"]
    return [Process(command, s.port, environment)]


def apache(s):
    (s.folder / "index.html").write_bytes(b"x" * 400)
    return [Process(["apache2", "-f", s.write("apache.conf"), "-DFOREGROUND"], s.port)]


def haproxy(s):
    most = s.drawn.get("maxconn")
    configuration = s.write("haproxy.cfg", maxconn=f" maxconn {most}" if most else "")
    behind = go_at(s, s.upstream, "constant", s.drawn["pause"])
    return [behind, Process(["haproxy", "-db", "-f", configuration], s.port)]


def nginx_with(s, http="", server="", name="nginx", port=None):
    """Returns an nginx with its own folder, on the trial's port or another port."""
    folder = s.folder / name
    folder.mkdir()
    folder.chmod(0o755)
    port = port or s.port
    values = {"folder": folder, "port": port, "http": http, "server": server, "root": s.folder}
    configuration = s.write("nginx.conf", folder / "nginx.conf", **values)
    return Process(["nginx", "-c", configuration, "-e", folder / "nginx.log"], port)


def nginx(s):
    """Returns an nginx that serves a file, with a directive that limits its responses."""
    (s.folder / "index.html").write_bytes(b"x" * s.drawn["size"])
    if "rate" in s.drawn:
        zone = f"limit_req_zone $binary_remote_addr zone=all:1m rate={s.drawn['rate']}r/s;"
        return [nginx_with(s, zone, f"limit_req zone=all burst={s.drawn['burst']};")]
    return [nginx_with(s, "", f"limit_rate {s.drawn['bytes_a_second']};")]


def nginx_proxy(s):
    """Returns an nginx as a proxy for a Go server, with or without persistent connections to it."""
    http = f"upstream behind {{ server 127.0.0.1:{s.upstream}; keepalive 64; }}"
    server = (
        "location / { proxy_pass http://behind; proxy_http_version 1.1;"
        ' proxy_set_header Connection ""; }'
    )
    habit = "constant" if s.drawn.get("pause") else "plain"
    behind = go_at(s, s.upstream, habit, s.drawn.get("pause", 1))
    return [behind, nginx_with(s, http, server)]


def nginx_tls_proxy(s):
    """Returns an nginx as a proxy for a TLS server, with a new connection for each request."""
    key, certificate = s.folder / "key.pem", s.folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", f"rsa:{s.drawn['bits']}", "-nodes"]
    command += ["-subj", "/CN=behind", "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    (s.folder / "index.html").write_bytes(b"x" * 400)
    behind = (
        f"server {{ listen 127.0.0.1:{s.upstream} ssl backlog=511; root {s.folder};"
        f" ssl_certificate {certificate}; ssl_certificate_key {key}; }}"
    )
    passing = f"proxy_pass https://127.0.0.1:{s.upstream}; proxy_ssl_session_reuse off;"
    plain = s.upstream + 1
    return [
        nginx_with(s, behind, name="behind", port=plain),
        nginx_with(s, "", f"location / {{ {passing} }}"),
    ]


def php(s):
    shutil.copy(PROGRAMS / "page.php", s.folder / "index.php")
    fpm = ["php-fpm8.2", "--fpm-config", s.write("php-fpm.conf")]
    server = (
        "location / { include /etc/nginx/fastcgi_params;"
        f" fastcgi_param SCRIPT_FILENAME {s.folder}/index.php;"
        f" fastcgi_pass 127.0.0.1:{s.upstream}; }}"
    )
    return [Process(fpm, s.upstream), nginx_with(s, "", server)]


def redis(s):
    options = ["--save", "", "--enable-debug-command", "yes", "--protected-mode", "no"]
    return [Process(["redis-server", "--port", s.port, *options, "--dir", s.folder], s.port)]


def as_user(user, command):
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]


def postgres(s):
    data = s.folder / "postgres"
    data.mkdir()
    shutil.chown(data, "postgres", "postgres")
    programs = Path(sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1])
    prepare = [programs / "initdb", "-D", data, "-A", "trust", "--no-sync"]
    subprocess.run(as_user("postgres", prepare), check=True, capture_output=True, cwd="/")
    with open(data / "pg_hba.conf", "a", encoding="ascii") as access:
        access.write("host all all 10.77.0.0/24 trust\n")
    command = [programs / "postgres", "-D", data, "-p", s.port, "-h", "*", "-k", data]
    # Otherwise, three processes would share a scan.
    command += ["-c", "max_parallel_workers_per_gather=0", "-c", "fsync=off"]
    return [Process(as_user("postgres", command), s.port)]


def mariadb(s):
    data = s.folder / "mariadb"
    data.mkdir()
    shutil.chown(data, "mysql", "mysql")
    prepare = ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=mysql"]
    subprocess.run(prepare, check=True, capture_output=True)
    command = ["mariadbd", "--no-defaults", f"--datadir={data}", f"--port={s.port}"]
    command += ["--user=mysql", "--skip-grant-tables", "--skip-networking=0"]
    command += ["--bind-address=0.0.0.0", f"--socket={data}/socket", "--skip-name-resolve"]
    return [Process([*command, "--innodb-flush-log-at-trx-commit=0"], s.port)]


def grpc(s):
    arguments = [s.port, s.drawn["workers"], s.drawn["pause"]]
    return [Process([PYTHON, PROGRAMS / "grpc_server.py", *arguments], s.port)]


def websocket(s):
    program = [PYTHON, PROGRAMS / "websocket_server.py", s.port, s.drawn["pause"]]
    return [Process(program, s.port)]
