package descriptor

import (
	"strings"
	"testing"
)

// TestDigestOfImage: a digest that no image has is refused before anything is applied, with what
// it should be; names with one, with a tag and with a port of their registry are taken.
func TestDigestOfImage(t *testing.T) {
	t.Parallel()
	parse := func(image string) error {
		_, _, err := Parse("a.yaml", []byte("application: a\nservices:\n  web:\n    runtime: container\n    image: '"+image+"'\n    limits: {memory: 128Mi}\n"))
		return err
	}
	sha256, sha512 := strings.Repeat("0a", 32), strings.Repeat("f1", 64)
	for _, image := range []string{"nginx@sha256:" + sha256, "localhost:5000/shop/web:1.2@sha256:" + sha256, "nginx@sha512:" + sha512, "nginx:1.29"} {
		if err := parse(image); err != nil {
			t.Errorf("%s: %v", image, err)
		}
	}
	for image, why := range map[string]string{
		"nginx@sha256:zz":            `"sha256:zz" is no digest: that is sha256: and 64 hexadecimal digits`,
		"nginx@":                     `"" is no digest`,
		"nginx@1.29":                 `"1.29" is no digest`,
		"nginx@sha256:" + sha256[1:]: "is no digest",
		"nginx@sha256:" + strings.ToUpper(sha256):   "in small letters",
		"nginx@md5:" + sha256[:32]:                  "is no digest",
		"nginx@sha256:" + sha256 + ":1":             "is no digest",
		"nginx@sha256:" + sha256 + "@sha256:zz":     "is no digest",
		"two words@sha256:" + sha256:                "is not the name of an image",
		"@sha256:" + sha256:                         "is not the name of an image",
		"nginx" + strings.Repeat("x", 512) + "@zz:": "is not the name of an image",
	} {
		err := parse(image)
		if err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "services.web.image") {
			t.Errorf("%s: %v", image, err)
		}
	}
}
