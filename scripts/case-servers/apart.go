// A server that writes header and body apart: with Nagle's algorithm on port
// 8080, without it on port 8081.
package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
)

var page = bytes.Repeat([]byte("x"), 612)

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
	go func() { panic(serve(8081, true)) }()
	panic(serve(8080, false))
}
