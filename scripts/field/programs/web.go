// A net/http server with one habit. Arguments: address, habit, time in milliseconds, and a count
// (places in the pool, or pieces of the stream).
package main

import (
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

var page = strings.Repeat("x", 500)

func number(argument int) int {
	value, err := strconv.Atoi(os.Args[argument])
	if err != nil {
		panic(err)
	}
	return value
}

func answer(w http.ResponseWriter) { fmt.Fprint(w, page) }

// streamed sends pieces at a constant pace.
func streamed(w http.ResponseWriter, pace time.Duration, pieces int, piece string) {
	for i := 0; i < pieces; i++ {
		if i > 0 {
			time.Sleep(pace)
		}
		fmt.Fprint(w, piece)
		w.(http.Flusher).Flush()
	}
}

// habits returns the handler of each habit. Each handler waits for `pause` in its own way.
func habits(pause time.Duration, count int) map[string]http.HandlerFunc {
	var lock sync.Mutex
	places := make(chan struct{}, count)
	started := time.Now()
	return map[string]http.HandlerFunc{
		"plain": func(w http.ResponseWriter, _ *http.Request) { answer(w) },
		"constant": func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(pause)
			answer(w)
		},
		"exponential": func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Duration(rand.ExpFloat64() * float64(pause)))
			answer(w)
		},
		"uniform": func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Duration(rand.Int63n(int64(2 * pause))))
			answer(w)
		},
		// Every request holds one lock for the time.
		"mutex": func(w http.ResponseWriter, _ *http.Request) {
			lock.Lock()
			time.Sleep(pause)
			lock.Unlock()
			answer(w)
		},
		// A pool of connections to another server, for example.
		"pool": func(w http.ResponseWriter, _ *http.Request) {
			places <- struct{}{}
			time.Sleep(pause)
			<-places
			answer(w)
		},
		// The first half of the response, a pause, and the second half.
		"flush": func(w http.ResponseWriter, _ *http.Request) {
			answer(w)
			w.(http.Flusher).Flush()
			time.Sleep(pause)
			answer(w)
		},
		// The whole server stands still for the time, which is a fifth of each period.
		"stall": func(w http.ResponseWriter, _ *http.Request) {
			if since := time.Since(started) % (5 * pause); since < pause {
				time.Sleep(pause - since)
			}
			answer(w)
		},
		"events": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			streamed(w, pause, count, "data: tick\n\n")
		},
		// The response comes at a random time, as when it waits for news.
		"long-poll": func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(pause/2 + time.Duration(rand.Int63n(int64(pause))))
			fmt.Fprint(w, "news")
		},
	}
}

func main() {
	pause := time.Duration(number(3)) * time.Millisecond
	habit, ok := habits(pause, number(4))[os.Args[2]]
	if !ok {
		panic("no habit is called " + os.Args[2])
	}
	panic(http.ListenAndServe(os.Args[1], habit))
}
