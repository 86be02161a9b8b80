use super::*;

fn spec() -> NodeSpec {
    NodeSpec {
        id: "t1".to_string(),
        name: "node1".to_string(),
        root: PathBuf::from("/var/tmp/copepod-t1"),
        keep_root: false,
        node_address: [192, 168, 77, 2].into(),
        lan_address: [192, 168, 77, 1].into(),
        prefix: 24,
    }
}

fn hierarchy(name: &str, controllers: &[&str]) -> Hierarchy {
    Hierarchy {
        mount_point: Path::new(CGROUP).join(name),
        controllers: controllers.iter().map(ToString::to_string).collect(),
    }
}

fn news(steps: &[Step]) -> Vec<String> {
    let show = |step: &Step| match step {
        Step::New { kind, on, options } => Some(format!("{kind} {} {options}", on.display())),
        _ => None,
    };
    steps.iter().filter_map(show).collect()
}

#[test]
fn version_two_alone_is_one_mount() {
    let steps = plan_cgroups(&[hierarchy("", &[])]);
    assert_eq!(news(&steps), ["cgroup2 /sys/fs/cgroup "]);
}

#[test]
fn a_hybrid_machine_keeps_every_hierarchy_under_its_name() {
    let steps = plan_cgroups(&[
        hierarchy("cpu,cpuacct", &["cpu", "cpuacct"]),
        hierarchy("systemd", &["name=systemd"]),
        hierarchy("unified", &[]),
    ]);
    assert_eq!(
        news(&steps),
        [
            "tmpfs /sys/fs/cgroup mode=0755",
            "cgroup /sys/fs/cgroup/cpu,cpuacct cpu,cpuacct",
            "cgroup /sys/fs/cgroup/systemd none,name=systemd",
            "cgroup2 /sys/fs/cgroup/unified ",
        ]
    );
}

#[test]
fn nothing_is_planned_on_a_path_that_would_have_to_be_made_on_the_host() {
    // This host has /etc and /var/lib, but neither /opt nor /var/log.
    let has = ["/etc", "/run", "/var/lib"];
    let steps = plan(&spec(), &[], |path| has.iter().any(|h| Path::new(h) == path));
    let binds: Vec<_> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Bind { on, .. } => Some(on.to_str().unwrap()),
            _ => None,
        })
        .collect();
    assert_eq!(binds, ["/etc/kubernetes", "/etc/cni", "/etc/containerd", "/etc/copepod", "/var/lib"]);
    assert!(steps.iter().any(|s| matches!(s, Step::Overlay { on, .. } if on == Path::new("/etc"))));
}

#[test]
fn all_private_files_are_below_the_root_of_the_node() {
    let root = spec().root;
    for step in plan(&spec(), &[], |_| true) {
        let own = match &step {
            Step::Overlay { upper, .. } => upper,
            Step::Bind { from, .. } => from,
            Step::Shield { copy, .. } => copy,
            Step::New { .. } => continue,
        };
        assert!(own.starts_with(&root) && own != &root, "{step:?}");
    }
}
