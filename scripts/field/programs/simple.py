"""A server of the standard library's http.server that keeps connections alive.

Arguments: port, habit. With `threads`, each connection has a thread. With `one`, a connection is
served until it closes, while the others wait."""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer

PAGE = b"x" * 400


class Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Header and body are sent in one write.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_):
        pass


kind = {"one": HTTPServer, "threads": ThreadingHTTPServer}[sys.argv[2]]
kind.request_queue_size = 512
kind(("0.0.0.0", int(sys.argv[1])), Page).serve_forever()
