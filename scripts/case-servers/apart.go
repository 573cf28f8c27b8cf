// A server that sends header and body in separate writes: with Nagle's algorithm on port 8080,
// without it on port 8081. Argument: the size of the page in bytes.
package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
)

var page []byte

func answer(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", fmt.Sprint(len(page)))
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	w.Write(page)
}

func serve(port int, noDelay bool) error {
	server := &http.Server{
		Addr:    fmt.Sprintf(":%d", port),
		Handler: http.HandlerFunc(answer),
		ConnState: func(connection net.Conn, state http.ConnState) {
			if state == http.StateNew {
				connection.(*net.TCPConn).SetNoDelay(noDelay)
			}
		},
	}
	return server.ListenAndServe()
}

func main() {
	size, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	page = bytes.Repeat([]byte("x"), size)
	go func() { panic(serve(8081, true)) }()
	panic(serve(8080, false))
}
