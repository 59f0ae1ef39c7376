module github.com/kvmesh/kvmesh/tokenizer-svc

go 1.26.8

require github.com/daulet/tokenizers v1.24.0

require github.com/stretchr/testify v1.12.1 // indirect

replace (
	github.com/kvmesh/kvmesh/proto => ../proto
	github.com/kvmesh/kvmesh/services/kit => ../services/kit
)
