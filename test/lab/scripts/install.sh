#!/usr/bin/env bash
# install.sh WHAT=PACKAGE...: installs the packages whose WHAT, a program or a file, a Debian or Ubuntu machine lacks. It
# asks nothing.
set -euo pipefail
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

missing=()
for pair in "$@"; do
    command -v "${pair%%=*}" > /dev/null || [ -e "${pair%%=*}" ] || missing+=("${pair##*=}")
done
[ ${#missing[@]} -gt 0 ] || exit 0
[ "$(id -u)" = 0 ] || { echo "$0: run it as root: it has to install ${missing[*]}" >&2; exit 1; }
command -v apt-get > /dev/null || { echo "$0: no apt-get here; install ${missing[*]} by hand" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2016
exec "$(dirname "$0")/progress.sh" "installing ${missing[*]}" \
    sh -c 'apt-get -q update && apt-get -q -y --no-install-recommends install "$@"' - "${missing[@]}"
