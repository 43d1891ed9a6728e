package redact

import "testing"

// What looks like a secret is redacted, and nothing else.
func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"token verge-api-AbC_1.2 of bob":   "token verge-api-[redacted] of bob",
		"verge-join-1.eyJh":                "verge-join-[redacted]",
		"Authorization: Bearer abcdefgh.1": "Authorization: Bearer [redacted]",
		"x -----BEGIN EC PRIVATE KEY-----\nMIG\nabc\n-----END EC PRIVATE KEY-----\ny": "x [redacted]\ny",
		"-----BEGIN PRIVATE KEY-----\nMIG":                                            "[redacted]",
		"postgres://app:hunter2@db:5432/x":                                            "postgres://app:[redacted]@db:5432/x",
		`{"db_password": "hunter2", "n": 1}`:                                          `{"db_password": "[redacted]", "n": 1}`,
		"PGPASSWORD=hunter2 psql":                                                     "PGPASSWORD=[redacted] psql",
		"AWS_SECRET_ACCESS_KEY=abc/def":                                               "AWS_SECRET_ACCESS_KEY=[redacted]",
		`msg="{\"password\":\"hunter2 and, more;\\\"x\",\"n\":1}"`:                    `msg="{\"password\":\"[redacted]\",\"n\":1}"`,
		`"{\\\"password\\\":\\\"hunter2 x\\\"}" n`:                                    `"{\\\"password\\\":\\\"[redacted]" n`,
		`{"password": "a b,c;d\"e", "n": 1}`:                                          `{"password": "[redacted]", "n": 1}`,
		"password: 'a b, c' n":                                                        "password: '[redacted]' n",
		"password=a,b;c}d, n":                                                         "password=[redacted], n",
		"token=abc secret: def pass=ghi DB_PASS=jkl": "token=[redacted] secret: " +
			"[redacted] pass=[redacted] DB_PASS=[redacted]",
		`{"private_key":"x y","refresh_token":"z"}`: `{"private_key":"[redacted]","refresh_token":"[redacted]"}`,
		"token: verge-api-AbC_1.2 n":                "token: [redacted] n",
		"bypass=on tokens=5 secrets: 2 password_file=/x": "bypass=on tokens=5 secrets: " +
			"2 password_file=/x",
		"a b:\nMIGabc+/=\nabc==\n-----END EC PRIVATE KEY-----\ny": "a b:\n[redacted]\ny",
		`"k":"abc\nMIG=\n-----END PRIVATE KEY-----\n"`:            `"k":"[redacted]\n"`,
		"mine is 12345678":                 "mine is [redacted]",
		"-----BEGIN CERTIFICATE-----\nMIG": "-----BEGIN CERTIFICATE-----\nMIG",
		"secret db-password set, no such token": "secret db-password set, " +
			"no such token",
		"http://shop.test/login?next=1": "http://shop.test/login?next=1",
	} {
		got, n := Text([]byte(text), [][]byte{[]byte("12345678")})
		if string(got) != want || (n > 0) != (text != want) {
			t.Errorf("%q became %q (%d), want %q", text, got, n, want)
		}
	}
}
