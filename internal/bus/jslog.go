package bus

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

// The stream of a store, and the subject of all its messages.
const (
	streamName = "STORE"
	logSubject = "log"

	apiStreamInfo   = "$JS.API.STREAM.INFO." + streamName
	apiStreamCreate = "$JS.API.STREAM.CREATE." + streamName
	apiStreamPurge  = "$JS.API.STREAM.PURGE." + streamName
	apiDirectGet    = "$JS.API.DIRECT.GET." + streamName

	readBatch   = 1024    // messages per request while reading
	readBytes   = 8 << 20 // their size at most, beyond the first
	readTimeout = 30 * time.Second
)

func streamConfig() server.StreamConfig {
	return server.StreamConfig{
		Name:         streamName,
		Subjects:     []string{logSubject},
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
}

// refusedError is an answer of the log that says that nothing was written.
type refusedError struct {
	text string
	// moved: the last message is another one than expected.
	moved bool
}

func (e *refusedError) Error() string { return e.text }

// jsLog speaks with the stream.
type jsLog struct {
	nc    *nats.Conn
	rest  *rester // nil until the stream is open
	files *streamFiles
}

// wake is called before the stream is used.
func (l *jsLog) wake() {
	if l.rest != nil {
		l.rest.wake()
	}
}

// append writes one message and returns its sequence number when it is on disk.
// It is refused unless the last message has the sequence number after; a
// negative one expects nothing. An error other than *refusedError leaves open
// whether it was written.
func (l *jsLog) append(data []byte, after int64, wait time.Duration) (uint64, error) {
	l.wake()
	msg := &nats.Msg{Subject: logSubject, Data: data}
	if after >= 0 {
		msg.Header = nats.Header{server.JSExpectedLastSeq: []string{strconv.FormatInt(after, 10)}}
	}
	reply, err := l.nc.RequestMsg(msg, wait)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		if l.rest != nil {
			l.rest.abandon()
		}
		return 0, &refusedError{text: "the log is switched off after a failure of the disk: make room and restart the process"}
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrMaxPayload):
		return 0, &refusedError{text: err.Error()} // it was not sent
	case err != nil:
		return 0, err
	}
	var ack server.JSPubAckResponse
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return 0, fmt.Errorf("acknowledgement is not readable: %w", err)
	}
	if e := ack.Error; e != nil {
		moved := e.ErrCode == uint16(server.JSStreamWrongLastSequenceErrF) || e.ErrCode == uint16(server.JSStreamWrongLastSequenceConstantErr)
		return 0, &refusedError{text: e.Description, moved: moved}
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

// purge removes the messages before a sequence number for good.
func (l *jsLog) purge(ctx context.Context, before uint64) error {
	var reply server.JSApiStreamPurgeResponse
	if err := l.call(ctx, apiStreamPurge, server.JSApiStreamPurgeRequest{Sequence: before}, &reply); err != nil {
		return err
	}
	if reply.Error != nil {
		return fmt.Errorf("purge the log: %s", reply.Error.Description)
	}
	// Otherwise some of what was cut off could come back without the rest of it.
	return l.files.sync()
}

// call makes a request of the JetStream API.
func (l *jsLog) call(ctx context.Context, subject string, req, reply any) error {
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

// each calls fn with every message from sequence number first to last, in order.
func (l *jsLog) each(ctx context.Context, first, last uint64, fn func(seq uint64, data []byte) error) error {
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
		if err := l.nc.PublishRequest(apiDirectGet, inbox, query); err != nil {
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
