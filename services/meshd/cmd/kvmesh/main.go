// Command kvmesh is every service of the mesh in one binary, and the tools around it.
package main

import (
	"os"

	"github.com/kvmesh/kvmesh/services/meshd/internal/cli"
)

func main() { os.Exit(cli.Main()) }
