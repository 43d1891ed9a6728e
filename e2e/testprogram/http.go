package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// upload says what it was sent: how many bytes with which SHA-256.
func upload(w http.ResponseWriter, r *http.Request) {
	sum := sha256.New()
	n, err := io.Copy(sum, r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Trailer", "Sum")
	_, _ = fmt.Fprintln(w, n) // the other end sees a broken answer
	_ = http.NewResponseController(w).Flush()
	w.Header().Set("Sum", hex.EncodeToString(sum.Sum(nil)))
}

// echo is a protocol to which a connection may be upgraded: all that is sent comes
// back.
func echo(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "echo" {
		http.Error(w, "upgrade to echo", http.StatusUpgradeRequired)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusHTTPVersionNotSupported)
		return
	}
	defer func() { _ = conn.Close() }() // its end is the end
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"); err != nil {
		return
	}
	_, _ = io.Copy(conn, buffered) // until either end breaks it
}

// paced takes as long as a variable says that is called like the worker, as if that were
// a slower machine: PACE_EDGE_1=20ms.
func paced(w http.ResponseWriter, r *http.Request) {
	name := "PACE_" + strings.ToUpper(strings.ReplaceAll(os.Getenv("VERGE_WORKER"), "-", "_"))
	r.Form = url.Values{"for": {os.Getenv(name)}}
	slow(w, r)
}

// slow answers after ?for=.
func slow(w http.ResponseWriter, r *http.Request) {
	d, err := time.ParseDuration(r.FormValue("for"))
	if err != nil || d > time.Minute {
		http.Error(w, "how long? ?for=200ms", http.StatusBadRequest)
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		whoami(w, r)
	case <-r.Context().Done():
	}
}
