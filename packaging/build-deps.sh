#!/bin/sh
# Installs what packaging/build-deps.txt lists and this machine has not got; says what, and why.
set -eu
list=$(dirname "$0")/build-deps.txt
missing=
while read -r package reason; do
    case $package in '' | '#'*) continue ;; esac
    if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
        printf 'installing %-20s %s\n' "$package" "$reason"
        missing="$missing $package"
    fi
done <"$list"
if [ -z "$missing" ]; then
    echo "all packages of $list are installed"
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "this machine has no apt-get; install the above with its own package manager" >&2
    exit 1
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
export DEBIAN_FRONTEND=noninteractive
# The list of packages may be older than the mirror; refresh it only if that is the trouble.
# shellcheck disable=SC2086 # words of a list
$sudo apt-get install -y --no-install-recommends $missing </dev/null ||
    { $sudo apt-get update && $sudo apt-get install -y --no-install-recommends $missing </dev/null; }
