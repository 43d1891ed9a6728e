package httpmsg

import (
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Fail answers a request with a problem: by RFC 9457, or to a client of gRPC with a status.
func Fail(w http.ResponseWriter, req *http.Request, status int, kind, remedy, detail string) {
	h := w.Header()
	if IsGRPC(req.Header) {
		h.Set("Content-Type", "application/grpc")
		h.Set("Grpc-Status", strconv.Itoa(GRPCStatus(status)))
		h.Set("Grpc-Message", url.PathEscape(detail+". "+remedy))
		w.WriteHeader(http.StatusOK)
		return
	}
	WriteProblem(w, wire.Problemf(status, kind, remedy, titles[kind], "%s", detail))
}

// titles of problems by their kind.
var titles = map[string]string{
	"no-connection":   "this router has a fault",
	"no-service":      "no such service",
	"no-tunnel":       "no tunnels here",
	"no-trace":        "no traces here",
	"malformed":       "the request is malformed",
	"not-told":        "its instances are not known here now",
	"no-endpoint":     "no instance is ready",
	"upstream-failed": "no instance answered",
	"queue-full":      "too many requests wait",
	"too-late":        "no answer in time",
	"too-slow":        "it would take too long",
	"not-started":     "its instances do not start",
	"no-room":         "there is no room for an instance",
}

// GRPCStatus for one of HTTP.
func GRPCStatus(status int) int {
	switch status {
	case http.StatusGatewayTimeout:
		return 4 // DEADLINE_EXCEEDED
	case http.StatusMethodNotAllowed, http.StatusNotFound:
		return 12 // UNIMPLEMENTED
	case http.StatusTooManyRequests, http.StatusRequestEntityTooLarge:
		return 8 // RESOURCE_EXHAUSTED
	case http.StatusInternalServerError, http.StatusBadRequest:
		return 13 // INTERNAL
	}
	return 14 // UNAVAILABLE
}

// SetRetryAfter says when to ask again: in whole seconds, 1 to 60.
func SetRetryAfter(w http.ResponseWriter, d time.Duration) {
	w.Header().Set("Retry-After", RetryAfterSeconds(d))
}

// RetryAfterSeconds is the value of Retry-After: whole seconds, 1 to 60.
func RetryAfterSeconds(d time.Duration) string {
	return strconv.Itoa(int(min(max(math.Ceil(d.Seconds()), 1), 60)))
}

// ParseRetryAfter is what another router said in Retry-After; 0 where it is nothing or
// nonsense.
func ParseRetryAfter(v string) time.Duration {
	n, err := strconv.ParseUint(v, 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}

// Refuse answers with a problem, to a client of gRPC with a status.
func Refuse(w http.ResponseWriter, req *http.Request, p *wire.Problem) {
	if IsGRPC(req.Header) {
		Fail(w, req, p.Status, p.Code, p.Remedy, p.Detail)
		return
	}
	WriteProblem(w, p)
}

// WriteProblem writes an RFC 9457 document.
func WriteProblem(w http.ResponseWriter, p *wire.Problem) {
	body, err := json.Marshal(p)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}

// IsGRPC says whether a request is one of gRPC, whose errors are not HTTP's.
func IsGRPC(h http.Header) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "application/grpc")
}
