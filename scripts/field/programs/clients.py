"""Clients of servers that do not speak HTTP/1.1. Each client behaves like an application,
with a pause between its requests.

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
# Mean time between a client's requests, in seconds.
REST = 0.015
# Mean time between requests that stop the other clients, in seconds.
REST_OF_TROUBLE = 0.6
# The share of an application's requests that update the row that is locked from time to time.
LOCKED = 0.15
# The size of a table without an index on `part`. A scan of this table takes about 20 ms.
ROWS = 300_000
PARTS = 100_000
END = time.monotonic() + SECONDS


def repeat(once, rest=REST):
    """Repeats a request at random intervals until the end."""
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

    # KEYS takes about 100 ns per key, so this number of keys takes about PAUSE.
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
# Statements that lock a row. The server itself sleeps, so the time belongs to the server.
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

    # This option gives each client its own connection.
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
# With these habits, an additional client stops the others.
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
