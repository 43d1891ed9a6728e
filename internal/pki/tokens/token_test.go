package tokens

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

var testPin = strings.Repeat("ab", 32)

func newTestToken(t testing.TB, kind string) (Token, Record) {
	t.Helper()
	tok, rec, err := New(kind, "edge", []string{"10.0.0.1:8470", "[fd00::1]:8470", "root.example.org:8470"}, pki.RootName, testPin, time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	return tok, rec
}

func TestTokenRoundTrip(t *testing.T) {
	t.Parallel()
	tok, _ := newTestToken(t, KindCluster)
	text := tok.Encode()
	if !strings.HasPrefix(text, "verge-join-1.") {
		t.Errorf("token begins %.16q", text)
	}
	folded := text[:30] + "\r\n  " + text[30:70] + "\n" + text[70:]
	for what, in := range map[string]string{"plain": text, "with blanks": "\n\t " + text + " \r\n", "folded": folded} {
		if got, err := Parse(in); err != nil || !reflect.DeepEqual(got, tok) {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	if !tok.Expires.Equal(now.Add(time.Hour)) {
		t.Errorf("expires %v", tok.Expires)
	}
	if other, _ := newTestToken(t, KindCluster); other.ID == tok.ID || other.Secret == tok.Secret {
		t.Error("two tokens are alike")
	}
}

func TestPrintingATokenShowsNoSecret(t *testing.T) {
	t.Parallel()
	tok, rec := newTestToken(t, KindWorker)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "a", tok, "b", rec)
	stored := must(json.Marshal(rec))(t)
	for _, s := range []string{fmt.Sprint(tok), fmt.Sprintf("%v %+v %#v %s", tok, tok, tok, &tok), log.String(), string(stored)} {
		if strings.Contains(s, tok.Secret) || strings.Contains(s, tok.Encode()) {
			t.Errorf("shows the secret: %s", s)
		}
		if !strings.Contains(s, tok.ID) {
			t.Errorf("does not name the token: %s", s)
		}
	}
}

func TestParseTokenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	tok, _ := newTestToken(t, KindCluster)
	text := tok.Encode()
	change := func(f func(*Token)) string {
		c := tok
		f(&c)
		return c.Encode()
	}
	bearer, _ := NewBearer()
	for _, tt := range []struct{ what, in, want string }{
		{"empty", "", "empty"},
		{"blank", " \n\t", "empty"},
		{"rubbish", "hello", "not a join token"},
		{"binary", "\x00\xff\xfe", "not a join token"},
		{"prefix cut", text[1:], "not a join token"},
		{"bearer", bearer, "for the API"},
		{"newer", strings.Replace(text, "join-1.", "join-2.", 1), "version"},
		{"only the prefix", tokenPrefix, "damaged"},
		{"half", text[:len(text)/2], "damaged"},
		{"cut by one", text[:len(text)-1], "damaged"},
		{"one more", text + "A", "damaged"},
		{"twice", text + text, "damaged"},
		{"too long", tokenPrefix + strings.Repeat("A", maxBytes), "too long"},
		{"far too long", strings.Repeat(" ", 1<<20), "too long"},
		{"inner version", change(func(t *Token) { t.V = 2 }), "version 2"},
		{"kind", change(func(t *Token) { t.Kind = "king" }), "king"},
		{"cluster", change(func(t *Token) { t.Cluster = "a.b" }), "cluster"},
		{"no address", change(func(t *Token) { t.Addrs = nil }), "0 addresses"},
		{"many addresses", change(func(t *Token) { t.Addrs = slicesRepeat("a:1", 17) }), "17 addresses"},
		{"bad address", change(func(t *Token) { t.Addrs = []string{"nowhere"} }), "address"},
		{"port 0", change(func(t *Token) { t.Addrs = []string{"a:0"} }), "host:port"},
		{"port name", change(func(t *Token) { t.Addrs = []string{"a:http"} }), "address"},
		{"no host", change(func(t *Token) { t.Addrs = []string{":1"} }), "host:port"},
		{"server name", change(func(t *Token) { t.Name = "example.org" }), "example.org"},
		{"pin", change(func(t *Token) { t.Pin = "abcd" }), "pin"},
		{"id", change(func(t *Token) { t.ID = "../../etc/passwd" }), "id"},
		{"no secret", change(func(t *Token) { t.Secret = "" }), "secret"},
		{"no expiry", change(func(t *Token) { t.Expires = time.Time{} }), "expiry"},
	} {
		_, err := Parse(tt.in)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", tt.what, err, tt.want)
			continue
		}
		var p *wire.Problem
		if !errors.Is(err, ErrMalformed) || !errors.As(err, &p) || p.Status != 400 || p.Remedy == "" {
			t.Errorf("%s: problem %+v", tt.what, p)
		}
		if strings.Contains(err.Error(), tok.Secret) || len(err.Error()) > 400 {
			t.Errorf("%s: error shows too much: %v", tt.what, err)
		}
	}
}

