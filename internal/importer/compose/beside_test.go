package compose_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/importer"
	"github.com/verge-edge/verge/internal/importer/importertest"
)

// TestDerivedOfBeside: a variable of .env that has the value of a secret in it, however short,
// becomes one; others take what is above them, and what nothing sets is said.
func TestDerivedOfBeside(t *testing.T) {
	const compose = "services:\n  web:\n    image: nginx:${B}\n" +
		"    environment: {URL: '${URL}', X: 'a${GREETING}', E: '${E}'}\n    env_file: [own.env]\n"
	f := importertest.Files{".env": "A=1\nB=${A}\nURL=http://${A}/x\nDB_PASSWORD=hun7\n" +
		"GREETING=hello ${DB_PASSWORD}\nE=${NOPE}e\n",
		"own.env": "OWN_TOKEN=tok7\nL=x${OWN_TOKEN}\nM=${L}\nN=${A}${B}\n"}
	res, err := importer.Import([]importer.Source{{Name: "compose.yaml", Data: []byte(compose), Folder: "shop",
		Open: f.Open}}, importer.Options{})
	if err != nil {
		t.Fatal(err, res.Notes)
	}
	out := string(res.Apps[0].Source)
	if all := out + fmt.Sprint(res.Notes); strings.Contains(all, "hun7") || strings.Contains(all, "tok7") {
		t.Errorf("a secret shows:\n%s", all)
	}
	for _, want := range []string{"image: nginx:1\n", "URL: http://1/x\n", "X: x\n", "L: l\n", "M: m\n", "N: \"11\"\n",
		"E: e\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	importertest.Says(t, res, importer.Lost, 1, "E of .env beside it has nothing in place of ${NOPE}")
}

// TestBeside: of a file .env no value that is called as a secret, nor one that has such a value
// in it, is in what is made or said; what is given is.
func TestBeside(t *testing.T) {
	const compose = `services:
  web:
    image: shop:${TAG}
    env_file: [.env, other.env]
    environment: {URL: "redis://${REDIS_PASSWORD}@cache", KEY_OF: "${PLAIN}", ADMIN_PW: "${PLAIN}"}
    command: serve ${REDIS_PASSWORD}
    volumes: ["./other.env:/other.env:ro", "./key.pem:/key.pem:ro"]
    configs: [{source: x, target: /x}]
configs: {x: {environment: REDIS_PASSWORD}}
`
	files := map[string]string{
		".env":      "TAG=1\nREDIS_PASSWORD=hunter2hunter\nPLAIN=plain\nMAIL=smtp://me:battery@mail\n",
		"other.env": "A=1\nOWN_TOKEN=staplestaple\nLINK=https://x/staplestaple/y\nR=${REDIS_PASSWORD}\n",
		"key.pem":   "-----BEGIN PRIVATE KEY-----\nMIIcorrect\n-----END PRIVATE KEY-----\n",
	}
	s := importer.Source{Name: "compose.yaml", Data: []byte(compose), Folder: "shop",
		Open: func(path string) ([]byte, error) {
			if text, there := files[path]; there {
				return []byte(text), nil
			}
			return nil, errors.New("there is none")
		}}
	res, err := importer.Import([]importer.Source{s}, importer.Options{})
	if err != nil {
		t.Fatal(err, res.Notes)
	}
	out := string(res.Apps[0].Source) + fmt.Sprint(res.Notes)
	for _, value := range []string{"hunter2", "staple", "battery", "MIIcorrect"} {
		if strings.Contains(out, value) {
			t.Errorf("%s shows:\n%s", value, out)
		}
	}
	for _, want := range []string{"image: shop:1", "KEY_OF: plain", "ADMIN_PW: admin-pw", "OWN_TOKEN: own-token",
		"LINK: link", "R: r\n", "MAIL: mail", "A: \"1\"", "secret: other-env", "secret: key-pem",
		"REDIS_PASSWORD: redis-password"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	importertest.Says(t, res, importer.Said, 8, "becomes the secret redis-password")
	res, err = importer.Import([]importer.Source{s},
		importer.Options{Variables: map[string]string{"TAG": "2", "REDIS_PASSWORD": "given", "PLAIN": "p"}})
	if err != nil || !strings.Contains(string(res.Apps[0].Source), "redis://given@cache") ||
		!strings.Contains(string(res.Apps[0].Source), "image: shop:2") {
		t.Errorf("%v\n%s", err, res.Apps[0].Source)
	}
	files[".env"] = "not a list\n"
	res, err = importer.Import([]importer.Source{s}, importer.Options{})
	if !errors.Is(err, importer.ErrRefused) {
		t.Errorf("a broken .env: %v", err)
	}
	importertest.Says(t, res, importer.Refused, 1, "cannot be read")
}
