#!/usr/bin/env bash
# wine-test.sh PACKAGE...: runs the packages' tests, built for Windows, under Wine in a prefix of their own.
set -euo pipefail
cd "$(dirname "$0")/../../.."
scratch=$(mktemp -d)
export WINEPREFIX=$scratch/prefix WINEARCH=win64 WINEDEBUG=-all WINEDLLOVERRIDES=mscoree,mshtml= TMPDIR=$scratch
unset DISPLAY
end() {
    /usr/lib/wine/wineserver64 -k || true # it may have ended by itself
    rm -rf "$scratch"
}
trap end EXIT
cp -a --sparse=always bin/lab/wine/prefix "$WINEPREFIX"
# Wine's services live on between programs, and have the output of the one that started them: were that a test, go test
# would wait for their end.
/usr/lib/wine/wineserver64 -p
/usr/lib/wine/wine64 cmd /c exit < /dev/null &> /dev/null
# Many tests wait for a time to pass: eight at once wait for as long as one. `make check` has vetted them.
GOOS=windows CGO_ENABLED=0 go test -vet off -parallel 8 -timeout 10m -exec /usr/lib/wine/wine64 "$@"
