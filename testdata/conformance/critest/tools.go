//go:build tools

// Package tools pins upstream's validation of container runtimes; nothing here is compiled.
package tools

import (
	_ "sigs.k8s.io/cri-tools/cmd/critest"
)