func slicesRepeat(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}

// Whichever character of a token is replaced by whichever other, lost, or
// swapped with its neighbour: it does not parse.
func TestEveryWrongCharacterIsFound(t *testing.T) {
	t.Parallel()
	tok, _ := newTestToken(t, KindWorker)
	text := tok.Encode()
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=.+/é"
	try := func(what, in string) {
		if got, err := Parse(in); err == nil {
			t.Fatalf("%s: parses to %v (same secret: %v)", what, got, got.Secret == tok.Secret)
		}
	}
	for i := range text {
		for _, c := range alphabet {
			if string(c) != text[i:i+1] {
				try(fmt.Sprintf("character %d is %c", i, c), text[:i]+string(c)+text[i+1:])
			}
		}
		try(fmt.Sprintf("character %d is lost", i), text[:i]+text[i+1:])
		if i > 0 && text[i] != text[i-1] {
			try(fmt.Sprintf("characters %d and %d are swapped", i-1, i), text[:i-1]+text[i:i+1]+text[i-1:i]+text[i+1:])
		}
	}
}

func FuzzParseToken(f *testing.F) {
	tok, _, err := New(KindWorker, "edge", []string{"[::1]:8473"}, pki.ClusterName("edge"), testPin, time.Hour, now)
	if err != nil {
		f.Fatal(err)
	}
	bearer, _ := NewBearer()
	for _, s := range []string{"", "verge-join-1.", "verge-join-9.x", bearer, tok.Encode(), tok.Encode()[:40], "\n" + tok.Encode() + "\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse(text)
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("error of %d characters", len(err.Error()))
			}
			return
		}
		// What parses is usable, and is written the same way again.
		if err := got.validate(); err != nil {
			t.Errorf("parsed, but %v", err)
		}
		again, err := Parse(got.Encode())
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%v becomes %v, %v", got, again, err)
		}
	})
}

