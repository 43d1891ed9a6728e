package server

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/server/audit"
	"github.com/verge-edge/verge/internal/wire"
)

// backupStall is how long one part of a backup may take to be sent.
const backupStall = 30 * time.Second

// backupSubject is what the audit log says that a backup is of.
type backupSubject struct{}

// Subject implements rest.Subjecter.
func (backupSubject) Subject() (on, detail string) { return "system/backup", "with all keys" }

func (s *Server) backup(w http.ResponseWriter, r *http.Request) {
	// Before anything leaves: what could not be recorded is not given out.
	if err := s.audit.Begin(r.Context(), audit.Operation{ID: rest.TakeBackup.ID},
		rest.Question{In: backupSubject{}}); err != nil {
		s.fail(w, err)
		return
	}
	objects := false // who does not ask for them may not know how to read them
	if v := r.URL.Query().Get("objects"); v != "" {
		var err error
		if objects, err = strconv.ParseBool(v); err != nil {
			rest.WriteProblem(w, wire.Problemf(http.StatusBadRequest, "bad-query",
				"write objects=true or objects=false", "the request cannot be understood", "objects=%.20q", v))
			return
		}
	}
	out := &steady{w: w, c: http.NewResponseController(w)}
	w.Header().Set("Content-Type", rest.BackupType)
	// As long as it moves it may take: what bounds a request is meant for answers
	// that fit into memory.
	b, _ := s.backend.(rest.Backups)
	err := b.Backup(context.WithoutCancel(r.Context()), out, objects)
	if err == nil {
		return
	}
	s.log.Error("a backup could not be made", "error", err)
	if !out.begun {
		w.Header().Del("Content-Type")
		s.fail(w, err)
	}
	// Else it ends too early, and whoever reads it sees that.
}

// steady moves the deadline of a connection on with each part that is sent.
type steady struct {
	w     io.Writer
	c     *http.ResponseController
	begun bool
}

func (s *steady) Write(p []byte) (int, error) {
	s.begun = true
	// Not supported by test recorders, and there not needed.
	_ = s.c.SetWriteDeadline(time.Now().Add(backupStall))
	return s.w.Write(p)
}
