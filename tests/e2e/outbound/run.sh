#!/bin/bash
# Servers behind the API server: admission webhooks, conversion webhooks, an aggregated API server; upstream's own test
# programs on the far side (`agnhost webhook`, `agnhost crd-conversion-webhook`, `sample-apiserver`).
#
# Everything runs in network and PID namespaces of its own, on loopback, below a temporary directory; leaving ends it.
# Programs come from the environment:
#   APISERVER  the server under test with its subcommand (or upstream's kube-apiserver: the test must pass there too)
#   ETCD KUBECTL AGNHOST SAMPLE   upstream's programs
# Prints one line a check and the counts at the end; exits 1 when a check failed.
set -u
: "${APISERVER:?}" "${ETCD:?}" "${KUBECTL:?}" "${AGNHOST:?}" "${SAMPLE:?}"
if [ "${OUT_INSIDE:-}" != yes ]; then
  exec env OUT_INSIDE=yes unshare --net --pid --mount --propagation private --fork --kill-child --mount-proc bash "$0" "$@"
fi
ip link set lo up
ip address add 192.168.77.1/32 dev lo
# Service addresses of their own, because no proxy runs here.
for a in 10.96.0.71 10.96.0.72 10.96.0.73; do ip address add $a/32 dev lo; done
DIR=$(mktemp -d); P=$DIR/pki; mkdir -p "$P"
trap '[ -n "${KEEP:-}" ] || rm -rf "$DIR"' EXIT
HERE=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/e2e/lib.sh
source "$HERE/../lib.sh"

# --- certificates -----------------------------------------------------------------------------------------------------
authority ca; authority front-proxy-ca
crt apiserver /CN=kube-apiserver serverAuth DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.96.0.1
crt admin /O=system:masters/CN=admin clientAuth
crt bob /CN=bob clientAuth
crt front-proxy-client /CN=front-proxy-client clientAuth "" front-proxy-ca
crt hook /CN=hook serverAuth DNS:hook.w.svc,DNS:convert.w.svc,DNS:sample.w.svc,IP:127.0.0.1
openssl genrsa -out "$P/sa.key" 2048 2>/dev/null
for user in admin bob; do kubeconfig $user; done

# --- servers ----------------------------------------------------------------------------------------------------------
run etcd "$ETCD" --data-dir "$DIR/etcd" --unsafe-no-fsync --log-level error --listen-client-urls http://127.0.0.1:2379 \
  --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380
# shellcheck disable=SC2086 # the command may carry its subcommand
run apiserver $APISERVER --etcd-servers=http://127.0.0.1:2379 --advertise-address=192.168.77.1 --bind-address=127.0.0.1 --secure-port=6443 \
  --allow-privileged=true --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --client-ca-file="$P/ca.crt" \
  --tls-cert-file="$P/apiserver.crt" --tls-private-key-file="$P/apiserver.key" --service-cluster-ip-range=10.96.0.0/12 \
  --service-account-issuer=https://kubernetes.default.svc.cluster.local --service-account-key-file="$P/sa.key" \
  --service-account-signing-key-file="$P/sa.key" --requestheader-client-ca-file="$P/front-proxy-ca.crt" \
  --requestheader-allowed-names=front-proxy-client --requestheader-username-headers=X-Remote-User \
  --requestheader-group-headers=X-Remote-Group --requestheader-extra-headers-prefix=X-Remote-Extra- \
  --proxy-client-cert-file="$P/front-proxy-client.crt" --proxy-client-key-file="$P/front-proxy-client.key"
