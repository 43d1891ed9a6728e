// Command hello is the smallest program worth running on Verge: a web server that says
// which instance of it has answered.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	// VERGE_LISTEN, PORT and the names are set by Verge; docs/descriptor.md lists them
	// all.
	addr := net.JoinHostPort(os.Getenv("VERGE_LISTEN"), os.Getenv("PORT"))
	hello := fmt.Sprintf("Hello from %s on worker %s\n", os.Getenv("VERGE_INSTANCE"), os.Getenv("VERGE_WORKER"))
	server := &http.Server{
		Addr: addr, ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			log.Printf("%s %s", r.Method, r.URL.Path)
			// An error here is a client that has gone.
			_, _ = fmt.Fprint(w, hello)
		}),
	}
	log.Printf("listening on %s", addr)
	log.Fatal(server.ListenAndServe())
}
