package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const (
	readBatch   = 1024    // messages per request while reading
	readBytes   = 8 << 20 // their size at most, beyond the first
	readTimeout = 30 * time.Second
)

// RefusedError is an answer of the log that says that nothing was written.
type RefusedError struct {
	text string
	// Moved: the last message is another one than expected.
	Moved bool
}

// Error implements error.
func (e *RefusedError) Error() string { return e.text }

// Log is a JetStream stream of this process's own server: it writes, reads and cuts off
// messages, makes files durable that the server has made, and stops the server's clock while
// nothing is done.
type Log struct {
	name  string
	nc    *nats.Conn
	rest  *rester // nil until the server has the stream
	files *files
}

// New is the stream with a name in the directory of a server. nc may be nil until use.
func New(nc *nats.Conn, dir, name string) *Log {
	return &Log{name: name, nc: nc, files: &files{dir: dir, stream: name}}
}

// Use sets the connection to speak with the stream by.
func (l *Log) Use(nc *nats.Conn) { l.nc = nc }

// opened notes that the server has the stream: from now on it rests while it is not used.
func (l *Log) opened() {
	if l.rest == nil {
		l.rest = newRester()
	}
}

// Close leaves the server's clock as the server expects it. A stream that was never open may
// be closed too.
func (l *Log) Close() {
	if l.rest != nil {
		l.rest.end()
	}
}

// RestNow stops the clock, as after some time without use.
func (l *Log) RestNow() { l.rest.rest() }

// Resting reports whether the clock is stopped.
func (l *Log) Resting() bool {
	l.rest.mu.Lock()
	defer l.rest.mu.Unlock()
	return l.rest.resting
}

// Sync makes the names of the stream's files durable.
func (l *Log) Sync() error { return l.files.sync() }

// Info asks for the state of the stream; found is false where there is none.
func (l *Log) Info(ctx context.Context, req any) (state server.JSApiStreamInfoResponse, found bool, err error) {
	if err := l.call(ctx, "$JS.API.STREAM.INFO."+l.name, req, &state); err != nil {
		return state, false, err
	}
	switch {
	case state.Error == nil:
		l.opened()
		return state, true, nil
	case state.Error.ErrCode == uint16(server.JSStreamNotFoundErr):
		return state, false, nil
	}
	return state, false, errors.New(state.Error.Description)
}

// Create makes the stream, with the messages of some subjects.
func (l *Log) Create(ctx context.Context, subjects string) error {
	config := server.StreamConfig{
		Name:         l.name,
		Subjects:     []string{subjects},
		Storage:      server.FileStorage,
		Retention:    server.LimitsPolicy,
		Replicas:     1,
		MaxMsgs:      -1,
		MaxBytes:     -1,
		MaxMsgSize:   -1,
		MaxConsumers: -1,
		MaxMsgsPer:   -1,
		AllowDirect:  true,
	}
	var created server.JSApiStreamCreateResponse
	if err := l.call(ctx, "$JS.API.STREAM.CREATE."+l.name, config, &created); err != nil {
		return err
	}
	if created.Error != nil {
		return errors.New(created.Error.Description)
	}
	l.opened()
	return nil
}

// wake is called before the stream is used.
func (l *Log) wake() {
	if l.rest != nil {
		l.rest.wake()
	}
}

// Ask makes a request of the stream, such as a message to store.
func (l *Log) Ask(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	l.wake()
	return l.nc.RequestMsgWithContext(ctx, m)
}

// Get reads the last message of a subject.
func (l *Log) Get(ctx context.Context, subject string) (*nats.Msg, error) {
	return l.Ask(ctx, nats.NewMsg("$JS.API.DIRECT.GET."+l.name+"."+subject))
}

