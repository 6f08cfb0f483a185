#!/bin/sh
# kube-proxy-cleanup.sh [--dry-run]: take what kube-proxy has left off this node, and print it, a line each. Kubelet's chains stay.
set -eu
dry=${1:-}
chains='KUBE-(SERVICES|EXTERNAL-SERVICES|NODEPORTS|NODE-PORT|FORWARD|PROXY-FIREWALL|PROXY-CANARY|LOAD-BALANCER|SOURCE-RANGES-FIREWALL|IPVS-FILTER|IPVS-OUT-FILTER|(SVC|SVL|SEP|EXT|FW|XLB)-[A-Z0-9]+)'

# What one program has of both kinds of rules, without kube-proxy's, is loaded in one step.
for table in iptables ip6tables; do
    command -v "$table-save" > /dev/null || continue
    rules=$("$table-save" 2> /dev/null)
    left=$(echo "$rules" | sed -nE "s/^:($chains) .*/$table chain \1/p")
    [ -n "$left" ] || continue
    echo "$left"
    [ -n "$dry" ] || echo "$rules" | grep -vE "(^:|-A |-j |-g )$chains( |\$)" | "$table-restore"
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
