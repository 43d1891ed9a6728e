package forward

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

// A try ends while its transport still waits for more of the body: what that read
// brings belongs to the next try, even beyond what is kept for another.
func TestGuardedBodyKeepsWhatALateReadBrings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := io.Pipe()
		b := newGuardedBody(client)
		first := b.try()
		late := make(chan error, 1)
		go func() {
			_, err := first.Read(make([]byte, 2*maxReplay))
			late <- err
		}()
		synctest.Wait() // it waits for the client
		if !b.unread() {
			t.Fatal("the body is gone")
		}
		second := b.try()
		if second == nil {
			t.Fatal("no next try")
		}
		sent := strings.Repeat("x", maxReplay+1)
		got := make(chan []byte, 1)
		go func() {
			all, err := io.ReadAll(second)
			if err != nil {
				t.Error(err)
			}
			got <- all
		}()
		synctest.Wait()
		_, err := io.WriteString(server, sent)
		must(t, err)
		must(t, <-late)
		if _, err := first.Read(make([]byte, 1)); err == nil {
			t.Error("the first try reads on")
		}
		_, err = io.WriteString(server, "end")
		must(t, err)
		must(t, server.Close())
		if all := <-got; string(all) != sent+"end" {
			t.Errorf("%d bytes came", len(all))
		}
		if b.failed() {
			t.Error("the end of the body counts as one that broke")
		}
		if b.unread() {
			t.Error("more was read than is kept, and it is there again")
		}
	})
}

// Who was told that the body is there again finds it so, whoever reads meanwhile.
func TestGuardedBodyIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := bytes.Repeat([]byte("x"), 3*maxReplay)
		b := newGuardedBody(io.NopCloser(bytes.NewReader(sent)))
		first := b.try()
		_, err := io.ReadFull(first, make([]byte, maxReplay))
		must(t, err)
		if !b.unread() {
			t.Fatal("what is kept is not there")
		}
		read := make(chan error, 1)
		more := func() {
			_, err := first.Read(make([]byte, 1))
			read <- err
		}
		go more()
		synctest.Wait()
		select {
		case err := <-read:
			t.Fatalf("more was read while it must not be dropped (%v)", err)
		default:
		}
		b.letGo()
		must(t, <-read)
		if b.unread() || b.try() != nil {
			t.Error("there again, although more was read than is kept")
		}
	})
}
