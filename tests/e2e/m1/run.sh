#!/bin/bash
# M1: the API server on etcd, alone, driven by kubectl; then upstream's controller-manager and scheduler on it.
#
# Everything runs in network and PID namespaces of its own, on loopback, below a temporary directory; leaving ends it.
# Programs come from the environment:
#   APISERVER  the server under test with its subcommand, such as "copepod apiserver" (or upstream's kube-apiserver:
#              the test must pass on the original too)
#   ETCD KUBECTL KCM SCHEDULER   upstream's programs
# Prints one line a check and the counts at the end; exits 1 when a check failed.
set -u
: "${APISERVER:?}" "${ETCD:?}" "${KUBECTL:?}" "${KCM:?}" "${SCHEDULER:?}"
if [ "${M1_INSIDE:-}" != yes ]; then
  exec env M1_INSIDE=yes unshare --net --pid --fork --kill-child --mount-proc bash "$0" "$@"
fi
ip link set lo up
ip address add 192.168.77.1/32 dev lo # an address that may be advertised, which loopback's own may not
HERE=$(cd "$(dirname "$0")" && pwd)
DIR=$(mktemp -d); P=$DIR/pki; mkdir -p "$P"
trap '[ -n "${KEEP:-}" ] || rm -rf "$DIR"' EXIT
# shellcheck source=tests/e2e/lib.sh
source "$HERE/../lib.sh"

# --- certificates -----------------------------------------------------------------------------------------------------
authority ca kubernetes
crt apiserver /CN=kube-apiserver serverAuth DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.96.0.1
crt admin /O=system:masters/CN=admin clientAuth
crt bob /O=dev/O=ops/CN=bob clientAuth
crt kcm /CN=system:kube-controller-manager clientAuth
crt sched /CN=system:kube-scheduler clientAuth
crt node1 /O=system:nodes/CN=system:node:node1 clientAuth
for user in admin bob kcm sched node1; do kubeconfig $user; done
openssl genrsa -out "$P/sa.key" 2048 2>/dev/null

# --- servers ----------------------------------------------------------------------------------------------------------
run etcd "$ETCD" --data-dir "$DIR/etcd" --unsafe-no-fsync --log-level error --listen-client-urls http://127.0.0.1:2379 \
  --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380
