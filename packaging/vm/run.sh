#!/bin/bash
# Installs, uses, reboots and uninstalls the bundle in a virtual machine: Debian with systemd and cgroup v2, no network.
# It is emulated and takes minutes where a machine takes seconds; COPEPOD_VM_ACCEL=kvm is faster where that works.
# The base system is cached.
# Ends zero only if the machine itself said that everything passed.
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=${COPEPOD_CACHE:-$HOME/.cache/copepod}/vm
base=$cache/bookworm
limit=${COPEPOD_VM_SECONDS:-2400}
packages=systemd-sysv,linux-image-cloud-amd64,dbus,iproute2,nftables,iptables,kmod,udev,procps

for program in debootstrap mke2fs qemu-system-x86_64; do
    command -v "$program" >/dev/null || {
        echo "$program is missing: apt-get install --no-install-recommends debootstrap e2fsprogs qemu-system-x86" >&2
        exit 1
    }
done
bundle=bundle/copepod-amd64.tar.gz
[ -f "$bundle" ] || { echo "$bundle is missing: make bundle" >&2; exit 1; }

if [ ! -d "$base" ]; then
    echo "building the base system in $base"
    rm -rf "$base.unfinished"
    mkdir -p "$cache"
    debootstrap --variant=minbase --include="$packages" bookworm "$base.unfinished" >"$cache/debootstrap.log"
    mv "$base.unfinished" "$base"
fi

work=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf "$work"' EXIT
root=$work/root
cp -a "$base" "$root"
cp "$bundle" "$bundle.sha256" install.sh packaging/vm/scenario.sh "$root/root/"
cp packaging/vm/*.service "$root/etc/systemd/system/"
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
for unit in vm-address vm-scenario; do
    ln -s "../$unit.service" "$root/etc/systemd/system/multi-user.target.wants/$unit.service"
done
# A login prompt hangs up the console when it starts, and with it the scenario that reports there.
ln -sf /dev/null "$root/etc/systemd/system/serial-getty@ttyS0.service"
echo vm >"$root/etc/hostname"
mke2fs -q -t ext4 -d "$root" "$work/disk.img" 4G
kernel=$(find "$root/boot" -name 'vmlinuz-*' | sort | tail -n 1)
initrd=$(find "$root/boot" -name 'initrd.img-*' | sort | tail -n 1)
# A build machine is often a virtual one itself, where /dev/kvm exists and does not work: emulation is the safe default.
accel=${COPEPOD_VM_ACCEL:-tcg,thread=multi}

# The machine powers off by itself; a reboot ends the emulator as well and is followed by another start.
for boot in 1 2; do
    echo "== boot $boot ($accel)"
    # Nested machines refuse to set that register; a timer checked on a loaded machine fails the check, and a panic ends it.
    timeout "$limit" qemu-system-x86_64 -accel "$accel" -cpu max,arch-capabilities=off -smp 2 -m 2048 -nographic -no-reboot -nic none \
        -kernel "$kernel" -initrd "$initrd" -append "root=/dev/vda rw console=ttyS0 quiet no_timer_check panic=-1" \
        -drive "file=$work/disk.img,format=raw,if=virtio,cache=unsafe" </dev/null 2>&1 | tee "$work/console-$boot"
    # A machine that was ended from outside has said neither, and then there is nothing to boot again.
    grep -qE 'VM-TEST: (INSTALLED|PASSED)' "$work/console-$boot"
done
grep -q 'VM-TEST: PASSED' "$work/console-2"