k() { "$KUBECTL" --kubeconfig "$DIR/admin.kubeconfig" "$@" 2>&1; }
api() { local path=$1; shift; curl -s -m 70 -A outbound --cacert "$P/ca.crt" --cert "$P/admin.crt" --key "$P/admin.key" "$@" "https://127.0.0.1:6443$path"; }
wait_for "ready" 60 k get --raw /readyz || { tail -5 "$DIR"/*.log; exit 1; }
k create namespace w > /dev/null; k -n w create serviceaccount default > /dev/null
k create namespace t > /dev/null; k -n t create serviceaccount default > /dev/null
CA=$(base64 -w0 < "$P/ca.crt")
service() { # name address port
  k apply -f - <<Y > /dev/null
apiVersion: v1
kind: Service
metadata: {name: $1, namespace: w}
spec: {clusterIP: $2, ports: [{name: https, port: $3}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: $1-1, namespace: w, labels: {kubernetes.io/service-name: $1}}
addressType: IPv4
endpoints: [{addresses: [192.168.77.1], conditions: {ready: true}}]
ports: [{name: https, port: $3}]
Y
}
service hook 10.96.0.71 8443; service convert 10.96.0.72 9443; service sample 10.96.0.73 7443
run hook "$AGNHOST" webhook --tls-cert-file="$P/hook.crt" --tls-private-key-file="$P/hook.key" --port=8443
# It wants to be in a pod.
mount -t tmpfs none /run; sa=/run/secrets/kubernetes.io/serviceaccount; mkdir -p $sa; cp "$P/ca.crt" $sa; echo none > $sa/token; echo w > $sa/namespace
export KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT=6443
run convert "$AGNHOST" crd-conversion-webhook --tls-cert-file="$P/hook.crt" --tls-private-key-file="$P/hook.key" --port=9443
wait_for "agnhost serves" 20 curl -sk https://127.0.0.1:8443/readyz

# --- admission --------------------------------------------------------------------------------------------------------
webhook() { # kind name path resources operations [more]
  k apply -f - <<Y
apiVersion: admissionregistration.k8s.io/v1
kind: $1WebhookConfiguration
metadata: {name: $2}
webhooks:
- name: $2.example.com
  sideEffects: None
  admissionReviewVersions: [v1, v1beta1]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: t}}
  clientConfig: {service: {namespace: w, name: hook, path: $3, port: ${PORT:-8443}}, caBundle: ${BUNDLE-$CA}}
  rules: [{operations: [$5], apiGroups: ["*"], apiVersions: ["*"], resources: [$4]}]
${6:-}
Y
}
unhook() { k delete "$1webhookconfiguration" "$2" > /dev/null; }
answer() { api "$@"; }
map() { cat <<Y
{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"$1"},"data":{"$2":"$3"}}
Y
}
post() { map "$1" "$2" "$3" | answer "/api/v1/namespaces/${4:-t}/configmaps${5:-}" -X POST -H 'Content-Type: application/json' --data-binary @-; }
is "a configuration is taken without a word" "$(webhook Validating deny /configmaps configmaps '"*"')" "validatingwebhookconfiguration.admissionregistration.k8s.io/deny created"
wait_for "it is active" 30 sh -c "! $KUBECTL --kubeconfig $DIR/admin.kubeconfig -n t create configmap probe-\$RANDOM --from-literal=webhook-e2e-test=webhook-disallow"
out=$(post c1 webhook-e2e-test webhook-disallow)
has "a refusal in words" "$out" 'admission webhook \"deny.example.com\" denied the request: the configmap contains unwanted key and value'
has "a refusal has its code" "$out" '"code":400'
has "other objects pass" "$(post c2 a b)" '"name":"c2"'
has "other namespaces are not asked about" "$(post c1 webhook-e2e-test webhook-disallow w)" '"name":"c1"'
has "a change is refused" "$(answer /api/v1/namespaces/t/configmaps/c2 -X PATCH -H 'Content-Type: application/merge-patch+json' -d '{"data":{"webhook-e2e-test":"webhook-disallow"}}')" 'denied the request: the configmap contains unwanted key and value'
has "a dry run is refused as well" "$(post c3 webhook-e2e-test webhook-disallow t '?dryRun=All')" "denied the request"
unhook validating deny

webhook Mutating stage1 /mutating-configmaps configmaps CREATE > /dev/null
webhook Mutating stage2 /mutating-configmaps configmaps CREATE > /dev/null
sleep 1
out=$(post c4 mutation-start yes)
has "two mutations in order" "$out" '"mutation-stage-1":"yes","mutation-stage-2":"yes"'
unhook mutating stage1; unhook mutating stage2
webhook Mutating pods /mutating-pods pods CREATE > /dev/null; sleep 1
out=$(k -n t create -o json -f - <<Y
{"kind":"Pod","apiVersion":"v1","metadata":{"name":"webhook-to-be-mutated"},"spec":{"containers":[{"name":"c","image":"i"}]}}
Y
)
has "an added container" "$out" '"name": "webhook-added-init-container"'
is "and its defaults" "$(k -n t get pod webhook-to-be-mutated -o 'jsonpath={.spec.initContainers[0].terminationMessagePolicy}')" File
unhook mutating pods

webhook Validating slow /always-allow-delay-5s configmaps CREATE "  timeoutSeconds: 1" > /dev/null; sleep 1
start=$(date +%s); out=$(post c5 a b); took=$(($(date +%s) - start))
has "a late webhook" "$out" 'Internal error occurred: failed calling webhook \"slow.example.com\": failed to call webhook: Post \"https://hook.w.svc:8443/always-allow-delay-5s?timeout=1s\": context deadline exceeded'
has "is a 500" "$out" '"code":500'
[ "$took" -le 3 ] && ok "in time" || bad "in time" "$took s"
webhook Validating slow /always-allow-delay-5s configmaps CREATE "  timeoutSeconds: 1
  failurePolicy: Ignore" > /dev/null; sleep 1
has "a late webhook that may be ignored" "$(post c5 a b)" '"name":"c5"'
unhook validating slow
PORT=8444 webhook Validating closed /x configmaps CREATE > /dev/null; sleep 1
has "no such port" "$(post c6 a b)" 'failed to call webhook: Post \"https://hook.w.svc:8444/x?timeout=10s\": no service port 8444 found for service \"hook\"'
unhook validating closed
BUNDLE=$(base64 -w0 < "$P/front-proxy-ca.crt") webhook Validating trust /configmaps configmaps CREATE > /dev/null; sleep 1
has "an unknown authority" "$(post c6 a b)" 'configmaps?timeout=10s\": tls: failed to verify certificate: x509: certificate signed by unknown authority'
unhook validating trust
k apply -f - <<Y > /dev/null
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: gone}
webhooks:
- {name: gone.example.com, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "https://127.0.0.1:1/x"},
   namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: t}},
   rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}
Y
sleep 1
has "nobody there" "$(post c6 a b)" 'failed calling webhook \"gone.example.com\": failed to call webhook: Post \"https://127.0.0.1:1/x?timeout=10s\": dial tcp 127.0.0.1:1: connect: connection refused'
has "configurations are never asked about" "$(k delete validatingwebhookconfiguration gone)" deleted
k apply -f - <<Y > /dev/null
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: matched}
webhooks:
- {name: matched.example.com, sideEffects: None, admissionReviewVersions: [v1],
   clientConfig: {service: {namespace: w, name: hook, path: /always-deny, port: 8443}, caBundle: $CA},
   matchConditions: [{name: named, expression: "object.metadata.name == 'no'"}, {name: user, expression: "request.userInfo.username == 'admin'"}],
   namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: t}},
   rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}
Y
sleep 1
has "conditions that hold" "$(post no a b)" 'admission webhook \"matched.example.com\" denied the request: this webhook denies all requests'
has "conditions that do not" "$(post yes a b)" '"name":"yes"'
unhook validating matched
scaler() { k -n t create --validate=false -f - <<Y
{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1","metadata":{"name":"$1"},"spec":{"maxReplicas":2,"scaleTargetRef":{"apiVersion":"x.example.com/v1","kind":"X","name":"x"}}}
Y
}
for policy in Exact Equivalent; do
  k apply -f - <<Y > /dev/null
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: versions}
webhooks:
- {name: versions.example.com, sideEffects: None, admissionReviewVersions: [v1], matchPolicy: $policy,
   clientConfig: {service: {namespace: w, name: hook, path: /always-deny, port: 8443}, caBundle: $CA},
   matchConditions: [{name: kind, expression: "request.kind.version == 'v2' && request.requestKind.version == 'v1' && object.apiVersion == 'autoscaling/v2'"}],
   namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: t}},
   rules: [{operations: [CREATE], apiGroups: [autoscaling], apiVersions: [v2], resources: [horizontalpodautoscalers]}]}
Y
  sleep 1; out=$(scaler "$(echo $policy | tr '[:upper:]' '[:lower:]')")
  if [ $policy = Exact ]; then has "another version is not asked about" "$out" created; else has "unless it is equivalent" "$out" 'admission webhook "versions.example.com" denied the request'; fi
done
unhook validating versions
webhook Mutating again1 /mutating-configmaps configmaps CREATE "  reinvocationPolicy: IfNeeded" > /dev/null
sleep 1
out=$(post c7 mutation-start yes)
has "a webhook that is asked again" "$out" '"mutation-stage-1":"yes"'
unhook mutating again1
webhook Validating attach /pods/attach pods/attach CONNECT > /dev/null; sleep 1
k -n t create -f - <<Y > /dev/null
{"kind":"Pod","apiVersion":"v1","metadata":{"name":"to-be-attached-pod"},"spec":{"containers":[{"name":"container1","image":"i"}]}}
Y
has "a connection is refused" "$(answer '/api/v1/namespaces/t/pods/to-be-attached-pod/attach?container=container1&stdin=true' -X POST)" "attaching to pod 'to-be-attached-pod' is not allowed"
unhook validating attach
webhook Validating crd /custom-resource '"*/*"' DELETE > /dev/null; sleep 1
has "deletions are asked about" "$(k -n t delete configmap c2 --wait=false)" 'configmap "c2" deleted'
unhook validating crd

# --- conversion -------------------------------------------------------------------------------------------------------
crd() { # stored version
  k apply -f - <<Y
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: e2e-tests.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: e2e-tests, singular: e2e-test, kind: E2eTest, listKind: E2eTestList}
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1, v1beta1], clientConfig: {service: {namespace: w, name: convert, path: /crdconvert, port: 9443}, caBundle: $CA}}}
  versions:
  - {name: v1, served: true, storage: $1, selectableFields: [{jsonPath: .hostPort}], schema: {openAPIV3Schema: {type: object, properties: {hostPort: {type: string}}}}}
  - {name: v2, served: true, storage: $2, selectableFields: [{jsonPath: .host}, {jsonPath: .port}], schema: {openAPIV3Schema: {type: object, properties: {host: {type: string}, port: {type: string}}}}}
