package rest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/verge-edge/verge/internal/wire"
)

// ProblemType is the media type of every error.
const ProblemType = "application/problem+json"

// problemTypePrefix makes the RFC 9457 type of a problem from its code. A URN,
// because a problem must be understood where there is no web.
const problemTypePrefix = "urn:verge:problem:"

// ProblemBody is a wire.Problem as it goes over HTTP.
type ProblemBody struct {
	Type   string `json:"type" doc:"identifies the kind of problem" example:"urn:verge:problem:token-expired"`
	Title  string `json:"title" doc:"what is wrong"`
	Status int    `json:"status" doc:"HTTP status"`
	Detail string `json:"detail,omitempty" doc:"where and why"`
	Code   string `json:"code" doc:"stable name of the kind of problem" example:"token-expired"`
	Remedy string `json:"remedy,omitempty" doc:"what to do next"`
}

func bodyOf(p *wire.Problem) *ProblemBody {
	status := p.Status
	if status < 400 || status > 599 {
		status = http.StatusInternalServerError
	}
	code := p.Code
	if code == "" {
		code = "internal"
	}
	return &ProblemBody{Type: problemTypePrefix + code, Title: p.Title, Status: status, Detail: p.Detail, Code: code, Remedy: p.Remedy}
}

// ProblemOf turns any error of a Backend into a problem that has a status and a code.
func ProblemOf(err error) *wire.Problem {
	var p *wire.Problem
	switch {
	case errors.As(err, &p):
	case errors.Is(err, context.DeadlineExceeded):
		p = wire.Problemf(http.StatusGatewayTimeout, "timeout", "try again; if it stays so, look at verge status",
			"it took too long", "%v", err)
	default:
		p = wire.Problemf(http.StatusInternalServerError, "internal", "look at the log of this role",
			"something failed here", "%v", err)
	}
	b := bodyOf(p)
	return &wire.Problem{Status: b.Status, Code: b.Code, Title: b.Title, Detail: b.Detail, Remedy: b.Remedy}
}

// WriteProblem answers with a problem, as this interface does.
func WriteProblem(w http.ResponseWriter, p *wire.Problem) {
	b := bodyOf(p)
	data, err := json.Marshal(b)
	if err != nil { // strings and an int always encode
		data = []byte("{}")
	}
	h := w.Header()
	h.Set("Content-Type", ProblemType)
	if b.Status == http.StatusTooManyRequests || b.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(b.Status)
	// A client that is gone cannot be told.
	_, _ = w.Write(append(data, '\n'))
}
