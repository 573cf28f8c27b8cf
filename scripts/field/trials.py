"""The trials, each with its server, its fault (or none), its drawn parameters and its truth."""

from collections.abc import Callable
from dataclasses import dataclass

from field import servers

# Changes that only one kind of server has. At another server, a fix with such a change does not
# apply.
FOREIGN = {
    "nginx": r"nginx|proxy_|fastcgi_|limit_re[qs]|limit_rate",
    "haproxy": r"haproxy|maxconn",
    "httpd": r"httpd|Apache|MaxRequestWorkers",
    "PHP": r"php-fpm|max_children",
    "gunicorn": r"gunicorn",
    "Node": r"setNoDelay|Node",
    "Java": r"sun\.net|\bJava\b|-Xmx",
    "Redis": r"Redis|redis",
}
NODELAY = r"(?i)tcp_?nodelay|nagle"
MORE_WORKERS = r"(?i)more (workers|threads|processes)"
WORKERS = ["worker-saturation", "socket-queue-dwell"]


@dataclass
class Trial:
    name: str
    start: Callable
    # The function that draws the parameters, by name.
    draw: Callable
    # The correct causes; empty for a healthy server.
    causes: tuple = ()
    # The kinds of server whose own changes may be recommended.
    knows: tuple = ()
    # Further changes that do not apply.
    must_not: tuple = ()
    # The minimum and maximum number of connections.
    connections: tuple = (5, 50)
    # The kind of client, if it is not `diagnose`, which speaks HTTP/1.1.
    client: str | None = None

    def forbidden(self):
        foreign = [what for kind, what in FOREIGN.items() if kind not in self.knows]
        return [*foreign, *self.must_not]


def none(_):
    return {}


def among(**choices):
    """Returns a draw: a whole number between the two of a pair, or a member of a list."""

    def draw(chance):
        return {
            name: chance.choice(given) if isinstance(given, list) else chance.randint(*given)
            for name, given in choices.items()
        }

    return draw


def node_trials():
    def node(name, draw, **more):
        return Trial(f"node-{name}", servers.node, draw, knows=("Node",), **more)

    return [
        node("nagle", among(habit=["nagle"]), causes=("nagle-delayed-ack",)),
        node(
            "blocked-loop",
            among(habit=["block"], pause=(100, 300)),
            causes=("socket-queue-dwell", "stop-the-world"),
            connections=(10, 50),
            must_not=(NODELAY,),
        ),
        node("healthy", among(habit=["plain", "stream"], pause=(10, 60), count=(6, 15))),
    ]


def go_trials():
    # Go itself turns Nagle's algorithm off.
    def go(name, draw, **more):
        more.setdefault("must_not", (NODELAY,))
        return Trial(f"go-{name}", servers.go, draw, **more)

    think = ["constant", "exponential", "uniform"]
    return [
        go("think", among(habit=think, pause=(10, 40)), causes=("server-think",)),
        go(
            "mutex",
            among(habit=["mutex"], pause=(2, 6)),
            causes=("worker-saturation",),
            connections=(10, 50),
        ),
        go("pause", among(habit=["flush"], pause=(20, 80)), causes=("server-pause",)),
        go(
            "pool",
            among(habit=["pool"], pause=(8, 25), count=(3, 6)),
            causes=("worker-saturation",),
            connections=(15, 50),
        ),
        go(
            "stall",
            among(habit=["stall"], pause=(400, 1000)),
            causes=("stop-the-world",),
            must_not=(NODELAY, MORE_WORKERS),
        ),
        go("healthy-events", among(habit=["events"], pause=(100, 300), count=(4, 8))),
        go("healthy-long-poll", among(habit=["long-poll"], pause=(400, 1200))),
    ]


def python_trials():
    def python(kind, name, start, draw, **more):
        return Trial(f"{kind}-{name}", start, draw, must_not=(NODELAY,), **more)

    gunicorn, uvicorn, simple = servers.gunicorn, servers.uvicorn, servers.http_server
    return [
        python(
            "gunicorn",
            "one-worker",
            gunicorn,
            among(workers=[1], pause=(10, 30)),
            causes=tuple(WORKERS),
            knows=("gunicorn",),
            connections=(10, 50),
        ),
        python(
            "gunicorn",
            "healthy",
            gunicorn,
            among(workers=[1, 2], pause=[0]),
            knows=("gunicorn",),
            connections=(3, 25),
        ),
        python(
            "uvicorn",
            "blocking",
            uvicorn,
            among(habit=["blocking"], pause=(10, 30)),
            causes=tuple(WORKERS),
            connections=(10, 50),
        ),
        python(
            "uvicorn",
            "healthy-stream",
            uvicorn,
            among(habit=["stream"], pause=(15, 50), count=(5, 12)),
            connections=(3, 20),
        ),
        python(
            "http.server",
            "one-thread",
            simple,
            among(habit=["one"]),
            causes=tuple(WORKERS),
            connections=(10, 30),
        ),
        python("http.server", "healthy", simple, among(habit=["threads"]), connections=(2, 10)),
    ]


