#!/bin/bash
# One etcd data directory, two API servers in turn: ours writes, upstream's reads, lists and changes everything, ours goes on.
#
#   OURS UPSTREAM   the two servers with their subcommands, such as "copepod apiserver"
#   ETCD KUBECTL    upstream's programs
# Prints one line a check and the counts at the end; exits 1 when a check failed.
set -u
: "${OURS:?}" "${UPSTREAM:?}" "${ETCD:?}" "${KUBECTL:?}"
if [ "${SWITCH_INSIDE:-}" != yes ]; then
  exec env SWITCH_INSIDE=yes unshare --net --pid --fork --kill-child --mount-proc bash "$0" "$@"
fi
ip link set lo up
ip address add 192.168.79.1/32 dev lo # an address that may be advertised, which loopback's own may not
HERE=$(cd "$(dirname "$0")" && pwd)
DIR=$(mktemp -d); trap '[ -n "${KEEP:-}" ] || rm -rf "$DIR"' EXIT
# shellcheck source=tests/e2e/lib.sh
source "$HERE/../lib.sh"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$DIR/tls.key" -out "$DIR/tls.crt" -days 30 \
  -subj /CN=kube-apiserver -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2> /dev/null
openssl genrsa -out "$DIR/sa.key" 2048 2> /dev/null
echo 'admin-token,admin,1,"system:masters"' > "$DIR/tokens.csv"
"$ETCD" --data-dir "$DIR/etcd" --unsafe-no-fsync --log-level error --listen-client-urls http://127.0.0.1:2379 \
  --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 > "$DIR/etcd.log" 2>&1 < /dev/null &
k() { "$KUBECTL" --server https://127.0.0.1:6443 --certificate-authority "$DIR/tls.crt" --token admin-token --cache-dir "$DIR/cache" "$@" 2>&1; }
start() { # command
  # shellcheck disable=SC2086 # the command may carry its subcommand
  $1 --etcd-servers=http://127.0.0.1:2379 --advertise-address=192.168.79.1 --bind-address=127.0.0.1 --secure-port=6443 --allow-privileged=true \
    --authorization-mode=Node,RBAC --disable-admission-plugins=ServiceAccount --tls-cert-file="$DIR/tls.crt" --tls-private-key-file="$DIR/tls.key" \
    --service-cluster-ip-range=10.96.0.0/12 --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$DIR/sa.key" \
    --service-account-signing-key-file="$DIR/sa.key" --token-auth-file="$DIR/tokens.csv" > "$DIR/apiserver.log" 2>&1 < /dev/null &
  SERVER=$!
  wait_for "ready: $1" 90 k get --raw /readyz || { tail -5 "$DIR/apiserver.log"; exit 1; }
}
stop() { kill -9 "$SERVER"; wait "$SERVER" 2> /dev/null; }
RESOURCES=
resources() { k api-resources --verbs=list -o name | grep -v '^events\|componentstatuses' | sort; }
# Everything there is, without what the servers keep renewing. One list of all resources: a kubectl for each would be most of
# this test's time.
dump() {
  k get "$(echo "$RESOURCES" | paste -sd,)" -A -o json --show-managed-fields | grep -v ^Warning | jq -cS \
    '.items[] | select(.kind != "Lease" and .kind != "FlowSchema" and .kind != "PriorityLevelConfiguration" and .kind != "APIService"
      and .kind != "ServiceCIDR" and .kind != "EndpointSlice" and .kind != "Endpoints" and .metadata.namespace != "kube-system"
      and ((.metadata.labels // {}) | has("kubernetes.io/bootstrapping") | not)) | [.apiVersion, .kind, .metadata.namespace, .metadata.name, .]'
}

start "$OURS"
k create namespace switch > /dev/null
is "objects of all kinds are made by ours" "$(k create -f "$HERE/objects.yaml" | grep -v 'created\|^Warning')" ""
k create -f "$HERE/custom.yaml" > /dev/null; wait_for "a custom resource" 10 k -n switch create -f "$HERE/widget.yaml"
RESOURCES=$(resources)
dump > "$DIR/ours.1"; echo "     $(wc -l < "$DIR/ours.1") objects of $(echo "$RESOURCES" | wc -l) resources"
stop

start "$UPSTREAM"
is "upstream lists the same resources" "$(resources | tr '\n' ' ')" "$(echo "$RESOURCES" | tr '\n' ' ')"
dump > "$DIR/upstream.1"
is "upstream reads what ours wrote" "$(diff "$DIR/ours.1" "$DIR/upstream.1" | head -c 1500)" ""
grep -iE 'unable to decode|no kind .* is registered|failed to list|unexpected object' "$DIR/apiserver.log" | head -3 > "$DIR/trouble"
is "and complains of nothing" "$(cat "$DIR/trouble")" ""
is "upstream changes all of it" "$(for r in $RESOURCES; do
    case $r in ipaddresses*|servicecidrs*|leases*|apiservices*|nodes|namespaces|customresource*|flow*|priorityl*) continue ;; esac
    k label "$r" --all -A switched=yes | grep -iE '^error|invalid'; done | head -c 600)" ""
is "upstream makes more" "$(sed 's/name: s-/name: u-/; s/10\.99\.0\.7/10.99.0.8/; s/10\.100\.0\.0/10.101.0.0/; s/10\.96\.7\.7/10.96.7.8/; s/nodePort: 30777/nodePort: 30778/; s/s-csi/u-csi/' \
  "$HERE/objects.yaml" | k create -f - | grep -v 'created\|^Warning')" ""
k -n switch patch widget s-widget --type merge -p '{"spec":{"size":7}}' > /dev/null
dump > "$DIR/upstream.2"; echo "     $(wc -l < "$DIR/upstream.2") objects"
stop

start "$OURS"
dump > "$DIR/ours.2"
is "ours reads what upstream wrote, protobuf and all" "$(diff "$DIR/upstream.2" "$DIR/ours.2" | head -c 1500)" ""
is "nothing is unreadable" "$(grep -c 'cannot be read' "$DIR/apiserver.log")" 0
is "ours changes what upstream made" "$(k -n switch annotate deployment u-deployment ours=yes | tail -1)" "deployment.apps/u-deployment annotated"
is "an allocated node port stays taken" "$(k -n switch create service nodeport x --tcp=80 --node-port=30778 | grep -c 'already allocated')" 1
is "an address stays taken" "$(k -n switch create service clusterip y --tcp=80 --clusterip=10.96.7.8 | grep -c 'already allocated')" 1
is "ours deletes it" "$(k -n switch delete deployment u-deployment s-deployment | grep -c deleted)" 2
stop

start "$UPSTREAM"
is "upstream sees it gone" "$(k -n switch get deployments -o name | wc -l)" 0
is "upstream keeps ours of the second turn" "$(k -n switch get configmap u-configmap s-configmap -o name | wc -l)" 2
stop
echo "switch: $PASS passed, $FAIL failed"
[ "$FAIL" = 0 ]
