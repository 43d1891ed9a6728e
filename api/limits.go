package api

// How many of something one service may have.
const (
	MaxPorts   = 64
	MaxFiles   = 100
	MaxVolumes = 32
	MaxSecrets = 100
	MaxLabels  = 32
	MaxCorners = 100
)
