module github.com/kvmesh/kvmesh/services/meshd

go 1.26.8

require (
	github.com/kvmesh/kvmesh/proto v0.0.0
	github.com/kvmesh/kvmesh/services/kit v0.0.0
	github.com/kvmesh/kvmesh/gateway v0.0.0
	github.com/kvmesh/kvmesh/tokenizer-svc v0.0.0
	github.com/kvmesh/kvmesh/template-svc v0.0.0
	github.com/kvmesh/kvmesh/scheduler-svc v0.0.0
	github.com/kvmesh/kvmesh/worker-adapter v0.0.0
)

replace (
	github.com/kvmesh/kvmesh/proto => ../../proto
	github.com/kvmesh/kvmesh/services/kit => ../kit
	github.com/kvmesh/kvmesh/gateway => ../../gateway
	github.com/kvmesh/kvmesh/tokenizer-svc => ../../tokenizer-svc
	github.com/kvmesh/kvmesh/template-svc => ../../template-svc
	github.com/kvmesh/kvmesh/scheduler-svc => ../../scheduler-svc
	github.com/kvmesh/kvmesh/worker-adapter => ../../worker-adapter
)
