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

# trace explains the packet of a request from the pod client to the Service web.
trace() {
    local pod_mac router_mac pod_ip service_ip backend
    pod_ip=$(field pod client '{.status.podIP}')
    pod_mac=$(lab nbctl -- lsp-get-addresses default_client | awk '{print $1}')
    router_mac=$(lab nbctl -- get logical_router_port rtos-l1 mac | tr -d '"')
    service_ip=$(field service web '{.spec.clusterIP}')
    backend=$(field endpointslices '-l kubernetes.io/service-name=web' "{.items[0].endpoints[?(@.nodeName=='l2')].addresses[0]}" | awk '{print $1}')
    # The whole trace names each table's action; these lines are the way that the packet takes.
    show exec central -- ovn-trace --summary --ct new --lb-dst "$backend:8080" l1 \
        "inport == \"default_client\" && eth.src == $pod_mac && eth.dst == $router_mac && ip4.src == $pod_ip && ip4.dst == $service_ip && ip.ttl == 64 && tcp && tcp.src == 40000 && tcp.dst == 80" |
        grep -E '^\$|gress\(dp|ct_lb_mark \{|ip.ttl--|eth.(src|dst) =|outport = |/\* output'
    echo
    echo "ct_lb_mark rewrites $service_ip:80 to a backend, here $backend:8080, before the packet leaves the switch l1."
}

up() {
    lab up --linux 2
    title "A sample application: four web pods behind a Service, and a client"
    lab kubectl -- apply -f test/demo/sample.yaml
    lab kubectl -- rollout status deployment/web --timeout=120s
    lab kubectl -- wait --for=condition=Ready --timeout=60s pod/client

    title "Nodes and pods: every pod has an address of its node's subnet"
    show kubectl -- get nodes -o wide
    show kubectl -- get pods -o wide

    title "Requests from one node's pod to the ClusterIP, answered by pods on both nodes"
    show kubectl -- exec client -- sh -c 'for i in $(seq 20); do curl -sS --max-time 10 http://web/hostname; echo; done | sort | uniq -c' |
        tee >(cat >&2) | while read -r count pod; do
            case $pod in web-*) echo "$(field pod "$pod" '{.spec.nodeName}')" ;; esac
        done | sort -u | { mapfile -t nodes; echo "answered on: ${nodes[*]}"; [ ${#nodes[@]} = 2 ]; }

    title "What answers for the ClusterIP: an OVN load balancer"
    show nbctl -- lb-list

    title "The way of such a request: rewritten in the client's switch, routed, sent to the other node"
    trace

    title "No kube-proxy runs, and no rule stands in for it"
    for node in l1 l2; do
        show exec "$node" -- sh -c 'ps -e -o args= | grep -c "[k]ube-proxy" || true'
        show exec "$node" -- sh -c 'rules=$(nft list ruleset) && echo "$rules" | grep -cE "dnat( ip6?)? to|redirect to" || true'
    done

    title "The cluster stays up"
    cat <<'T'
  bin/weftlab --name demo kubectl -- get pods -A -o wide
  bin/weftlab --name demo nbctl -- show
  bin/weftlab --name demo exec l1 -- ovs-vsctl show
  make demo-down
T
}

case ${1:-} in
up) up ;;
down) if [ -x bin/weftlab ]; then lab down; else echo "no demo runs: bin/weftlab is not built"; fi ;;
*) echo "usage: $0 up|down" >&2; exit 2 ;;
esac
