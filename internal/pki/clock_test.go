package pki

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// machine is a machine with a clock on the wall that can be set, and a data
// directory.
type machine struct {
	dir  string
	wall time.Time
	up   time.Duration // what no setting of the clock changes
}

func newMachine(t *testing.T, wall time.Time) *machine {
	t.Helper()
	return &machine{dir: filepath.Join(t.TempDir(), "state"), wall: wall}
}

// start is a process that starts; keep as newClock has it.
func (m *machine) start(keep bool) *Clock {
	return newClock(m.dir, keep, func() time.Time { return m.wall }, func() time.Duration { return m.up })
}

// pass lets time pass.
func (m *machine) pass(d time.Duration) { m.wall, m.up = m.wall.Add(d), m.up+d }

func certAt(made, expires time.Time) *x509.Certificate {
	return &x509.Certificate{NotBefore: made.Add(-backdate), NotAfter: expires}
}

// own is a certificate made at now for a year.
func own() *x509.Certificate { return certAt(now, now.Add(year)) }

func wantTime(t *testing.T, what string, got, want time.Time) {
	t.Helper()
	if !got.Equal(want) {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func TestABoardThatBootsIn1970GoesOnFromWhatItKnew(t *testing.T) {
	t.Parallel()
	m := newMachine(t, now.Add(time.Hour))
	m.start(true).Own(own())
	for range 3 {
		m.wall = time.Unix(100, 0)
		c := m.start(true)
		wantTime(t, "before it looked at its certificate", c.Now(), time.Unix(100, 0))
		c.Own(own())
		wantTime(t, "after the boot", c.Now(), now.Add(time.Hour))
		m.pass(30 * time.Minute)
		wantTime(t, "later", c.Now(), now.Add(90*time.Minute))
		// Its clock is set at last.
		m.wall = now.Add(48 * time.Hour)
		wantTime(t, "when the clock is set", c.Now(), now.Add(48*time.Hour))
	}
	// One that knows nothing but its certificate.
	m = newMachine(t, time.Unix(100, 0))
	c := m.start(true)
	wantTime(t, "before it joined", c.Now(), time.Unix(100, 0))
	c.Own(own())
	wantTime(t, "when it has joined", c.Now(), now)
	m.wall = time.Unix(50, 0)
	c = m.start(true)
	c.Own(own())
	wantTime(t, "after its next boot", c.Now(), now)
}

func TestAClockAYearBehind(t *testing.T) {
	t.Parallel()
	m := newMachine(t, now.Add(30*day))
	m.start(true).Own(own())
	m.wall = m.wall.Add(-year)
	c := m.start(true)
	c.Own(own())
	wantTime(t, "a year behind", c.Now(), now.Add(30*day))
	m.wall = m.wall.Add(year + time.Minute)
	wantTime(t, "set right", c.Now(), now.Add(30*day+time.Minute))
}

// A clock that runs ahead makes every certificate look expired. When it is set
// right everything is as before, with and without a restart, whatever was stored
// meanwhile.
func TestAClockThatRanAhead(t *testing.T) {
	t.Parallel()
	right := now.Add(30 * day)
	for name, ahead := range map[string]time.Time{
		"within the certificate": now.Add(200 * day), "a year": right.Add(year), "fourteen years": right.Add(14 * year),
	} {
		m := newMachine(t, right)
		m.start(true).Own(own())
		m.wall = ahead
		c := m.start(true)
		c.Own(own())
		wantTime(t, name+": while it is ahead", c.Now(), ahead)
		m.wall = right.Add(time.Hour)
		wantTime(t, name+": when it is set", c.Now(), right.Add(time.Hour))
		c = m.start(true)
		c.Own(own())
		wantTime(t, name+": at the next start", c.Now(), right.Add(time.Hour))
		// A peer whose certificate would have expired by then settles it.
		if err := c.Check(valid(now, now.Add(190*day))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		m.wall = time.Unix(5, 0)
		c = m.start(true)
		c.Own(own())
		if got := c.Now(); got.Sub(right).Abs() > 2*time.Hour {
			t.Errorf("%s: at a boot in 1970 after that: %s", name, got)
		}
	}
}

// valid is the verification of a certificate.
func valid(from, to time.Time) func(time.Time) error {
	return func(at time.Time) error {
		if at.Before(from) || at.After(to) {
			return x509.CertificateInvalidError{Reason: x509.Expired}
		}
		return nil
	}
}

// Where the wall and memory disagree, a certificate that is valid at only one of
// the two decides.
func TestAPeerDecidesBetweenTwoTimes(t *testing.T) {
	t.Parallel()
	before := now.Add(100 * day)
	// again is a start with the wall at a time, after one at before.
	again := func(wall time.Time) *Clock {
		m := newMachine(t, before)
		m.start(true).Own(own())
		m.wall = wall
		c := m.start(true)
		c.Own(own())
		return c
	}
	// The clock begins again where the system was installed, after the own
	// certificate was made: the wall is believed until a peer shows better.
	c := again(now.Add(10 * day))
	if err := c.Check(valid(now, now.Add(200*day))); err != nil {
		t.Errorf("valid at both: %v", err)
	}
	wantTime(t, "undecided", c.Now(), now.Add(10*day))
	if err := c.Check(valid(now.Add(50*day), now.Add(200*day))); err != nil {
		t.Errorf("valid at the remembered time: %v", err)
	}
	wantTime(t, "memory is believed", c.Now(), before)
	if err := c.Check(valid(now.Add(5*year), now.Add(6*year))); err == nil {
		t.Error("a certificate of the future was accepted")
	}
	// Another fault is never forgiven, nor one without a doubt.
	other := errors.New("another root")
	if err := c.Check(func(time.Time) error { return other }); !errors.Is(err, other) {
		t.Errorf("%v", err)
	}
	c = again(before)
	if err := c.Check(valid(before.Add(day), before.Add(2*day))); err == nil {
		t.Error("not yet valid, and there is no doubt: accepted")
	}
	if err := c.Check(valid(now, before.Add(-day))); err == nil {
		t.Error("expired, and there is no doubt: accepted")
	}
	// Memory is that of a clock that ran ahead, and the own certificate was made
	// by an authority that did.
	c = again(now.Add(-5 * day))
	wantTime(t, "memory first", c.Now(), before)
	if err := c.Check(valid(now.Add(-10*day), now.Add(50*day))); err != nil {
		t.Errorf("valid by the wall: %v", err)
	}
	wantTime(t, "the wall is believed", c.Now(), now.Add(-5*day))
}

func TestTheStoredTime(t *testing.T) {
	t.Parallel()
	m := newMachine(t, now)
	path := filepath.Join(m.dir, clockFile)
	m.start(true).Own(own())
	wantTime(t, "first start", readClock(path), now)
	m.pass(30 * time.Minute)
	m.start(true).Own(own())
	wantTime(t, "not each time", readClock(path), now)
	m.pass(30 * time.Minute)
	m.start(false).Own(own())
	wantTime(t, "not by a reader", readClock(path), now)
	m.start(true).Own(own())
	wantTime(t, "once an hour", readClock(path), now.Add(time.Hour))
	// A damaged file is as good as none, and is repaired.
	for _, text := range []string{"", "rubbish", "2026-03", string(make([]byte, 1000))} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := m.start(true)
		c.Own(own())
		wantTime(t, text, c.Now(), now.Add(time.Hour))
		wantTime(t, text+" on disk", readClock(path), now.Add(time.Hour))
	}
	// A place that cannot be written is no reason to fail.
	m.dir = filepath.Join(path, "below-a-file")
	c := m.start(true)
	c.Own(own())
	wantTime(t, "unwritable", c.Now(), now.Add(time.Hour))
	if got := OpenClock(t.TempDir()).Now(); time.Until(got).Abs() > time.Minute {
		t.Errorf("a clock without history says %v", got)
	}
}
