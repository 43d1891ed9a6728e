package schema

import (
	"github.com/verge-edge/verge/api"
)

// jobRows are the fields of services that end.
func jobRows() []FieldSpec {
	return []FieldSpec{
		{Path: "services.*.job",
			Note: "The service runs to completion (see [jobs](concepts.md#jobs)). An instance that ended with exit code 0 has " +
				"completed; any other is run again, after the delays of restart, which double. Each index runs at least once. " +
				"`{}` takes the defaults."},
		{Path: "services.*.job.completions", Default: "1", Min: 1, Max: api.MaxReplicas,
			Note: "Indexes that are to complete, from 0 on. An instance finds its own in VERGE_JOB_INDEX, and their number in " +
				"VERGE_JOB_COMPLETIONS."},
		{Path: "services.*.job.parallelism", Default: "1", Min: 1, Max: api.MaxReplicas,
			Note: "How many of them run at a time, in all clusters together."},
		{Path: "services.*.job.retries", Default: "6", Max: 1000,
			Note: "How often an index is run again that failed, or whose worker was lost; then it has failed. The others go " +
				"on, and when they have ended the job has failed."},
		{Path: "services.*.job.deadline", Min: 1e9, Max: int64(api.MaxDuration),
			Note: "Time for the whole job, from when a cluster has it. What has not completed by then is ended, and the job " +
				"has failed."},
		{Path: "services.*.job.keep", Default: "24h", Max: int64(api.MaxDuration),
			Note: "How long the logs of what has ended stay on its worker."},
		{Path: "services.*.job.suspend", Default: "false",
			Note: "Nothing more of it is started; what runs goes on. The deadline goes on as well. With a schedule: no run " +
				"begins by it, and what was begun is completed."},
	}
}
