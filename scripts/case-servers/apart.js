// A server that sends header and body in separate writes: with Nagle's algorithm on port 8080,
// without it on port 8081. Argument: the size of the page in bytes.
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
  // Connections stay open until the client closes them.
  server.keepAliveTimeout = 60_000;
  server.listen(port);
}

serve(8080, false);
serve(8081, true);
