package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// storeMarker is a file that says that the directory has a store, so that one
	// that JetStream cannot recover is not taken for a new one.
	storeMarker = "store"

	loadBatch = 1024    // messages per request while loading
	loadBytes = 8 << 20 // their size at most, beyond the first
	loadPause = 30 * time.Second
)

// openStore opens the stream of a server, or makes it, loads it into memory,
// and begins a new era. nc is used by nobody else.
func openStore(ctx context.Context, nc *nats.Conn, dir string, log *slog.Logger) (*store, error) {
	s := &store{
		log: log, js: &jsLog{nc: nc, run: wire.NewID()[:16] + "-"}, m: newMirror(), dir: dir,
		free: freeBytes, patience: ackTimeout,
		turn: make(chan struct{}, 1), unsettled: map[string]struct{}{},
	}
	state, err := s.openStream(ctx)
	if err != nil {
		return nil, fmt.Errorf("open store in %s: %w", dir, err)
	}
	meta, err := s.load(ctx, state)
	if err != nil {
		return nil, fmt.Errorf("load store in %s: %w", dir, err)
	}
	if err := s.begin(meta, state.LastSeq); err != nil {
		return nil, fmt.Errorf("begin a new era of the store in %s: %w", dir, err)
	}
	return s, nil
}

// openStream returns the state of the stream, which it makes in a new directory.
func (s *store) openStream(ctx context.Context) (server.StreamState, error) {
	var none server.StreamState
	marker := filepath.Join(s.dir, storeMarker)
	var info server.JSApiStreamInfoResponse
	if err := s.js.call(ctx, apiStreamInfo, nil, &info); err != nil {
		return none, err
	}
	if info.Error == nil {
		return info.StreamInfo.State, nil
	}
	if info.Error.ErrCode != uint16(server.JSStreamNotFoundErr) {
		return none, errors.New(info.Error.Description)
	}
	if _, err := os.Stat(marker); err == nil {
		return none, errors.New("the data of the store is missing or damaged: restore the directory from a backup, or delete it to start empty")
	} else if !errors.Is(err, os.ErrNotExist) {
		return none, err
	}
	var created server.JSApiStreamCreateResponse
	if err := s.js.call(ctx, apiStreamCreate, streamConfig(), &created); err != nil {
		return none, err
	}
	if created.Error != nil {
		return none, errors.New(created.Error.Description)
	}
	return none, atomicfile.Write(marker, []byte("verge store 1\n"), 0o600)
}

func streamConfig() server.StreamConfig {
	return server.StreamConfig{
		Name:               streamName,
		Subjects:           []string{dataSubject + ">", metaSubject + ">"},
		Storage:            server.FileStorage,
		Retention:          server.LimitsPolicy,
		Replicas:           1,
		MaxMsgs:            -1,
		MaxBytes:           -1,
		MaxMsgSize:         -1,
		MaxConsumers:       -1,
		MaxMsgsPer:         1,
		AllowDirect:        true,
		AllowAtomicPublish: true,
	}
}

// storeMeta is what a stream holds beside the keys.
type storeMeta struct {
	timeline wire.Timeline
	floor    uint64
}

// load reads the stream into the mirror.
func (s *store) load(ctx context.Context, state server.StreamState) (storeMeta, error) {
	var meta storeMeta
	var entries []Entry
	if state.Msgs > 0 {
		var count uint64
		err := s.js.each(ctx, state.LastSeq, func(e Entry) error {
			count++
			switch e.Key {
			case timelineSubject:
				return json.Unmarshal(e.Value, &meta.timeline)
			case floorSubject:
				var err error
				meta.floor, err = strconv.ParseUint(string(e.Value), 10, 64)
				return err
			case fenceSubject:
				return nil
			}
			entries = append(entries, e)
			return nil
		})
		if err != nil {
			return meta, err
		}
		if count != state.Msgs {
			return meta, fmt.Errorf("%d of %d messages are readable: the data is damaged: restore the directory from a backup", count, state.Msgs)
		}
	}
	stale := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return !e.Deleted || e.Rev > meta.floor })
	if len(stale) > 0 { // a crash came between the floor and the removal
		if err := s.js.remove(stale); err != nil {
			return meta, err
		}
		entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.Deleted && e.Rev <= meta.floor })
	}
	s.m.applyLocked(entries)
	s.m.floor = meta.floor
	return meta, nil
}

// begin makes the new era durable before anything else is served.
func (s *store) begin(meta storeMeta, last uint64) error {
	s.timeline = meta.timeline.Next(last)
	data, err := json.Marshal(s.timeline)
	if err != nil {
		return err
	}
	if err := s.checkSpace(uint64(len(data))); err != nil {
		return err
	}
	_, err = s.js.append([]logMsg{{subject: timelineSubject, data: data}}, s.patience)
	return err
}

// each calls fn with every message of the stream up to sequence number last, in
// order.
func (l *jsLog) each(ctx context.Context, last uint64, fn func(Entry) error) error {
	inbox := l.nc.NewInbox()
	sub, err := l.nc.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	for next := uint64(1); next <= last; {
		query, err := json.Marshal(server.JSApiMsgGetRequest{Seq: next, Batch: loadBatch, MaxBytes: loadBytes})
		if err != nil {
			return err
		}
		if err := l.nc.PublishRequest(apiDirectGet, inbox, query); err != nil {
			return err
		}
		seen, err := l.page(ctx, sub, fn)
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
func (l *jsLog) page(ctx context.Context, sub *nats.Subscription, fn func(Entry) error) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, loadPause)
	defer cancel()
	var seen uint64
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return 0, fmt.Errorf("read the log: %w", err)
		}
		switch status := headerOf(m, "Status"); status {
		case "":
		case strconv.Itoa(http.StatusNoContent), strconv.Itoa(http.StatusNotFound):
			return seen, nil
		default:
			return 0, fmt.Errorf("read the log: it answers %s %s", status, headerOf(m, "Description"))
		}
		e, err := decodeEntry(m)
		if err != nil {
			return 0, err
		}
		if err := fn(e); err != nil {
			return 0, fmt.Errorf("message %d of the log (%s): %w", e.Rev, e.Key, err)
		}
		seen = e.Rev
	}
}
