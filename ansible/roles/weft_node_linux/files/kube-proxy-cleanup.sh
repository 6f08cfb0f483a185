#!/bin/sh
# kube-proxy-cleanup.sh [--dry-run]: take what kube-proxy has left off this node, and print it, a line each. Kubelet's chains stay.
set -eu
dry=${1:-}
chains='KUBE-(SERVICES|EXTERNAL-SERVICES|NODEPORTS|NODE-PORT|FORWARD|PROXY-FIREWALL|PROXY-CANARY|LOAD-BALANCER|SOURCE-RANGES-FIREWALL|IPVS-FILTER|IPVS-OUT-FILTER|(SVC|SVL|SEP|EXT|FW|XLB)-[A-Z0-9]+)'

# removal PROGRAM: what its rules are rid of kube-proxy's by, for PROGRAM-restore. It names these alone: others' rules, which may change
# meanwhile, are no part of it.
removal() {
    rules=$("$1-save" 2> /dev/null) || { echo "$0: $1-save fails, so nobody knows what kube-proxy has left" >&2; return 1; }
    echo "$rules" | awk -v chain="^$chains\$" '
        function flush(i) {
            if (n + m == 0) return
            print table
            for (i = 1; i <= n; i++) print ":" name[i] " - [0:0]"
            for (i = 1; i <= m; i++) print rule[i]
            for (i = 1; i <= n; i++) print "-X " name[i]
            print "COMMIT"
        }
        /^\*/ { table = $0; n = m = 0 }
        /^:/ && substr($1, 2) ~ chain { name[++n] = substr($1, 2) }
        /^-A / && $2 !~ chain {
            for (i = 3; i < NF; i++) if (($i == "-j" || $i == "-g") && $(i + 1) ~ chain) { rule[++m] = "-D" substr($0, 3); break }
        }
        /^COMMIT/ { flush() }'
}

# All of it goes in one step or, where somebody else has changed such a rule since it was read, not at all, and is read anew. --wait is for
# the lock of iptables-legacy; the kernel sees to the one step of iptables-nft.
for program in iptables ip6tables; do
    command -v "$program-save" > /dev/null || continue
    wanted=$(removal "$program")
    [ -n "$wanted" ] || continue
    echo "$wanted" | sed -n "s/^-X /$program chain /p"
    [ -z "$dry" ] || continue
    tries=5
    until echo "$wanted" | "$program-restore" --noflush --wait; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { echo "$0: $program-restore refuses to remove kube-proxy's chains; see what else refers to them, or restart the node" >&2; exit 1; }
        sleep 1
        wanted=$(removal "$program")
        [ -n "$wanted" ] || break
    done
done
if command -v nft > /dev/null; then
    nft list tables 2> /dev/null | sed -n 's/^table \(ip6\{0,1\} kube-proxy\)$/\1/p' | while read -r table; do
        echo "nftables table $table"
        # shellcheck disable=SC2086
        [ -n "$dry" ] || nft delete table $table
    done
fi
if [ -e /sys/class/net/kube-ipvs0 ]; then
    echo "device kube-ipvs0, and the services of IPVS"
    if [ -z "$dry" ]; then
        ip link delete kube-ipvs0
        if command -v ipvsadm > /dev/null; then ipvsadm --clear; fi
    fi
fi
