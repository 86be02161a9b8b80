//! M4: workloads.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use copepod_e2e::registry;
use copepod_e2e::{BUSYBOX, Check, apply, ensure, kubectl, node, wait_for};
use copepod_testkit::Cluster;
use libtest_mimic::Failed;

fn main() -> ExitCode {
    copepod_e2e::main(
        "m4",
        &[],
        &[
            ("a_deployment_runs_scales_rolls_and_goes_back", deployment),
            ("volumes_and_environment_of_every_api_source", volumes),
            ("init_containers_run_first_and_sidecars_stay", init_containers),
            ("a_job_completes_and_a_failed_one_says_so", jobs),
            ("an_unschedulable_pod_says_why", unschedulable),
            ("logs_and_exec", logs_and_exec),
            ("a_port_is_forwarded_through_a_websocket", port_forward),
            ("a_stateful_set_is_ordered_and_a_daemon_set_covers_the_node", sets),
            ("an_image_is_pulled_with_credentials_and_not_without", pull),
            ("a_namespace_goes_with_everything_in_it", namespace),
        ],
    )
}

fn deployment(cluster: &Cluster) -> Check {
    kubectl(cluster, &format!("create deployment web --image={BUSYBOX} --replicas=2 -- sleep 3600"))?;
    kubectl(cluster, "rollout status deployment/web --timeout=90s")?;
    kubectl(cluster, "scale deployment/web --replicas=3")?;
    wait_for(cluster, "get deployment web -o jsonpath={.status.readyReplicas}", "3")?;
    kubectl(cluster, "set env deployment/web VERSION=2")?;
    kubectl(cluster, "rollout status deployment/web --timeout=120s")?;
    kubectl(cluster, "rollout undo deployment/web")?;
    kubectl(cluster, "rollout status deployment/web --timeout=120s")?;
    let env = kubectl(cluster, "get deployment web -o jsonpath={.spec.template.spec.containers[0].env}")?;
    ensure(env.is_empty(), || format!("undo left {env}"))?;
    kubectl(cluster, "delete deployment web --cascade=orphan")?;
    let orphans = kubectl(cluster, "get rs -l app=web -o name")?;
    ensure(!orphans.is_empty(), || "orphaned replica sets are gone".to_owned())?;
    kubectl(cluster, "delete rs -l app=web --cascade=foreground --timeout=90s")?;
    wait_for(cluster, "get pods -l app=web -o name", "")
}

fn volumes(cluster: &Cluster) -> Check {
    kubectl(cluster, "create configmap settings --from-literal=color=green")?;
    kubectl(cluster, "create secret generic keys --from-literal=token=s3cret")?;
    let script = "cat /etc/settings/color /etc/keys/token /etc/info/name; echo $COLOR $TOKEN $NODE $CPU; \
                  ls /var/run/secrets/kubernetes.io/serviceaccount; echo kept > /scratch/f; cat /scratch/f; cat /host/hostname";
    apply(
        cluster,
        &format!(
            r#"
apiVersion: v1
kind: Pod
metadata: {{name: volumes}}
spec:
  restartPolicy: Never
  volumes:
  - {{name: settings, configMap: {{name: settings}}}}
  - {{name: keys, secret: {{secretName: keys, defaultMode: 0400}}}}
  - {{name: scratch, emptyDir: {{medium: Memory}}}}
  - {{name: host, hostPath: {{path: /etc, type: Directory}}}}
  - name: info
    downwardAPI: {{items: [{{path: name, fieldRef: {{fieldPath: metadata.name}}}}]}}
  containers:
  - name: main
    image: {BUSYBOX}
    command: [sh, -c, "{script}"]
    resources: {{limits: {{cpu: 500m, memory: 64Mi}}}}
    env:
    - {{name: COLOR, valueFrom: {{configMapKeyRef: {{name: settings, key: color}}}}}}
    - {{name: TOKEN, valueFrom: {{secretKeyRef: {{name: keys, key: token}}}}}}
    - {{name: NODE, valueFrom: {{fieldRef: {{fieldPath: spec.nodeName}}}}}}
    - {{name: CPU, valueFrom: {{resourceFieldRef: {{resource: limits.cpu, divisor: 1m}}}}}}
    volumeMounts:
    - {{name: settings, mountPath: /etc/settings}}
    - {{name: keys, mountPath: /etc/keys}}
    - {{name: info, mountPath: /etc/info}}
    - {{name: scratch, mountPath: /scratch}}
    - {{name: host, mountPath: /host, readOnly: true}}
"#
        ),
    )?;
    wait_for(cluster, "get pod volumes -o jsonpath={.status.phase}", "Succeeded")?;
    let log = kubectl(cluster, "logs volumes")?;
    for want in ["greens3cretvolumes", "green s3cret m4 500", "ca.crt", "namespace", "token", "kept"] {
        ensure(log.contains(want), || format!("{want:?} is missing in\n{log}"))?;
    }
    Ok(())
}