Y
}
crd true false > /dev/null
wait_for "the definition is established" 30 k wait --for=condition=Established crd/e2e-tests.stable.example.com --timeout=1s
wait_for "an object" 30 k -n t create -f - <<Y
{"kind":"E2eTest","apiVersion":"stable.example.com/v1","metadata":{"name":"one"},"hostPort":"localhost:8080"}
Y
[ "$(k -n t get e2e-tests one -o name)" ] || k -n t create -f - <<Y > /dev/null
{"kind":"E2eTest","apiVersion":"stable.example.com/v1","metadata":{"name":"one"},"hostPort":"localhost:8080"}
Y
path=/apis/stable.example.com/v2/namespaces/t/e2e-tests
has "seen in another version" "$(answer $path/one)" '"host":"localhost"'
crd false true > /dev/null; sleep 1
k -n t create -f - <<Y > /dev/null
{"kind":"E2eTest","apiVersion":"stable.example.com/v2","metadata":{"name":"two"},"host":"h2","port":"80"}
Y
out=$(answer $path)
has "a list of both, first" "$out" '"host":"localhost"'; has "a list of both, second" "$out" '"host":"h2"'
has "the old version of both" "$(answer /apis/stable.example.com/v1/namespaces/t/e2e-tests)" '"hostPort":"h2:80"'
has "fields are selected in the version asked for" "$(answer "$path?fieldSelector=host%3Dh2" | grep -o '"name":"[a-z]*"' | tr '\n' ' ')" '"name":"two"'
kill "$PID_convert"; sleep 0.5
has "a conversion webhook that is gone" "$(k -n t get e2e-tests.v1.stable.example.com two)" 'AdditionalErrorMsg: object not decodable revision='
has "and what it said" "$(k -n t get e2e-tests.v1.stable.example.com two)" ': conversion webhook for stable.example.com/v2, Kind=E2eTest failed: Post "https://convert.w.svc:9443/crdconvert?timeout=30s": dial tcp 10.96.0.72:9443: connect: connection refused'

