#!/usr/bin/env bash
# at-once.sh: how many parts of `make test` run at once: 2, or 1 on a slow machine. It tells which of them this
# machine is by the processor time of starting a process, which other work on the machine changes little.
#
# Where it takes milliseconds, as on virtual machines without nested page tables, the tests compute for most of the time
# for which they wait elsewhere. More of them at once are not faster there, and miss their deadlines.
set -euo pipefail
readonly processes=50 slow=3 # milliseconds for each
export LC_ALL=C TIMEFORMAT='%U %S'
spent=$({ time for ((i = 0; i < processes; i++)); do /bin/true; done; } 2>&1)
awk -v processes="$processes" -v slow="$slow" '{ print (($1 + $2) * 1000 / processes > slow) ? 1 : 2 }' <<< "$spent"
