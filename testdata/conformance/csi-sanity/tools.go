//go:build tools

// Package tools pins upstream's validation of CSI drivers; nothing here is compiled.
package tools

import (
	_ "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity"
)
