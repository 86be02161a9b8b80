//go:build tools

// Package tools pins the programs that copepod bundles or tests against; nothing here is compiled.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kubectl"
)
