#!/usr/bin/env bash
# demo.sh up|down: a cluster with a sample application, and a walk through what Weft did for it.
set -euo pipefail
cd "$(dirname "$0")/../.."

lab() { bin/weftlab --name demo "$@"; }
bold='' plain=''
if [ -t 1 ]; then bold=$'\033[1m' plain=$'\033[0m'; fi
title() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
show() { # prints a command as one would type it, then runs it
    local word
    printf '\n$ bin/weftlab --name demo'
    for word in "$@"; do
        case $word in *[!a-zA-Z0-9_./:=@,-]*) printf " '%s'" "${word//\'/\'\\\'\'}" ;; *) printf ' %s' "$word" ;; esac
    done
    printf '\n'
    lab "$@"
}
field() { lab kubectl -- get "$1" "$2" -o "jsonpath=$3"; }

# trace explains the packet of a request from a pod of the front end to the back end's Service.
trace() {
    local pod=$1 pod_node pod_mac router_mac pod_ip service_ip backend
    pod_node=$(field pod "$pod" '{.spec.nodeName}')
    pod_ip=$(field pod "$pod" '{.status.podIP}')
    pod_mac=$(lab nbctl -- lsp-get-addresses "default_$pod" | awk '{print $1}')
    router_mac=$(lab nbctl -- get logical_router_port "rtos-$pod_node" mac | tr -d '"')
    service_ip=$(field service stock '{.spec.clusterIP}')
    backend=$(field pod "$(one stock)" '{.status.podIP}')
    # The whole trace names each table's action; these lines are the way that the packet takes.
    # ovn-trace reads no templates of NodePorts, and would warn of each.
    show exec central -- ovn-trace -vovntrace:err --summary --ct new --lb-dst "$backend:8080" "$pod_node" \
        "inport == \"default_$pod\" && eth.src == $pod_mac && eth.dst == $router_mac && ip4.src == $pod_ip && ip4.dst == $service_ip && ip.ttl == 64 && tcp && tcp.src == 40000 && tcp.dst == 80" |
        grep -E '^\$|gress\(dp|ct_lb_mark \{|ip.ttl--|eth.(src|dst) =|outport = |/\* output'
    echo
    echo "ct_lb_mark rewrites $service_ip:80 to a backend, here $backend:8080, before the packet leaves the switch $pod_node."
}

# address of a node.
address() { field node "$1" '{.status.addresses[?(@.type=="InternalIP")].address}'; }

# one pod of an application.
one() { field pods "-lapp=$1" '{.items[0].metadata.name}'; }

# ask sends twenty requests from a pod of one application to another one's Service, and fails unless
# all its pods have answered. A pod that is ready takes its place behind the Service's address a moment
# later, and the hash of a Windows datapath may choose one endpoint twenty times.
ask() {
    local pod questions answers deadline=$((SECONDS + 60))
    pod=$(one "$1")
    questions="for i in \$(seq 20); do curl -sS --max-time 10 http://$2/hostname; echo; done | sort | uniq -c"
    until answers=$(show kubectl -- exec "$pod" -- sh -c "$questions") && [ "$(grep -c " $2-" <<< "$answers")" = 2 ]; do
        [ $SECONDS -lt $deadline ] || { echo "$answers"; return 1; }
    done
    echo "$answers"
}

up() {
    lab up --linux 2 --windows 1
    trap '[ $? = 0 ] || echo "demo: ended early. The cluster is up: make demo shows it again, make demo-down ends it" >&2' EXIT
    title "A sample application: a front end on Linux, a back end on Windows"
    lab kubectl -- apply -f test/demo/sample.yaml
    for name in shop stock; do lab kubectl -- rollout status "deployment/$name" --timeout=120s; done

    title "Nodes and pods: every pod has an address of its node's subnet"
    show kubectl -- get nodes -L kubernetes.io/os -o wide
    show kubectl -- get pods -o wide

    title "A Linux pod calls the Windows back end by its Service's name, and the other way round"
    ask shop stock
    ask stock shop

    title "A host outside the cluster asks a Windows node's NodePort, and that node asks itself"
    show exec outside -- curl -sS --max-time 10 "http://$(address w1):30080/hostname"
    echo
    show exec w1 -- curl -sS --max-time 10 http://localhost:30080/hostname
    echo

    title "What answers for a ClusterIP, on both systems: an OVN load balancer"
    show nbctl -- lb-list

    title "Linux and Windows nodes are chassis alike; no OVN program runs on Windows"
    show sbctl -- show
    show exec w1 -- sh -c 'ps -e -o args= | grep -c "[o]vn-controller" || true'
    show kubectl -- get leases -n kube-system

    title "The way of a request: rewritten in the client's switch, routed, sent to the Windows node"
    trace "$(one shop)"

    title "The Windows node's Open vSwitch: pods' vNICs, host and tunnels share one adapter"
    show exec w1 -- ovs-vsctl show

    title "What its packets have met; an action that Windows does not know would be an error"
    show executed

    title "No kube-proxy runs, and no rule stands in for it"
    for node in l1 w1; do
        show exec "$node" -- sh -c 'ps -e -o args= | grep -c "[k]ube-proxy" || true'
        show exec "$node" -- sh -c 'rules=$(nft list ruleset) && echo "$rules" | grep -cE "dnat( ip6?)? to|redirect to" || true'
    done

    title "The cluster stays up"
    cat <<T
  bin/weftlab --name demo kubectl -- get pods -A -o wide
  bin/weftlab --name demo nbctl -- show
  bin/weftlab --name demo exec w1 -- ovs-vsctl show
  bin/weftlab --name demo hns w1 -- state
  bin/weftlab --name demo weft -- status
  bin/weftlab --name demo weft -- trace default/$(one shop) svc/default/stock:80
  bin/weftlab --name demo weft -- flows -n default
  bin/weftlab --name demo hyperv w1 -- status
  make demo-down
T
}

case ${1:-} in
up) up ;;
down) if [ -x bin/weftlab ]; then lab down; else echo "no demo runs: bin/weftlab is not built"; fi ;;
*) echo "usage: $0 up|down" >&2; exit 2 ;;
esac
