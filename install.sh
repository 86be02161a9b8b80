#!/bin/sh
# Installs copepod, a whole Kubernetes on one machine, and waits until it is ready.
#
#   ./install.sh                          in a source checkout: builds the bundle and installs it
#   ./install.sh --bundle FILE            from a bundle, without network
#   curl -fsSL URL/install.sh | COPEPOD_URL=URL sh     from the folder of a release
#
# Nothing is changed before the bundle's checksums and the machine have been checked. A failure half-way is undone.
# Run a second time, it changes nothing.
set -eu

LIB=/usr/local/lib/copepod
BIN=/usr/local/bin
WAIT_SECONDS=${COPEPOD_WAIT:-300}

bundle=
url=${COPEPOD_URL:-}
start=yes

usage() {
    cat <<USAGE
usage: install.sh [--bundle FILE] [--url URL] [--no-start]
  --bundle FILE  install from this archive; FILE.sha256 beside it is checked first
  --url URL      fetch the bundle from this folder of a release (also COPEPOD_URL)
  --no-start     install only
USAGE
}

step() { printf '[%s] %s\n' "$(date +%H:%M:%S)" "$*"; }
fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --bundle) [ $# -ge 2 ] || fail "--bundle needs a file"; bundle=$2; shift 2 ;;
    --url) [ $# -ge 2 ] || fail "--url needs a URL"; url=$2; shift 2 ;;
    --no-start) start=no; shift ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; fail "unknown argument $1" ;;
    esac
done

[ "$(id -u)" = 0 ] || fail "run it as root, for example: sudo sh install.sh"
[ "$(uname -s)" = Linux ] || fail "copepod runs on Linux only"
case $(uname -m) in
x86_64) arch=amd64 ;;
aarch64) arch=arm64 ;;
*) fail "there is no build for $(uname -m)" ;;
esac
for program in tar gzip sha256sum; do
    command -v "$program" >/dev/null || fail "$program is missing on this machine"
done

# --- where changes are noted, so that they can be undone -------------------------------------------------------------

work=$(mktemp -d)
undo=$work/undo
: >"$undo"
finished=no

# Notes a command that takes back what comes next.
note() { printf '%s\n' "$*" >>"$undo"; }

leave() {
    code=$?
    trap - EXIT INT TERM
    if [ "$finished" = no ] && [ -s "$undo" ]; then
        echo "install.sh: failed; taking back what was done" >&2
        # The last change goes first.
        sed -n '1!G;h;$p' "$undo" >"$undo.reversed"
        sh "$undo.reversed" >&2 || echo "install.sh: not everything could be taken back, see above" >&2
    fi
    rm -rf "$work"
    exit "$code"
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- the bundle, checked ----------------------------------------------------------------------------------------------

fetch() {
    if command -v curl >/dev/null; then
        curl -fSL --retry 3 --progress-bar -o "$2" "$1"
    elif command -v wget >/dev/null; then
        wget -O "$2" "$1"
    else
        fail "neither curl nor wget is on this machine"
    fi
}

checkout=
case $0 in
*install.sh) checkout=$(cd "$(dirname "$0")" && pwd) ;;
esac
if [ -z "$bundle" ] && [ -z "$url" ]; then
    if [ -n "$checkout" ] && [ -f "$checkout/Cargo.toml" ]; then
        step "building the bundle in $checkout"
        make -C "$checkout" deps bundle
        bundle=$(find "$checkout/bundle" -maxdepth 1 -name "copepod-*-$arch.tar.gz" | sort | tail -n 1)
        [ -n "$bundle" ] || fail "the build made no bundle for $arch"
    else
        fail "give --bundle FILE, or --url URL (or COPEPOD_URL), or run it in a source checkout"
    fi
fi
if [ -z "$bundle" ]; then
    step "fetching copepod-$arch.tar.gz from $url"
    bundle=$work/copepod-$arch.tar.gz
    fetch "$url/copepod-$arch.tar.gz" "$bundle"
    fetch "$url/copepod-$arch.tar.gz.sha256" "$bundle.sha256"
fi
[ -f "$bundle" ] || fail "there is no file $bundle"
[ -f "$bundle.sha256" ] || fail "there is no $bundle.sha256 to check the bundle with"

step "checking $(basename "$bundle")"
expected=$(cut -d ' ' -f 1 "$bundle.sha256")
actual=$(sha256sum "$bundle" | cut -d ' ' -f 1)
[ "$expected" = "$actual" ] || fail "the bundle's checksum is $actual, but $bundle.sha256 says $expected"
mkdir "$work/unpacked"
tar -xzf "$bundle" -C "$work/unpacked"
name=$(ls "$work/unpacked")
unpacked=$work/unpacked/$name
[ -f "$unpacked/SHA256SUMS" ] || fail "$bundle is not a bundle of copepod"
case $name in
copepod-*-"$arch") ;;
*) fail "$bundle holds $name, but this machine is $arch" ;;
esac
(cd "$unpacked" && sha256sum --quiet -c SHA256SUMS) || fail "a part of the bundle is damaged"

# --- which service ----------------------------------------------------------------------------------------------------

if [ -d /run/systemd/system ]; then
    init=systemd unit=/etc/systemd/system/copepod.service source=share/systemd/copepod.service
