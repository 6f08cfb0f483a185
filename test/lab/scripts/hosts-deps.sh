#!/usr/bin/env bash
# hosts-deps.sh: gives a Debian or Ubuntu machine what a lab with hosts needs beyond deps.sh, if it is missing:
# Ansible as the distribution has it, its linters, what makes hosts' disks, and room for the systemds' inotify instances.
set -euo pipefail

"$(dirname "$0")/install.sh" /usr/bin/ansible-playbook=ansible /usr/bin/ansible-lint=ansible-lint \
    /usr/bin/yamllint=yamllint /usr/bin/python3=python3 ssh=openssh-client /sbin/mkfs.ext4=e2fsprogs \
    /usr/lib/python3/dist-packages/cryptography=python3-cryptography

# All labs share them: a host takes 7, one that is a node 14, the control plane 14.
instances=/proc/sys/fs/inotify/max_user_instances
if [ "$(cat $instances)" -lt 512 ]; then
    echo "lab: fs.inotify.max_user_instances is 1024 until the machine starts anew"
    echo 1024 > $instances || { echo "$0: run it as root, or set fs.inotify.max_user_instances to 1024" >&2; exit 1; }
fi
