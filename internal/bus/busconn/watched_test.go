package busconn

import (
	"net"
	"testing"
)

// A server that was too busy to look at a token has refused nobody.
func TestBusyIsNotRefused(t *testing.T) {
	for said, want := range map[string]bool{
		"-ERR 'Authorization Violation'\r\n": true, "-ERR 'User Authentication Expired'\r\n": true,
		"-ERR 'Authentication Timeout'\r\n": false, "-ERR 'Stale Connection'\r\n": false, "PING\r\n": false,
	} {
		there, here := net.Pipe()
		refused := false
		c := &watchedConn{Conn: here, refused: func(error) { refused = true }}
		go func() {
			_, _ = there.Write([]byte(said))
			_ = there.Close()
		}()
		if _, err := c.Read(make([]byte, 256)); err != nil {
			t.Fatal(err)
		}
		if refused != want {
			t.Errorf("%q counts as a refusal: %t", said, refused)
		}
		_ = c.Close()
	}
}
