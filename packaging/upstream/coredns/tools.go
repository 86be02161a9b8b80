//go:build tools

// Package tools pins the programs that copepod bundles or tests against; nothing here is compiled.
package tools

import (
	_ "github.com/coredns/coredns"
)
