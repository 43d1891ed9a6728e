package wire

import (
	"fmt"
	"strings"
	"time"
)

// A session runs a program beside an instance for somebody far away. It is asked
// step by step, by questions that may be asked again: whoever gets no answer
// repeats the question, so a link that comes and goes loses nothing.

// Steps of a session: what ExecAsk.Do says.
const (
	ExecDoStart  = "start"
	ExecDoInput  = "input"
	ExecDoOutput = "output"
	ExecDoEnd    = "end"
	// ExecDoInvoke is no step of a session but all there is: a request and its answer.
	ExecDoInvoke = "invoke"
)

// ExecAsk is one step of a session.
type ExecAsk struct {
	Do string `json:"do"`
	// Owner is who opened the session. Nobody else may go on with it.
	Owner string `json:"owner,omitempty"`
	// Session is named by the answer to "start".
	Session string `json:"session,omitempty"`
	// Instance that it is in; one of Start, Forward and Copy of "start", Input of "input", Output of "output",
	// Invoke of "invoke", Profile of "profile".
	Instance InstanceID    `json:"instance,omitempty"`
	Start    *ExecStart    `json:"start,omitempty"`
	Forward  *ForwardStart `json:"forward,omitempty"`
	Copy     *CopyStart    `json:"copy,omitempty"`
	Input    *ExecInput    `json:"input,omitempty"`
	Output   *ExecOffset   `json:"output,omitempty"`
	Invoke   *Invocation   `json:"invoke,omitempty"`
	Profile  *ProfileAsk   `json:"profile,omitempty"`
}

// ExecStart asks for a session.
type ExecStart struct {
	// Key is chosen by who asks, at random: the same key again is the same
	// session.
	Key     string   `json:"key" minLength:"8" maxLength:"64" doc:"chosen at random; the same key again is the same session"`
	Command []string `json:"command" minItems:"1" maxItems:"1000" doc:"program first, looked up in the instance's PATH"`
	// Stdin: the program reads what Input brings. Otherwise it has none.
	Stdin bool `json:"stdin,omitempty" doc:"the program reads what is sent as input"`
	// Terminal gives the program a terminal. What it writes is all Stdout then.
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
	// Offset of Data in the whole input. What was taken before is not taken again.
	Offset int64  `json:"offset" minimum:"0"`
	Data   []byte `json:"data,omitempty" maxLength:"90000" doc:"at most 64 KiB before the encoding"`
	// End: there is nothing after Data.
	End bool `json:"end,omitempty"`
	// Terminal, where it has another size now.
	Terminal *Terminal `json:"terminal,omitempty"`
}

// ExecOffset says how far a session's output has been received; what comes
// before is forgotten.
type ExecOffset struct {
	Stdout int64 `json:"stdout"`
	Stderr int64 `json:"stderr"`
	// WaitMs is how long the answer may be held until there is more.
	WaitMs int `json:"wait_ms,omitempty"`
	// Max bounds how many bytes the answer has; 0: as many as there are.
	Max int `json:"max,omitempty"`
}

// ExecAnswer answers an ExecAsk.
type ExecAnswer struct {
	// Session is the answer to "start".
	Session string `json:"session,omitempty"`
	// Taken is how much of the whole input has been taken: the Offset to go on
	// from, which need not be the end of what was sent.
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
	// Exit of the program, where it has ended by itself.
	Exit *Exit `json:"exit,omitempty"`
	// Why there is no Exit: it could not be run, its instance is gone, nobody
	// asked any more.
	Why string `json:"why,omitempty"`
	// Again: it ended with the engine that had it, and another may be begun at once. Those
	// of a version before this do not say it.
	Again bool `json:"again,omitempty"`
}

// CodeNoSession is a Problem's where a session is not known, or not any more.
const CodeNoSession = "no-such-session"

// ExecID names a session to people's clients: it says where to ask for it, so
// that nobody on the way need remember anything.
type ExecID struct {
	Session         string // as its engine knows it
	Cluster, Worker string
	Instance        InstanceID
}

// String is "<session>.<cluster>.<worker>.<instance>": none but the instance has
// a dot in it.
func (id ExecID) String() string {
	return strings.Join([]string{id.Session, id.Cluster, id.Worker, id.Instance}, ".")
}

// ParseExecID reads what String wrote. The parts are checked by whoever uses them.
func ParseExecID(s string) (ExecID, error) {
	p := strings.SplitN(s, ".", 4)
	if len(p) != 4 || p[0] == "" || p[1] == "" || p[2] == "" || strings.Count(p[3], ".") != 2 {
		return ExecID{}, fmt.Errorf("%.60q is not the id of a session", s)
	}
	return ExecID{Session: p[0], Cluster: p[1], Worker: p[2], Instance: p[3]}, nil
}

// Bound makes the answer one of so many bytes at most, where it is one of several: of a
// session's output, or of a log that is read on. The last lines of a log are what was asked
// for, however many bytes they have.
func (q *Ask) Bound(most int) {
	switch {
	case q.Exec != nil && q.Exec.Output != nil:
		if o := q.Exec.Output; o.Max <= 0 || o.Max > most {
			o.Max = most
		}
	case q.What == "logs" && q.Offset >= 0 && q.SinceMs == 0 && q.Max > most:
		q.Max = most
	}
}

// Hold is how long the answer to a question may be held.
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

// maxHoldMs bounds Hold: nothing is held longer than a minute.
const maxHoldMs = 60_000
