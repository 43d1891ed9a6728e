package wire

import "time"

// What people do to what runs: records of it, questions and answers.

// Scaled notes that the number of replicas of a service was set by a command and
// not by a file, so that the next file that says something else can say so.
type Scaled struct {
	Replicas int       `json:"replicas"`
	By       string    `json:"by"`
	At       time.Time `json:"at"`
}

// ScaleRequest asks for another number of replicas of a service.
type ScaleRequest struct {
	Replicas int `json:"replicas" minimum:"0" maximum:"10000" doc:"how many instances are to run"`
}
