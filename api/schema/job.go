package schema

import (
	"github.com/verge-edge/verge/api"
)

// jobRows are the fields of services that end.
func jobRows() []FieldSpec {
	return []FieldSpec{
		{Path: "services.*.job",
			Note: "The service runs to completion (see [jobs](concepts.md#jobs)). An instance that exits with 0 " +
				"has completed; any other runs again, after the doubling delays of restart. Each index runs at " +
				"least once. `{}` takes the defaults."},
		{Path: "services.*.job.completions", Default: "1", Min: 1, Max: api.MaxReplicas,
			Note: "Number of indexes to complete, from 0 on. An instance finds its own in VERGE_JOB_INDEX, and " +
				"the number in VERGE_JOB_COMPLETIONS."},
		{Path: "services.*.job.parallelism", Default: "1", Min: 1, Max: api.MaxReplicas,
			Note: "Indexes that run at a time, in all clusters together."},
		{Path: "services.*.job.retries", Default: "6", Max: 1000,
			Note: "How often an index runs again that failed, or whose worker was lost; then it has failed. The " +
				"others go on; when they have ended, the job has failed."},
		{Path: "services.*.job.deadline", Min: 1e9, Max: int64(api.MaxDuration),
			Note: "Time for the whole job, from when a cluster has it. Then indexes that have not completed are " +
				"ended, and the job has failed."},
		{Path: "services.*.job.keep", Default: "24h", Max: int64(api.MaxDuration),
			Note: "How long the logs of ended indexes stay on their worker."},
		{Path: "services.*.job.suspend", Default: "false",
			Note: "true: nothing more starts; what runs goes on, and so does the deadline. With a schedule: no " +
				"run begins by it, and current ones complete."},
	}
}
