#!/bin/bash
# Runs inside the virtual machine, once a boot: the first installs, the second finds everything again and removes it.
set -euo pipefail
cd /root
stage=/root/stage
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

finish() {
    code=$?
    if [ "$code" != 0 ]; then
        journalctl -u copepod --no-pager -n 40 || true
        echo "VM-TEST: FAILED ($code)"
    fi
    sync
    if [ "$code" = 0 ] && [ "$(cat "$stage")" = installed ]; then systemctl reboot; else systemctl poweroff; fi
}
trap finish EXIT

# until_ WORDS…: tries for twenty minutes.
until_() {
    for _ in $(seq 240); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 5
    done
    echo "never: $*"
    "$@"
}

answers() {
    [ "$(copepod kubectl get deployment web -o 'jsonpath={.status.readyReplicas}')" = 1 ] &&
        copepod kubectl exec deployment/web -- wget -q -O - http://127.0.0.1:8080/etc/hostname
}

if [ ! -f "$stage" ]; then
    COPEPOD_WAIT=1800 bash install.sh --bundle copepod-amd64.tar.gz
    systemctl is-active copepod
    systemctl status kubelet --no-pager | head -n 3
    copepod kubectl create deployment web --image=docker.io/library/busybox:1.37 -- httpd -f -p 8080 -h /
    until_ answers
    copepod kubectl get pods -A
    echo installed >"$stage"
    echo "VM-TEST: INSTALLED"
    exit 0
fi

echo rebooted >"$stage"
until_ copepod status
until_ answers
echo "VM-TEST: BACK AFTER THE REBOOT"
copepod uninstall
left=$(
    ls -d /usr/local/lib/copepod /usr/local/bin/copepod /etc/systemd/system/copepod.service /etc/copepod \
        /etc/kubernetes /var/lib/copepod /var/lib/kubelet /run/copepod /var/log/pods 2>/dev/null
    nft list tables
    ip -o link | grep -Ev ' (lo|node0)[@:]'
    find /sys/fs/cgroup -maxdepth 3 -name 'kubepods*'
    grep -E ' /(var/lib/kubelet|run/copepod|var/lib/copepod)' /proc/self/mountinfo
    # shellcheck disable=SC2009 # pgrep cannot print what it matches without matching itself
    ps -eo args | grep -E '[c]ontainerd|[c]opepod server|[e]tcd |/[p]ause'
) || true
if [ -n "$left" ]; then
    echo "left behind:"
    echo "$left"
    exit 1
fi
echo "VM-TEST: PASSED"