// Append writes one message and returns its sequence number when it is on disk.
// It is refused unless the last message has the sequence number after; a
// negative one expects nothing. An error other than *RefusedError leaves open
// whether it was written.
func (l *Log) Append(subject string, data []byte, after int64, wait time.Duration) (uint64, error) {
	l.wake()
	msg := &nats.Msg{Subject: subject, Data: data}
	if after >= 0 {
		msg.Header = nats.Header{server.JSExpectedLastSeq: []string{strconv.FormatInt(after, 10)}}
	}
	reply, err := l.nc.RequestMsg(msg, wait)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		if l.rest != nil {
			l.rest.abandon()
		}
		text := "the log is switched off after a failure of the disk: make room and restart the process"
		return 0, &RefusedError{text: text}
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrMaxPayload):
		return 0, &RefusedError{text: err.Error()} // it was not sent
	case err != nil:
		return 0, err
	}
	var ack server.JSPubAckResponse
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return 0, fmt.Errorf("acknowledgement is not readable: %w", err)
	}
	if e := ack.Error; e != nil {
		code := server.ErrorIdentifier(e.ErrCode)
		moved := code == server.JSStreamWrongLastSequenceErrF || code == server.JSStreamWrongLastSequenceConstantErr
		return 0, &RefusedError{text: e.Description, Moved: moved}
	}
	if ack.PubAck == nil || ack.Sequence == 0 {
		return 0, errors.New("acknowledgement without a sequence number")
	}
	// The message may be the first one in a new file.
	if err := l.files.sync(); err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// Purge removes messages for good.
func (l *Log) Purge(ctx context.Context, which server.JSApiStreamPurgeRequest) error {
	var reply server.JSApiStreamPurgeResponse
	if err := l.call(ctx, "$JS.API.STREAM.PURGE."+l.name, which, &reply); err != nil {
		return err
	}
	if reply.Error != nil {
		return errors.New(reply.Error.Description)
	}
	return nil
}

// call makes a request of the JetStream API.
func (l *Log) call(ctx context.Context, subject string, req, reply any) error {
	l.wake()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var body []byte
	if req != nil {
		var err error
		if body, err = json.Marshal(req); err != nil {
			return err
		}
	}
	m, err := l.nc.RequestWithContext(ctx, subject, body)
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	if err := json.Unmarshal(m.Data, reply); err != nil {
		return fmt.Errorf("%s: answer is not readable: %w", subject, err)
	}
	return nil
}

// Each calls fn with every message from sequence number first to last, in order.
func (l *Log) Each(ctx context.Context, first, last uint64, fn func(seq uint64, data []byte) error) error {
	l.wake()
	inbox := l.nc.NewInbox()
	sub, err := l.nc.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	for next := max(first, 1); next <= last; {
		query, err := json.Marshal(server.JSApiMsgGetRequest{Seq: next, Batch: readBatch, MaxBytes: readBytes})
		if err != nil {
			return err
		}
		if err := l.nc.PublishRequest("$JS.API.DIRECT.GET."+l.name, inbox, query); err != nil {
			return err
		}
		seen, err := page(ctx, sub, fn)
		if err != nil {
			return err
		}
		if seen == 0 {
			return nil
		}
		next = seen + 1
	}
	return nil
}

// page reads the answers to one request and returns the last sequence number
// among them, 0 if there are no more messages.
func page(ctx context.Context, sub *nats.Subscription, fn func(uint64, []byte) error) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var seen uint64
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return 0, fmt.Errorf("read the log: %w", err)
		}
		switch status := m.Header.Get("Status"); status {
		case "":
		case strconv.Itoa(http.StatusNoContent), strconv.Itoa(http.StatusNotFound):
			return seen, nil
		default:
			return 0, fmt.Errorf("read the log: it answers %s %s", status, m.Header.Get("Description"))
		}
		seq, err := strconv.ParseUint(m.Header.Get(server.JSSequence), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the log: message without a sequence number: %w", err)
		}
		if err := fn(seq, m.Data); err != nil {
			return 0, fmt.Errorf("message %d of the log: %w", seq, err)
		}
		seen = seq
	}
}
