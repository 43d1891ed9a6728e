package wire

import "fmt"

// Problem is an error for people and programs (RFC 9457): what, where, why,
// what to do next.
type Problem struct {
	Status int    `json:"status"`           // HTTP status
	Code   string `json:"code"`             // stable, e.g. "token-expired"
	Title  string `json:"title"`            // what
	Detail string `json:"detail,omitempty"` // where and why
	Remedy string `json:"remedy,omitempty"` // what to do next
}

// Error puts what, why and next step on one line each.
func (p *Problem) Error() string {
	s := p.Title
	if p.Detail != "" {
		s += ": " + p.Detail
	}
	if p.Remedy != "" {
		s += "\n  → " + p.Remedy
	}
	return s
}

// MayPass says whether the same request may succeed later: the server is busy, or has no room
// or another state at the moment. Any other refusal is final.
func (p *Problem) MayPass() bool {
	switch p.Status {
	case 408, 409, 425, 429: // time was up, a conflict, too early, too many requests
		return true
	}
	return p.Status < 400 || p.Status >= 500
}

// Problemf makes a Problem.
func Problemf(status int, code, remedy, title string, detail string, args ...any) *Problem {
	return &Problem{Status: status, Code: code, Title: title, Detail: fmt.Sprintf(detail, args...), Remedy: remedy}
}
