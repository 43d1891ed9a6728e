package dotenv

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/dotenv"

	"github.com/verge-edge/verge/internal/importer/report"
)

// dotEnvTexts are files of variables in which everything is set that they refer to.
var dotEnvTexts = []string{
	"", "\n\n# nothing\n", "A=1", "A=1\nB=${A}\nC=x${B}y\n", "export A=1\nexport\tB = $A # one\n", "A: yaml\nB:x\n",
	"\ufeffA=1\r\nB=${A}2\r\n",
	"A='$X ${Y} \\n'\nB=\"${A}\\n\\$A $$A\\t\\0101\\\\\"\nC=\"two\nlines ${A}\"\n", "A=a#b #c\nB= x y  \nC=\n",
	"A='it\\'s'\nB=\"say \\\"x\\\"\"\n",
	"A=1\nA=${A}2\nA=${A}3\nB=${A:-no}${B:-yes}${A:+set}\n",
	"HOST=db\nPORT_N=5432\nURL=http://${HOST}:${PORT_N}/x\nU=$HOST-1\n", "G=1\nX=${G}${P}\n",
	"a.b-c[0]=1\nÄ=2\n", "P\nQ=${P}\n", "A=\"x\" B=2\n", "A=1 \"\nB='a\"b'\n", "A=\\$X\\\n", "A=$\nB=$$\nC=$ x\n",
	"A=\"\\q\\a\\b\\012\"\n",
	"A B=1\n", "A=\"x\n", "A!=1\n", "A=${\n", "A=${B C}\n", "A=${B:?no}\n",
}

// TestDotEnv: files of variables are read as compose-go reads them, with what is given to it
// before what stands in them.
func TestDotEnv(t *testing.T) {
	given := map[string]string{"G": "given", "P": "p", "X": "x", "Y": "y"}
	find := func(name string) (string, bool) { v, set := given[name]; return v, set }
	for _, text := range dotEnvTexts {
		want, wantErr := dotenv.UnmarshalWithLookup(strings.TrimPrefix(text, "\ufeff"), find)
		got, err := Read([]byte(text), nil, find, (&report.Report{}).Spend)
		if (err != nil) != (wantErr != nil) || err == nil && !maps.Equal(got.Values, want) {
			t.Errorf("%q becomes %v, %v; compose-go makes %q, %v of it", text, got, err, want, wantErr)
		}
	}
}

// TestVariables: a value may refer to those above it and to those of files before, of which
// its own file counts first; what nothing sets is named, and what is wrong has its line.
func TestVariables(t *testing.T) {
	vars, unset, err := Parse([]byte("A=2\nB=${A}${C}\nX=$HOME.${NOPE:-d}${A:-$Z}\n"),
		map[string]string{"A": "1", "C": "c"})
	if want := map[string]string{"A": "2", "B": "2c", "C": "c", "X": ".d2"}; err != nil || !maps.Equal(vars, want) ||
		fmt.Sprint(unset) != "[HOME]" {
		t.Errorf("%v, %v, %v", vars, unset, err)
	}
	for text, why := range map[string]string{
		"A=1\n\nB C\n":              "line 3: it is no NAME=VALUE",
		"A=hunter2\nB='x":           "line 2: a quoted value has no end",
		"A=1\nB=${X:?why}":          "line 2: it needs ${X}",
		"A=1\n=2\n":                 "line 2: it is no NAME=VALUE",
		"A=${":                      "line 1: it is not a text with ${variables}",
		"A0=xxxxxxxx\n" + doubled(): "line 21: refers to too much",
		strings.Repeat("A=1\n", 10) + many(maxVariables): "more than 2000 variables",
	} {
		if _, _, err := Parse([]byte(text), nil); err == nil || !strings.Contains(err.Error(), why) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%.40q: %v, not %q", text, err, why)
		}
	}
}

// doubled are variables of which each is twice the one above it.
func doubled() string {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "A%d=${A%d}${A%d}\n", i+1, i, i)
	}
	return b.String()
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "V%d=\n", i)
	}
	return b.String()
}
