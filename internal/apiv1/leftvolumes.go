package apiv1

// VolumeForgetRequest asks for an instance to go on without its volumes.
type VolumeForgetRequest struct {
	Confirm string `json:"confirm" maxLength:"200" doc:"the id of the instance, to say that it is meant"`
}