func TestReadToken(t *testing.T) {
	t.Parallel()
	tok, _ := newTestToken(t, KindWorker)
	dir := t.TempDir()
	path := writeFile(t, dir, "token", tok.Encode()+"\n")
	got, warning, err := Read(path, nil)
	if err != nil || warning != "" || got.Secret != tok.Secret {
		t.Errorf("%v, %q, %v", got, warning, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, warning, err = Read(path, nil); err != nil || got.Secret != tok.Secret || !strings.Contains(warning, "chmod 600 "+path) {
		t.Errorf("readable by others: %q, %v", warning, err)
	}
	if got, warning, err = Read("-", strings.NewReader(tok.Encode())); err != nil || warning != "" || got.Secret != tok.Secret {
		t.Errorf("stdin: %q, %v", warning, err)
	}
	big := writeFile(t, dir, "big", strings.Repeat(" ", maxTokenFile+1))
	for what, tt := range map[string][2]string{
		"missing":     {dir + "/none", dir + "/none"},
		"a folder":    {dir, dir},
		"too large":   {big, big},
		"not a token": {writeFile(t, dir, "other", "hello"), "not a join token"},
		"empty":       {writeFile(t, dir, "empty", ""), "empty"},
	} {
		if _, _, err := Read(tt[0], nil); err == nil || !strings.Contains(err.Error(), tt[1]) {
			t.Errorf("%s: error %v, want one with %q", what, err, tt[1])
		}
	}
	if _, _, err := Read("-", strings.NewReader(strings.Repeat("A", 1<<20))); err == nil || !strings.Contains(err.Error(), "standard input") {
		t.Errorf("endless stdin: %v", err)
	}
}

func TestTokenRecordChecks(t *testing.T) {
	t.Parallel()
	tok, rec := newTestToken(t, KindWorker)
	_, me := testKey(t)
	_, other := testKey(t)
	if err := rec.Check(tok, me, false, now); err != nil {
		t.Fatalf("a fresh token: %v", err)
	}
	used := rec.Used(me, false, now.Add(time.Minute))
	if rec.UsedBy != "" {
		t.Error("Used changed the record itself")
	}
	if again := used.Used(other, false, now.Add(time.Hour)); again != used {
		t.Error("a used record was used again by another")
	}
	change := func(f func(*Token)) Token {
		c := tok
		f(&c)
		return c
	}
	stranger, _ := newTestToken(t, KindWorker)
	for _, tt := range []struct {
		what string
		rec  Record
		tok  Token
		key  []byte
		at   time.Time
		want error
		code string
	}{
		{"same node again", used, tok, me, now.Add(59 * time.Minute), nil, ""},
		{"other node", used, tok, other, now, ErrUsed, "token-used"},
		{"expired", rec, tok, me, now.Add(time.Hour), ErrExpired, "token-expired"},
		{"same node, expired", used, tok, me, now.Add(time.Hour), ErrExpired, "token-expired"},
		{"secret", rec, change(func(t *Token) { t.Secret = stranger.Secret }), me, now, ErrForged, "token-forged"},
		{"no secret", rec, change(func(t *Token) { t.Secret = "" }), me, now, ErrForged, "token-forged"},
		{"id", rec, change(func(t *Token) { t.ID = stranger.ID }), me, now, ErrForged, "token-forged"},
		{"cluster", rec, change(func(t *Token) { t.Cluster = "fog" }), me, now, ErrForged, "token-forged"},
		{"forged and expired", rec, stranger, me, now.Add(time.Hour), ErrForged, "token-forged"},
		{"kind", rec, change(func(t *Token) { t.Kind = KindCluster }), me, now, ErrKind, "token-kind"},
		// The record decides how long, not what the token says.
		{"longer life", rec, change(func(t *Token) { t.Expires = now.Add(day) }), me, now.Add(2 * time.Hour), ErrExpired, "token-expired"},
	} {
		checkRefusal(t, tt.what, tt.rec.Check(tt.tok, tt.key, false, tt.at), tt.want, tt.code)
	}
	checkRefusal(t, "unknown", Unknown(tok), ErrUnknown, "token-unknown")
	checkRefusal(t, "kind by the caller", tok.CheckKind(KindCluster), ErrKind, "token-kind")
	if err := tok.CheckKind(KindWorker); err != nil {
		t.Error(err)
	}
}

func checkRefusal(t *testing.T, what string, err, want error, code string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
		return
	}
	if want == nil {
		return
	}
	for _, other := range []error{ErrExpired, ErrUsed, ErrForged, ErrKind, ErrUnknown} {
		if !errors.Is(want, other) && errors.Is(err, other) {
			t.Errorf("%s: %v is also %v", what, err, other)
		}
	}
	var p *wire.Problem
	if !errors.As(err, &p) || p.Code != code || p.Status != 403 || p.Detail == "" {
		t.Errorf("%s: problem %+v", what, p)
	}
	if !strings.Contains(err.Error(), "verge token create --") {
		t.Errorf("%s: %q does not say what to do", what, err)
	}
}

func TestNewTokenRefuses(t *testing.T) {
	t.Parallel()
	addr := []string{"a:1"}
	long := slicesRepeat(strings.Repeat("a", 250)+":1", 16)
	for what, make := range map[string]func() (Token, Record, error){
		"kind": func() (Token, Record, error) {
			return New("api", "edge", addr, pki.RootName, testPin, 1, now)
		},
		"cluster": func() (Token, Record, error) {
			return New(KindWorker, "", addr, pki.RootName, testPin, 1, now)
		},
		"no address": func() (Token, Record, error) {
			return New(KindWorker, "edge", nil, pki.RootName, testPin, 1, now)
		},
		"pin": func() (Token, Record, error) {
			return New(KindWorker, "edge", addr, pki.RootName, "", 1, now)
		},
		"server name": func() (Token, Record, error) {
			return New(KindWorker, "edge", addr, "x", testPin, 1, now)
		},
		"too much all": func() (Token, Record, error) {
			return New(KindWorker, "edge", long, pki.RootName, testPin, 1, now)
		},
	} {
		if tok, _, err := make(); err == nil {
			t.Errorf("%s: made %v", what, tok)
		}
	}
}

func TestBearer(t *testing.T) {
	t.Parallel()
	token, hash := NewBearer()
	if !strings.HasPrefix(token, "verge-api-1.") || len(token) != len("verge-api-1.")+64 {
		t.Errorf("bearer token of %d characters", len(token))
	}
	if got, err := HashBearer(token); err != nil || got != hash || strings.Contains(token, hash) {
		t.Errorf("hash %q, %v, want %q", got, err, hash)
	}
	if got, err := HashBearer(token[:len(token)-1] + "x"); err != nil || got == hash {
		t.Errorf("a changed token has the same hash: %v", err)
	}
	other, otherHash := NewBearer()
	if other == token || otherHash == hash {
		t.Error("two tokens are alike")
	}
	join, _ := newTestToken(t, KindWorker)
	for _, in := range []string{"", "verge-api-1.", "x" + token, join.Encode(), strings.Repeat("a", 1<<20), token + strings.Repeat("a", 200)} {
		if _, err := HashBearer(in); err == nil {
			t.Errorf("%.30q… is accepted", in)
		} else if len(err.Error()) > 200 {
			t.Error("the error shows the token")
		}
	}
}
