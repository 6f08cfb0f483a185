"""Say whether the databases' clusters go on without a host, as JSON: quorum.py < ASKED.

ASKED has leaving (a host), hosts (HOST: ADDRESS, of all central hosts), protocol, databases (name and raft_port of each) and clusters
(HOST: what cluster/status said, a result of Ansible's for each database, of each host that stays and answers). The answer has problems (lines)
and at (DATABASE: the host that is to be asked to take the other one out).

A member that is taken out counts no more at once: a majority of those that remain has to commit that it is out (Raft, 4.1).
"""
import json
import re
import sys


def state(text):
    """What a server says of itself and of its cluster; of a server that does not answer, text is empty."""
    def said(pattern):
        found = re.search(pattern, text, re.MULTILINE)
        return found.group(1) if found else ""
    serves = said(r"^Status: (.*)$") == "cluster member" and re.match(r"(self|[0-9a-f]{4})$", said(r"^Leader: (.*)$")) is not None
    return {
        "address": said(r"^Address: (.*)$"),
        "serves": serves,
        "leads": serves and said(r"^Role: (.*)$") == "leader",
        "end": int(said(r"^Log: \[\d+, (\d+)\]$") or 0),
        "members": re.findall(r"^    [0-9a-f]{4} \([0-9a-f]{4} at ([^)]+)\)", text, re.MULTILINE),
    }


def judge(name, leaving, hosts, states):
    """The problem with a database, or None, and the host to be asked. hosts is ADDRESS: HOST, states HOST: what state() returned."""
    serving = {host: s for host, s in states.items() if s["serves"]}
    if not serving:
        return f"{name}: no host that stays ({', '.join(states)}) serves it with a leader. Mend that first; verify.yml says what is wrong", None
    at = max(serving, key=lambda host: (serving[host]["leads"], serving[host]["end"]))
    remaining = [address for address in serving[at]["members"] if hosts.get(address) != leaving]
    silent = set(remaining) - {s["address"] for s in serving.values()}
    needed = len(remaining) // 2 + 1
    if len(remaining) - len(silent) >= needed:
        return None, at
    names = ", ".join(sorted(hosts.get(address, address) for address in silent))
    return (
        f"{name}: without {leaving} it has {len(remaining)} members, of which {needed} must serve it; {names} would not. Mend that first "
        f"(site.yml), or take out a host that is gone for good before {leaving}"), None


asked = json.load(sys.stdin)
problems, at = [], {}
for number, database in enumerate(asked["databases"]):
    addresses = {f"{asked['protocol']}:{address}:{database['raft_port']}": host for host, address in asked["hosts"].items()}
    states = {host: state(answers[number].get("stdout", "")) for host, answers in asked["clusters"].items()}
    problem, at[database["name"]] = judge(database["name"], asked["leaving"], addresses, states)
    problems += [problem] if problem else []
print(json.dumps({"problems": problems, "at": at}))