fn init_containers(cluster: &Cluster) -> Check {
    apply(
        cluster,
        &format!(
            r#"
apiVersion: v1
kind: Pod
metadata: {{name: ordered}}
spec:
  restartPolicy: Never
  volumes: [{{name: shared, emptyDir: {{}}}}]
  initContainers:
  - {{name: first, image: {BUSYBOX}, command: [sh, -c, "echo one > /s/f"], volumeMounts: [{{name: shared, mountPath: /s}}]}}
  - {{name: side, image: {BUSYBOX}, restartPolicy: Always, command: [sh, -c, "trap 'exit 0' TERM; sleep 3600 & wait"]}}
  containers:
  - {{name: main, image: {BUSYBOX}, command: [sh, -c, "cat /s/f"], volumeMounts: [{{name: shared, mountPath: /s}}]}}
"#
        ),
    )?;
    wait_for(cluster, "get pod ordered -o jsonpath={.status.phase}", "Succeeded")?;
    let log = kubectl(cluster, "logs ordered -c main")?;
    ensure(log == "one", || format!("main read {log:?}"))
}

fn jobs(cluster: &Cluster) -> Check {
    kubectl(cluster, &format!("create job good --image={BUSYBOX} -- true"))?;
    kubectl(cluster, "wait --for=condition=Complete job/good --timeout=60s")?;
    apply(
        cluster,
        &format!(
            r#"
apiVersion: batch/v1
kind: Job
metadata: {{name: bad}}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: c, image: {BUSYBOX}, command: ["false"]}}]
"#
        ),
    )?;
    kubectl(cluster, "wait --for=condition=Failed job/bad --timeout=60s")?;
    let reason =
        kubectl(cluster, "get job bad -o jsonpath={.status.conditions[?(@.type=='Failed')].reason}")?;
    ensure(reason == "BackoffLimitExceeded", || format!("the reason is {reason:?}"))
}

fn unschedulable(cluster: &Cluster) -> Check {
    apply(
        cluster,
        &format!(
            r#"
apiVersion: v1
kind: Pod
metadata: {{name: greedy}}
spec:
  containers: [{{name: c, image: {BUSYBOX}, resources: {{requests: {{cpu: "4000"}}}}}}]
"#
        ),
    )?;
    let query = "get events --field-selector=involvedObject.name=greedy,reason=FailedScheduling -o jsonpath={.items[0].message}";
    let words: Vec<&str> = query.split_whitespace().collect();
    cluster.wait_for("FailedScheduling", || {
        cluster
            .ask(&words)
            .is_some_and(|text| text.starts_with("0/1 nodes are available: 1 Insufficient cpu."))
    })?;
    kubectl(cluster, "delete pod greedy --now")?;
    Ok(())
}

fn logs_and_exec(cluster: &Cluster) -> Check {
    apply(
        cluster,
        &format!(
            r#"
apiVersion: v1
kind: Pod
metadata: {{name: talker}}
spec:
  containers: [{{name: c, image: {BUSYBOX}, command: [sh, -c, "echo line-1; echo line-2; sleep 3600"]}}]
"#
        ),
    )?;
    kubectl(cluster, "wait --for=condition=Ready pod/talker --timeout=60s")?;
    let tail = kubectl(cluster, "logs talker --tail=1")?;
    ensure(tail == "line-2", || format!("the last line is {tail:?}"))?;
    let out = kubectl(cluster, "exec talker -- sh -c echo${IFS}to-stdout")?;
    ensure(out == "to-stdout", || format!("exec printed {out:?}"))?;
    let failed = kubectl(cluster, "exec talker -- false").err().and_then(|e| e.message().map(str::to_owned));
    ensure(failed.as_ref().is_some_and(|e| e.contains("exit code 1")), || {
        format!("exec of false: {failed:?}")
    })
}

