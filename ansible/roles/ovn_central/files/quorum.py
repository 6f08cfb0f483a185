"""Say whether the databases' clusters go on without a host's member, as JSON: quorum.py < ASKED.

ASKED has leaving (the host), former (whether its member is that of its former self, which has to be dead), hosts (HOST: ADDRESS, of all central
hosts), protocol, databases (key, name and raft_port of each) and clusters (HOST: what cluster/status said, a result of Ansible's for each
database, of each host that stays and answers). The answer has problems (lines) and at (DATABASE: the host that is to be asked to take the member
out; null where nobody is to be asked, as where a former self is none of the members).

A member that is taken out counts no more at once: a majority of those that remain has to commit that it is out (Raft, 4.1).
"""
import json
import re
import sys

# Of an election timer. A leader asks each member three times in one, so who was silent for ten does not live.
SILENCE = 10


def state(text):
    """What a server says of itself and of its cluster; of a server that does not answer, text is empty."""
    def said(pattern):
        found = re.search(pattern, text, re.MULTILINE)
        return found.group(1) if found else ""
    servers = re.findall(r"^    ([0-9a-f]{4}) \([0-9a-f]{4} at ([^)]+)\)(.*)$", text, re.MULTILINE)
    heard = {address: re.search(r"last msg (\d+) ms ago", rest) for _, address, rest in servers}
    leader = said(r"^Leader: (self|[0-9a-f]{4})$")
    serves = said(r"^Status: (.*)$") == "cluster member" and leader != ""
    return {
        "address": said(r"^Address: (.*)$"),
        "serves": serves,
        "leads": serves and said(r"^Role: (.*)$") == "leader",
        "leader": next((address for name, address, _ in servers if name == leader), ""),
        "end": int(said(r"^Log: \[\d+, (\d+)\]$") or 0),
        "timer": int(said(r"^Election timer: (\d+)$") or 1000),
        "members": [address for _, address, _ in servers],
        "led": int(said(r"^Last Election won: (\d+) ms ago$") or sys.maxsize),
        "heard": {address: int(found.group(1)) for address, found in heard.items() if found},
    }


def life(database, leaving, address, state):
    """What speaks against taking a former self out at a server that serves, or None: that it lives, or that nobody can tell."""
    if state["leader"] == address:
        sign = "leads it"
    elif not state["leads"]:
        return (
            f"{database['name']}: it has a member at {address}, where {leaving} would be, and its leader at {state['leader']} alone knows whether "
            "that one lives. Have the leader's host take part (no --limit)")
    elif state["heard"].get(address, sys.maxsize) < SILENCE * state["timer"]:
        sign = f"was heard of {state['heard'][address]} ms ago"
    elif address not in state["heard"] and state["led"] < SILENCE * state["timer"]:
        sign = f"has not been heard of, but the leader is one for {state['led']} ms alone"
    else:
        return None
    return (
        f"{database['name']}: its member at {address}, where {leaving} would be, lives: it {sign}. If that is another host, correct weft_address. If "
        f"it is {leaving}, whose file of the database is gone, stop its server there (systemctl stop weft-{database['key']}). If it has just died, wait "
        f"until it was silent for {SILENCE * state['timer'] // 1000} s. Then run this again")


def judge(database, asked, states):
    """The problem with a database, or None, and the host to be asked. states is HOST: what state() returned."""
    name, leaving = database["name"], asked["leaving"]
    hosts = {}
    for host, at in asked["hosts"].items():
        hosts.setdefault(f"{asked['protocol']}:{at}:{database['raft_port']}", []).append(host)
    address = next(address for address, names in hosts.items() if leaving in names)
    if len(hosts[address]) > 1:
        return f"{name}: {' and '.join(hosts[address])} would both be its member at {address}: give each a weft_address of its own", None
    serving = {host: s for host, s in states.items() if s["serves"]}
    if not serving:
        return f"{name}: no host that stays ({', '.join(states)}) serves it with a leader. Mend that first; verify.yml says what is wrong", None
    at = max(serving, key=lambda host: (serving[host]["leads"], serving[host]["end"]))
    if asked.get("former"):
        if not any(address in s["members"] for s in serving.values()):
            return None, None
        problem = life(database, leaving, address, serving[at])
        if problem:
            return problem, None
    remaining = [member for member in serving[at]["members"] if member != address]
    silent = set(remaining) - {s["address"] for s in serving.values()}
    needed = len(remaining) // 2 + 1
    if len(remaining) - len(silent) >= needed:
        return None, at
    names = ", ".join(sorted(" and ".join(hosts.get(member, [member])) for member in silent))
    return (
        f"{name}: without {leaving} it has {len(remaining)} members, of which {needed} must serve it; {names} would not. Mend that first "
        f"(site.yml), or take out a host that is gone for good before {leaving}"), None


asked = json.load(sys.stdin)
problems, at = [], {}
for number, database in enumerate(asked["databases"]):
    states = {host: state(answers[number].get("stdout", "")) for host, answers in asked["clusters"].items()}
    problem, at[database["name"]] = judge(database, asked, states)
    problems += [problem] if problem else []
print(json.dumps({"problems": problems, "at": at}))
