// A service behind a login, over HTTP/2 and TLS: it answers POST with JSON and a bearer token, and
// sends header and body of each answer in separate writes. Nagle's algorithm is on at port 8443 and
// off at port 8444. Arguments: the size of the answer in bytes, and a file for its certificate.
package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

const token = "case-token-4711"

var page []byte

type order struct {
	Item  string `json:"item"`
	Count int    `json:"count"`
}

func answer(w http.ResponseWriter, r *http.Request) {
	var wanted order
	switch {
	case r.ProtoMajor != 2:
		http.Error(w, "HTTP/2 is needed", http.StatusHTTPVersionNotSupported)
		return
	case r.Header.Get("Authorization") != "Bearer "+token:
		http.Error(w, "who asks?", http.StatusUnauthorized)
		return
	case r.Method != http.MethodPost:
		http.Error(w, "POST is needed", http.StatusMethodNotAllowed)
		return
	case json.NewDecoder(r.Body).Decode(&wanted) != nil || wanted.Count == 0:
		http.Error(w, "an order is needed", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(page)))
	w.WriteHeader(http.StatusCreated)
	w.(http.Flusher).Flush()
	w.Write(page)
}

// certificate returns a certificate for 127.0.0.1 that signs itself, and writes it to a file.
func certificate(file string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "the case"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(file, text, 0o644); err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func serve(port int, noDelay bool, own tls.Certificate) error {
	server := &http.Server{
		Addr:      fmt.Sprintf(":%d", port),
		Handler:   http.HandlerFunc(answer),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{own}},
		ConnState: func(connection net.Conn, state http.ConnState) {
			if state == http.StateNew {
				connection.(*tls.Conn).NetConn().(*net.TCPConn).SetNoDelay(noDelay)
			}
		},
	}
	return server.ListenAndServeTLS("", "")
}

func main() {
	size, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	page = []byte(`{"note":"` + string(bytes.Repeat([]byte("x"), size)) + `"}`)
	own := certificate(os.Args[2])
	go func() { panic(serve(8444, true, own)) }()
	panic(serve(8443, false, own))
}
