package eject

import (
	"testing"
	"time"
)

func TestOutlier(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var o Outlier
	answer := func(failed bool) (ejected bool) {
		o, ejected = o.Answered(now, failed)
		return ejected
	}
	for i := range 20 {
		if answer(i%OutlierAfter != 0) {
			t.Fatal("ejected for failures that were not in a row")
		}
	}
	answer(false)
	for i := range OutlierAfter {
		if ejected := answer(true); ejected != (i == OutlierAfter-1) {
			t.Fatalf("failure %d: ejected %v", i, ejected)
		}
	}
	last := time.Duration(0)
	for i := range 12 {
		until, out := o.Out(now)
		if !out {
			t.Fatal("not out")
		}
		if answer(true) {
			t.Fatal("ejected again while it is")
		}
		d := until.Sub(now)
		if i > 0 && d != min(2*last, MaxOut) {
			t.Fatalf("out for %v after %v", d, last)
		}
		last, now = d, until
		if _, out := o.Out(now); out {
			t.Fatal("out when its time is over")
		}
		if !answer(true) {
			t.Fatal("one failed answer after it came back does not eject")
		}
	}
	now = now.Add(MaxOut)
	answer(false)
	now = now.Add(Forget + time.Second)
	answer(false)
	for range OutlierAfter {
		answer(true)
	}
	if until, _ := o.Out(now); until.Sub(now) != FirstOut {
		t.Fatalf("out for %v after a clean time", until.Sub(now))
	}
}

func TestPanicRule(t *testing.T) {
	for n := range 20 {
		out := 0
		for MayEject(n, out) {
			out++
		}
		if out != n/2 {
			t.Errorf("%d of %d may be out", out, n)
		}
	}
}

func TestRetryBudget(t *testing.T) {
	var b Budget
	retries := 0
	retry := func() {
		var ok bool
		if b, ok = b.Retry(); ok {
			retries++
		}
	}
	for range 100 {
		retry()
	}
	if retries != retryBurst {
		t.Fatalf("%d retries at once", retries)
	}
	retries = 0
	for range 1000 {
		b = b.Request()
		retry()
	}
	if retries < 190 || retries > 210 {
		t.Fatalf("%d retries of 1000 requests", retries)
	}
}
