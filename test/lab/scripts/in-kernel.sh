#!/usr/bin/env bash
# in-kernel.sh PROGRAM ARGUMENT...: runs a program as root on a Linux kernel of its own, the one of kernel.sh that
# $WEFT_TEST_KERNEL names, with this machine's files below it: what it writes is gone afterwards. /usr has the files of
# $WEFT_TEST_KERNEL_USR, too, if that is set. It is to be given to `go test -exec`. The status is the program's.
set -euo pipefail

# The first process of that kernel.
if [ "${1-}" = --first ]; then
    scratch=$2
    trap 'echo o > /proc/sysrq-trigger; sleep 60' EXIT # off, whatever happens
    mount -t proc proc /proc
    mount -t sysfs sys /sys
    mount -t tmpfs -o mode=755 run /run
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    mkdir -p /dev/pts /dev/shm /run/lock /run/netns /run/scratch
    mount -t devpts pts /dev/pts
    mount -t tmpfs shm /dev/shm
    mount -t hostfs none /run/scratch -o "$scratch"
    for dir in etc opt root tmp var; do
        mkdir -p "/run/over/$dir/upper" "/run/over/$dir/work"
        mount -t overlay overlay "/$dir" -o "lowerdir=/$dir,upperdir=/run/over/$dir/upper,workdir=/run/over/$dir/work"
    done
    if [ -s /run/scratch/usr ]; then
        mount -t overlay overlay /usr -o "lowerdir=$(cat /run/scratch/usr):/usr"
    fi
    ip link set lo up
    status=0
    bash /run/scratch/command > /run/scratch/output 2>&1 || status=$?
    echo "$status" > /run/scratch/status
    exit
fi

[ $# -gt 0 ] || { echo "usage: $0 PROGRAM ARGUMENT..." >&2; exit 2; }
kernel=$(realpath "${WEFT_TEST_KERNEL:?names no kernel; make test-kernel makes them}")
scratch=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null || true; rm -rf "$scratch"' EXIT
{
    export -p
    printf 'cd %q\n' "$PWD"
    printf '%q ' "$@"
} > "$scratch/command"
touch "$scratch/output"
printf %s "${WEFT_TEST_KERNEL_USR-}" > "$scratch/usr"
# On one processor: each system call of a program there is a switch between two processes that wait for each other, which
# takes four times as long between two processors.
processors=$(taskset -cp $$)
# Its memory is a file in TMPDIR. In a PID namespace of its own, it ends with this script, and all that it started.
TMPDIR=/dev/shm unshare --net --pid --fork --kill-child --mount-proc taskset -c "${processors##*[ ,-]}" "$kernel" mem="${WEFT_TEST_KERNEL_MEMORY:-3G}" \
    rootfstype=hostfs rootflags=/ ro con=null con0=null init="$(realpath "$0")" -- --first "$scratch" < /dev/null > "$scratch/console" 2>&1 &
tail -n +1 -f --pid=$! "$scratch/output"
wait $! || true
[ -s "$scratch/status" ] || { cat "$scratch/console" >&2; echo "$0: the kernel has ended before the program" >&2; exit 1; }
exit "$(cat "$scratch/status")"
