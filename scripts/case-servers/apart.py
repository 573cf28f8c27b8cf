"""A server that writes header and body apart: with Nagle's algorithm on port
8080, as http.server has it, and without it on port 8081. Argument: bytes of the page."""

import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGE = b"x" * int(sys.argv[1])


class Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_):
        pass


class PageAtOnce(Page):
    disable_nagle_algorithm = True


class Server(ThreadingHTTPServer):
    address_family = socket.AF_INET6
    daemon_threads = True
    request_queue_size = 512


def serve(port, handler):
    Server(("::", port), handler).serve_forever()


threading.Thread(target=serve, args=(8081, PageAtOnce), daemon=True).start()
serve(8080, Page)
