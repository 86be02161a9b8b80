//! The table of upstream's programs. Versions are not here but in each tool's go.mod, with sums in its go.sum.

/// What a tool is for, which decides when it is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Part of every bundle.
    Bundled,
    /// Needed by tests only, never shipped.
    Test,
    /// Upstream's own components, the second opinion; never shipped.
    Oracle,
    /// Upstream's end-to-end suite and the programs of its test images; never shipped.
    Suite,
}

impl Group {
    /// The word for it on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bundled => "bundled",
            Self::Test => "test",
            Self::Oracle => "oracle",
            Self::Suite => "suite",
        }
    }
}

/// One Go module of this tree and the programs built from it.
#[derive(Debug)]
pub(crate) struct Tool {
    /// The folder's name, and the tool's name on the command line.
    pub(crate) name: &'static str,
    /// The folder that the module's folder is in.
    pub(crate) home: &'static str,
    /// When it is built.
    pub(crate) group: Group,
    /// The module whose version in go.mod is the tool's version.
    pub(crate) module: &'static str,
    /// Whether it needs a C compiler; everything else is built with CGO off and so is static by itself.
    pub(crate) cgo: bool,
    /// Go build tags, comma separated.
    pub(crate) tags: &'static str,
    /// Linker settings; `{v}` stands for the version with its `v`.
    pub(crate) ldflags: &'static str,
    /// The programs.
    pub(crate) binaries: &'static [Binary],
}

/// One program of a tool.
#[derive(Debug)]
pub(crate) struct Binary {
    /// The file's name.
    pub(crate) name: &'static str,
    /// The Go package to build.
    pub(crate) package: &'static str,
    /// The arguments that make it print its version; empty where it has none to print.
    pub(crate) version: &'static [&'static str],
    /// Whether the program is a package's tests, compiled.
    pub(crate) is_test: bool,
}

const fn bin(name: &'static str, package: &'static str, version: &'static [&'static str]) -> Binary {
    Binary { name, package, version, is_test: false }
}

const fn test(name: &'static str, package: &'static str, version: &'static [&'static str]) -> Binary {
    Binary { name, package, version, is_test: true }
}

/// Where the modules of shipped programs and of their likes are.
const UPSTREAM: &str = "packaging/upstream";
/// Where the modules of upstream's test suites are.
const CONFORMANCE: &str = "testdata/conformance";

/// Both places Kubernetes' programs take their version from. Without major and minor some answers say `v0.0`.
const KUBERNETES: &str = "-X k8s.io/component-base/version.gitVersion={v} -X k8s.io/component-base/version.gitMajor=1 \
    -X k8s.io/component-base/version.gitMinor=37 -X k8s.io/component-base/version.gitTreeState=clean \
    -X k8s.io/client-go/pkg/version.gitVersion={v} -X k8s.io/client-go/pkg/version.gitMajor=1 \
    -X k8s.io/client-go/pkg/version.gitMinor=37";

