// Package realvllm drives a mesh in front of real `vllm serve` processes, on a CPU, with a small model of random weights.
// It is built with the tag realvllm alone: `make test-vllm` runs it where VLLM names the command.
package realvllm
