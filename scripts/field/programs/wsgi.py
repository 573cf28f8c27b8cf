"""A WSGI application for gunicorn that waits for $PAUSE milliseconds, and computes for $WORK."""

import os
import time

PAGE = b"x" * 400
PAUSE = float(os.environ["PAUSE"]) / 1000
WORK = float(os.environ.get("WORK", "0")) / 1000


def application(_, start_response):
    time.sleep(PAUSE)
    begun = time.thread_time()
    while time.thread_time() - begun < WORK:
        pass
    start_response("200 OK", [("Content-Length", str(len(PAGE)))])
    return [PAGE]
