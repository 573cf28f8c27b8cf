// A Node server with one habit. Arguments: port, habit, time in milliseconds, how
// many pieces a stream has.
"use strict";
const http = require("http");

const [port, habit, pause, pieces] = process.argv.slice(2);
const page = Buffer.alloc(400, "x");
// Of the requests, where the event loop is blocked now and then.
const BLOCKED = 0.02;

function block(milliseconds) {
  const end = Date.now() + Number(milliseconds);
  while (Date.now() < end);
}

function stream(response, left) {
  response.write(page);
  if (left === 1) response.end();
  else setTimeout(() => stream(response, left - 1), pause);
}

const habits = {
  plain: (response) => response.end(page),
  // Header and body in two writes, and Nagle's algorithm is left on.
  nagle: (response) => {
    response.setHeader("Content-Length", page.length);
    response.flushHeaders();
    setImmediate(() => response.end(page));
  },
  block: (response) => {
    if (Math.random() < BLOCKED) block(pause);
    response.end(page);
  },
  stream: (response) => stream(response, Number(pieces)),
};

const server = http.createServer({ noDelay: habit !== "nagle" }, (_, response) =>
  habits[habit](response),
);
// A kept-alive connection lives as long as its client.
server.keepAliveTimeout = 60_000;
server.listen(port);
