package cgi

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts" // the rules for names and values of header fields
)

const (
	// MaxHead bounds the head of an answer, in bytes; as that of requests.
	MaxHead   = 64 << 10
	maxFields = 256
)

// hop are the hop-by-hop fields (RFC 9110, section 7.6.1): a function is no end of a connection.
var hop = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true,
	"Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// Variables are those of RFC 3875 for a request, as KEY=value. own are the names that
// the service has set itself: a field of a request must not replace them.
func Variables(r *http.Request, own map[string]bool) []string {
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		host, port = r.Host, "80"
	}
	remote, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		remote = r.RemoteAddr
	}
	vars := []string{
		"GATEWAY_INTERFACE=CGI/1.1",
		"PATH_INFO=" + r.URL.Path,
		"QUERY_STRING=" + r.URL.RawQuery,
		"REMOTE_ADDR=" + remote,
		"REMOTE_HOST=" + remote,
		"REQUEST_METHOD=" + r.Method,
		"REQUEST_URI=" + r.URL.RequestURI(),
		"SCRIPT_NAME=",
		"SERVER_NAME=" + host,
		"SERVER_PORT=" + port,
		"SERVER_PROTOCOL=" + r.Proto,
		"SERVER_SOFTWARE=verge",
		"HTTP_HOST=" + r.Host,
	}
	if r.ContentLength > 0 {
		vars = append(vars, "CONTENT_LENGTH="+strconv.FormatInt(r.ContentLength, 10))
	}
	for name, values := range r.Header {
		switch name {
		case "Content-Type":
			vars = append(vars, "CONTENT_TYPE="+strings.Join(values, ", "))
			continue
		case "Content-Length", "Proxy", "Host": // HTTP_PROXY would be taken for a setting: httpoxy.org
			continue
		}
		key, ok := variable(name)
		if !ok || hop[name] || own[key] {
			continue
		}
		sep := ", "
		if name == "Cookie" {
			sep = "; "
		}
		vars = append(vars, key+"="+strings.Join(values, sep))
	}
	for i, v := range vars { // a path may have one, written %00
		vars[i] = strings.ReplaceAll(v, "\x00", "")
	}
	return vars
}

// variable is the name of the variable of a field. Two fields must not have the same,
// which is so where one has an underscore.
func variable(field string) (string, bool) {
	var b strings.Builder
	b.WriteString("HTTP_")
	for i := range len(field) {
		switch c := field[i]; {
		case 'a' <= c && c <= 'z':
			b.WriteByte(c - 'a' + 'A')
		case 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
			b.WriteByte(c)
		case c == '-':
			b.WriteByte('_')
		default:
			return "", false
		}
	}
	return b.String(), true
}

// Head is that of an answer.
type Head struct {
	Status int
	Fields http.Header
}

// errNotCGI is wrapped by the errors about what a module wrote.
var errNotCGI = errors.New("what it wrote is no CGI response")

// NotCGI is the error of an answer that is none.
func NotCGI(detail string, args ...any) error {
	return fmt.Errorf("%w: %s", errNotCGI, fmt.Sprintf(detail, args...))
}

// SplitHead finds the end of a head in what was written so far. ok is false where
// more has to be read.
func SplitHead(b []byte) (text, body []byte, ok bool) {
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return nil, nil, false
		}
		line := bytes.TrimSuffix(b[at:at+i], []byte("\r"))
		if len(line) == 0 {
			return b[:at], b[at+i+1:], true
		}
		at += i + 1
	}
}

// ParseHead reads the head of a CGI response (RFC 3875, 6): fields, each on a line,
// one of which must be Content-Type, Location or Status.
func ParseHead(text []byte) (Head, error) {
	h := Head{Fields: http.Header{}}
	n := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			continue // behind the last
		}
		if n++; n > maxFields {
			return Head{}, NotCGI("it has more than %d header fields", maxFields)
		}
		name, value, ok := strings.Cut(line, ":")
		value = textproto.TrimString(value)
		switch {
		case !ok || !httpguts.ValidHeaderFieldName(name):
			return Head{}, NotCGI("%.80q is no header field; begin with Content-Type: text/plain and an empty line", line)
		case !httpguts.ValidHeaderFieldValue(value):
			return Head{}, NotCGI("the value of %s has characters that are not allowed", name)
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case name == "Status":
			if h.Status != 0 {
				return Head{}, NotCGI("it has two Status fields")
			}
			code, _, _ := strings.Cut(value, " ")
			status, err := strconv.Atoi(code)
			if err != nil || len(code) != 3 || status < 200 || status > 599 {
				return Head{}, NotCGI("Status %.40q is none from 200 to 599", value)
			}
			h.Status = status
		case name == "Content-Length":
			size, err := strconv.ParseUint(value, 10, 63)
			if err != nil || h.Fields.Get(name) != "" || value != strconv.FormatUint(size, 10) {
				return Head{}, NotCGI("Content-Length %.40q is no length, or is there twice", value)
			}
			h.Fields.Set(name, value)
		case hop[name]:
		default:
			h.Fields.Add(name, value)
		}
	}
	switch {
	case h.Status != 0:
	case h.Fields.Get("Location") != "":
		h.Status = http.StatusFound
	case h.Fields.Get("Content-Type") != "":
		h.Status = http.StatusOK
	default:
		return Head{}, NotCGI("it has none of Content-Type, Status and Location")
	}
	return h, nil
}
