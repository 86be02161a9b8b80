#!/bin/bash
# What a person sees: the commands of commands.txt, one a line, by kubectl on our API server and controller-manager and on
# upstream's, side by side; then where the two say something else. `@settle` lets controllers catch up.
#
# Programs come from the environment:
#   COPEPOD              ours
#   APISERVER KCM        upstream's kube-apiserver and kube-controller-manager
#   ETCD KUBECTL         upstream's programs
#   RESULTS              a folder for what each command said, as it was and in its normal form
# Arguments are numbers of lines to compare; all where none is given (all are run). Exits 1 when something differs.
set -u
: "${COPEPOD:?}" "${APISERVER:?}" "${KCM:?}" "${ETCD:?}" "${KUBECTL:?}" "${RESULTS:?}"
if [ "${KUBECTL_INSIDE:-}" != yes ]; then
  exec env KUBECTL_INSIDE=yes unshare --net --pid --fork --kill-child --mount-proc bash "$0" "$@"
fi
ip link set lo up; ip address add 192.168.77.1/32 dev lo # an address that may be advertised
cd "$(dirname "$0")" || exit 1
mkdir -p "$RESULTS"; RESULTS=$(cd "$RESULTS" && pwd)
WORK=$(mktemp -d); P=$WORK/pki; mkdir "$P"; trap 'rm -rf "$WORK"' EXIT; export WORK HOME=$WORK
DIR=$WORK
# shellcheck source=tests/e2e/lib.sh
source ../lib.sh
authority ca kubernetes
crt apiserver /CN=kube-apiserver serverAuth DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.96.0.1
crt admin /O=system:masters/CN=admin clientAuth
crt kcm /CN=system:kube-controller-manager clientAuth
openssl genrsa -out "$P/sa.key" 2048 2> /dev/null
for user in admin kcm; do kubeconfig $user 6443 "$WORK/$user-ours.kubeconfig"; kubeconfig $user 6444 "$WORK/$user-upstream.kubeconfig"; done
openssl req -new -newkey rsa:2048 -nodes -keyout /dev/null -subj /CN=me/O=dev -out "$WORK/me.csr" 2> /dev/null
cat > "$WORK/csr.yaml" <<C
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: mycsr}
spec: {request: $(base64 -w0 "$WORK/me.csr"), signerName: kubernetes.io/kube-apiserver-client, usages: [client auth]}
C