start_apiserver() {
  # shellcheck disable=SC2086 # the command may carry its subcommand
  run apiserver $APISERVER --etcd-servers=http://127.0.0.1:2379 --advertise-address=192.168.77.1 --bind-address=127.0.0.1 --secure-port=6443 \
    --allow-privileged=true --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --client-ca-file="$P/ca.crt" \
    --tls-cert-file="$P/apiserver.crt" --tls-private-key-file="$P/apiserver.key" --service-cluster-ip-range=10.96.0.0/12 \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local --service-account-key-file="$P/sa.key" \
    --service-account-signing-key-file="$P/sa.key"
}
start_apiserver
k() { "$KUBECTL" --kubeconfig "$DIR/admin.kubeconfig" "$@" 2>&1; }
as() { local u=$1; shift; "$KUBECTL" --kubeconfig "$DIR/$u.kubeconfig" "$@" 2>&1; }
# A user agent of its own: upstream indents what it sends to curl.
api() { local path=$1; shift; curl -s -A m1 --cacert "$P/ca.crt" --cert "$P/admin.crt" --key "$P/admin.key" "$@" "https://127.0.0.1:6443$path"; }
wait_for "ready" 60 k get --raw /readyz || { tail -5 "$DIR"/*.log; exit 1; }
is "readyz says ok" "$(k get --raw /readyz)" ok
has "version" "$(k version)" "Server Version: v1.37"
has "anonymous is refused" "$(curl -sk -A m1 https://127.0.0.1:6443/api/v1/pods)" 'User \"system:anonymous\" cannot list resource \"pods\"'
has "a wrong token is unauthorized" "$(curl -sk -A m1 -H 'Authorization: Bearer x.y.z' https://127.0.0.1:6443/api/v1/pods)" '"reason":"Unauthorized"'

# --- kubectl ----------------------------------------------------------------------------------------------------------
k create namespace t > /dev/null; k -n t create serviceaccount default > /dev/null
has "create" "$(k -n t create -f "$HERE/web.yaml")" "deployment.apps/web created"
for format in name wide yaml json jsonpath='{.spec.replicas}' custom-columns=N:.metadata.name go-template='{{.kind}}'; do
  if k -n t get deployment web -o "$format" > /dev/null; then ok "get -o $format"; else bad "get -o $format"; fi
done
has "a table" "$(k -n t get deployment web)" "NAME   READY   UP-TO-DATE   AVAILABLE   AGE"
has "apply, client side" "$(k -n t apply -f "$HERE/web.yaml")" "deployment.apps/web configured"
has "apply again" "$(k -n t apply -f "$HERE/web.yaml")" "deployment.apps/web unchanged"
sed 's/replicas: 2/replicas: 3/' "$HERE/web.yaml" > "$DIR/web3.yaml"
has "diff" "$(k -n t diff -f "$DIR/web3.yaml")" "+  replicas: 3"
has "apply, server side" "$(k -n t apply --server-side --force-conflicts -f "$DIR/web3.yaml")" "serverside-applied"
k -n t scale deployment web --replicas=4 > /dev/null
has "a conflict names the manager" "$(k -n t apply --server-side -f "$DIR/web3.yaml" --field-manager other)" "conflict"
k -n t create configmap c --from-literal=a=1 > /dev/null
has "strategic patch" "$(k -n t patch configmap c -p '{"data":{"b":"2"}}')" patched
has "merge patch" "$(k -n t patch configmap c --type merge -p '{"data":{"a":null}}')" patched
has "JSON patch" "$(k -n t patch configmap c --type json -p '[{"op":"add","path":"/data/c","value":"3"}]')" patched
is "patched data" "$(k -n t get configmap c -o jsonpath='{.data}')" '{"b":"2","c":"3"}'
has "a JSON patch that fails its test" "$(k -n t patch configmap c --type json -p '[{"op":"test","path":"/data/c","value":"9"}]')" "The request is invalid"
has "explain" "$(k explain deployment.spec.replicas)" "FIELD: replicas <integer>"
has "api-resources" "$(k api-resources)" "horizontalpodautoscalers"
has "an unknown field is refused" "$(sed 's/replicas: 2/replicas: 2\n  foo: 1/' "$HERE/web.yaml" | k -n t create --dry-run=server -f -)" 'unknown field "spec.foo"'
has "an invalid object is refused" "$(k -n t create service clusterip s --tcp=99999)" "99999"
has "not found" "$(k -n t get configmap nope)" 'configmaps "nope" not found'
has "a stale update conflicts" "$(k -n t get configmap c -o json | sed 's/"resourceVersion": "[0-9]*"/"resourceVersion": "1"/' | k -n t replace -f -)" "the object has been modified"
has "dry run" "$(k -n t create configmap d --from-literal=a=1 --dry-run=server)" "server dry run"
has "dry run stores nothing" "$(k -n t get configmap d)" "not found"
has "partial metadata" "$(api /api/v1/namespaces/t/configmaps/c -H 'Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1')" '"kind":"PartialObjectMetadata"'
has "YAML on request" "$(api /api/v1/namespaces/t/configmaps/c -H 'Accept: application/yaml')" "kind: ConfigMap"
has "a Table of a review is not acceptable" "$(api /apis/authorization.k8s.io/v1/selfsubjectaccessreviews -X POST -H 'Content-Type: application/json' -H 'Accept: application/json;as=Table;g=meta.k8s.io;v=v1' -d '{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}')" NotAcceptable
has "too large a body" "$(head -c 3200000 /dev/zero | tr '\0' ' ' | api /api/v1/namespaces/t/configmaps -X POST -H 'Content-Type: application/json' --data-binary @-)" RequestEntityTooLarge

# --- custom resources -------------------------------------------------------------------------------------------------
k create -f "$HERE/crd.yaml" > /dev/null
wait_for "a CRD is established" 10 k wait --for=condition=Established crd/crontabs.stable.example.com --timeout=1s
wait_for "its objects can be made at once" 10 k -n t create -f "$HERE/crontab.yaml"
has "their columns" "$(k -n t get ct)" "* * * * */5"
is "their defaults" "$(k -n t get ct a -o jsonpath='{.spec.image}')" busybox
has "their validation" "$(k -n t patch ct a --type merge -p '{"spec":{"replicas":99}}')" "should be less than or equal to 10"
has "their scale" "$(k -n t scale ct a --replicas=2)" scaled
has "their explanation" "$(k explain ct.spec.cronSpec)" "the schedule"
k delete crd crontabs.stable.example.com > /dev/null
wait_for "and they go with it" 20 bash -c "! \"$KUBECTL\" --kubeconfig $DIR/admin.kubeconfig get ct -A"

# --- permission -------------------------------------------------------------------------------------------------------
has "RBAC refuses" "$(as bob -n t get pods)" 'User "bob" cannot list resource "pods" in API group "" in the namespace "t"'
k -n t create role r --verb=list --resource=pods > /dev/null; k -n t create rolebinding rb --role=r --group=ops > /dev/null
wait_for "RBAC allows by the second group of a certificate" 5 as bob -n t get pods
has "and no more" "$(as bob get pods -A)" "at the cluster scope"
k create clusterrole rolemaker --verb=create,get --resource=clusterroles > /dev/null
k create clusterrolebinding rolemaker --clusterrole=rolemaker --user=bob > /dev/null; sleep 0.5
has "nobody grants what they do not have" "$(as bob create clusterrole mine --verb=get --resource=secrets)" "is attempting to grant RBAC permissions not currently held"
has "a node reads no secret of others" "$(as node1 -n t get secret x)" "no relationship found between node 'node1' and this object"
has "can-i" "$(k auth can-i list pods --as bob --as-group ops -n t)" yes
TOKEN=$(k -n t create token default)
has "a ServiceAccount's token works" "$(curl -sk -A m1 -H "Authorization: Bearer $TOKEN" https://127.0.0.1:6443/api/v1/pods)" 'User \"system:serviceaccount:t:default\"'
k -n t delete serviceaccount default > /dev/null
dead() { curl -sk -A m1 -H "Authorization: Bearer $TOKEN" https://127.0.0.1:6443/api/v1/pods | grep -q '"reason":"Unauthorized"'; }
wait_for "and dies with its account" 20 dead # upstream remembers a token's answer for ten seconds
k -n t create serviceaccount default > /dev/null

# --- 1,000 objects in chunks, one watcher per kind --------------------------------------------------------------------
k create namespace load > /dev/null
RV=$(api '/api/v1/configmaps?limit=1' | grep -o '"resourceVersion":"[0-9]*"' | head -1 | tr -dc 0-9)
WATCHERS=0
for path in $(k api-resources --verbs=list,watch -o name | sort -u); do
  resource=${path%%.*}; group=${path#*.}; [ "$group" = "$path" ] && prefix=/api/v1 || prefix=/apis/$group
  if [ "$prefix" != /api/v1 ]; then
    prefix=$prefix/$(api "$prefix" | grep -o '"preferredVersion":{[^}]*}' | grep -o '"version":"[^"]*"' | cut -d'"' -f4)
  fi
  api "$prefix/$resource?watch=1&resourceVersion=$RV" -N > "$DIR/watch.$path" & WATCHERS=$((WATCHERS + 1))
done
sleep 1
{ for i in $(seq 1000); do
    [ "$i" -gt 1 ] && echo next
    printf 'url = "https://127.0.0.1:6443/api/v1/namespaces/load/configmaps"\ncacert = "%s"\ncert = "%s"\nkey = "%s"\noutput = "/dev/null"\nwrite-out = "%%{http_code}\\n"\nsilent\nheader = "Content-Type: application/json"\n' "$P/ca.crt" "$P/admin.crt" "$P/admin.key"
    printf 'data = "{\\"kind\\":\\"ConfigMap\\",\\"apiVersion\\":\\"v1\\",\\"metadata\\":{\\"name\\":\\"c%04d\\"},\\"data\\":{\\"k\\":\\"v\\"}}"\n' "$i"
  done; } > "$DIR/create.curl"
is "1,000 objects created" "$(curl -s -A m1 --parallel --parallel-max 16 -K "$DIR/create.curl" 2> /dev/null | grep -c 201)" 1000
is "listed in chunks of 70" "$(k -n load get configmaps --chunk-size=70 -o name | sort -u | grep -c configmap/c)" 1000
has "labelled" "$(k -n load label configmaps --all x=y | tail -1)" labeled
is "deleted as a collection" "$(api /api/v1/namespaces/load/configmaps -X DELETE | grep -o '"name":"c[0-9]*"' | sort -u | wc -l)" 1000
events() { grep -o "\"type\":\"$1\",\"object\":{\"kind\":\"[A-Za-z]*\"[^}]*\"name\":\"c[0-9]*\"" "$DIR/watch.configmaps" | wc -l; }
for _ in $(seq 100); do [ "$(events DELETED)" -ge 1000 ] && break; sleep 0.2; done
for type in ADDED MODIFIED DELETED; do is "$type events of ConfigMaps" "$(events $type)" 1000; done
STRAY=$(grep -l '"namespace":"load"' "$DIR"/watch.* | grep -vc '/watch.configmaps$')
is "events of other kinds in the $WATCHERS watchers" "$STRAY" 0

# --- upstream's controllers and scheduler -----------------------------------------------------------------------------
run kcm "$KCM" --kubeconfig="$DIR/kcm.kubeconfig" --authentication-kubeconfig="$DIR/kcm.kubeconfig" --authorization-kubeconfig="$DIR/kcm.kubeconfig" \
  --bind-address=127.0.0.1 --client-ca-file="$P/ca.crt" --root-ca-file="$P/ca.crt" --cluster-signing-cert-file="$P/ca.crt" --cluster-signing-key-file="$P/ca.key" \
  --service-account-private-key-file="$P/sa.key" --use-service-account-credentials=true --allocate-node-cidrs=true --cluster-cidr=10.244.0.0/16 \
  --service-cluster-ip-range=10.96.0.0/12 --leader-elect=false --cert-dir="$DIR/kcm-certs" --kube-api-content-type=application/json
run sched "$SCHEDULER" --kubeconfig="$DIR/sched.kubeconfig" --authentication-kubeconfig="$DIR/sched.kubeconfig" --authorization-kubeconfig="$DIR/sched.kubeconfig" \
  --bind-address=127.0.0.1 --leader-elect=false --cert-dir="$DIR/sched-certs" --kube-api-content-type=application/json
has "a node registers itself" "$(as node1 create -f "$HERE/node.yaml")" "node/node1 created"
NOW=$(date -u +%Y-%m-%dT%H:%M:%SZ)
has "and reports its status" "$(sed "s/NOW/$NOW/g" "$HERE/node-status.json" | curl -s -A m1 --cacert "$P/ca.crt" --cert "$P/node1.crt" --key "$P/node1.key" \
  -X PATCH -H 'Content-Type: application/merge-patch+json' --data-binary @- https://127.0.0.1:6443/api/v1/nodes/node1/status)" '"reason":"KubeletReady"'
bound() { [ "$(k -n t get pods -l app=web -o jsonpath='{range .items[*]}{.spec.nodeName}{"\n"}{end}' | grep -c node1)" = 4 ]; }
wait_for "four Pods of the Deployment are bound to the node" 60 bound
wait_for "aggregated roles are filled in" 20 bash -c "[ \$(\"$KUBECTL\" --kubeconfig $DIR/admin.kubeconfig get clusterrole view -o json | grep -c verbs) -gt 5 ]"
has "the pod carries a projected token" "$(k -n t get pods -l app=web -o jsonpath='{.items[0].spec.volumes[*].name}')" kube-api-access-
k delete namespace load > /dev/null & wait_for "a namespace goes when asked" 60 bash -c "! \"$KUBECTL\" --kubeconfig $DIR/admin.kubeconfig get namespace load"
k -n t delete deployment web > /dev/null
gone() { [ -z "$(k -n t get replicasets -o name)" ]; }
wait_for "garbage collection follows a deletion" 30 gone
TROUBLE=$(grep -hiE '^[EWF].*(forbidden|unauthorized|the object has been modified|unable to decode|no kind .* is registered|could not find the requested resource)' "$DIR/kcm.log" "$DIR/sched.log" | head -5)
is "no forbidden, conflict or decode error in the logs" "$TROUBLE" ""

# --- restart ----------------------------------------------------------------------------------------------------------
kill "$PID_apiserver"; wait "$PID_apiserver" 2>/dev/null
start_apiserver
wait_for "the server comes back with the same state" 30 k get namespace t
printf "m1: %d passed, %d failed (%d watchers)%s\n" "$PASS" "$FAIL" "$WATCHERS" "$FAILED" # failures once more: logs get cut
[ "$FAIL" = 0 ]
