# debian.sh is sourced: what Debian has of any release, without installing it on this machine.
#
# The mirror is $DEBIAN_MIRROR, or the one this machine's apt already uses for Debian, or debootstrap's.

debian_keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# debian_mirror prints the mirror's URL.
debian_mirror() {
    local mirror
    mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' 'Origin: Debian' |
        grep -v security | head -1)}
    mirror=${mirror:-$(sed -n 's/^DEF_MIRROR="\(.*\)"$/\1/p' "$(command -v debootstrap)")}
    [ -n "$mirror" ] || { echo "$0: neither apt nor debootstrap knows a mirror of Debian; name one with DEBIAN_MIRROR=URL" >&2; return 1; }
    [ -e "$debian_keyring" ] || { echo "$0: install debian-archive-keyring, which signs the packages" >&2; return 1; }
    echo "$mirror"
}

# debian_security_mirror prints the URL of a mirror of Debian's security updates: $DEBIAN_SECURITY_MIRROR, the one that this
# machine's apt already uses, or Debian's own.
debian_security_mirror() {
    local mirror
    mirror=${DEBIAN_SECURITY_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' \
        'Label: Debian-Security' | head -1)}
    echo "${mirror:-https://security.debian.org/debian-security}"
}

# debian_apt MIRROR RELEASE ROOT STATUS ARGUMENT...: apt-get with its lists and its cache below ROOT. It takes for installed
# what the file STATUS says, which is dpkg's. If $debian_security is a mirror, the release has the security updates from there.
debian_apt() {
    local mirror=$1 release=$2 root=$3 status=$4
    shift 4
    local apt=(apt-get -q -o Dir::Etc::SourceList="$root/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Preferences=/dev/null
        -o Dir::Etc::PreferencesParts=/dev/null -o Dir::State="$root" -o Dir::State::Lists="$root/lists" -o Dir::State::status="$status"
        -o Dir::Cache="$root/cache" -o APT::Sandbox::User=root -o APT::Install-Recommends=false -o Acquire::Languages=none)
    if [ ! -e "$root/sources.list" ]; then
        mkdir -p "$root"/{lists/partial,cache/archives/partial}
        {
            echo "deb [signed-by=$debian_keyring] $mirror $release main"
            [ -z "${debian_security:-}" ] || echo "deb [signed-by=$debian_keyring] $debian_security $release-security main"
        } > "$root/sources.list"
        "${apt[@]}" update
    fi
    "${apt[@]}" "$@"
}
