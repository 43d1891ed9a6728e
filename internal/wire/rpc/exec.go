package rpc

import (
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// A session runs a program beside an instance for a remote client. It consists of questions
// that may be repeated: whoever gets no answer asks again, so an unstable link loses nothing.

// Steps of a session: what ExecAsk.Do says.
const (
	ExecDoStart  = "start"
	ExecDoInput  = "input"
	ExecDoOutput = "output"
	ExecDoEnd    = "end"
	// ExecDoInvoke is not a step of a session: a single request and its answer.
	ExecDoInvoke = "invoke"
)

// ExecAsk is one step of a session.
type ExecAsk struct {
	Do string `json:"do"`
	// Owner is who opened the session. Nobody else may use it.
	Owner string `json:"owner,omitempty"`
	// Session is from the answer to "start".
	Session string `json:"session,omitempty"`
	// Instance that it is in; one of Start, Forward and Copy of "start", Input of "input", Output of "output",
	// Invoke of "invoke", Profile of "profile".
	Instance wire.InstanceID `json:"instance,omitempty"`
	Start    *ExecStart      `json:"start,omitempty"`
	Forward  *ForwardStart   `json:"forward,omitempty"`
	Copy     *CopyStart      `json:"copy,omitempty"`
	Input    *ExecInput      `json:"input,omitempty"`
	Output   *ExecOffset     `json:"output,omitempty"`
	Invoke   *Invocation     `json:"invoke,omitempty"`
	Profile  *ProfileAsk     `json:"profile,omitempty"`
}

// ExecStart asks for a session.
type ExecStart struct {
	// Key is chosen by the client, at random: the same key is the same session.
	Key     string   `json:"key" minLength:"8" maxLength:"64" doc:"chosen at random; the same key again is the same session"`
	Command []string `json:"command" minItems:"1" maxItems:"1000" doc:"program first, looked up in the instance's PATH"`
	// Stdin: the program reads the session's input. Otherwise it has none.
	Stdin bool `json:"stdin,omitempty" doc:"the program reads what is sent as input"`
	// Terminal gives the program a terminal. All its output is then Stdout.
	Terminal *Terminal `json:"terminal,omitempty" doc:"give the program a terminal"`
}

// Terminal of a session.
type Terminal struct {
	Rows    int `json:"rows" minimum:"0" maximum:"10000"`
	Columns int `json:"columns" minimum:"0" maximum:"10000"`
	// Type is the TERM of the program, "" for the instance's own.
	Type string `json:"type,omitempty" maxLength:"64" pattern:"^[A-Za-z0-9._+-]*$" doc:"value of TERM"`
}

// ExecInput is a piece of a session's input.
type ExecInput struct {
	// Offset of Data in the whole input. What was already taken is skipped.
	Offset int64  `json:"offset" minimum:"0"`
	Data   []byte `json:"data,omitempty" maxLength:"90000" doc:"at most 64 KiB before the encoding"`
	// End: there is nothing after Data.
	End bool `json:"end,omitempty"`
	// Terminal, if its size changed.
	Terminal *Terminal `json:"terminal,omitempty"`
}

// ExecOffset says how far a session's output has been received; earlier output is dropped.
type ExecOffset struct {
	Stdout int64 `json:"stdout"`
	Stderr int64 `json:"stderr"`
	// WaitMs is how long the answer may be held until there is more.
	WaitMs int `json:"wait_ms,omitempty"`
	// Max bounds the bytes of the answer; 0: no bound.
	Max int `json:"max,omitempty"`
}

// ExecAnswer answers an ExecAsk.
type ExecAnswer struct {
	// Session is the answer to "start".
	Session string `json:"session,omitempty"`
	// Taken is how much of the whole input has been taken: the next Offset, which need not be
	// the end of what was sent.
	Taken int64 `json:"taken,omitempty"`
	// Output is the answer to "output".
	Output *ExecOutput `json:"output,omitempty"`
	// Invoked is the answer to "invoke".
	Invoked *Invoked `json:"invoked,omitempty"`
	// Profile is the answer to "profile".
	Profile *ProfileReport `json:"profile,omitempty"`
}

// ExecOutput is what a program has written since an ExecOffset.
type ExecOutput struct {
	Stdout []byte `json:"stdout,omitempty"`
	Stderr []byte `json:"stderr,omitempty"`
	// Ended: there is nothing after this.
	Ended bool `json:"ended,omitempty"`
	// Exit of the program, if it ended by itself.
	Exit *wire.Exit `json:"exit,omitempty"`
	// Why there is no Exit: it could not be run, its instance is gone, or the client stopped
	// asking.
	Why string `json:"why,omitempty"`
	// Again: it ended with its engine, and another may begin at once. Older versions do not set
	// it.
	Again bool `json:"again,omitempty"`
}

// CodeNoSession is the code of the Problem that a session is not known, or no longer.
const CodeNoSession = "no-such-session"

// ExecID names a session to clients. It says where to ask for it, so that tiers in between need
// no state.
type ExecID struct {
	Session         string // as its engine knows it
	Cluster, Worker string
	Instance        wire.InstanceID
}

// String is "<session>.<cluster>.<worker>.<instance>": only the instance contains dots.
func (id ExecID) String() string {
	return strings.Join([]string{id.Session, id.Cluster, id.Worker, id.Instance}, ".")
}

// ParseExecID reads what String wrote. Whoever uses the parts checks them.
func ParseExecID(s string) (ExecID, error) {
	p := strings.SplitN(s, ".", 4)
	if len(p) != 4 || p[0] == "" || p[1] == "" || p[2] == "" || strings.Count(p[3], ".") != 2 {
		return ExecID{}, fmt.Errorf("%.60q is not the id of a session", s)
	}
	return ExecID{Session: p[0], Cluster: p[1], Worker: p[2], Instance: p[3]}, nil
}

// Bound limits the bytes of an answer that is one of several: of a session's output, or of a
// log that is read on. It does not limit the last lines of a log.
func (q *Ask) Bound(most int) {
	switch {
	case q.Exec != nil && q.Exec.Output != nil:
		if o := q.Exec.Output; o.Max <= 0 || o.Max > most {
			o.Max = most
		}
	case q.What == AskLogs && q.Offset >= 0 && q.SinceMs == 0 && q.Max > most:
		q.Max = most
	}
}

// Hold is how long the answer to a question may be delayed.
func (q *Ask) Hold() time.Duration {
	ms := q.WaitMs
	if q.Exec != nil && q.Exec.Output != nil {
		ms = q.Exec.Output.WaitMs
	}
	if q.Exec != nil && q.Exec.Invoke != nil {
		ms = q.Exec.Invoke.Hold()
	}
	return time.Duration(min(max(ms, 0), maxHoldMs)) * time.Millisecond
}

// maxHoldMs bounds Hold to a minute.
const maxHoldMs = 60_000
