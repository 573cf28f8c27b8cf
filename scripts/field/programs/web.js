// A Node server with one habit. Arguments: port, habit, time in milliseconds, and the number of
// pieces of a stream.
"use strict";
const http = require("http");

const [port, habit, pause, pieces] = process.argv.slice(2);
const page = Buffer.alloc(400, "x");
// The share of requests that block the event loop.
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
  // Header and body are sent in two writes, and Nagle's algorithm stays on.
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
// Connections stay open until the client closes them.
server.keepAliveTimeout = 60_000;
server.listen(port);
