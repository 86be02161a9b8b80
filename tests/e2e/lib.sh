# shellcheck shell=bash
# What the scripts beside this one share: checks with their counts, certificates, processes. Sourced, with these set:
#   DIR   a temporary folder: logs (`run`) and kubeconfigs go there
#   P     the folder of the certificates (`authority`, `crt`)
PASS=0; FAIL=0; FAILED=
ok() { PASS=$((PASS + 1)); echo "ok   $1"; }
bad() { FAIL=$((FAIL + 1)); FAILED+=$'\n'"FAIL $1${2:+: $2}"; echo "FAIL $1${2:+: $2}"; }
is() { if [ "$2" = "$3" ]; then ok "$1"; else bad "$1" "wanted '$3', got '$2'"; fi; }
has() { case "$2" in *"$3"*) ok "$1" ;; *) bad "$1" "no '$3' in '$(echo "$2" | head -c 700)'" ;; esac; }
wait_for() { # name seconds command...
  local name=$1 n=$(($2 * 5)); shift 2
  for _ in $(seq "$n"); do if "$@" > /dev/null 2>&1; then ok "$name"; return 0; fi; sleep 0.2; done
  bad "$name" "not in time"; return 1
}

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$P/$1.key"; }
authority() { # name [common name]
  key "$1"; openssl req -x509 -new -key "$P/$1.key" -days 30 -subj "/CN=${2:-$1}" -addext keyUsage=critical,keyCertSign -out "$P/$1.crt" 2> /dev/null
}
crt() { # name subject usage [names [authority]]
  local by=$P/${5:-ca}
  key "$1"; openssl req -new -key "$P/$1.key" -subj "$2" -out "$P/$1.csr" 2> /dev/null
  { echo "extendedKeyUsage=$3"; [ -n "${4:-}" ] && echo "subjectAltName=$4"; } > "$P/$1.ext"
  openssl x509 -req -in "$P/$1.csr" -CA "$by.crt" -CAkey "$by.key" -CAcreateserial -days 30 -extfile "$P/$1.ext" -out "$P/$1.crt" 2> /dev/null
}
kubeconfig() { # user [port [file]]: by the user's certificate
  cat > "${3:-$DIR/$1.kubeconfig}" <<K
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:${2:-6443}", certificate-authority: $P/ca.crt}}]
users: [{name: u, user: {client-certificate: $P/$1.crt, client-key: $P/$1.key}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
K
}

# Starts a process; its output is in $DIR/name.log, its number in PID_name.
run() { local n=$1; shift; "$@" > "$DIR/$n.log" 2>&1 < /dev/null & eval "PID_$n=$!"; }
