package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/netresearch/go-cron" // what the five fields mean, with names, steps and lists; time zones are done here
)

// Schedule is when a job is to run: five fields of cron in a time zone. It is not changed
// once it is there, and may be used by several goroutines.
//
// In a time zone with daylight saving, a time of day that a change of the clock leaves out
// is due at the change, and one that it repeats is due the first time only. A schedule of
// every hour goes by the clock on the wall: what is left out is left out, what comes twice
// is due twice, as the hours are.
type Schedule struct {
	spec   cron.Schedule
	zone   *time.Location
	hourly bool
}

// maxSchedule is how long the five fields may be, in bytes; leapYears how far a next time
// may be away: the 29th of February is missing for eight years around 2100, and is a
// certain day of the week every 40 years in the worst case.
const (
	maxSchedule = 200
	leapYears   = 48
)

// ParseSchedule reads five fields of cron (minute, hour, day of the month, month, day of the
// week) for the time zone of that name in the IANA database; "" is UTC. Its errors say what
// is wrong with them, without their names.
func ParseSchedule(fields, zone string) (*Schedule, error) {
	loc, err := ParseZone(zone)
	if err != nil {
		return nil, err
	}
	parts := strings.Fields(fields)
	if len(fields) > maxSchedule || len(parts) != 5 {
		return nil, fmt.Errorf("five fields are wanted: minute, hour, day of the month, month, day of the week")
	}
	if strings.HasPrefix(fields, "@") || strings.Contains(parts[0], "=") {
		return nil, fmt.Errorf("five fields are wanted, without a name or a time zone among them")
	}
	parts[4] = sunday(parts[4])
	parser, err := cron.TryNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom)
	if err != nil {
		return nil, err
	}
	spec, err := parser.WithMaxSearchYears(leapYears).Parse(strings.Join(parts, " "))
	if err != nil {
		return nil, err
	}
	s := &Schedule{spec: spec, zone: loc}
	if f, ok := spec.(*cron.SpecSchedule); ok {
		const day = 1<<24 - 1
		s.hourly = f.Hour&day == day
	}
	if s.spec.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fmt.Errorf("there is no such day in any year")
	}
	return s, nil
}

// sunday writes the day of the week 7 as 0: both are Sunday in crontab(5).
func sunday(field string) string {
	list := strings.Split(field, ",")
	for k, item := range list {
		switch item {
		case "7":
			list[k] = "0"
		default:
			if from, ok := strings.CutSuffix(item, "-7"); ok && from != "" {
				list[k] = from + "-6,0"
			}
		}
	}
	return strings.Join(list, ",")
}

// ParseZone is a time zone by its name; "" is UTC.
func ParseZone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	if name == "Local" || len(name) > 64 {
		return nil, fmt.Errorf("is not a time zone that is the same everywhere")
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("is not a time zone that is known here")
	}
	return loc, nil
}

// Next is the first time at which the schedule is due after a time, to the second; zero if
// there is none within half a century.
func (s *Schedule) Next(after time.Time) time.Time {
	t := after.Round(0)
	for range 4 * leapYears { // a zone has two changes a year; few had four
		at := t.In(s.zone)
		start, end := at.ZoneBounds()
		_, offset := at.Zone()
		if !start.IsZero() && !s.hourly {
			// What the change repeats was due before it.
			_, before := start.Add(-time.Second).In(s.zone).Zone()
			if again := start.Add(time.Duration(before-offset) * time.Second).Add(-time.Nanosecond); before > offset &&
				t.Before(again) {
				t = again
			}
		}
		next := s.wall(t, offset)
		if next.IsZero() {
			return next
		}
		if end.IsZero() || next.Before(end) {
			return next.In(s.zone)
		}
		_, then := end.In(s.zone).Zone()
		if then > offset && !s.hourly && next.Before(end.Add(time.Duration(then-offset)*time.Second)) {
			return end.In(s.zone) // it is left out by the change
		}
		// The first instant after the change is looked at as well.
		t = end.Add(-time.Nanosecond)
		if next = s.wall(t, then); next.Equal(end) && (s.hourly || then >= offset) {
			return next.In(s.zone)
		}
		t = end
	}
	return time.Time{}
}

// wall is the next time where clocks are always offset seconds ahead of UTC.
func (s *Schedule) wall(after time.Time, offset int) time.Time {
	return s.spec.Next(after.In(time.FixedZone("", offset)))
}

// Zone of the schedule.
func (s *Schedule) Zone() *time.Location { return s.zone }
