package seal

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func must[T any](t testing.TB) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestKeyIsMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if _, err := Load(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before there is one: %v", err)
	}
	k := must[*Key](t)(Ensure(dir))
	again := must[*Key](t)(Ensure(dir))
	loaded := must[*Key](t)(Load(dir))
	if again.Public() != k.Public() || loaded.ID() != k.ID() || k.Public() == "" {
		t.Errorf("%q, %q, %q", k.Public(), again.Public(), loaded.Public())
	}
	if id := must[string](t)(ID(k.Public())); id != k.ID() || len(id) != 16 {
		t.Errorf("id %q, want %q", id, k.ID())
	}
	if other := must[*Key](t)(Ensure(t.TempDir())); other.Public() == k.Public() || other.ID() == k.ID() {
		t.Error("two keys are the same")
	}
	path := filepath.Join(dir, File)
	st, err := os.Stat(path)
	if err != nil || st.Mode() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	text := must[[]byte](t)(os.ReadFile(path))
	for at := range text {
		flipped := bytes.Clone(text)
		flipped[at] ^= 4
		if err := os.WriteFile(path, flipped, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Load(dir); err == nil && got.Public() != k.Public() {
			t.Errorf("a bit of byte %d makes it another key", at)
		}
	}
	for name, damaged := range map[string][]byte{
		"empty": nil, "cut off": text[:len(text)/2], "twice": append(bytes.Clone(text), text...), "noise": []byte("x"),
		"large":        bytes.Repeat(text, 100),
		"another kind": []byte("-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIKgwK9+e3Tz7h2bnkYOU5T4vI3Zz3Ea2mN3oBkm1Yz9N\n-----END PRIVATE KEY-----\n"),
	} {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Ensure(dir); err == nil || errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if now := must[[]byte](t)(os.ReadFile(path)); !bytes.Equal(now, damaged) {
			t.Errorf("%s: the file was replaced", name)
		}
	}
}

func TestOnlyTheHolderOpensIt(t *testing.T) {
	mine, other := must[*Key](t)(Ensure(t.TempDir())), must[*Key](t)(Ensure(t.TempDir()))
	rapid.Check(t, func(r *rapid.T) {
		value := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(r, "value")
		purpose := rapid.String().Draw(r, "purpose")
		sealed, err := Seal(mine.Public(), purpose, value)
		if err != nil {
			r.Fatal(err)
		}
		if got, err := mine.Open(purpose, sealed); err != nil || !bytes.Equal(got, value) {
			r.Fatalf("%q, %v", got, err)
		}
		if len(value) > 7 && bytes.Contains(sealed, value) {
			r.Fatal("the value can be read")
		}
		if _, err := other.Open(purpose, sealed); !errors.Is(err, ErrOtherKey) {
			r.Fatalf("another key: %v", err)
		}
		if _, err := mine.Open(purpose+"x", sealed); !errors.Is(err, ErrOtherKey) {
			r.Fatalf("another purpose: %v", err)
		}
		at := rapid.IntRange(0, len(sealed)-1).Draw(r, "at")
		sealed[at] ^= 1
		if _, err := mine.Open(purpose, sealed); !errors.Is(err, ErrOtherKey) {
			r.Fatalf("changed: %v", err)
		}
		if _, err := mine.Open(purpose, sealed[:at]); !errors.Is(err, ErrOtherKey) {
			r.Fatalf("cut off: %v", err)
		}
	})
	a, b := must[[]byte](t)(Seal(mine.Public(), "", []byte("x"))), must[[]byte](t)(Seal(mine.Public(), "", []byte("x")))
	if bytes.Equal(a, b) {
		t.Error("the same value sealed twice can be told")
	}
}

func TestKeysFromTheNetwork(t *testing.T) {
	zero := base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	for _, public := range []string{"", "x", "!", strings.Repeat("A", 44), strings.Repeat("A", 1<<20), zero[:40]} {
		if _, err := ID(public); err == nil {
			t.Errorf("%.50q is taken for a key", public)
		}
		if _, err := Seal(public, "", []byte("value")); err == nil {
			t.Errorf("sealed for %.50q", public)
		}
	}
	// All zeros is a key by its form, but everybody could open it.
	if _, err := Seal(zero, "", []byte("value")); err == nil {
		t.Error("sealed for everybody")
	}
}

// A code is of one key, one purpose, and of what was said as it was taken apart.
func TestMAC(t *testing.T) {
	k, err := Ensure(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	other, err := Ensure(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	code := func(k *Key, purpose string, said ...string) string {
		p, err := k.Prover(purpose)
		if err != nil {
			t.Fatal(err)
		}
		b := p.MAC(said...)
		if len(b) != 32 || string(p.MAC(said...)) != string(b) {
			t.Fatal(len(b))
		}
		return string(b)
	}
	want := code(k, "p", "ab", "c")
	if code(k, "p", "ab", "c") != want {
		t.Error("the same is another code")
	}
	for name, got := range map[string]string{
		"key": code(other, "p", "ab", "c"), "purpose": code(k, "q", "ab", "c"), "parts": code(k, "p", "a", "bc"),
		"end": code(k, "p", "ab", "c", ""),
	} {
		if got == want {
			t.Errorf("another %s is the same code", name)
		}
	}
}
