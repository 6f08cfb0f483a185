#!/usr/bin/env bash
# hosts-deps.sh: installs what a lab with hosts needs of a Debian or Ubuntu machine beyond deps.sh, if it is missing:
# Ansible as Debian 12 has it, with its linters.
set -euo pipefail

# program=package
needed="/usr/bin/ansible-playbook=ansible /usr/bin/ansible-lint=ansible-lint /usr/bin/yamllint=yamllint
    /usr/bin/python3=python3 ssh=openssh-client ssh-keygen=openssh-client"

missing=""
for pair in $needed; do
    command -v "${pair%%=*}" > /dev/null || missing="$missing ${pair##*=}"
done
[ -e /usr/lib/python3/dist-packages/cryptography ] || missing="$missing python3-cryptography"

if [ -n "$missing" ]; then
    [ "$(id -u)" = 0 ] || { echo "$0: run it as root: it has to install$missing" >&2; exit 1; }
    echo "lab: installing$missing"
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    if ! { apt-get -qq update && apt-get -qq -y --no-install-recommends install $missing; } > "$log" 2>&1; then
        tail -20 "$log" >&2
        echo "$0: apt-get could not install$missing" >&2
        exit 1
    fi
fi
