package main

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// store keeps keys in a file of the instance's home.
type store struct {
	mu   sync.Mutex
	file *os.File
}

// maxKey bounds a key, in bytes.
const maxKey = 200

func storePath() string { return filepath.Join(os.Getenv("HOME"), "keys") }

// put is acknowledged when the key is on disk: a crash right after loses nothing.
func (s *store) put(w http.ResponseWriter, r *http.Request) {
	key := r.FormValue("key")
	if r.Method != http.MethodPost || key == "" || len(key) > maxKey || strings.ContainsAny(key, "\n\r") {
		http.Error(w, "POST a key", http.StatusBadRequest)
		return
	}
	if err := s.append(key); err != nil {
		http.Error(w, err.Error(), http.StatusInsufficientStorage)
	}
}

func (s *store) append(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		f, err := os.OpenFile(storePath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		s.file = f
	}
	if _, err := fmt.Fprintln(s.file, key); err != nil {
		return err
	}
	return s.file.Sync()
}

// keys prints those that begin with ?prefix=, a line each.
func (s *store) keys(w http.ResponseWriter, r *http.Request) {
	f, err := os.Open(storePath())
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = f.Close() }() // read only
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), r.FormValue("prefix")) {
			_, _ = fmt.Fprintln(w, lines.Text()) // the other end sees a broken answer
		}
	}
}
