module github.com/kvmesh/kvmesh/scheduler-svc

go 1.26.8

require (
	github.com/kvmesh/kvmesh/proto v0.0.0
	github.com/kvmesh/kvmesh/services/kit v0.0.0
)

require (
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	go.uber.org/goleak v1.3.0 // indirect
)

replace (
	github.com/kvmesh/kvmesh/proto => ../proto
	github.com/kvmesh/kvmesh/services/kit => ../services/kit
)
