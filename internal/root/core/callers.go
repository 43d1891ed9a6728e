package core

import (
	"fmt"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
)

const (
	// MaxCallers bounds the names that are remembered; they are of certificates that
	// this root or one that it is a copy of has signed.
	MaxCallers = 256
	// CallerFor is how long one that has not called again is spoken of.
	CallerFor = 10 * time.Minute
)

// Callers are the clusters that have shown a certificate on the link, known or not:
// one that is not is turned away without a word that its operator could read, so
// that it must be said here.
type Callers struct {
	mu   sync.Mutex
	seen map[string]time.Time // guarded by mu
}

// Note notes a cluster that tried to connect.
func (c *Callers) Note(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[string]time.Time{}
	}
	if _, again := c.seen[cluster]; again || len(c.seen) < MaxCallers {
		c.seen[cluster] = time.Now()
	}
}

// Strangers are the problems of clusters that call and are not known here.
func (c *Callers) Strangers(known map[string]bool, now time.Time) (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range records.SortedKeys(c.seen) {
		if known[name] || now.Sub(c.seen[name]) > CallerFor {
			continue
		}
		out = append(out, fmt.Sprintf("cluster %s asks to be let in and is not known here: it was removed, or "+
			"joined after the backup that this root was restored from; "+
			"what runs there goes on. To let it join again: verge token create --cluster %s", name, name))
	}
	return out
}
