// Command testprogram is the application that the end-to-end tests deploy: a
// small HTTP server on $PORT that tells who it is and does as it is told; and, as
// `testprogram get URL`, what others ask it with. `testprogram flood` prints very much.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// maxLines bounds what one request may print.
const maxLines = 1_000_000

func main() {
	if len(os.Args) == 3 && os.Args[1] == "get" {
		os.Exit(get(os.Args[2]))
	}
	if len(os.Args) > 2 && os.Args[1] == "flood" {
		log.Fatal(flood(os.Args[2:]))
	}
	log.SetOutput(os.Stdout)
	log.SetFlags(0)
	log.Printf("started %s as pid %d", os.Getenv("VERGE_INSTANCE"), os.Getpid())
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/whoami", whoami)
	mux.HandleFunc("/env", env)
	mux.HandleFunc("/file", file)
	mux.HandleFunc("/write", write)
	mux.HandleFunc("/exit", exit)
	mux.HandleFunc("/lines", lines)
	mux.HandleFunc("/stream", stream)
	mux.HandleFunc("/call", call)
	mux.HandleFunc("/get", passOn)
	mux.HandleFunc("/upload", upload)
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("/slow", slow)
	mux.HandleFunc("/paced", paced)
	kept := &store{}
	mux.HandleFunc("/put", kept.put)
	mux.HandleFunc("/keys", kept.keys)
	server := &http.Server{
		Addr: net.JoinHostPort(os.Getenv("VERGE_LISTEN"), os.Getenv("PORT")), Handler: logged(mux), ReadHeaderTimeout: 5 * time.Second,
	}
	log.Fatal(server.ListenAndServe())
}

func logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Instance", os.Getenv("VERGE_INSTANCE"))
		if r.URL.Path != "/healthz" && r.URL.Path != "/whoami" && r.URL.Path != "/put" {
			log.Printf("request %s", r.URL.Path)
		}
		next.ServeHTTP(w, r)
	})
}

// whoami says who answers, or where BREAKS is set nothing but that it is broken.
func whoami(w http.ResponseWriter, _ *http.Request) {
	if os.Getenv("BREAKS") != "" {
		http.Error(w, "it is broken", http.StatusInternalServerError)
		return
	}
	// The other end sees a failed write as a broken answer.
	_ = json.NewEncoder(w).Encode(map[string]any{
		"instance": os.Getenv("VERGE_INSTANCE"), "worker": os.Getenv("VERGE_WORKER"),
		"cluster": os.Getenv("VERGE_CLUSTER"), "pid": os.Getpid(), "mark": os.Getenv("MARK"),
	})
}

func env(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, os.Getenv(r.FormValue("name")))
}

// file answers with a file of the working directory, and write makes one.
func file(w http.ResponseWriter, r *http.Request) {
	text, err := os.ReadFile(r.FormValue("name"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	_, _ = w.Write(text)
}

func write(w http.ResponseWriter, r *http.Request) {
	if err := os.WriteFile(r.FormValue("name"), []byte(r.FormValue("text")), 0o600); err != nil {
		http.Error(w, err.Error(), http.StatusInsufficientStorage)
	}
}

// exit answers before it ends the process with ?code=.
func exit(w http.ResponseWriter, r *http.Request) {
	code, err := strconv.Atoi(r.FormValue("code"))
	if err != nil {
		http.Error(w, "code is not a number", http.StatusBadRequest)
		return
	}
	const answer = "bye\n"
	w.Header().Set("Connection", "close")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer))) // else its end would come with the exit
	_, _ = io.WriteString(w, answer)
	_ = http.NewResponseController(w).Flush()
	os.Exit(code)
}

// lines prints the numbered lines from ?from= to before ?to=, each of ?size=
// bytes with its newline.
func lines(w http.ResponseWriter, r *http.Request) {
	from, err1 := strconv.Atoi(r.FormValue("from"))
	to, err2 := strconv.Atoi(r.FormValue("to"))
	size, err3 := strconv.Atoi(r.FormValue("size"))
	if err1 != nil || err2 != nil || err3 != nil || to-from > maxLines || size < 16 || size > 4096 {
		http.Error(w, "from, to and size are needed", http.StatusBadRequest)
		return
	}
	for n := from; n < to; n++ {
		head := fmt.Sprintf("line %08d ", n)
		fmt.Println(head + strings.Repeat("x", size-len(head)-1))
	}
}

// stream counts until the client goes away.
func stream(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for n := 0; ; n++ {
		if _, err := fmt.Fprintln(w, n); err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
	}
}

// call asks another service, ?service= in upper case, by the address that Verge
// gave, and passes on who answered whom.
func call(w http.ResponseWriter, r *http.Request) {
	addr := os.Getenv("VERGE_" + r.FormValue("service") + "_ADDR")
	client := http.Client{Timeout: 3 * time.Second}
	resp, err := client.Get("http://" + addr + "/whoami")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = resp.Body.Close() }() // read only
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || resp.StatusCode != http.StatusOK {
		http.Error(w, fmt.Sprintf("%s %v", resp.Status, err), http.StatusBadGateway)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"caller": os.Getenv("VERGE_WORKER"), "answer": json.RawMessage(answer),
	})
}

// passOn asks ?url= on a connection of its own, within ?within=, and passes the answer
// on.
func passOn(w http.ResponseWriter, r *http.Request) {
	within, err := time.ParseDuration(r.FormValue("within"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	client := http.Client{Timeout: within, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(r.FormValue("url"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = resp.Body.Close() }() // read only
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body) // the other end sees a broken answer
}
