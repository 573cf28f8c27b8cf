"""An ASGI application for uvicorn. With $HABIT `blocking`, a call blocks the event loop for
$PAUSE milliseconds. With `plain`, it answers at once. With `stream`, there are $PIECES pieces at intervals of $PAUSE."""

import asyncio
import os
import time

PAGE = b"x" * 400
PAUSE = float(os.environ["PAUSE"]) / 1000
PIECES = int(os.environ["PIECES"])


async def blocking(send):
    time.sleep(PAUSE)
    length = str(len(PAGE)).encode()
    headers = [(b"content-type", b"text/plain"), (b"content-length", length)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": PAGE})


async def plain(send):
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"400")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": PAGE})


async def stream(send):
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for left in reversed(range(PIECES)):
        await send({"type": "http.response.body", "body": PAGE, "more_body": left > 0})
        if left:
            await asyncio.sleep(PAUSE)


HABIT = {"blocking": blocking, "plain": plain, "stream": stream}[os.environ["HABIT"]]


async def application(scope, _, send):
    if scope["type"] == "http":
        await HABIT(send)
