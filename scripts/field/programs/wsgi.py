"""A WSGI application for gunicorn that works for $PAUSE milliseconds."""

import os
import time

PAGE = b"x" * 400
PAUSE = float(os.environ["PAUSE"]) / 1000


def application(_, start_response):
    time.sleep(PAUSE)
    start_response("200 OK", [("Content-Length", str(len(PAGE)))])
    return [PAGE]
