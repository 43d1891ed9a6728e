package http1test

import "strings"

// Forbidden are heads, by name, that can only be an attack on the framing.
var Forbidden = map[string]string{
	"HTTP/0.9":             "GET /\r\n\r\n",
	"a word":               "PING\r\n\r\n",
	"TLS":                  "\x16\x03\x01\x00\xf5\x01\r\n\r\n",
	"binary":               "\x00\x00\x00\x08\x04\xd2\x16\x2f\r\n\r\n",
	"CL.TE":                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
	"TE.CL":                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n1\r\nZ\r\n0\r\n\r\n",
	"CL.TE of HTTP/1.0":    "POST / HTTP/1.0\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n",
	"TE identity and CL":   "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\nContent-Length: 3\r\n\r\nabc",
	"two lengths":          "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nContent-Length: 5\r\n\r\n123456",
	"a list of lengths":    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6, 6\r\n\r\n123456",
	"a signed length":      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +6\r\n\r\n123456",
	"a negative length":    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -6\r\n\r\n123456",
	"a hexadecimal length": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x6\r\n\r\n123456",
	"an overlong length":   "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999999999999\r\n\r\n",
	"an empty length":      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
	"space before colon":   "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 6\r\n\r\n123456",
	"TE space colon":       "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
	"a tab in a name":      "POST / HTTP/1.1\r\nHost: a\r\nTransfer\tEncoding: chunked\r\n\r\n",
	"bare LF":              "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
	"bare LF at first":     "GET / HTTP/1.1\nHost: a\r\n\r\n",
	"bare LF at last":      "GET / HTTP/1.1\r\nHost: a\r\n\n",
	"bare CR":              "GET / HTTP/1.1\r\nHost: a\r\nX: b\rContent-Length: 5\r\n\r\n",
	"bare CR at first":     "GET /\rx HTTP/1.1\r\nHost: a\r\n\r\n",
	"CR CR LF":             "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n",
	"NUL in a value":       "GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n",
	"NUL in the target":    "GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
	"no name":              "GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n",
	"no colon":             "GET / HTTP/1.1\r\nHost: a\r\nwhat\r\n\r\n",
	"two hosts":            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
	"folded at first":      "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
	"a name beyond ASCII":  "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encodin\xc4\xa3: chunked\r\n\r\n",
	"hidden behind many": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n" + strings.Repeat("X: y\r\n", 150) +
		"Transfer-Encoding: chunked\r\n\r\n",
	"hidden in a fold": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nX: y\r\n \x0b\r\n\r\n",
}
