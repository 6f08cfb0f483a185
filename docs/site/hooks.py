"""What mkdocs does not do by itself for documents that lie beside the code."""

import functools
import html
import pathlib
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


GLOSSARY = "docs/glossary.md"

# Weft's own terms that are explained where they are used. Its other ones are words that readers know, or that each page
# has many times.
MARKED = ["central host", "chassis host", "door", "guard", "hosted node", "join address", "management port",
          "network outside", "shared gateway", "stolen node"]

# Where a term is not marked: what leads elsewhere, and what is shown as it is typed.
UNMARKED = {"a", "code", "pre", "script", "h1", "h2", "h3", "h4", "h5", "h6"}


@functools.cache
def meanings(folder):
    """What the glossary says of each marked term, without Markdown."""
    rows = (line.split(" | ") for line in (pathlib.Path(folder) / GLOSSARY).read_text().splitlines())
    said = {row[0].removeprefix("| "): row[2].removesuffix(" |") for row in rows if len(row) == 3}
    if lost := [term for term in MARKED if term not in said]:
        raise SystemExit(f"{GLOSSARY} lacks {', '.join(lost)}, which docs/site/hooks.py marks")
    return {term: re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", said[term]).replace("`", "") for term in MARKED}


# A term may begin a sentence, be plural, and be broken at the end of a line.
TERM = re.compile(r"\b(" + "|".join(MARKED).replace(" ", r"\s+") + r")(?=(?:s|es)?\b)", re.IGNORECASE)


def on_page_content(content, page, config, files):
    """In each section, a term of the glossary shows its meaning where it is used first."""
    if page.file.src_uri == GLOSSARY:
        return content
    known, seen, inside = meanings(config["docs_dir"]), set(), []

    def mark(found):
        term = " ".join(found[0].lower().split())
        if term in seen:
            return found[0]
        seen.add(term)
        return f'<abbr title="{html.escape(known[term])}">{found[0]}</abbr>'

    pieces = re.split(r"(<[^>]+>)", content)
    for i, piece in enumerate(pieces):
        tag = re.match(r"<(/?)(\w+)", piece)
        if not tag:
            if not inside:
                pieces[i] = TERM.sub(mark, piece)
        elif tag[1]:
            inside = inside[:-1] if inside and inside[-1] == tag[2] else inside
        elif tag[2] in UNMARKED:
            inside = inside + [tag[2]]
            if tag[2] == "h2":
                seen.clear()
    return "".join(pieces)
