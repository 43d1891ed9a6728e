package relay

import (
	"context"
	"crypto/tls"
	"time"
)

const (
	// raceEvery is when another connection is begun beside one that takes long.
	raceEvery = 3 * time.Second
	maxRacing = 3
)

// DialRacing makes a connection by open, and begins another one whenever it takes long:
// over a line that loses half of what is sent a new one is often there before TCP
// repeats a packet of the first. It returns the first that there is, or the first
// error.
func DialRacing(ctx context.Context, open func(context.Context) (*tls.Conn, error)) (*tls.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	type result struct {
		conn *tls.Conn
		err  error
	}
	results := make(chan result, maxRacing)
	begun, open1 := 0, func() {
		conn, err := open(ctx)
		results <- result{conn, err}
	}
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			go open1()
			if begun++; begun < maxRacing {
				next.Reset(raceEvery)
			}
		case r := <-results:
			cancel()
			for range begun - 1 { // they end at once now
				if late := <-results; late.err == nil {
					_ = late.conn.NetConn().Close() // nothing was said on it
				}
			}
			return r.conn, r.err
		}
	}
}
