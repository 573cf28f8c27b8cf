// A server that writes header and body apart: with Nagle's algorithm on port
// 8080, without it on port 8081. Argument: bytes of the page.
"use strict";
const http = require("http");

const page = Buffer.alloc(Number(process.argv[2]), "x");

function serve(port, noDelay) {
  const answer = (_, response) => {
    response.setHeader("Content-Length", page.length);
    response.flushHeaders();
    response.end(page);
  };
  const server = http.createServer({ noDelay }, answer);
  // A kept-alive connection lives as long as its client.
  server.keepAliveTimeout = 60_000;
  server.listen(port);
}

serve(8080, false);
serve(8081, true);
