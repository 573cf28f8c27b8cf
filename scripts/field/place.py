"""The hosts of a trial: one host with its loopback device, or two hosts."""

import os
import signal
import subprocess
import time

DEVICE = "path0"


def start(command, log, environment=None, output=None):
    """Starts a command; its messages go to `log`."""
    with open(log, "ab") as errors, open(output or log, "ab") as out:
        return subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            env={**os.environ, **(environment or {})},
            # Apache httpd ends its whole process group, which must not be the group of this script.
            start_new_session=True,
        )


def end(child):
    """Ends a child that this run started: first by SIGTERM, after 5 s by SIGKILL."""
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(5)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Place:
    """Network namespaces that exist for one trial."""

    def __init__(self, is_loopback):
        name = f"lagtrace-field-{os.getpid()}"
        self.server = f"{name}-server"
        self.client = self.server if is_loopback else f"{name}-client"
        self.device = "lo" if is_loopback else DEVICE
        self.address = "127.0.0.1" if is_loopback else "10.77.0.2"
        for space in {self.server, self.client}:
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
        if not is_loopback:
            self.join()

    def join(self):
        both = ["type", "veth", "peer", "name", DEVICE, "netns", self.server]
        ip("-n", self.client, "link", "add", DEVICE, *both)
        for space, address in ((self.client, "10.77.0.1/24"), (self.server, "10.77.0.2/24")):
            ip("-n", space, "address", "add", address, "dev", DEVICE)
            ip("-n", space, "link", "set", DEVICE, "up")

    def at(self, space, command):
        return ["ip", "netns", "exec", space, *map(str, command)]

    def listens(self, port):
        command = self.at(self.server, ["cat", "/proc/net/tcp", "/proc/net/tcp6"])
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return any(f":{port:04X} " in line and " 0A " in line for line in text.splitlines())

    def wait_for(self, port, children, seconds=30):
        deadline = time.monotonic() + seconds
        while not self.listens(port):
            if any(child.poll() is not None for child in children):
                raise RuntimeError("a server ended before it listened")
            if time.monotonic() > deadline:
                raise RuntimeError(f"nobody listens on port {port} after {seconds} s")
            time.sleep(0.05)

    def take_down(self):
        for space in {self.server, self.client}:
            subprocess.run(["ip", "netns", "del", space], check=False)
