package proxy

import (
	"fmt"
	"slices"
	"strings"
)

// corpusCase is a request as bytes, and what must hold of it. In its text {id} stands for
// what is unique to the case and the proxy that it is sent to.
type corpusCase struct {
	name string
	text string
	// must is accepted, refused or either.
	must string
	// What the request means where it is accepted.
	method, target, body string
	// absent must not reach the backend; "" is nothing.
	absent string
}

const (
	accepted = "accept"
	refused  = "refuse"
	either   = "either"
)

// Case-insensitive pieces of requests that many cases have.
const (
	helloChunks = "5\r\nhello\r\n0\r\n\r\n"
	hello       = "hello"
)

// quotedName makes a name of a case that can be printed.
func quotedName(s string) string {
	q := fmt.Sprintf("%+q", s)
	if len(q) > 60 {
		q = q[:40] + "…" + fmt.Sprint(len(s))
	}
	return q
}

// corpus is made by rules, so that every combination is there.
func corpus() (all []corpusCase) {
	add := func(name, must, method, target, body, text string) *corpusCase {
		all = append(all, corpusCase{name: name, text: text, must: must, method: method, target: target, body: body})
		return &all[len(all)-1]
	}
	get := func(name, must, fields string) *corpusCase {
		return add(name, must, "GET", "/{id}", "", "GET /{id} HTTP/1.1\r\nHost: a\r\n"+fields+"\r\n")
	}
	post := func(name, must, body, fields, sent string) *corpusCase {
		return add(name, must, "POST", "/{id}", body, "POST /{id} HTTP/1.1\r\nHost: a\r\n"+fields+"\r\n"+sent)
	}

	// The length of a body.
	for _, v := range []struct{ value, must string }{
		{"5", accepted}, {"05", either}, {" 5 ", accepted}, {"\t5\t", accepted}, {"+5", refused}, {"-5", refused},
		{"5,5", either}, {"5, 5", either},
		{"5,6", refused}, {"0x5", refused}, {"5.0", refused}, {"5e0", refused}, {"", refused}, {" ", refused},
		{"5;", refused}, {"\"5\"", refused},
		{"5 5", refused}, {"5\x00", refused}, {"5\x0b", refused}, {"\x0c5", refused}, {"\xc2\xb2", refused},
		{"five", refused}, {"99999999999999999999", refused},
		{"18446744073709551621", refused}, {"9223372036854775808", refused}, {"-0", refused}, {"0b101", refused},
		{"5_", refused}, {"1_0", refused}, {"5\r", refused},
	} {
		post("length "+quotedName(v.value), v.must, hello, "Content-Length:"+v.value+"\r\n", hello)
	}
	for _, v := range []struct{ first, second, must string }{
		{"5", "5", either}, {"5", "6", refused}, {"0", "5", refused}, {"5", "", refused}, {"", "5", refused},
		{"5", "+5", refused}, {"5", "05", either}, {"x", "5", refused},
	} {
		post("lengths "+quotedName(v.first+"|"+v.second), v.must, hello,
			"Content-Length: "+v.first+"\r\nContent-Length: "+v.second+"\r\n", hello)
		post("lengths apart "+quotedName(v.first+"|"+v.second), v.must, hello,
			"Content-Length: "+v.first+"\r\nX: y\r\ncontent-length: "+v.second+"\r\n", hello)
	}

	// The coding of a body.
	codings := []struct{ value, must string }{
		{"chunked", accepted}, {"Chunked", accepted}, {"CHUNKED", accepted}, {" chunked ", accepted},
		{"\tchunked", accepted}, {"xchunked", refused}, {"chunkedx", refused},
		{"identity", refused}, {"gzip", refused}, {"gzip, chunked", refused}, {"chunked, gzip", refused},
		{"chunked, chunked", refused}, {"chunked, identity", refused},
		{"identity, chunked", refused}, {"chunked;q=1", refused}, {"\"chunked\"", refused}, {"'chunked'", refused},
		{"", refused}, {",chunked", either}, {"chunked,", either},
		{"chunked\x0b", refused}, {"\x0cchunked", refused}, {"chunked\x00", refused}, {"ch\xc3\xbcnked", refused},
		{"chun ked", refused}, {"chunked chunked", refused}, {"c hunked", refused},
	}
	for _, v := range codings {
		post("coding "+quotedName(v.value), v.must, hello, "Transfer-Encoding:"+v.value+"\r\n", helloChunks)
	}
	// Length and coding together: one is a lie.
	for _, coding := range []string{"chunked", " Chunked", "xchunked", "identity", "", "chunked, identity", "gzip"} {
		for _, length := range []string{"5", "15", "0", "3", "+5", ""} {
			sent := helloChunks
			post("length and coding "+quotedName(length+"|"+coding), refused, hello,
				"Content-Length: "+length+"\r\nTransfer-Encoding:"+coding+"\r\n", sent)
			post("coding and length "+quotedName(coding+"|"+length), refused, hello,
				"Transfer-Encoding:"+coding+"\r\nContent-Length: "+length+"\r\n", sent)
		}
	}
	// Fields that are nearly those, so that one reader sees them and another does not.
	for _, name := range []string{
		"%s ", "%s\t", " %s", "\t%s", "%s\x00", "%s\x0b", "%s\r", "X %s", "%s\xa0", "\xef\xbb\xbf%s", "%s\\", "(%s)",
		"%s;", "%s=", "%s,", "\"%s\"",
	} {
		for _, framing := range []struct{ name, value, sent string }{{"Content-Length", "5", hello},
			{"Transfer-Encoding", "chunked", helloChunks}} {
			must := refused
			if strings.HasPrefix(name, " ") || strings.HasPrefix(name, "\t") {
				must = either // a folded line of the Host field, which then is no host
			}
			c := post("named "+quotedName(fmt.Sprintf(name, framing.name)), must, "",
				fmt.Sprintf(name, framing.name)+": "+framing.value+"\r\nContent-Length: "+fmt.Sprint(len(framing.sent))+
					"\r\n", framing.sent)
			c.body = framing.sent
		}
	}

	// Ends of lines and folded lines.
	for name, text := range map[string]string{
		"the first line ends with LF": "GET /{id} HTTP/1.1\nHost: a\r\n\r\n",
		"a field ends with LF":        "GET /{id} HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
		"the head ends with LF":       "GET /{id} HTTP/1.1\r\nHost: a\r\n\n",
		"all lines end with LF":       "GET /{id} HTTP/1.1\nHost: a\n\n",
		"the first line ends with CR": "GET /{id} HTTP/1.1\rHost: a\r\n\r\n",
		"a field ends with CR":        "GET /{id} HTTP/1.1\r\nHost: a\rX: y\r\n\r\n",
		"CR CR LF":                    "GET /{id} HTTP/1.1\r\nHost: a\r\r\n\r\n",
		"CR CR LF at the end":         "GET /{id} HTTP/1.1\r\nHost: a\r\n\r\r\n\r\n",
		"LF CR":                       "GET /{id} HTTP/1.1\n\rHost: a\n\r\n\r\r\n\r\n",
		"a CR in a value":             "GET /{id} HTTP/1.1\r\nHost: a\r\nX: y\rz\r\n\r\n",
		"a CR before a value":         "GET /{id} HTTP/1.1\r\nHost: a\r\nX:\ry\r\n\r\n",
		"a NUL line":                  "GET /{id} HTTP/1.1\r\nHost: a\r\n\x00\r\n\r\n",
		"an empty line before":        "\r\nGET /{id} HTTP/1.1\r\nHost: a\r\n\r\n",
		"two empty lines before":      "\r\n\r\nGET /{id} HTTP/1.1\r\nHost: a\r\n\r\n",
		"LF before":                   "\nGET /{id} HTTP/1.1\r\nHost: a\r\n\r\n",
		"CR before":                   "\rGET /{id} HTTP/1.1\r\nHost: a\r\n\r\n",
		"a space before":              " GET /{id} HTTP/1.1\r\nHost: a\r\n\r\n",
		"a byte order mark before":    "\xef\xbb\xbfGET /{id} HTTP/1.1\r\nHost: a\r\n\r\n",
		"a fold at first":             "GET /{id} HTTP/1.1\r\n Host: a\r\n\r\n",
		"a fold":                      "GET /{id} HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n",
		"a fold by a tab":             "GET /{id} HTTP/1.1\r\nHost: a\r\nX: y\r\n\tz\r\n\r\n",
		"an empty fold":               "GET /{id} HTTP/1.1\r\nHost: a\r\nX: y\r\n \r\n\r\n",
		"a folded host":               "GET /{id} HTTP/1.1\r\nHost:\r\n a\r\n\r\n",
		"a folded coding": "GET /{id} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n" +
			"0\r\n\r\n",
		"a folded length":       "GET /{id} HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n 0\r\n\r\n",
		"a field within a fold": "GET /{id} HTTP/1.1\r\nHost: a\r\nX: y\r\n Content-Length: 5\r\n\r\n",
		"a coding within a fold": "GET /{id} HTTP/1.1\r\nHost: a\r\nX: y\r\n\tTransfer-Encoding: chunked\r\n" +
			"\r\n",
		"a fold with a NUL":              "GET /{id} HTTP/1.1\r\nHost: a\r\nX: y\r\n \x00\r\n\r\n",
		"no colon":                       "GET /{id} HTTP/1.1\r\nHost: a\r\nwhat\r\n\r\n",
		"no name":                        "GET /{id} HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n",
		"a colon alone":                  "GET /{id} HTTP/1.1\r\nHost: a\r\n:\r\n\r\n",
		"a space before the first colon": "GET /{id} HTTP/1.1\r\nHost : a\r\n\r\n",
	} {
		must := refused
		if strings.HasPrefix(name, "an empty line") || strings.HasPrefix(name, "two empty") ||
			strings.Contains(name, "fold") || name == "LF before" {
			must = either
		}
		add(name, must, "GET", "/{id}", "", text)
	}

	// The framing of chunks.
	for _, v := range []struct{ text, must string }{
		{helloChunks, accepted}, {"5\r\nhello\r\n000\r\n\r\n", accepted}, {"05\r\nhello\r\n0\r\n\r\n", accepted},
		{"000000000000005\r\nhello\r\n0\r\n\r\n", accepted},
		{"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", accepted}, {"1\r\nh\r\n1\r\ne\r\n3\r\nllo\r\n0\r\n\r\n", accepted},
		{"0x5\r\nhello\r\n0\r\n\r\n", refused}, {"+5\r\nhello\r\n0\r\n\r\n", refused},
		{"-5\r\nhello\r\n0\r\n\r\n", refused}, {" 5\r\nhello\r\n0\r\n\r\n", refused},
		{"5 \r\nhello\r\n0\r\n\r\n", either}, {"5\t\r\nhello\r\n0\r\n\r\n", either},
		{"5;e\r\nhello\r\n0\r\n\r\n", either}, {"5;e=f\r\nhello\r\n0;g\r\n\r\n", either},
		{"5;e=\"f\"\r\nhello\r\n0\r\n\r\n", either}, {"5 ;e\r\nhello\r\n0\r\n\r\n", either},
		{"5;\r\nhello\r\n0\r\n\r\n", either}, {"5;e\nhello\r\n0\r\n\r\n", refused},
		{"5;e\r;f\r\nhello\r\n0\r\n\r\n", refused}, {"5;\x00\r\nhello\r\n0\r\n\r\n", either},
		{"5;e=\"\r\n\"\r\nhello\r\n0\r\n\r\n", refused},
		{"5" + strings.Repeat(" ", 100) + "\r\nhello\r\n0\r\n\r\n", either},
		{"5\nhello\n0\n\n", refused}, {"5\nhello\r\n0\r\n\r\n", refused}, {"5\r\nhello\n0\r\n\r\n", refused},
		{"5\r\nhello\r\n0\n\r\n", refused}, {"5\rhello\r\n0\r\n\r\n", refused},
		{"\r\n5\r\nhello\r\n0\r\n\r\n", refused}, {"g\r\nhello\r\n0\r\n\r\n", refused},
		{"5g\r\nhello\r\n0\r\n\r\n", refused}, {"5_\r\nhello\r\n0\r\n\r\n", refused},
		{"5.\r\nhello\r\n0\r\n\r\n", refused},
		{"5,5\r\nhello\r\n0\r\n\r\n", refused}, {"\"5\"\r\nhello\r\n0\r\n\r\n", refused},
		{"5\x00\r\nhello\r\n0\r\n\r\n", refused}, {"\xd9\xa5\r\nhello\r\n0\r\n\r\n", refused},
		{"4\r\nhello\r\n0\r\n\r\n", refused}, {"5\r\nhello0\r\n\r\n", refused}, {"5\r\nhelloXX0\r\n\r\n", refused},
		{"ffffffffffffffff\r\nhello\r\n0\r\n\r\n", refused}, {"10000000000000005\r\nhello\r\n0\r\n\r\n", refused},
		{"8000000000000005\r\nhello\r\n0\r\n\r\n", refused}, {"0x\r\n\r\n", refused}, {"\r\n\r\n", refused},
		{"5\r\nhello\r\n-0\r\n\r\n", refused}, {"5\r\nhello\r\n0x0\r\n\r\n", refused},
		{"5\r\nhello\r\n0\r\nX: y\r\n\r\n", accepted}, {"5\r\nhello\r\n0\r\nX: y\r\nZ: z\r\n\r\n", accepted},
		{"5\r\nhello\r\n0\r\nX : y\r\n\r\n", either}, {"5\r\nhello\r\n0\r\nwhat\r\n\r\n", either},
		{"5\r\nhello\r\n0\r\nX: y\r\n z\r\n\r\n", either}, {"5\r\nhello\r\n0\r\n X: y\r\n\r\n", either},
		{"5\r\nhello\r\n0\r\nX: y\x00\r\n\r\n", either}, {"5\r\nhello\r\n0\r\nX: y\n\r\n", either},
		{"5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n", either},
		{"5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n", either},
		{"5\r\nhello\r\n0\r\nHost: b\r\n\r\n", either},
		{"5\r\nhello\r\n0\r\nX-Forwarded-For: 192.0.2.99\r\n\r\n", either}, {"5\r\nhello\r\n0\r\n: y\r\n\r\n", either},
		{"5\r\nhello\r\n0\r\n" + strings.Repeat("X: y\r\n", 50) + "\r\n", either},
	} {
		post("chunks "+quotedName(v.text), v.must, hello, "Transfer-Encoding: chunked\r\n", v.text)
	}
	post("an unusual name of the coding", accepted, hello, "TRANSFER-encoding: chunked\r\n", helloChunks)

	// Whom it is for.
	for _, v := range []struct{ line, must string }{
		{"Host: a", accepted}, {"host: a", accepted}, {"HOST:a", accepted}, {"Host:\ta\t", accepted},
		{"Host: A", accepted}, {"Host: a:80", accepted}, {"Host: a.", either},
		{"X: y", refused}, {"Host:", refused}, {"Host: ", refused}, {"Host: a\r\nHost: a", refused},
		{"Host: a\r\nHost: b", refused}, {"Host: a\r\nhost: a", refused}, {"Host: a\r\nX: y\r\nHOST: b", refused},
		{"Host: a\r\nHost:", refused}, {"Host: a, b", refused}, {"Host: a b", refused}, {"Host: a/b", refused},
		{"Host: a?b", refused}, {"Host: a#b", refused}, {"Host: u@a", refused}, {"Host: u:p@a", refused},
		{"Host: http://a", refused}, {"Host: a\\b", refused}, {"Host: a\x00", refused}, {"Host: a\x0b", refused},
		{"Host: \x7fa", refused}, {"Host: a\xc3\xa4", refused}, {"Host: a:", either}, {"Host: a:x", refused},
		{"Host: a:99999", either}, {"Host: a:-1", refused}, {"Host: a:80:80", refused}, {"Host: [::1", refused},
		{"Host: <a>", refused}, {"Host: a|b", refused}, {"Host: \"a\"", refused}, {"Host: a^", refused},
		{"Host: b", either}, {"Host: a_b", either}, {"Host: [::1]", either}, {"Host: %61", either},
		{"Host: a%00", refused}, {"Host: *", either}, {"Host: ..", either},
	} {
		add("host "+quotedName(v.line), v.must, "GET", "/{id}", "", "GET /{id} HTTP/1.1\r\n"+v.line+"\r\n\r\n")
	}
	for _, v := range []struct{ target, host, must string }{
		{"http://a/{id}", "a", accepted}, {"http://a:80/{id}", "a:80", either}, {"HTTP://a/{id}", "a", either},
		{"http://a/{id}", "b", either}, {"http://b/{id}", "a", either}, {"https://a/{id}", "a", either},
		{"ftp://a/{id}", "a", refused}, {"http://u@a/{id}", "a", refused}, {"http:///{id}", "a", refused},
		{"http:/{id}", "a", refused}, {"http:{id}", "a", refused}, {"a/{id}", "a", refused},
		{"//a/{id}", "a", either}, {"http://a", "a", either}, {"http://a?{id}", "a", either},
		{"http://a b/{id}", "a", refused}, {"javascript:{id}", "a", refused}, {"http://[::1]/{id}", "a", either},
	} {
		target := v.target
		if i := strings.Index(target, "//a"); i > 0 {
			target = target[i+3:]
			target = strings.TrimPrefix(target, ":80")
		}
		if !strings.HasPrefix(target, "/") {
			target = "/" + target
		}
		add("target "+quotedName(v.target)+" host "+v.host, v.must, "GET", target, "",
			"GET "+v.target+" HTTP/1.1\r\nHost: "+v.host+"\r\nX: {id}\r\n\r\n")
	}

	// Versions.
	for _, v := range []struct{ version, must string }{
		{"HTTP/1.1", accepted}, {"HTTP/1.0", accepted}, {"HTTP/1.2", either}, {"HTTP/1.9", either},
		{"HTTP/0.9", refused}, {"HTTP/2.0", refused}, {"HTTP/2", refused}, {"HTTP/3.0", refused},
		{"HTTP/1.10", refused}, {"HTTP/01.1", refused},
		{"HTTP/1.01", refused}, {"HTTP/1.1 ", refused}, {"HTTP/1.1\t", refused}, {"http/1.1", refused},
		{"Http/1.1", refused}, {"HTTP/ 1.1", refused}, {"HTTP 1.1", refused}, {"HTTP/1", refused}, {"HTTP/1.", refused},
		{"HTTP/.1", refused}, {"HTTP/11", refused}, {"HTTPS/1.1", refused}, {"HTTP/-1.1", refused},
		{"HTTP/1.1.1", refused}, {"HTTP/1,1", refused}, {"HTTP/1.x", refused}, {"HTTP/A.B", refused},
		{"HTTP\x00/1.1", refused}, {"ICY", refused}, {"", refused},
		{"RTSP/1.0", refused}, {"SIP/2.0", refused}, {"HTTP/1.1 x", refused}, {"\tHTTP/1.1", refused},
		{" HTTP/1.1", refused}, {"x HTTP/1.1", refused}, {"HTTP/1.1 HTTP/1.1", refused},
	} {
		add("version "+quotedName(v.version), v.must, "GET", "/{id}", "", "GET /{id} "+v.version+"\r\nHost: a\r\n\r\n")
	}
	for _, fields := range []string{"Transfer-Encoding: chunked\r\n",
		"Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n"} {
		add("HTTP/1.0 "+quotedName(fields), refused, "POST", "/{id}", hello,
			"POST /{id} HTTP/1.0\r\nHost: a\r\n"+fields+"\r\n"+helloChunks)
	}
	add("HTTP/1.0 with a length", accepted, "POST", "/{id}", hello,
		"POST /{id} HTTP/1.0\r\nHost: a\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello")
	add("HTTP/1.0 without a host", either, "GET", "/{id}", "", "GET /{id} HTTP/1.0\r\n\r\n")

	// Methods.
	for _, v := range []struct{ method, must string }{
		{"GET", accepted}, {"HEAD", accepted}, {"POST", accepted}, {"PUT", accepted}, {"DELETE", accepted},
		{"PATCH", accepted}, {"OPTIONS", accepted}, {"TRACE", refused}, {"CONNECT", refused}, {"PRI", either},
		{"get", either}, {"Get", either}, {"QUERY", either}, {"BREW", either}, {"PROPFIND", accepted},
		{"M-SEARCH", either}, {"!#$%&'*+-.^_`|~", either}, {"123", either}, {strings.Repeat("A", 33), either},
		{strings.Repeat("A", 300), either},
		{"G ET", refused}, {"GET\t", refused}, {"\"GET\"", refused}, {"G@T", refused}, {"GET\x00", refused},
		{"G\xc3\x89T", refused}, {"G(T", refused}, {"G/T", refused}, {"GET:", refused}, {"", refused},
		{"GET,POST", refused}, {"G\x7fT", refused}, {"{GET}", refused},
	} {
		add("method "+quotedName(v.method), v.must, v.method, "/{id}", "",
			v.method+" /{id} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
	}
	for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS", "PUT"} {
		add("a body with "+method, accepted, method, "/{id}", hello,
			method+" /{id} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
		add("chunks with "+method, accepted, method, "/{id}", hello,
			method+" /{id} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"+helloChunks)
	}
	for _, method := range []string{"GET", "POST", "OPTIONS", "HEAD"} {
		must := refused
		if method == "OPTIONS" {
			must = either // the proxy may answer it itself
		}
		add(method+" *", must, method, "*", "", method+" * HTTP/1.1\r\nHost: a\r\nX: {id}\r\nContent-Length: 0\r\n\r\n")
	}
	add("CONNECT a:443", refused, "CONNECT", "a:443", "", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\nX: {id}\r\n\r\n")

	// Every kind of byte in a target.
	for c := range 256 {
		if c > 0x21 && c < 0x7f && !strings.ContainsRune("\"#%<>\\^`{|}?*'[", rune(c)) || c > 0x81 && c != 0xa0 &&
			c != 0xff {
			continue
		}
		must := accepted
		switch {
		case c <= ' ', c == 0x7f, c == '%':
			must = refused
		case c == '#', c > 0x7f:
			must = refused
		case strings.ContainsRune("\"<>\\^`{|}[", rune(c)):
			must = either
		}
		b := string([]byte{byte(c)})
		add("target with "+quotedName(b), must, "GET", "/{id}"+b+"z", "", "GET /{id}"+b+"z HTTP/1.1\r\nHost: a\r\n\r\n")
		if must = either; c <= ' ' || c >= 0x7f || c == '#' {
			must = refused
		}
		add("query with "+quotedName(b), must, "GET", "/{id}?x"+b+"z", "",
			"GET /{id}?x"+b+"z HTTP/1.1\r\nHost: a\r\n\r\n")
	}
	for _, v := range []struct{ target, must string }{
		{"/{id}/%2e%2e/x", accepted}, {"/{id}/../x", either}, {"/{id}/./x", either}, {"//{id}", either},
		{"/{id}//x", either}, {"/{id};x=y", accepted}, {"/{id}?", accepted}, {"/{id}??", accepted},
		{"/{id}?a=b&c=%20", accepted},
		{"/{id}%00", either}, {"/{id}%0d%0aX:%20y", either}, {"/{id}%2f", either}, {"/{id}%zz", refused},
		{"/{id}%", refused}, {"/{id}%2", refused}, {"/{id}?%zz", either}, {"?{id}", refused}, {"{id}", refused},
		{"", refused}, {"\\{id}", refused},
		{"/{id}" + strings.Repeat("x", 4000), accepted}, {"/{id}" + strings.Repeat("x", 30000), either},
		{"/{id}" + strings.Repeat("x", 100_000), refused}, {"/%7b{id}", accepted}, {"/{id}%C3%A9", accepted},
		{"/{id}\u00a0", refused}, {"/{id} /x", refused}, {"/{id}  ", refused},
	} {
		add("target "+quotedName(v.target), v.must, "GET", v.target, "", "GET "+v.target+" HTTP/1.1\r\nHost: a\r\n\r\n")
	}

	// Every kind of byte in the name and in the value of a field.
	for c := range 256 {
		b, usual := string([]byte{byte(c)}), c == '-' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if c == '\n' || usual && c != 'a' && c != '0' || c > 0x80 && c != 0xff {
			continue
		}
		must := refused
		switch {
		case usual:
			must = accepted
		case strings.ContainsRune("!#$%&'*+.^_`|~", rune(c)), c == ':':
			must = either
		}
		get("name with "+quotedName(b), must, "X"+b+"Y: z\r\n")
		if must = accepted; c < ' ' && c != '\t' || c == 0x7f {
			must = refused
		} else if c > 0x7f {
			must = either
		}
		get("value with "+quotedName(b), must, "X: y"+b+"z\r\n")
	}
	get("an empty value", accepted, "X:\r\n")
	get("many fields", either, strings.Repeat("X: y\r\n", 99))
	get("too many fields", either, strings.Repeat("X: y\r\n", 20_000))
	get("a long name", either, strings.Repeat("x", 3000)+": y\r\n")
	get("a long value", either, "X: "+strings.Repeat("y", 7000)+"\r\n")
	get("a value that is too long", refused, "X: "+strings.Repeat("y", 200_000)+"\r\n")

	// What is for one connection.
	for _, v := range []struct{ fields, must string }{
		{"Connection: keep-alive", accepted}, {"Connection: close", accepted}, {"Connection: close, close", accepted},
		{"Connection: x, y", accepted}, {"Connection: ,", either}, {"Connection:", accepted},
		{"Connection: \x00", refused},
		{"Connection: Host", either}, {"Connection: Content-Length", either}, {"Connection: Transfer-Encoding", either},
		{"Connection: X-Forwarded-For", accepted}, {"Connection: Forwarded", accepted},
		{"Connection: close\r\nConnection: keep-alive", accepted},
		{"Keep-Alive: timeout=1", accepted}, {"Proxy-Connection: close", accepted}, {"TE: trailers", accepted},
		{"TE: chunked;q=0", accepted}, {"Trailer: X", accepted}, {"Trailer: Content-Length", either},
		{"Upgrade: websocket\r\nConnection: Upgrade", either},
		{"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA", either},
		{"Expect: 100-continue", accepted}, {"Expect: 100-Continue", accepted}, {"Expect: 200-ok", either},
		{"Expect: 100-continue, x", either}, {"Expect:", either},
		{"Max-Forwards: 0", accepted}, {"Cookie: a=b; c=d", accepted}, {"Cookie: a=b\r\nCookie: c=d", accepted},
		{"Content-Encoding: gzip", accepted}, {"Content-Type: application/grpc", either},
	} {
		post("hop "+quotedName(v.fields), v.must, hello, v.fields+"\r\nContent-Length: 5\r\n", hello)
		post("hop with chunks "+quotedName(v.fields), v.must, hello, v.fields+"\r\nTransfer-Encoding: chunked\r\n",
			helloChunks)
	}

	// What only a proxy may say.
	for _, name := range []string{
		"X-Forwarded-For", "x-forwarded-for", "X_Forwarded_For", "X-Forwarded_For", "X.Forwarded.For",
		"X-Forwarded-Host", "X_Forwarded_Host", "X-Forwarded-Proto", "X_FORWARDED_PROTO", "X-Real-Ip", "X_Real_Ip",
		"Forwarded",
		"X-Forwarded-Prefix", "X-Forwarded-Anything", "Content_Length", "Transfer_Encoding", "Verge-Hold", "Verge_Hold",
	} {
		get("said by the client: "+name, accepted, name+": 192.0.2.99\r\n").absent = "192.0.2.99"
	}
	get("another name with underscores", either, "Api_Key: k\r\n")

	// The same on a connection whose first request has left the fast path.
	first := "POST /{id}first HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
	for _, c := range slices.Clone(all) {
		if strings.HasPrefix(c.name, "length ") || strings.HasPrefix(c.name, "coding ") ||
			strings.HasPrefix(c.name, "chunks ") || strings.HasPrefix(c.name, "host ") {
			c.name, c.text = "later: "+c.name, first+c.text
			all = append(all, c)
		}
	}
	return all
}

// corpusH2Case is a request of HTTP/2.
type corpusH2Case struct {
	name   string
	fields []string
	body   []byte // nil: there is none
	must   string
	// What it means where it is accepted.
	method, target string
}

func corpusH2() (all []corpusH2Case) {
	add := func(name, must, method, target string, body []byte, fields ...string) {
		all = append(all, corpusH2Case{name, fields, body, must, method, target})
	}
	request := func(name, must, method, authority, target string, more ...string) {
		add(name, must, method, target, nil,
			append([]string{":method", method, ":scheme", "http", ":authority", authority, ":path", target},
				more...)...)
	}
	for _, v := range []struct{ method, must string }{
		{"GET", accepted}, {"HEAD", accepted}, {"POST", accepted}, {"OPTIONS", accepted}, {"TRACE", refused},
		{"CONNECT", refused}, {"get", either}, {"G ET", refused}, {"GET /x HTTP/1.1", refused}, {"", refused},
		{"G\x00T", refused}, {"GET\r\nX: y", refused}, {"G\xc3\x89T", refused},
	} {
		request("method "+quotedName(v.method), v.must, v.method, "a", "/{id}")
	}
	for _, v := range []struct{ target, must string }{
		{"/{id} HTTP/1.1\r\nX: y", refused}, {"/{id} HTTP/1.1", refused}, {"/{id}?a b", refused}, {"/{id}#x", refused},
		{"/{id}?#x", refused}, {"/{id}\xc3\xa9", refused}, {"/{id}\x7f", refused}, {"/{id}\x00", refused},
		{"/{id}\t", refused}, {"", refused}, {"{id}", refused}, {"*", refused},
		{"http://a/{id}", refused}, {"//{id}", either}, {"/{id}%20", accepted}, {"/{id}%zz", refused},
		{"/{id}?%zz", either}, {"/{id}/../x", either}, {"/{id}?a=b", accepted}, {"?{id}", refused}, {"\\{id}", refused},
		{" /{id}", refused}, {"/{id}\"<>", either},
	} {
		request("path "+quotedName(v.target), v.must, "GET", "a", v.target)
	}
	for _, v := range []struct{ authority, must string }{
		{"A", accepted}, {"a:80", accepted}, {"a b", refused}, {"a/b", refused}, {"u@a", refused},
		{"a\r\nX: y", refused}, {"a#", refused}, {"a\xc3\xa4", refused}, {"b", either},
	} {
		request("authority "+quotedName(v.authority), v.must, "GET", v.authority, "/{id}")
	}
	for _, v := range []struct {
		fields []string
		must   string
	}{
		{[]string{"host", "a"}, accepted}, {[]string{"host", "b"}, refused},
		{[]string{"host", "a", "host", "b"}, refused}, {[]string{"connection", "close"}, refused},
		{[]string{"transfer-encoding", "chunked"}, refused}, {[]string{"keep-alive", "x"}, refused},
		{[]string{"proxy-connection", "x"}, refused}, {[]string{"upgrade", "h2c"}, refused},
		{[]string{"te", "trailers"}, accepted}, {[]string{"te", "gzip"}, refused},
		{[]string{"content-length", "5"}, refused}, {[]string{"content-length", "x"}, refused},
		{[]string{"content-length", "0"}, accepted},
		{[]string{"X", "y"}, refused}, {[]string{"x y", "z"}, refused}, {[]string{"x:", "y"}, refused},
		{[]string{"", "y"}, refused}, {[]string{"x", "y\r\nz: z"}, refused}, {[]string{"x", "y\nz"}, refused},
		{[]string{"x", "y\x00"}, refused}, {[]string{"x", " y"}, either}, {[]string{":x", "y"}, refused},
		{[]string{":path", "/{id}other"}, refused}, {[]string{"x", "y", ":method", "GET"}, refused},
		{[]string{"cookie", "a=b", "cookie", "c=d"}, accepted}, {[]string{"x_forwarded_for", "192.0.2.99"}, either},
		{[]string{"x", "\xe9"}, either},
	} {
		request("field "+quotedName(strings.Join(v.fields, "|")), v.must, "GET", "a", "/{id}", v.fields...)
	}
	for _, v := range []struct{ length, must string }{
		{"", accepted}, {"5", accepted}, {"4", refused}, {"6", refused}, {"0", refused}, {"+5", refused},
		{"-5", refused}, {"x", refused}, {"05", either},
	} {
		fields := []string{":method", "POST", ":scheme", "http", ":authority", "a", ":path", "/{id}"}
		if v.length != "" {
			fields = append(fields, "content-length", v.length)
		}
		add("a body of length "+quotedName(v.length), v.must, "POST", "/{id}", []byte(hello), fields...)
	}
	return all
}
