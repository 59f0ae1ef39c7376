// Package kit is the root of what all kvmesh services share. Its packages:
//
//   - boot: the main function of a binary that holds one service
//   - bus: NATS with typed subjects, and the worker registry; bus/embed runs a server in the process
//   - conf: strict YAML, environment and --set in layers
//   - fault: the one error type, across RPC
//   - kittest: for tests only
//   - kvblock: the block hashes on which all parts agree
//   - lifecycle: start and stop in order
//   - obs: logs, metrics, traces, admin server
//   - rpc: gRPC over tcp, unix sockets and memory
//   - signal: test signals that production code may carry
//   - steady: when files that others write may be read
//
// The kit imports no service.
package kit
