#!/usr/bin/env bash
# site.sh: the documents as a site, in bin/site. It installs what that needs: Debian's mkdocs and its theme, and npm for
# mermaid, which draws the picture in the README. A browser that reads the site asks no other server.
set -euo pipefail
cd "$(dirname "$0")/../.."

mermaid=8.13.3 # that of the theme
checksum=6e51d7697d9132f37010e9eb60e97febf44aa8d8bdec8837a3a01eddb8573ef3
test/lab/scripts/install.sh mkdocs=mkdocs /usr/share/mkdocs/themes/material=mkdocs-material npm=npm

pages=bin/site-pages
rm -rf "$pages" bin/site
mkdir -p "$pages"
git ls-files "*.md" "docs/*.png" "docs/*.txt" "docs/*.yaml" ":!ansible/roles" | xargs cp --parents -t "$pages"
if [ ! -f "bin/mermaid-$mermaid.min.js" ]; then
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    (cd "$scratch" && npm pack --silent "mermaid@$mermaid" > /dev/null && tar xzf mermaid-*.tgz package/dist/mermaid.min.js)
    mv "$scratch/package/dist/mermaid.min.js" "bin/mermaid-$mermaid.min.js"
fi
cp "bin/mermaid-$mermaid.min.js" "$pages/mermaid.min.js"
echo "$checksum  $pages/mermaid.min.js" | sha256sum --check --quiet
PYTHONDONTWRITEBYTECODE=1 mkdocs --quiet build --config-file docs/site/mkdocs.yml
echo "the site is in bin/site; to read it: python3 -m http.server --directory bin/site --bind 127.0.0.1 8000"
