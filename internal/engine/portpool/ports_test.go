package portpool

import (
	"net"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
)

func TestPorts(t *testing.T) {
	t.Parallel()
	busy := map[int]bool{}
	p := New("seed", func(n int) bool { return !busy[n] })
	service := []api.Port{{Name: "a"}, {Name: "b"}}
	one, err := p.Give("x.y.0", service, nil)
	if err != nil || len(one) != 2 || one["a"] == one["b"] {
		t.Fatalf("%v, %v", one, err)
	}
	for _, n := range one {
		if n < firstPort || n > lastPort {
			t.Errorf("port %d", n)
		}
	}
	// Again: the same; but what somebody else took meanwhile is exchanged.
	busy[one["b"]] = true
	again, err := p.Give("x.y.0", service, one)
	if err != nil || again["a"] != one["a"] || again["b"] == one["b"] {
		t.Errorf("was %v, is %v, %v", one, again, err)
	}
	// No two instances share one, even if both would prefer it.
	other, err := p.Give("x.y.1", service, again)
	if err != nil || other["a"] == again["a"] || other["b"] == again["b"] {
		t.Errorf("%v and %v, %v", again, other, err)
	}
	p.Release("x.y.0")
	if got, _ := p.Give("x.y.2", service, again); got["a"] != again["a"] {
		t.Errorf("a released port is not given again: %v", got)
	}
	full := New("seed", func(int) bool { return false })
	if _, err := full.Give("x.y.0", service, nil); err == nil || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("none free: %v", err)
	}
}

func TestPortNumbers(t *testing.T) {
	t.Parallel()
	busy := map[int]bool{8080: true}
	p := New("seed", func(n int) bool { return !busy[n] })
	service := []api.Port{{Name: "a", Number: 6379}, {Name: "b"}}
	one, err := p.Give("x.y.0", service, nil)
	if err != nil || one["a"] != 6379 || one["b"] < firstPort {
		t.Fatalf("%v, %v", one, err)
	}
	if again, err := p.Give("x.y.0", service, one); err != nil || again["a"] != 6379 {
		t.Errorf("again: %v, %v", again, err)
	}
	if _, err := p.Give("x.y.1", service, nil); err == nil || !strings.Contains(err.Error(), "that of x.y.0") {
		t.Errorf("another's: %v", err)
	}
	if _, err := p.Give("x.z.0", []api.Port{{Number: 8080}}, nil); err == nil ||
		!strings.Contains(err.Error(), "taken on this machine") {
		t.Errorf("taken: %v", err)
	}
	p.Release("x.y.0")
	if got, err := p.Give("x.y.1", service, nil); err != nil || got["a"] != 6379 {
		t.Errorf("released: %v, %v", got, err)
	}
	// In the service network each has it.
	if got := Own(service); got["a"] != 6379 || got["b"] != 8001 {
		t.Errorf("own: %v", got)
	}
}

func TestBindable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if Bindable(l.Addr().(*net.TCPAddr).Port) {
		t.Error("a port that is listened on is called free")
	}
}
