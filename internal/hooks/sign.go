package hooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
)

// The headers of Standard Webhooks 1.0.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

const (
	secretPrefix = "whsec_"
	minSecret    = 24
	maxSecret    = 64
)

var errSecret = errors.New("it must be whsec_ and 24 to 64 bytes in base64; make one with: printf 'whsec_%s' " +
	"\"$(openssl rand -base64 32)\"")

// ParseSecret reads a secret as people keep it: whsec_ and 24 to 64 bytes in base64.
// The error has nothing of it.
func ParseSecret(text string) ([]byte, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), secretPrefix)
	if !ok || len(rest) > 2*maxSecret {
		return nil, errSecret
	}
	key, err := base64.StdEncoding.DecodeString(rest)
	if err != nil || len(key) < minSecret || len(key) > maxSecret {
		return nil, errSecret
	}
	return key, nil
}

// Sign is the value of the signature's header for a message: one signature for each
// key, so that a receiver may know either.
func Sign(id string, at time.Time, body string, keys ...[]byte) string {
	var out []string
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp(at) + "." + body))
		out = append(out, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(out, " ")
}

func timestamp(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
