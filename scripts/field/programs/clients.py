"""Clients of servers that do not speak HTTP/1.1: as an application asks, each with a
rest between its requests.

    clients.py KIND HABIT HOST PORT CONNECTIONS SECONDS PAUSE

PAUSE, in milliseconds, belongs to the habit: how long a lock is held, a command takes.
The habit `prepare` fills the database and ends."""

import asyncio
import random
import sys
import threading
import time

KIND, HABIT, HOST = sys.argv[1:4]
PORT, CONNECTIONS = int(sys.argv[4]), int(sys.argv[5])
SECONDS, PAUSE = float(sys.argv[6]), float(sys.argv[7]) / 1000
# Seconds between a client's requests, on average.
REST = 0.015
# Seconds between what stops the others, on average.
REST_OF_TROUBLE = 0.6
# Of an application's requests, where it asks for the row that somebody holds now and then.
LOCKED = 0.15
# A table without an index on `part`: large enough that a scan takes some 20 ms.
ROWS = 300_000
PARTS = 100_000
END = time.monotonic() + SECONDS


def repeat(once, rest=REST):
    """Asks again and again, at times that nothing orders."""
    while time.monotonic() < END:
        once()
        time.sleep(random.expovariate(1 / rest))


def redis_client(is_trouble):
    import redis

    server = redis.Redis(HOST, PORT)
    if is_trouble:
        slow = {
            "keys": lambda: server.keys("nothing*"),
            "sleep": lambda: server.execute_command("DEBUG", "SLEEP", PAUSE),
        }[HABIT]
        repeat(slow, REST_OF_TROUBLE)
    else:
        repeat(lambda: server.get(f"key:{random.randrange(1000)}"))


def redis_prepare():
    import redis

    # As many keys as KEYS needs the time for: some 100 ns each.
    redis.Redis(HOST, PORT).execute_command("DEBUG", "POPULATE", int(PAUSE * 7_000_000) + 1000)


def postgres():
    import psycopg2

    connection = psycopg2.connect(host=HOST, port=PORT, user="postgres", dbname="postgres")
    connection.autocommit = True
    return connection.cursor()


def mariadb():
    import pymysql

    connection = pymysql.connect(host=HOST, port=PORT, user="root", autocommit=True)
    cursor = connection.cursor()
    cursor.execute("create database if not exists field")
    cursor.execute("use field")
    return cursor


CONNECT = {"postgres": postgres, "mariadb": mariadb}
NUMBERS = {
    "postgres": f"select id, id % {PARTS}, 0 from generate_series(1, {ROWS}) as id",
    "mariadb": f"select seq, seq % {PARTS}, 0 from seq_1_to_{ROWS}",
}
# Statements that hold a row's lock; the server itself sleeps, so that the time is its own.
UPDATE = "update item set count = count + 1 where id = 7"
HOLD = {
    "postgres": ["begin", UPDATE, f"select pg_sleep({PAUSE})", "commit"],
    "mariadb": ["begin", UPDATE, f"select sleep({PAUSE})", "commit"],
}


def database_prepare():
    cursor = CONNECT[KIND]()
    cursor.execute("drop table if exists item")
    cursor.execute("create table item (id int primary key, part int, count int)")
    cursor.execute(f"insert into item {NUMBERS[KIND]}")
    if KIND == "postgres":
        cursor.execute("vacuum analyze item")


def database_client(is_trouble):
    cursor = CONNECT[KIND]()

    def read(column, most):
        cursor.execute(
            f"select count(*) from item where {column} = %s", (random.randrange(1, most),)
        )
        cursor.fetchall()

    if is_trouble:
        repeat(lambda: list(map(cursor.execute, HOLD[KIND])), REST_OF_TROUBLE)
    elif HABIT == "lock":
        repeat(lambda: (cursor.execute(UPDATE) if random.random() < LOCKED else read("id", ROWS)))
    elif HABIT == "scan":
        repeat(lambda: read("part", PARTS))
    else:
        repeat(lambda: read("id", ROWS))


def grpc_client(_):
    import grpc

    # A connection of its own.
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"{HOST}:{PORT}", options) as channel:
        say = channel.unary_unary("/Field/Say")
        repeat(lambda: say(b"x" * 50))


async def websocket_client(number):
    import websockets

    listens = number % 2 == 0
    async with websockets.connect(f"ws://{HOST}:{PORT}/{'ticks' if listens else ''}") as socket:
        while time.monotonic() < END:
            if not listens:
                await socket.send("hello")
            await socket.recv()
            if not listens:
                await asyncio.sleep(random.expovariate(1 / REST))


async def websockets_side_by_side():
    await asyncio.gather(*map(websocket_client, range(CONNECTIONS)))


PREPARE = {"redis": redis_prepare, "postgres": database_prepare, "mariadb": database_prepare}
CLIENT = {
    "redis": redis_client,
    "postgres": database_client,
    "mariadb": database_client,
    "grpc": grpc_client,
}
# One client more, which stops the others.
TROUBLE = {"keys", "sleep", "lock"}


def main():
    if HABIT == "prepare":
        PREPARE[KIND]()
    elif KIND == "websocket":
        asyncio.run(websockets_side_by_side())
    else:
        who = [False] * CONNECTIONS + [True] * (HABIT in TROUBLE)
        threads = [threading.Thread(target=CLIENT[KIND], args=(trouble,)) for trouble in who]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


main()