# --- aggregation ------------------------------------------------------------------------------------------------------
has "what extension servers read" "$(k -n kube-system get configmap extension-apiserver-authentication -o yaml)" 'requestheader-allowed-names: '
is "and may read" "$(k -n kube-system get role extension-apiserver-authentication-reader -o name)" role.rbac.authorization.k8s.io/extension-apiserver-authentication-reader
k apply -f - <<Y > /dev/null
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1alpha1.wardle.example.com}
spec: {group: wardle.example.com, version: v1alpha1, groupPriorityMinimum: 2000, versionPriority: 200, caBundle: $CA, service: {namespace: w, name: sample, port: 7443}}
Y
status() { k get apiservice v1alpha1.wardle.example.com -o "jsonpath={.status.conditions[0].status} {.status.conditions[0].reason} {.status.conditions[0].message}"; }
wait_for "it is not available" 20 sh -c "$KUBECTL --kubeconfig $DIR/admin.kubeconfig get apiservice v1alpha1.wardle.example.com -o yaml | grep FailedDiscoveryCheck"
has "the reason" "$(status)" 'False FailedDiscoveryCheck failing or missing response from https://10.96.0.73:7443/apis/wardle.example.com/v1alpha1: Get "https://10.96.0.73:7443/apis/wardle.example.com/v1alpha1": dial tcp 10.96.0.73:7443: connect: connection refused'
is "not served" "$(api /apis/wardle.example.com/v1alpha1/flunders -w '%{http_code}')" "service unavailable
503"
has "its discovery is stale" "$(answer /apis -H 'Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList')" '"freshness":"Stale"'
run sample "$SAMPLE" --etcd-servers=http://127.0.0.1:2379 --tls-cert-file="$P/hook.crt" --tls-private-key-file="$P/hook.key" --secure-port=7443 \
  --authentication-kubeconfig="$DIR/admin.kubeconfig" --authorization-kubeconfig="$DIR/admin.kubeconfig" --kubeconfig="$DIR/admin.kubeconfig"
