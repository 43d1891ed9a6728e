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

// The stream of a store and its subjects.
const (
	streamName      = "STORE"
	dataSubject     = "s." // + key
	metaSubject     = "m."
	timelineSubject = metaSubject + "timeline"
	floorSubject    = metaSubject + "floor"
	fenceSubject    = metaSubject + "fence"

	// tombstoneHeader marks a message as a deletion: an empty value is a value.
	tombstoneHeader = "Verge-Deleted"

	apiStreamInfo   = "$JS.API.STREAM.INFO." + streamName
	apiStreamCreate = "$JS.API.STREAM.CREATE." + streamName
	apiMsgDelete    = "$JS.API.STREAM.MSG.DELETE." + streamName
	apiDirectGet    = "$JS.API.DIRECT.GET." + streamName
)

// refusedError is an answer of the log that says that nothing was written.
type refusedError struct {
	text     string
	conflict bool
}

func (e *refusedError) Error() string { return e.text }

// logMsg is one message to append.
type logMsg struct {
	subject   string
	data      []byte
	tombstone bool
	expect    *uint64 // sequence number of the last message of the subject
}

// jsLog speaks with the stream. append must not be called concurrently.
type jsLog struct {
	nc      *nats.Conn
	run     string // makes batch ids unique
	batches uint64
}

// append writes msgs, all or none, and returns the sequence number of the last;
// theirs are consecutive. An error other than *refusedError leaves open whether
// they were written.
func (l *jsLog) append(msgs []logMsg, wait time.Duration) (uint64, error) {
	l.batches++
	batch := l.run + strconv.FormatUint(l.batches, 36)
	for i, m := range msgs {
		msg := m.encode()
		last := i == len(msgs)-1
		if len(msgs) > 1 {
			msg.Header[server.JSBatchId] = []string{batch}
			msg.Header[server.JSBatchSeq] = []string{strconv.Itoa(i + 1)}
		}
		if !last {
			if err := l.nc.PublishMsg(msg); err != nil {
				// Without its end the batch is dropped.
				return 0, &refusedError{text: fmt.Sprintf("write to the log: %v", err)}
			}
			continue
		}
		if len(msgs) > 1 {
			msg.Header[server.JSBatchCommit] = []string{"1"}
		}
		return l.finish(msg, len(msgs), wait)
	}
	return 0, errors.New("nothing to write")
}

func (m logMsg) encode() *nats.Msg {
	msg := &nats.Msg{Subject: m.subject, Data: m.data, Header: nats.Header{}}
	if m.tombstone {
		msg.Header[tombstoneHeader] = []string{"1"}
	}
	if m.expect != nil {
		msg.Header[server.JSExpectedLastSubjSeq] = []string{strconv.FormatUint(*m.expect, 10)}
	}
	return msg
}

// finish sends the last message of an append and waits for what became of it.
func (l *jsLog) finish(msg *nats.Msg, count int, wait time.Duration) (uint64, error) {
	reply, err := l.nc.RequestMsg(msg, wait)
	if errors.Is(err, nats.ErrNoResponders) {
		return 0, &refusedError{text: "the log is switched off after a failure of the disk: make room and restart the process"}
	}
	if err != nil {
		return 0, err
	}
	var ack server.JSPubAckResponse
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return 0, fmt.Errorf("acknowledgement is not readable: %w", err)
	}
	if ack.Error != nil {
		return 0, &refusedError{text: ack.Error.Description, conflict: isConflict(ack.Error)}
	}
	if ack.PubAck == nil || ack.Sequence == 0 || (count > 1 && ack.BatchSize != uint64(count)) {
		return 0, fmt.Errorf("acknowledgement is not that of %d messages", count)
	}
	return ack.Sequence, nil
}

func isConflict(e *server.ApiError) bool {
	return e.ErrCode == uint16(server.JSStreamWrongLastSequenceErrF) || e.ErrCode == uint16(server.JSStreamWrongLastSequenceConstantErr)
}

// last returns the latest message of a subject as an entry.
func (l *jsLog) last(subject string, wait time.Duration) (Entry, error) {
	query, err := json.Marshal(server.JSApiMsgGetRequest{LastFor: subject})
	if err != nil {
		return Entry{}, err
	}
	m, err := l.nc.Request(apiDirectGet, query, max(wait, time.Millisecond))
	if err != nil {
		return Entry{}, fmt.Errorf("read %s: %w", subject, err)
	}
	if status := m.Header.Get("Status"); status == strconv.Itoa(http.StatusNotFound) {
		return Entry{}, ErrNotFound
	} else if status != "" {
		return Entry{}, fmt.Errorf("read %s: the log answers %s %s", subject, status, m.Header.Get("Description"))
	}
	return decodeEntry(m)
}

// decodeEntry reads an answer to a direct get. Its Key still is the subject.
func decodeEntry(m *nats.Msg) (Entry, error) {
	subject := headerOf(m, server.JSSubject)
	seq, err := strconv.ParseUint(headerOf(m, server.JSSequence), 10, 64)
	if err != nil || subject == "" {
		return Entry{}, fmt.Errorf("message of the log without subject or sequence number: %w", err)
	}
	e := Entry{Key: trimSubject(subject), Rev: seq}
	if headerOf(m, tombstoneHeader) != "" {
		e.Deleted = true
	} else {
		e.Value = m.Data
		if e.Value == nil {
			e.Value = []byte{}
		}
	}
	return e, nil
}

// headerOf reads a header without the canonical spelling that Header.Get wants
// first: loading reads hundreds of thousands.
func headerOf(m *nats.Msg, name string) string {
	if v := m.Header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// trimSubject makes a key of a data subject; meta subjects stay.
func trimSubject(subject string) string {
	if len(subject) > len(dataSubject) && subject[:len(dataSubject)] == dataSubject {
		return subject[len(dataSubject):]
	}
	return subject
}

// putFloor stores up to which revision tombstones are missing.
func (l *jsLog) putFloor(floor uint64, wait time.Duration) error {
	_, err := l.append([]logMsg{{subject: floorSubject, data: strconv.AppendUint(nil, floor, 10)}}, wait)
	return err
}

// remove takes the messages of entries out of the stream for good.
func (l *jsLog) remove(entries []Entry) error {
	for _, e := range entries {
		var reply server.JSApiMsgDeleteResponse
		req := server.JSApiMsgDeleteRequest{Seq: e.Rev, NoErase: true}
		if err := l.call(context.Background(), apiMsgDelete, req, &reply); err != nil {
			return err
		}
		if reply.Error != nil && reply.Error.ErrCode != uint16(server.JSSequenceNotFoundErrF) && reply.Error.ErrCode != uint16(server.JSStreamMsgDeleteFailedF) {
			return fmt.Errorf("remove message %d: %s", e.Rev, reply.Error.Description)
		}
	}
	return nil
}

// call makes a request of the JetStream API.
func (l *jsLog) call(ctx context.Context, subject string, req, reply any) error {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
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
