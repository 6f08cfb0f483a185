"""What mkdocs does not do by itself for documents that lie beside the code."""

import posixpath
import re

REPOSITORY = "https://github.com/weftnet/weft/blob/main/"

# A link of Markdown that is relative: [text](target) or [text]: target.
LINK = re.compile(r"(\]\(|^\[[^\]]+\]: )(?![a-z]+:|#|/)([^)\s#]+)(#[^)\s]*)?", re.MULTILINE)


def on_nav(nav, config, files):
    """Each page is in the navigation, so that a reader can find it."""
    lost = [f.src_uri for f in files.documentation_pages() if f.page not in nav.pages]
    if lost:
        raise SystemExit(f"docs/site/mkdocs.yml: nav lacks {', '.join(lost)}")
    return nav


def on_page_markdown(markdown, page, config, files):
    """Links to code lead to the repository, since the site has the documents alone."""
    here = posixpath.dirname(page.file.src_uri)

    def follow(link):
        target = posixpath.normpath(posixpath.join(here, link[2]))
        if files.get_file_from_path(target):
            return link[0]
        return link[1] + REPOSITORY + target + (link[3] or "")

    return LINK.sub(follow, markdown)
