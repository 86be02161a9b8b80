//go:build tools

// Package tools pins the programs that copepod bundles or tests against; nothing here is compiled.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "go.etcd.io/etcd/etcdctl/v3"
	_ "go.etcd.io/etcd/etcdutl/v3"
)