def java_trials():
    def java(name, draw, **more):
        return Trial(f"java-{name}", servers.java, draw, knows=("Java",), **more)

    return [
        java(
            "nagle",
            among(nodelay=[False], is_full=[False], heap=(200, 400)),
            causes=("nagle-delayed-ack",),
        ),
        java(
            "full-collections",
            among(nodelay=[True], is_full=[True], heap=(250, 420)),
            causes=("stop-the-world",),
            connections=(5, 15),
            must_not=(NODELAY, MORE_WORKERS),
        ),
        java(
            "healthy", among(nodelay=[True], is_full=[False], heap=(200, 400)), connections=(2, 15)
        ),
    ]


def proxy_trials():
    def nginx(name, start, draw, **more):
        return Trial(f"nginx-{name}", start, draw, knows=("nginx",), must_not=(NODELAY,), **more)

    def haproxy(name, draw, **more):
        return Trial(
            f"haproxy-{name}",
            servers.haproxy,
            draw,
            knows=("haproxy",),
            must_not=(NODELAY,),
            **more,
        )

    behind = ("downstream-wait",)
    return [
        haproxy(
            "maxconn",
            among(maxconn=(2, 4), pause=(8, 20)),
            causes=("worker-saturation", *behind),
            connections=(12, 50),
        ),
        haproxy("healthy", among(pause=[0])),
        nginx(
            "limit_req",
            servers.nginx,
            among(rate=(50, 300), burst=(100, 300), size=(200, 2000)),
            causes=("rate-limit",),
            connections=(10, 40),
        ),
        nginx(
            "limit_rate",
            servers.nginx,
            among(bytes_a_second=(150_000, 400_000), size=(100_000, 300_000)),
            causes=("rate-limit", "server-pause"),
            connections=(5, 20),
        ),
        nginx("slow-upstream", servers.nginx_proxy, among(pause=(8, 40)), causes=behind),
        nginx(
            "upstream-connections",
            servers.nginx_tls_proxy,
            among(bits=[3072, 4096]),
            causes=("upstream-connection-churn", *behind),
            connections=(2, 6),
        ),
        nginx("healthy-proxy", servers.nginx_proxy, none),
    ]


def pool_trials():
    def php(name, draw, **more):
        return Trial(f"php-{name}", servers.php, draw, knows=("nginx", "PHP"), **more)

    def apache(name, draw, **more):
        return Trial(f"apache-{name}", servers.apache, draw, knows=("httpd",), **more)

    return [
        apache(
            "few-workers",
            among(workers=(2, 6)),
            causes=tuple(WORKERS),
            connections=(12, 30),
        ),
        apache("healthy", among(workers=[64]), connections=(5, 50)),
        php(
            "two-children",
            among(children=[2, 3], pause=(10, 40)),
            causes=("worker-saturation", "downstream-wait"),
            connections=(10, 30),
        ),
        php("healthy", among(children=[8], pause=[0]), connections=(2, 8)),
    ]


def own_client_trials():
    def asked(kind, name, connections=(5, 12), **more):
        start = getattr(servers, kind)
        return Trial(f"{kind}-{name}", start, client=kind, connections=connections, **more)

    def redis(name, habits, **more):
        draw = among(asks=habits, pause=(60, 250))
        return asked("redis", name, draw=draw, knows=("Redis",), **more)

    def database(kind, name, habits, **more):
        return asked(kind, name, draw=among(asks=habits, pause=(150, 400)), **more)

    def grpc(name, workers, pause, **more):
        draw = among(asks=["say"], workers=[workers], pause=pause)
        return asked("grpc", name, draw=draw, **more)

    # A capture at the clients cannot show which of these causes is the right one.
    stopped = ("stop-the-world", "socket-queue-dwell")
    waits = ("server-think", "downstream-wait")
    return [
        redis("stopped", ["keys", "sleep"], causes=stopped, must_not=(NODELAY, MORE_WORKERS)),
        redis("healthy", ["get"]),
        database("postgres", "lock", ["lock"], causes=waits),
        database("postgres", "no-index", ["scan"], causes=waits),
        database("postgres", "healthy", ["read"]),
        database("mariadb", "slow", ["scan", "lock"], causes=waits),
        database("mariadb", "healthy", ["read"]),
        grpc("slow", 4, (8, 25), causes=("server-think", "worker-saturation")),
        grpc("healthy", 8, [0]),
        asked("websocket", "healthy", draw=among(asks=["both"], pause=(50, 200))),
    ]


TRIALS = [
    *node_trials(),
    *go_trials(),
    *python_trials(),
    *java_trials(),
    *proxy_trials(),
    *pool_trials(),
    *own_client_trials(),
]
