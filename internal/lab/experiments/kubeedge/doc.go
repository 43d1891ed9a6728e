// Package kubeedge has the experiments of the paper on local scheduling in KubeEdge.
package kubeedge
