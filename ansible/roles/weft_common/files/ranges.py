"""Say what is wrong with the cluster's ranges and the hosts' addresses: ranges.py '{"ranges": {VARIABLE: [RANGE]}, "hosts": {HOST: ADDRESS}}'."""
import ipaddress
import itertools
import json
import sys

asked = json.loads(sys.argv[1])
ranges = []
for variable, texts in asked["ranges"].items():
    for text in texts:
        try:
            ranges.append((variable, ipaddress.ip_network(text)))
        except ValueError as error:
            print(f"{variable} has {text}: {error}; write it as 10.244.0.0/16 or fd00:10:244::/48")

for (variable, a), (other, b) in itertools.combinations(ranges, 2):
    if a.version != b.version:
        continue
    if variable == other:
        print(f"{variable} has two ranges of one address family, {a} and {b}: give one of IPv4 and one of IPv6")
    elif a.overlaps(b):
        print(f"{variable} {a} overlaps with {other} {b}: choose ranges that are disjoint")

reached = {}
for host, text in asked["hosts"].items():
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        print(f"host {host} is reached at {text}, which is no address: set weft_address for it to the one at which other hosts reach it")
        continue
    reached.setdefault(address, []).append(host)
    for variable, network in ranges:
        if address in network:
            print(f"host {host} has the address {address}, which is in {variable} {network}: choose another range")

# By its address a host takes its former self's place among the databases' members: two of one address would take each other's.
for address, hosts in reached.items():
    if len(hosts) > 1:
        print(f"hosts {' and '.join(hosts)} have one address, {address}: give each its own by weft_address, or name a host once")
