#!/usr/bin/env python3
"""Write the table of variables in README.md from the roles' argument specs; with --check say whether it is the same."""
import pathlib
import re
import sys

import yaml

here = pathlib.Path(__file__).parent
begin, end = "<!-- variables: made by docs.py -->\n", "<!-- end of variables -->\n"


def cell(text):
    return re.sub(r"C\(([^()]*)\)", r"`\1`", str(text).strip()).replace("|", "\\|")


def table(role):
    spec = yaml.safe_load((here / "roles" / role / "meta/argument_specs.yml").read_text())
    defaults = yaml.safe_load((here / "roles" / role / "defaults/main.yml").read_text())
    lines = [f"#### Role {role}\n", "| variable | type | default | meaning |", "|---|---|---|---|"]
    for name, option in spec["argument_specs"]["main"]["options"].items():
        kind = option["type"] + (f" of {option['elements']}" if "elements" in option else "")
        if "choices" in option:
            kind += ": " + ", ".join(str(choice) or '""' for choice in option["choices"])
        default = "**mandatory**" if option.get("required") else ""
        if name in defaults:
            value = defaults[name]
            text = str(value).lower() if isinstance(value, bool) else str(value)
            default = f"`{text}`" if text else '`""`'
        lines.append(f"| `{name}` | {kind} | {cell(default)} | {cell(option['description'])} |")
    missing = sorted(set(defaults) - set(spec["argument_specs"]["main"]["options"]))
    if missing:
        sys.exit(f"{role}: defaults without a specification: {', '.join(missing)}")
    return "\n".join(lines) + "\n"


roles = [r for r in ("weft_common", "weft_node_windows", "ovs_windows") if (here / "roles" / r / "meta/argument_specs.yml").exists()]
readme = here / "README.md"
text = readme.read_text()
head, rest = text.split(begin)
tail = rest.split(end)[1]
made = head + begin + "\n" + "\n".join(table(role) for role in roles) + "\n" + end + tail
if "--check" in sys.argv and made != text:
    sys.exit("README.md has another table of variables than the roles' argument specs; run ansible/docs.py")
readme.write_text(made)