launch() { local name=$1; shift; "$@" > "$RESULTS/$name.log" 2>&1 < /dev/null & }
servers() { # whose etcd-port port secure-port-of-the-manager
  launch "$1-etcd" "$ETCD" --data-dir "$WORK/$1" --unsafe-no-fsync --log-level error --listen-client-urls "http://127.0.0.1:$2" \
    --advertise-client-urls "http://127.0.0.1:$2" --listen-peer-urls "http://127.0.0.1:$(($2 + 1))"
  local apiserver=$APISERVER manager=$KCM
  [ "$1" = ours ] && apiserver="$COPEPOD apiserver" manager="$COPEPOD controller-manager"
  # shellcheck disable=SC2086 # the command may carry its subcommand
  launch "$1-apiserver" $apiserver --etcd-servers="http://127.0.0.1:$2" --advertise-address=192.168.77.1 --bind-address=127.0.0.1 \
    --secure-port="$3" --allow-privileged=true --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
    --client-ca-file="$P/ca.crt" --tls-cert-file="$P/apiserver.crt" --tls-private-key-file="$P/apiserver.key" \
    --service-cluster-ip-range=10.96.0.0/12 --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --service-account-key-file="$P/sa.key" --service-account-signing-key-file="$P/sa.key"
  wait_for "$1" get --raw /readyz
  # shellcheck disable=SC2086
  launch "$1-controller-manager" $manager --kubeconfig="$WORK/kcm-$1.kubeconfig" --service-account-private-key-file="$P/sa.key" \
    --root-ca-file="$P/ca.crt" --cluster-signing-cert-file="$P/ca.crt" --cluster-signing-key-file="$P/ca.key" \
    --use-service-account-credentials=true --leader-elect=false --secure-port="$4"
  wait_for "$1" get serviceaccount default
}
wait_for() { # whose command...
  local whose=$1; shift
  for _ in $(seq 300); do "$KUBECTL" --kubeconfig "$WORK/admin-$whose.kubeconfig" "$@" > /dev/null 2>&1 && return; sleep 0.2; done
  echo "$whose: not in time: $*"; exit 1
}
mkdir "$WORK/bin"; ln -s "$KUBECTL" "$WORK/bin/kubectl"; export PATH=$WORK/bin:$PATH KUBE_EDITOR="sed -i s/size:.2/size:.5/"
commands() { # whose
  local n=0 line
  rm -rf "${RESULTS:?}/$1"; mkdir -p "$RESULTS/$1"; export KUBECONFIG=$WORK/admin-$1.kubeconfig
  while IFS= read -r line; do
    n=$((n + 1))
    [ "$line" = @settle ] && sleep 2.5 && continue
    { echo "\$ $line"; timeout 60 bash -c "$line" 2>&1 < /dev/null; echo "exit $?"; } > "$RESULTS/$1/$(printf %03d $n)"
  done < commands.txt
}
# Without what two right servers may differ in: identities, times, addresses and letters drawn by lot.
normal() {
  sed -E -e 's/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/UID/g' -e 's/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]+)?Z/TIME/g' \
    -e 's/[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} [+-][0-9]{4}|[0-9]{4}-[0-9-]{5} [0-9:]{8} \+0000 UTC/TIME/g' \
    -e 's/(resourceVersion"?:|Resource Version:) *"?[0-9]+"?/\1 RV/g' -e 's/127\.0\.0\.1:644[34]/SERVER/g; s/targetPort: 644[34]/targetPort: SERVER/' \
    -e 's/\b10\.(9[6-9]|10[0-9]|11[01])\.[0-9]+\.[0-9]+/IP/g' -e 's/\b3[0-2][0-9]{3}\b/PORT/g' -e 's/kube-api-access-[a-z0-9]{5}/kube-api-access-R/g' \
    -e 's/\b(web2?|rc|ds|j|fromcj|cj|st)-[0-9a-f]{7,10}(-[0-9a-z]{5})?\b/\1-HASH/g' -e 's/\b(web|rc|ds|j|fromcj|lb|np)-[0-9a-z]{5}\b/\1-R/g' \
    -e 's/(pod-template-hash|controller-revision-hash)[:=] *[0-9a-z]+/\1=HASH/g' -e 's/kubectl-edit-[0-9]+/kubectl-edit-N/' \
    -e 's/\b[0-9]+(\.[0-9]+)?m?s\b|\b[0-9]+m[0-9]+s\b|<unknown>|<invalid>/AGE/g' -e 's/\(x[0-9]+ over AGE\)/(xN)/' \
    -e 's/^[EWI][0-9]{4} [0-9:.]+ +[0-9]+ //' -e 's/ +/ /g' "$1"
}
servers ours 2389 6443 10257
servers upstream 2399 6444 10258
commands ours & ours=$!
commands upstream
wait $ours
differ=0 total=0
for file in "$RESULTS"/upstream/*; do
  name=$(basename "$file")
  case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
  total=$((total + 1))
  found=$(diff <(normal "$file" | sort) <(normal "$RESULTS/ours/$name" | sort) | grep '^[<>]')
  if [ -n "$found" ]; then
    differ=$((differ + 1)); printf '== %s %s\n%s\n' "$name" "$(head -1 "$file")" "$(echo "$found" | head -"${LINES_SHOWN:-12}" | cut -c1-240)"
  fi
done | tee "$RESULTS/differences"
differ=$(grep -c '^== ' "$RESULTS/differences")
echo "kubectl: $(find "$RESULTS/upstream" -type f | wc -l) commands, $differ answered otherwise"
[ "$differ" = 0 ]
