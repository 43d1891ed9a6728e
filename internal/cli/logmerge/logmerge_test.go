package logmerge

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Lines of several logs are in the order of time; those of one log stay in their order, also
// where its clock was set back.
func TestWrite(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 11, 27, 12, 0, second, 0, time.UTC) }
	log := func(prefix string, lines ...Line) *Stream { return &Stream{Prefix: prefix, lines: lines} }
	for _, c := range []struct {
		name       string
		streams    []*Stream
		timestamps bool
		want       string
	}{
		{"none", nil, false, ""},
		{"one, without an end of its last line", []*Stream{log("", Line{at(1), []byte("a\n")}, Line{at(2), []byte("b")})},
			false, "a\nb"},
		{"two", []*Stream{
			log("x | ", Line{at(1), []byte("a\n")}, Line{at(4), []byte("d")}),
			log("y | ", Line{at(2), []byte("b\n")}, Line{at(3), []byte("c\n")}),
		}, false, "x | a\ny | b\ny | c\nx | d\n"},
		{"a clock that was set back", []*Stream{
			log("", Line{at(5), []byte("a\n")}, Line{at(1), []byte("b\n")}),
			log("", Line{at(3), []byte("c\n")}, Line{at(6), []byte("d\n")}),
		}, false, "c\na\nb\nd\n"},
		{"with times", []*Stream{log("", Line{time.Time{}, []byte("a\n")}, Line{at(1), []byte("b\n")})}, true,
			"- a\n2026-11-27T12:00:01.000Z b\n"},
	} {
		var out strings.Builder
		failed, err := Write(context.Background(), &out, c.streams, c.timestamps, func(text string) { t.Error(text) })
		if err != nil || failed != 0 || out.String() != c.want {
			t.Errorf("%s: %d, %v\n%s\nwant\n%s", c.name, failed, err, out.String(), c.want)
		}
	}
}

func TestTimeOf(t *testing.T) {
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	times := []rpc.LogTime{{Offset: 2, At: at}, {Offset: 5, At: at.Add(time.Second)}}
	for offset, want := range []time.Time{{}, {}, at, at, at, at.Add(time.Second), at.Add(time.Second)} {
		if got := TimeOf(times, int64(offset)); !got.Equal(want) {
			t.Errorf("byte %d was written at %v, not %v", offset, got, want)
		}
	}
}