fn port_forward(cluster: &Cluster) -> Check {
    apply(
        cluster,
        &format!(
            r#"
apiVersion: v1
kind: Pod
metadata: {{name: pages}}
spec:
  containers:
    - name: c
      image: {BUSYBOX}
      command: [sh, -c, "mkdir -p /www && echo page > /www/index.html && httpd -f -p 8080 -h /www"]
      readinessProbe: {{tcpSocket: {{port: 8080}}, periodSeconds: 1}}
"#
        ),
    )?;
    kubectl(cluster, "wait --for=condition=Ready pod/pages --timeout=60s")?;
    let mut forwarding = cluster
        .kubectl(&["port-forward", "-v=4", "pod/pages", ":8080"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // Kept open: kubectl writes a line for each connection too.
    let mut lines = BufReader::new(forwarding.stdout.take().ok_or("kubectl has no output")?).lines();
    let told = lines.next().ok_or("kubectl forwards nothing")?;
    let page = told.map_err(Failed::from).and_then(|line| ask(&line));
    forwarding.kill()?;
    let log = String::from_utf8_lossy(&forwarding.wait_with_output()?.stderr).into_owned();
    let page = page.map_err(|e| format!("{e:?}: {log}"))?;
    ensure(page.ends_with("page\n"), || format!("the answer was {page:?}: {log}"))?;
    ensure(!log.contains("fallback"), || format!("kubectl had to fall back: {log}"))?;
    kubectl(cluster, "delete pod pages --now").map(drop)
}

/// The page behind what `kubectl port-forward` says it forwards: `Forwarding from 127.0.0.1:41000 -> 8080`.
fn ask(line: &str) -> Result<String, Failed> {
    let address = line.split(' ').nth(2).ok_or_else(|| format!("kubectl says {line:?}"))?;
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}

fn sets(cluster: &Cluster) -> Check {
    apply(
        cluster,
        &format!(
            r#"
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: db}}
spec:
  serviceName: db
  replicas: 2
  selector: {{matchLabels: {{app: db}}}}
  template:
    metadata: {{labels: {{app: db}}}}
    spec: {{containers: [{{name: c, image: {BUSYBOX}, command: [sleep, "3600"]}}], terminationGracePeriodSeconds: 0}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: agent}}
spec:
  selector: {{matchLabels: {{app: agent}}}}
  template:
    metadata: {{labels: {{app: agent}}}}
    spec: {{containers: [{{name: c, image: {BUSYBOX}, command: [sleep, "3600"]}}], terminationGracePeriodSeconds: 0}}
"#
        ),
    )?;
    kubectl(cluster, "rollout status statefulset/db --timeout=90s")?;
    kubectl(cluster, "rollout status daemonset/agent --timeout=90s")?;
    let names = kubectl(cluster, "get pods -l app=db -o jsonpath={.items[*].metadata.name}")?;
    ensure(names == "db-0 db-1", || format!("the set has {names:?}"))
}

/// From a registry of ours on the neighbour's side, which wants a user and a password.
fn pull(cluster: &Cluster) -> Check {
    let address = SocketAddr::from((copepod_testkit::LAN_ADDRESS, 5000));
    let _registry = registry::serve(cluster, address)?;
    let hosts = format!("/etc/copepod/registry/{address}");
    let plain = format!("server = \"http://{address}\"\n[host.\"http://{address}\"]\n");
    node(cluster, &format!("mkdir -p {hosts} && printf '%s' '{plain}' > {hosts}/hosts.toml"))?;
    let pod = |name: &str, secrets: &str| {
        format!(
            r#"
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  imagePullSecrets: [{secrets}]
  containers: [{{name: c, image: "{address}/test/busybox:1", imagePullPolicy: Always, command: [sleep, "3600"]}}]
"#
        )
    };
    apply(cluster, &pod("stranger", ""))?;
    let waiting = "get pod stranger -o jsonpath={.status.containerStatuses[0].state.waiting.reason}";
    let words: Vec<&str> = waiting.split_whitespace().collect();
    cluster.wait_for("a refused pull", || {
        cluster.ask(&words).is_some_and(|reason| matches!(&*reason, "ErrImagePull" | "ImagePullBackOff"))
    })?;
    let login = format!(
        "create secret docker-registry login --docker-server={address} --docker-username=puller --docker-password=s3cret"
    );
    kubectl(cluster, &login)?;
    apply(cluster, &pod("friend", "{name: login}"))?;
    kubectl(cluster, "wait --for=condition=Ready pod/friend --timeout=60s")?;
    kubectl(cluster, "delete pod stranger friend --now")?;
    Ok(())
}

fn namespace(cluster: &Cluster) -> Check {
    kubectl(cluster, "create namespace gone")?;
    kubectl(cluster, &format!("create deployment -n gone web --image={BUSYBOX} -- sleep 3600"))?;
    kubectl(cluster, "wait -n gone --for=condition=Available deployment/web --timeout=60s")?;
    kubectl(cluster, "delete namespace gone --timeout=120s")?;
    let left = kubectl(cluster, "get namespace gone --ignore-not-found -o name")?;
    ensure(left.is_empty(), || format!("{left} is still there"))
}
