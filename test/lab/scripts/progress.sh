#!/usr/bin/env bash
# progress.sh WHAT COMMAND...: runs a command that takes long, and says every ten seconds what it is at, on a terminal or not:
# of `go build` and `go test -c` how many of the packages are compiled, of anything else the last line that it wrote.
# What a command writes is shown if it fails. Its status is the command's.
set -euo pipefail

[ $# -ge 2 ] || { echo "usage: $0 WHAT COMMAND..." >&2; exit 2; }
what=$1 interval=${WEFT_PROGRESS_SECONDS:-10} begun=$SECONDS
shift

say() { printf 'lab: %s\n' "$*"; }

# follow reads a command's output, keeps it in $log, and calls `at` when it is time to say something.
follow() {
    local line='' due=$((SECONDS + interval))
    while true; do
        if IFS= read -r -t 1 line; then
            heard "$line"
        elif [ $? -le 128 ]; then
            return 0 # the end; a status above 128 is a second without a line
        fi
        [ $SECONDS -ge $due ] || continue
        say "$what: $(at), $((SECONDS - begun)) s"
        due=$((SECONDS + interval))
    done
}

# Of an ordinary command the last line is shown, as much of it as fits.
last="at work"
heard() {
    printf '%s\n' "$1" >> "$log"
    [ -z "$1" ] || last=${1:0:70}
}
at() { echo "$last"; }

# count has the lines of `go build -v` counted: import paths, which have no blanks, of what is compiled.
count() {
    modules=0 compiled=0 stale=0
    heard() {
        case $1 in
        "go: downloading "*) modules=$((modules + 1)) ;;
        *[[:blank:]]* | '') printf '%s\n' "$1" >> "$log" ;;
        *) compiled=$((compiled + 1)) ;;
        esac
    }
    at() {
        if [ $compiled = 0 ] && [ $modules != 0 ]; then echo "$modules modules downloaded"
        elif [ $compiled = 0 ]; then echo "looking what is compiled already"
        elif [ $compiled -ge "$stale" ]; then echo "all packages compiled, linking"
        else echo "$compiled of $stale packages compiled"; fi
    }
}

# listing turns the arguments of `go build` or `go test -c` into those of the `go list` that names what they compile.
listing() {
    local packages=()
    [ "$1" = test ] && packages=(-test)
    shift
    while [ $# -gt 0 ]; do
        case $1 in
        -o) shift ;;
        -c | -v) ;;
        *) packages+=("$1") ;;
        esac
        shift
    done
    printf '%s\n' -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' "${packages[@]}"
}

# compile runs go. Its compilers may have five times the memory that they hold: they take a sixth less time for it.
compile() {
    local arguments
    export GOGC=${GOGC:-400} GOMEMLIMIT=${GOMEMLIMIT:-1536MiB}
    mapfile -t arguments < <(listing "${@:2}")
    go list "${arguments[@]}" 2>&1 > "$names" | follow
    stale=$(wc -l < "$names")
    go "$2" -v "${@:3}" 2>&1 > /dev/null | follow
}

names=$(mktemp) log=$(mktemp)
ended() {
    status=$?
    [ $status = 0 ] || { tail -n 40 "$log" >&2; echo "lab: $what: failed" >&2; }
    rm -f "$names" "$log"
}
trap ended EXIT
say "$what"
if [ "$1" = go ] && [ "$2" != mod ]; then
    count
    compile "$@"
else
    "$@" 2>&1 | follow
fi
[ $((SECONDS - begun)) -lt "$interval" ] || say "$what: done in $((SECONDS - begun)) s"
