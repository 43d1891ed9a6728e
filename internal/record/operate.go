package record

import "time"

// What people do to what runs: records of it, questions and answers.

// Scaled notes that the number of replicas of a service was set by a command and
// not by a file, so that the next file that says something else can say so.
type Scaled struct {
	Replicas int       `json:"replicas"`
	By       string    `json:"by"`
	At       time.Time `json:"at"`
}
