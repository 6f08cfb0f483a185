#!/usr/bin/env bash
# wine.sh OUTDIR: makes the Wine prefix that a Windows node of the lab overlays, in OUTDIR/prefix: Windows Server 2022 by its
# version, with the DLLs of test/hns/dll. Nothing is made when OUTDIR is newer than what it is made of.
set -euo pipefail

[ $# = 1 ] || { echo "usage: $0 OUTDIR" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
sources=$here/../../hns/dll
mkdir -p "$1"
out=$(cd "$1" && pwd)
wine=/usr/lib/wine/wine64
builtin=/usr/lib/x86_64-linux-gnu/wine/x86_64-windows
compiler=x86_64-w64-mingw32-gcc
for needed in "$wine" "$builtin/iphlpapi.dll" "$(command -v $compiler || echo $compiler)"; do
    [ -e "$needed" ] || { echo "$0: $needed is missing; run test/lab/scripts/deps.sh" >&2; exit 1; }
done

stamp=$out/.complete
newer() { [ -n "$(find "$0" "$wine" "$sources" -newer "$stamp" -print -quit)" ]; }
if [ -e "$stamp" ] && ! newer; then exit 0; fi
rm -rf "$stamp" "$out/new" "$out/dll"

work=$(mktemp -d)
log=$work/log
export WINEPREFIX=$out/new HOME=$work TMPDIR=$work WINEARCH=win64 WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml="
unset DISPLAY WAYLAND_DISPLAY HNSEMU_ADDR
end() {
    status=$?
    [ -d "$WINEPREFIX" ] && /usr/lib/wine/wineserver -k 2> /dev/null || true
    [ $status = 0 ] || { echo "$0: the Wine prefix could not be made:" >&2; tail -20 "$log" >&2; }
    rm -rf "$work"
}
trap end EXIT

# build NAME SOURCES -- LIBRARIES
build() {
    name=$1 files=() && shift
    while [ "$1" != -- ]; do files+=("$sources/$1"); shift; done
    shift
    $compiler -O2 -s -shared -Wall -Wextra -Werror -Wno-unused-parameter -Wno-cast-function-type \
        -o "$out/dll/$name" "${files[@]}" "$@" >> "$log" 2>&1
}
echo "compiling the DLLs that lead to the emulated HNS"
mkdir "$out/dll"
build computenetwork.dll computenetwork.c hcn.c rpc.c -- -lws2_32 -lole32
build vmcompute.dll vmcompute.c hcn.c rpc.c -- -lws2_32 -lole32
build bcryptprimitives.dll bcryptprimitives.c sockets.c -- -ladvapi32 -lws2_32
# Of iphlpapi what test/hns/dll has not is forwarded to a copy of Wine's, which is found by another name once the mark that
# makes Wine load its own file instead is gone.
x86_64-w64-mingw32-objdump -p "$builtin/iphlpapi.dll" |
    awk '/^\[Ordinal.*Name Pointer\] Table/ {names = 1; next} NF == 0 {names = 0} names && $NF !~ /@/ {print $NF}' > "$work/exports"
cut -s -d= -f1 "$sources/iphlpapi.def" > "$work/own"
{
    cat "$sources/iphlpapi.def"
    grep -vxFf "$work/own" "$work/exports" | sed 's/.*/&=wineiphlp.&/'
} > "$work/iphlpapi.def"
build iphlpapi.dll iphost.c ipadapters.c ipinterfaces.c ipneighbours.c iproutes.c ipnotify.c rpc.c -- "$work/iphlpapi.def" -lws2_32
cp "$builtin/iphlpapi.dll" "$out/dll/wineiphlp.dll"
chmod u+w "$out/dll/wineiphlp.dll"
[ "$(dd if="$out/dll/wineiphlp.dll" bs=1 skip=64 count=16 status=none)" = "Wine builtin DLL" ]
dd if=/dev/zero of="$out/dll/wineiphlp.dll" bs=1 seek=64 count=16 conv=notrunc status=none

$compiler -O2 -s -municode -Wall -Wextra -Werror -Wno-unused-parameter -o "$out/dll/powershell.exe" \
    "$sources/powershell.c" "$sources/rpc.c" -lws2_32 >> "$log" 2>&1

echo "starting Wine for the first time"
$wine wineboot -i >> "$log" 2>&1
version='HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion'
setting() { $wine reg add "$version" /v "$1" /t "$2" /d "$3" /f >> "$log" 2>&1; }
setting CurrentBuild REG_SZ 20348
setting CurrentBuildNumber REG_SZ 20348
setting CurrentVersion REG_SZ 6.3
setting CurrentMajorVersionNumber REG_DWORD 10
setting CurrentMinorVersionNumber REG_DWORD 0
setting ProductName REG_SZ "Windows Server 2022 Datacenter"
setting EditionID REG_SZ ServerDatacenter
setting InstallationType REG_SZ Server
echo "ending Wine"
/usr/lib/wine/wineserver -k
/usr/lib/wine/wineserver -w 2> /dev/null || true

# Of its own DLLs Wine reads the headers in the prefix, and loads the file that it was installed with: the rest of the copies
# is made a hole, which leaves 90 MB of 700. (Links would lead whoever writes to the prefix to Wine's own files.)
system32=$WINEPREFIX/drive_c/windows/system32
comm -12 <(cd "$system32" && find . -maxdepth 1 -type f | sort) <(cd "$builtin" && find . -maxdepth 1 -type f | sort) |
    while read -r file; do
        fallocate --punch-hole --offset 4096 --length "$(stat -c %s "$system32/$file")" "$system32/$file" 2>> "$log" || break
    done
cp --remove-destination "$out"/dll/*.dll "$out"/dll/*.exe "$system32/"
# Folders of the user that were links into a home that is gone now, and no update at the first start of an overlay.
find "$WINEPREFIX/drive_c/users" -type l -exec sh -c 'rm "$1"; mkdir "$1"' - {} \;
echo disable > "$WINEPREFIX/.update-timestamp"
rm -rf "$out/prefix"
mv "$out/new" "$out/prefix"
touch "$stamp"
