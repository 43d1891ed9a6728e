package credentials_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/bus/credentials"
)

func TestLoadOrCreateKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bus.key")
	first, err := credentials.LoadOrCreateKey(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := credentials.LoadOrCreateKey(path)
	if err != nil || again.Public() != first.Public() || !strings.HasPrefix(first.Public(), "U") {
		t.Fatalf("%v, then %v, %v", first, again, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	seed, err := first.Seed()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(first), fmt.Sprintf("%+v", first), fmt.Sprintf("%#v", first), first.LogValue().String()} {
		if strings.Contains(text, string(seed)) {
			t.Fatalf("the seed is printed: %s", text)
		}
	}
	for _, damaged := range []string{"", "rubbish", string(seed[:20]), strings.Repeat("x", 5000)} {
		if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := credentials.LoadOrCreateKey(path); err == nil {
			t.Errorf("%.20q was taken for a key", damaged)
		} else if damaged != "" && strings.Contains(err.Error(), damaged) {
			t.Errorf("the error has the content: %v", err)
		}
	}
}
