package yamltree

import (
	"fmt"
	"strings"
	"testing"
)

// one is the tree of a source with one document.
func one(t *testing.T, source string) *Node {
	t.Helper()
	for doc, err := range Documents([]byte(source), 32) {
		if err != nil {
			t.Fatalf("%q: %v", source, err)
		}
		return doc.Root
	}
	t.Fatalf("%q has no document", source)
	return nil
}

// TestValues: scalars have the types of the core schema, and quotes make a text.
func TestValues(t *testing.T) {
	for text, want := range map[string]string{
		"": "<nil> <nil>", "null": "<nil> <nil>", "~": "<nil> <nil>", "1": "int 1", "-3": "int -3", "0x10": "int 16", "1.5": "float64 1.5",
		"1e300": "float64 1e+300", "18446744073709551615": "uint64 18446744073709551615", "true": "bool true", "yes": "string yes",
		`"1"`: "string 1", "'true'": "string true", "2001-01-01": "string 2001-01-01", "!!str 1": "string 1",
	} {
		v := one(t, "a: "+text).Child("a").Value()
		if got := fmt.Sprintf("%T %v", v, v); got != want {
			t.Errorf("%q is %s, not %s", text, got, want)
		}
	}
}

// TestSurrogates: JSON may escape a character in two halves, and its lines stay.
func TestSurrogates(t *testing.T) {
	for text, want := range map[string]string{`\ud83d\ude00`: "😀", `\ud83d`: "\ufffd", `\\ud83d\n`: "\\ud83d\n", `\u0041`: "A", `\/`: "/"} {
		n := one(t, "{\n\"a\": \""+text+"\"}")
		if got := n.Child("a"); got.Text != want || got.Plain || got.Line != 2 {
			t.Errorf("%s is %q in line %d", text, got.Text, got.Line)
		}
	}
}

// TestErrors: what is wrong has its place and a remedy; documents before it are there.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		source string
		at     Pos
		says   string
	}{
		{"a: b\n---\na: [b\n", Pos{3, 4}, "close the bracket"},
		{"a: b\n---\na:\n\tb: c\n", Pos{4, 1}, "a tab cannot indent: use spaces"},
		{"a: b\n---\na: @b\n", Pos{3, 4}, "'@' cannot start a text: put the text in quotes"},
		{"a: b\n---\na: *b\n", Pos{3, 4}, "unknown anchor"},
		{"a: b\n---\na: " + strings.Repeat("[", 40), Pos{3, 36}, "is nested more than 32 levels deep"},
	} {
		docs := 0
		for doc, err := range Documents([]byte(c.source), 32) {
			if err == nil {
				docs++
				continue
			}
			if docs != 1 || err.Pos != c.at || !strings.Contains(err.Error(), c.says) || doc.Root != nil {
				t.Errorf("%q: %d documents, then %v %v", c.source, docs, err.Pos, err)
			}
		}
	}
	for source, want := range map[string]string{"a\x00": "{1 2} is not text: it contains the control character 0x00", "\n\xff": "{2 1} is not text: byte 0xff is not UTF-8", "\xff\xfea": "{0 0} is UTF-16"} {
		if err := CheckText([]byte(source)); err == nil || !strings.HasPrefix(fmt.Sprint(err.Pos, " ", err), want) {
			t.Errorf("%q: %v", source, err)
		}
	}
	if err := CheckText([]byte("\ufeffa\r\n\tb: é\u0085")); err != nil {
		t.Error(err)
	}
}

// TestTree: aliases, tags and merge keys are kept as they are, and an alias may contain itself.
func TestTree(t *testing.T) {
	n := one(t, "a: &x {b: *x}\n<<: !mine [1]\n")
	a := n.Child("a")
	if b := a.Child("b"); b.Kind != Alias || b.Target != a || b.Text != "x" || b.Pos != (Pos{1, 11}) {
		t.Errorf("%+v", b)
	}
	if m := n.Child("<<"); m.Kind != List || m.Tag != "!mine" || !m.Values[0].Plain {
		t.Errorf("%+v", m)
	}
}
