#!/bin/bash
# Upstream's kubectl scenarios (test/cmd of k8s.io/kubernetes) against an API server and a controller-manager without nodes.
#
# The scripts are read from the Go module; what their own driver (hack/make-rules/test-cmd.sh) does with make and Go is
# done here with programs from the environment:
#   APISERVER KCM        the programs under test with their subcommands, such as "copepod apiserver"; upstream's will do
#   ETCD KUBECTL         upstream's programs
#   MODULE               the unpacked k8s.io/kubernetes module
#   KUBECTL_CONVERT      upstream's plugin for `kubectl convert`
#   RESULTS              a folder for one file of output per scenario, and results.tsv: name, ok or failed, seconds, cause
#   LIMIT                seconds after which a scenario has failed, 900 where not given
# Arguments are names of scenarios (run_<name>_tests); all of them where none is given.
set -u
: "${APISERVER:?}" "${KCM:?}" "${ETCD:?}" "${KUBECTL:?}" "${KUBECTL_CONVERT:?}" "${MODULE:?}" "${RESULTS:?}" "${LIMIT:=900}"
if [ "${CMD_INSIDE:-}" != yes ]; then
  exec env CMD_INSIDE=yes unshare --net --pid --fork --kill-child --mount --mount-proc bash "$0" "$@"
fi
ip link set lo up
ip address add 192.168.78.1/32 dev lo # an address that may be advertised, which loopback's own may not
DIR=$(mktemp -d); trap 'rm -rf "$DIR"' EXIT
ROOT=$DIR/kubernetes
mkdir -p "$ROOT/_output/bin" "$ROOT/third_party/forked/shell2junit" "$DIR/tmp" "$RESULTS"
RESULTS=$(cd "$RESULTS" && pwd); : > "$RESULTS/results.tsv"
# The scripts write beside themselves; a module cache is read-only.
for folder in hack test/cmd test/fixtures; do mkdir -p "$ROOT/$folder"; cp -r "$MODULE/$folder/." "$ROOT/$folder"; done
for file in $(cd "$MODULE" && grep -rhoE '(cluster|test/e2e|plugin|pkg|staging)/[A-Za-z0-9_./-]+\.(yaml|json)' test/cmd | sort -u); do
  [ -f "$MODULE/$file" ] && mkdir -p "$ROOT/$(dirname "$file")" && cp "$MODULE/$file" "$ROOT/$file"
done
chmod -R u+w "$ROOT"
# Modules carry no permission bits.
find "$ROOT/hack" "$ROOT/test" \( -name '*.sh' -o -path '*/plugins/*' -name 'kubectl-*' \) -type f -exec chmod +x {} +
BIN=$ROOT/_output/bin
ln -s "$KUBECTL" "$BIN/kubectl"
ln -s "$KUBECTL_CONVERT" "$BIN/kubectl-convert"
mkdir "$DIR/bin"; ln -s "$ETCD" "$DIR/bin/etcd"; ln -s "$KUBECTL_CONVERT" "$DIR/bin/kubectl-convert"
printf '#!/bin/sh\nexit 0\n' > "$DIR/bin/make" # everything is built already
printf '#!/bin/sh\necho go version go1.99 linux/amd64\n' > "$DIR/bin/go"
chmod +x "$DIR"/bin/make "$DIR/bin/go"
export PATH=$DIR/bin:$PATH TMPDIR=$DIR/tmp TERM=${TERM:-xterm} LANG=C RESULTS

# A scenario reads a manifest from the project's repository by its address: it is served from the module.
SITE=raw.githubusercontent.com
ip address add 192.168.78.2/32 dev lo
{ cat /etc/hosts; echo "192.168.78.2 $SITE"; } > "$DIR/hosts"; mount --bind "$DIR/hosts" /etc/hosts
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$DIR/site.key" -out "$DIR/site.crt" -days 30 \
  -subj "/CN=$SITE" -addext "subjectAltName=DNS:$SITE" 2> /dev/null
mkdir -p "$DIR/site/kubernetes/kubernetes"; ln -s "$MODULE" "$DIR/site/kubernetes/kubernetes/master"
(cd "$DIR/site" && exec openssl s_server -quiet -WWW -accept 192.168.78.2:443 -key "$DIR/site.key" -cert "$DIR/site.crt" \
  > "$RESULTS/site.log" 2>&1 < /dev/null) &
export SSL_CERT_FILE=$DIR/site.crt # kubectl knows no other site, and names the authorities of the servers under test

