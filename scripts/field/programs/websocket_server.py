"""A websocket server that echoes messages. At /ticks, it sends its own messages at a constant
interval. Arguments: port, milliseconds between ticks."""

import asyncio
import sys

import websockets

PAUSE = float(sys.argv[2]) / 1000


async def serve(socket, path):
    if path == "/ticks":
        while True:
            await socket.send("tick")
            await asyncio.sleep(PAUSE)
    async for message in socket:
        await socket.send(message)


async def main():
    async with websockets.serve(serve, "0.0.0.0", int(sys.argv[1])):
        await asyncio.Future()


asyncio.run(main())
