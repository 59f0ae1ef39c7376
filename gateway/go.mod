module github.com/kvmesh/kvmesh/gateway

go 1.26.8

require (
	github.com/kvmesh/kvmesh/proto v0.0.0
	github.com/kvmesh/kvmesh/services/kit v0.0.0
)

replace (
	github.com/kvmesh/kvmesh/proto => ../proto
	github.com/kvmesh/kvmesh/services/kit => ../services/kit
)