# In the place of upstream's JUnit recorder: a scenario runs in a subshell; its output is kept, its verdict noted, and
# one that does not end is ended.
cat > "$ROOT/third_party/forked/shell2junit/sh2ju.sh" <<'JU'
juLog() {
  local name=run code start=$SECONDS log
  while [[ "$1" == -* ]]; do [[ "$1" == -name=* ]] && name=${1#-name=}; shift; done
  log=$RESULTS/$name.log
  [[ "$name" == record_command_canary ]] && log=/dev/null
  set -m
  ( set +m; set -o errexit; "$@" ) > "$log" 2>&1 < /dev/null &
  local scenario=$!
  ( set +m; sleep "$LIMIT"; echo "no end after $LIMIT s" >> "$log"; kill -KILL -- "-$scenario" ) > /dev/null 2>&1 &
  local limit=$!
  set +m
  wait "$scenario" 2> /dev/null
  code=$?
  kill -KILL -- "-$limit" 2> /dev/null; wait "$limit" 2> /dev/null
  if [[ "$name" != record_command_canary ]]; then
    local verdict=ok cause=
    if [[ $code -ne 0 ]]; then
      verdict=failed
      cause=$(grep -v '^[[:space:]]*$' "$log" | grep -vE '^\+\+\+|^!!! \[|Call tree|^[[:space:]]+[0-9]+:' | tail -4 | tr '\n\t' '  ' | tail -c 300)
    fi
    printf '%s\t%s\t%s\t%s\n' "$name" "$verdict" "$((SECONDS - start))" "$cause" >> "$RESULTS/results.tsv"
    echo "$verdict $name ($((SECONDS - start)) s) $cause"
  fi
  return $code
}
JU

cd "$ROOT" || exit 1
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$DIR/tls.key" -out "$DIR/tls.crt" -days 30 \
  -subj /CN=kube-apiserver -addext subjectAltName=DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.0.0.1 2> /dev/null
openssl genrsa -out "$DIR/sa.key" 2048 2> /dev/null
cp "$DIR/tls.crt" "$TMPDIR/apiserver.crt" # where the scripts look for the one that upstream's server makes itself
run_servers() {
  # The flags of upstream's driver, less those of its build and with certificates of our own making.
  # shellcheck disable=SC2086 # the command may carry its subcommand
  $APISERVER --bind-address=127.0.0.1 --advertise-address=192.168.78.1 --authorization-mode=RBAC,AlwaysAllow --secure-port=6443 \
    --enable-admission-plugins=LimitRanger,ResourceQuota \
    --disable-admission-plugins=ServiceAccount,DefaultStorageClass,DefaultTolerationSeconds,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,StorageObjectInUseProtection \
    --etcd-servers=http://127.0.0.1:2379 --service-account-key-file="$DIR/sa.key" --service-account-issuer=https://kubernetes.default.svc \
    --service-account-signing-key-file="$DIR/sa.key" --tls-cert-file="$DIR/tls.crt" --tls-private-key-file="$DIR/tls.key" \
    --service-cluster-ip-range=10.0.0.0/24 --client-ca-file=hack/testdata/ca/ca.crt --token-auth-file=hack/testdata/auth-tokens.csv \
    > "$RESULTS/apiserver.log" 2>&1 < /dev/null &
  APISERVER_PID=$!
  kube::util::wait_for_url_with_bearer_token https://127.0.0.1:6443/readyz admin-token apiserver
  cat > "$DIR/kcm.kubeconfig" <<K
kind: Config
apiVersion: v1
users: [{name: u, user: {token: admin-token}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443", certificate-authority: $DIR/tls.crt}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
K
  # shellcheck disable=SC2086
  $KCM --cluster-signing-cert-file=hack/testdata/ca/ca.crt --cluster-signing-key-file=hack/testdata/ca/ca.key \
    --kubeconfig="$DIR/kcm.kubeconfig" ${KCM_FLAGS:-} > "$RESULTS/controller-manager.log" 2>&1 < /dev/null &
  CTLRMGR_PID=$!
}

{
  set +u
  source hack/lib/init.sh
  source hack/lib/test.sh
  source test/cmd/legacy-script.sh
  # A scenario is named by what stands between `run_` and `_tests`; two lack the latter.
  for scenario in $(compgen -A function run_ | grep -v '_tests$'); do eval "${scenario}_tests() { $scenario; }"; done
} > "$RESULTS/setup.log" 2>&1
setup >> "$RESULTS/setup.log" 2>&1
run_servers >> "$RESULTS/setup.log" 2>&1
kubectl create -f - >> "$RESULTS/setup.log" 2>&1 <<N
{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "127.0.0.1", "annotations": {"save-managers": "true"}}, "status": {"capacity": {"memory": "1Gi"}}}
N
export SUPPORTED_RESOURCES=("*")
export ALLOW_SKEW=true # `--match-server-version` compares commits and compilers
export WHAT="$*"
set +e
( runTests ) > "$RESULTS/run.log" 2>&1 # exits when a scenario has failed
code=$?
if [ -z "$WHAT" ]; then
  # What the driver checks between the scenarios: it gives up at the first check that fails.
  verdict=ok cause=
  if [ "$code" -ne 0 ] && ! grep -q '^FAILED TESTS' "$RESULTS/run.log"; then
    verdict=failed cause=$(tail -4 "$RESULTS/run.log" | tr '\n\t' '  ' | tail -c 300)
  fi
  printf 'run_between_tests\t%s\t%s\t%s\n' "$verdict" 0 "$cause" >> "$RESULTS/results.tsv" # of no time of its own
fi
awk -F'\t' '{ n[$2]++; if ($2 == "failed") print "failed " $1 ": " $4 } END { printf "cmd: %d ok, %d failed\n", n["ok"], n["failed"] }' "$RESULTS/results.tsv"