wait_for "it is available" 60 k wait --for=condition=Available apiservice/v1alpha1.wardle.example.com --timeout=1s
is "the condition" "$(status)" "True Passed all checks passed"
has "its group" "$(answer /apis)" '"name":"wardle.example.com"'
has "its resources" "$(k api-resources --api-group=wardle.example.com)" flunders
has "an object of it" "$(k create -f - <<Y
{"kind":"Flunder","apiVersion":"wardle.example.com/v1alpha1","metadata":{"name":"f","namespace":"t","labels":{"sample-label":"true"}}}
Y
)" 'flunder.wardle.example.com/f created'
has "a list of them" "$(k -n t get flunders -o name)" flunder.wardle.example.com/f
as() { local u=$1; shift; "$KUBECTL" --kubeconfig "$DIR/$u.kubeconfig" "$@" 2>&1; }
has "the user arrives" "$(as bob -n t get flunders)" 'User "bob" cannot list resource "flunders" in API group "wardle.example.com" in the namespace "t"'
has "a watch of them" "$(timeout 5 "$KUBECTL" --kubeconfig "$DIR/admin.kubeconfig" -n t get flunders -w -o name 2> /dev/null | head -1)" flunder.wardle.example.com/f
has "explained" "$(k explain flunders.spec)" 'KIND:       Flunder'
has "in OpenAPI v2" "$(api /openapi/v2 | grep -o '"/apis/wardle.example.com/v1alpha1/flunders"' | head -1)" wardle
kill "$PID_sample"; sleep 1
wait_for "gone again" 60 sh -c "$KUBECTL --kubeconfig $DIR/admin.kubeconfig get apiservice v1alpha1.wardle.example.com -o yaml | grep FailedDiscoveryCheck"
k delete apiservice v1alpha1.wardle.example.com > /dev/null; sleep 1
is "unregistered" "$(api /apis/wardle.example.com/v1alpha1/flunders -o /dev/null -w '%{http_code}')" 404
if [ -n "${KEEP:-}" ]; then echo "kept: $DIR"; fi
echo "$PASS passed, $FAIL failed"
[ "$FAIL" = 0 ]
