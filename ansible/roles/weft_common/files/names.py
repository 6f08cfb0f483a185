"""Say which variables are not Weft's: names.py '["weft_pod_cidr"]'. Weft's are those that its roles and playbooks speak of."""
import difflib
import json
import pathlib
import re
import sys

collection = pathlib.Path(__file__).resolve().parents[3]
known = {
    name
    for folder in ("roles", "playbooks")
    for path in (collection / folder).rglob("*")
    if path.suffix in (".yml", ".j2")
    for name in re.findall(r"\bweft_\w+", path.read_text(encoding="utf-8"))
}
for name in sorted(set(json.loads(sys.argv[1])) - known):
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    meant = f" (did you mean {near[0]}?)" if near else ""
    print(f"variable {name} is none of Weft's{meant}: ansible/README.md lists them; correct it, or give one of your own another prefix")