/// Every tool, in the order in which `all` builds them.
pub(crate) const TOOLS: &[Tool] = &[
    Tool {
        name: "etcd",
        home: UPSTREAM,
        group: Group::Bundled,
        module: "go.etcd.io/etcd/server/v3",
        cgo: false,
        tags: "",
        ldflags: "",
        binaries: &[
            bin("etcd", "go.etcd.io/etcd/server/v3", &["--version"]),
            bin("etcdctl", "go.etcd.io/etcd/etcdctl/v3", &["version"]),
            bin("etcdutl", "go.etcd.io/etcd/etcdutl/v3", &["version"]),
        ],
    },
    Tool {
        name: "kubectl",
        home: UPSTREAM,
        group: Group::Bundled,
        module: "k8s.io/kubernetes",
        cgo: false,
        tags: "",
        ldflags: KUBERNETES,
        binaries: &[bin("kubectl", "k8s.io/kubernetes/cmd/kubectl", &["version", "--client"])],
    },
    Tool {
        name: "containerd",
        home: UPSTREAM,
        group: Group::Bundled,
        module: "github.com/containerd/containerd/v2",
        cgo: false,
        // Snapshotters and tracing that the appliance never switches on, but would hold in memory.
        tags: "no_btrfs,no_zfs,no_devmapper,no_tracing,urfave_cli_no_docs",
        ldflags: "-X github.com/containerd/containerd/v2/version.Version={v}",
        binaries: &[
            bin("containerd", "github.com/containerd/containerd/v2/cmd/containerd", &["--version"]),
            bin(
                "containerd-shim-runc-v2",
                "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
                &["-v"],
            ),
            bin("ctr", "github.com/containerd/containerd/v2/cmd/ctr", &["--version"]),
        ],
    },
    Tool {
        name: "runc",
        home: UPSTREAM,
        group: Group::Bundled,
        module: "github.com/opencontainers/runc",
        // Its first stage is C (it joins namespaces before Go's threads exist), and libseccomp compiles the filters.
        cgo: true,
        tags: "seccomp,netgo,osusergo,urfave_cli_no_docs",
        ldflags: "-extldflags -static",
        binaries: &[bin("runc", "github.com/opencontainers/runc", &["--version"])],
    },
    Tool {
        name: "crictl",
        home: UPSTREAM,
        group: Group::Bundled,
        module: "sigs.k8s.io/cri-tools",
        cgo: false,
        tags: "",
        ldflags: "-X sigs.k8s.io/cri-tools/pkg/version.Version={v}",
        binaries: &[bin("crictl", "sigs.k8s.io/cri-tools/cmd/crictl", &["--version"])],
    },
    Tool {
        name: "oracle",
        home: UPSTREAM,
        group: Group::Oracle,
        module: "k8s.io/kubernetes",
        cgo: false,
        tags: "",
        ldflags: KUBERNETES,
        binaries: &[
            bin("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", &["--version"]),
            bin("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", &["--version"]),
            bin("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", &["--version"]),
            bin("kubelet", "k8s.io/kubernetes/cmd/kubelet", &["--version"]),
            bin("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy", &["--version"]),
            bin("kubectl-convert", "k8s.io/kubernetes/cmd/kubectl-convert", &[]),
        ],
    },
    Tool {
        name: "cnitool",
        home: UPSTREAM,
        group: Group::Test,
        module: "github.com/containernetworking/cni",
        cgo: false,
        tags: "",
        ldflags: "",
        binaries: &[bin("cnitool", "github.com/containernetworking/cni/cnitool", &[])],
    },
    Tool {
        name: "cni-plugins",
        home: UPSTREAM,
        group: Group::Test,
        module: "github.com/containernetworking/plugins",
        cgo: false,
        tags: "",
        ldflags: "",
        binaries: &[
            bin("bridge", "github.com/containernetworking/plugins/plugins/main/bridge", &[]),
            bin("loopback", "github.com/containernetworking/plugins/plugins/main/loopback", &[]),
            bin("host-local", "github.com/containernetworking/plugins/plugins/ipam/host-local", &[]),
            bin("portmap", "github.com/containernetworking/plugins/plugins/meta/portmap", &[]),
        ],
    },
    Tool {
        name: "coredns",
        home: UPSTREAM,
        group: Group::Test,
        module: "github.com/coredns/coredns",
        cgo: false,
        tags: "",
        ldflags: "",
        binaries: &[bin("coredns", "github.com/coredns/coredns", &["-version"])],
    },
    Tool {
        name: "suite",
        home: CONFORMANCE,
        group: Group::Suite,
        module: "k8s.io/kubernetes",
        cgo: false,
        tags: "",
        ldflags: KUBERNETES,
        binaries: &[
            test("e2e.test", "k8s.io/kubernetes/test/e2e", &["--version"]),
            bin("ginkgo", "github.com/onsi/ginkgo/v2/ginkgo", &[]),
            bin("agnhost", "k8s.io/kubernetes/test/images/agnhost", &[]),
            bin("sample-apiserver", "k8s.io/sample-apiserver", &[]),
        ],
    },
    Tool {
        name: "critest",
        home: CONFORMANCE,
        group: Group::Suite,
        module: "sigs.k8s.io/cri-tools",
        cgo: false,
        tags: "",
        ldflags: "-X sigs.k8s.io/cri-tools/pkg/version.Version={v}",
        binaries: &[test("critest", "sigs.k8s.io/cri-tools/cmd/critest", &["-version"])],
    },
    Tool {
        name: "csi-sanity",
        home: CONFORMANCE,
        group: Group::Suite,
        module: "github.com/kubernetes-csi/csi-test/v5",
        cgo: false,
        tags: "",
        ldflags: "-X main.VERSION={v}",
        binaries: &[bin("csi-sanity", "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity", &["-version"])],
    },
];
