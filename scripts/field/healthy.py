"""Healthy servers with what the default load of `diagnose` does to them: each carries the load, or
is saturated by it."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field

from field import servers
from field.servers import PROGRAMS, Process, nginx_with

PACKAGES = ["caddy", "curl", "puma", "ruby-webrick", "wrk"]


@dataclass
class Healthy:
    name: str
    start: Callable
    drawn: dict = field(default_factory=dict)


def page(s):
    (s.folder / "index.html").write_bytes(b"x" * 400)


def nginx(s):
    page(s)
    return [nginx_with(s)]


def caddy(s):
    page(s)
    command = ["caddy", "file-server", "--root", s.folder, "--listen", f":{s.port}"]
    # Caddy keeps its state there.
    return [Process(command, s.port, {"HOME": str(s.folder)})]


def webrick(s):
    return [Process(["ruby", PROGRAMS / "web.rb", s.port], s.port)]


def puma(s):
    application = s.folder / "config.ru"
    shutil.copy(PROGRAMS / "config.ru", application)
    command = ["puma", "-b", f"tcp://0.0.0.0:{s.port}", "-t", "4:4", application]
    return [Process(command, s.port)]


def working(s):
    """Returns a gunicorn whose one worker computes for some milliseconds."""
    process = servers.gunicorn(s)[0]
    process.environment["WORK"] = str(s.drawn["work"])
    return [process]


def gthread(s):
    process = servers.gunicorn(s)[0]
    process.command[1:1] = ["-k", "gthread", "--threads", 4]
    return [process]


HEALTHY = [
    Healthy("nginx", nginx),
    Healthy("go", servers.go, {"habit": "plain"}),
    Healthy("node", servers.node, {"habit": "plain"}),
    Healthy("uvicorn", servers.uvicorn, {"habit": "plain"}),
    Healthy("gunicorn-sync", servers.gunicorn, {"workers": 2, "pause": 0}),
    Healthy("gunicorn-gthread", gthread, {"workers": 1, "pause": 0}),
    Healthy("java", servers.java, {"nodelay": True, "is_full": False, "heap": 300}),
    Healthy("webrick", webrick),
    Healthy("haproxy-go", servers.haproxy, {"pause": 0}),
    Healthy("php-fpm", servers.php, {"children": 8, "pause": 0}),
    Healthy("caddy", caddy),
    Healthy("puma", puma),
    # About 30 and 300 requests per second.
    Healthy("works-33ms", working, {"workers": 1, "pause": 0, "work": 33}),
    Healthy("works-3ms", working, {"workers": 1, "pause": 0, "work": 3.3}),
]
