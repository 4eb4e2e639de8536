// An HTTP server of one thread that answers each request with a line.
const http = require("http");

http.createServer((request, response) => response.end("hello\n")).listen(Number(process.argv[2]), "127.0.0.1");