elif command -v openrc-run >/dev/null || [ -x /sbin/openrc-run ]; then
    init=openrc unit=/etc/init.d/copepod source=share/openrc/copepod
else
    init=background unit=$LIB/copepod-background source=share/background/copepod-background
fi

service() {
    case $init-$1 in
    systemd-start) systemctl daemon-reload && systemctl enable --quiet copepod && systemctl restart copepod ;;
    systemd-running) systemctl is-active --quiet copepod ;;
    openrc-start) rc-update add copepod default >/dev/null && rc-service copepod restart ;;
    openrc-running) rc-service --quiet copepod status >/dev/null 2>&1 ;;
    background-start) "$unit" stop && "$unit" start ;;
    background-running) [ -x "$unit" ] && "$unit" status >/dev/null ;;
    esac
}

same() { cmp -s "$1" "$2"; }

installed=no
if same "$unpacked/SHA256SUMS" "$LIB/$name/SHA256SUMS" &&
    [ "$(readlink "$LIB/current" 2>/dev/null)" = "$name" ] && same "$unpacked/$source" "$unit" &&
    [ "$(readlink "$BIN/copepod" 2>/dev/null)" = "$LIB/current/bin/copepod" ]; then
    installed=yes
fi
if [ "$installed" = yes ] && { [ "$start" = no ] || service running; }; then
    finished=yes
    echo "$name is installed already; nothing was changed"
    exit 0
fi

# --- the machine ------------------------------------------------------------------------------------------------------

if ! service running; then
    step "checking this machine"
    "$unpacked/bin/copepod" check --bundle "$unpacked" || fail "the machine is not ready; each problem above names its fix"
fi

# --- changes, each with its way back -----------------------------------------------------------------------------------

# link TARGET PATH
link() {
    if [ "$(readlink "$2" 2>/dev/null)" = "$1" ]; then
        return
    fi
    if [ -L "$2" ]; then
        note "ln -sfn '$(readlink "$2")' '$2'"
    elif [ -e "$2" ]; then
        fail "$2 is in the way and was not put there by copepod"
    else
        note "rm -f '$2'"
    fi
    ln -sfn "$1" "$2"
}

known=no
if [ -e /var/lib/copepod ]; then
    known=yes
    if service running; then
        # Noted first, done last: with the links and the unit back, the old version starts again.
        case $init in
        systemd) note "systemctl daemon-reload && systemctl restart copepod" ;;
        openrc) note "rc-service copepod restart" ;;
        background) note "'$unit' stop; '$unit' start" ;;
        esac
    fi
fi

if [ "$installed" = no ]; then
    step "installing into $LIB/$name"
    [ -d "$LIB" ] || note "rmdir '$LIB' 2>/dev/null || true"
    mkdir -p "$LIB" "$BIN"
    if [ ! -d "$LIB/$name" ]; then
        note "rm -rf '$LIB/$name'"
    fi
    # Beside its place first, so that a version is either whole or absent.
    rm -rf "$LIB/.$name.unfinished"
    note "rm -rf '$LIB/.$name.unfinished'"
    cp -R "$unpacked" "$LIB/.$name.unfinished"
    rm -rf "${LIB:?}/$name"
    mv "$LIB/.$name.unfinished" "$LIB/$name"
    previous=$(readlink "$LIB/current" 2>/dev/null || true)
    link "$name" "$LIB/current"
    link "$LIB/current/bin/copepod" "$BIN/copepod"
    if ! command -v kubectl >/dev/null; then
        link "$LIB/current/bin/kubectl" "$BIN/kubectl"
    fi
    if [ -e "$unit" ]; then
        cp "$unit" "$work/unit"
        note "cp '$work/unit' '$unit'"
    else
        note "rm -f '$unit'"
    fi
    mkdir -p "$(dirname "$unit")"
    cp "$unpacked/$source" "$unit"
fi

if [ "$start" = no ]; then
    finished=yes
    step "installed; start it with: $BIN/copepod server"
    exit 0
fi

step "starting the service ($init)"
# A node that was not here before goes with everything it made; one that was is taken back to its version above.
[ "$known" = yes ] || note "'$LIB/$name/bin/copepod' uninstall"
service start

# --- ready --------------------------------------------------------------------------------------------------------------

step "waiting for the node and DNS (at most $WAIT_SECONDS s)"
said=
waited=0
until "$BIN/copepod" status >"$work/status" 2>&1 && grep -q '^pod coredns-' "$work/status"; do
    now=$(tail -n 3 "$work/status" | tr '\n' ';')
    if [ "$now" != "$said" ]; then
        said=$now
        step "  $now"
    fi
    waited=$((waited + 1))
    [ "$waited" -lt "$WAIT_SECONDS" ] || fail "not ready after $WAIT_SECONDS s; the agent's log says why"
    sleep 1
done
finished=yes
if [ -n "${previous:-}" ] && [ "$previous" != "$name" ]; then
    rm -rf "${LIB:?}/$previous"
fi
step "ready"
cat "$work/status"
cat <<NEXT

Next:
  copepod kubectl get pods -A
  copepod kubeconfig > ~/.kube/config     # for other clients
NEXT
