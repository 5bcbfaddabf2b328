"""Pages of the built documentation: what links to what.

`SKDP_DOCS_HTML` names the folder with the pages. Without it the tests of `tests/site` skip.
"""

import os
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

FOLDER = os.environ.get("SKDP_DOCS_HTML")
needs_pages = pytest.mark.skipif(
    FOLDER is None, reason="SKDP_DOCS_HTML does not name the folder of a built documentation"
)


@dataclass
class Page:
    """What a page refers to, and what can be referred to on it."""

    links: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    pictures: list[tuple[str, str]] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    descriptions: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.page = page
        self.in_title = False

    def handle_starttag(self, tag, attrs):
        has = {name: value or "" for name, value in attrs}
        self.page.anchors.update(has[name] for name in ("id", "name") if name in has)
        if tag == "a" and "href" in has:
            self.page.links.append(has["href"])
        if tag == "img":
            self.page.pictures.append((has.get("src", ""), has.get("alt", "")))
        if tag == "meta" and has.get("name") == "description":
            self.page.descriptions.append(has.get("content", ""))
        is_file = tag in ("img", "script") or (tag == "link" and has.get("rel") != "canonical")
        self.page.files += [has[name] for name in ("src", "href") if is_file and name in has]
        self.in_title = tag == "title"

    def handle_data(self, data):
        if self.in_title:
            self.page.titles.append(data.strip())
            self.in_title = False


@cache
def pages():
    """Read all pages, by their paths."""
    folder = Path(FOLDER).resolve()
    found = {}
    for path in sorted(folder.rglob("*.html")):
        if "_static" in path.relative_to(folder).parts:
            continue  # templates of the theme
        found[path] = Page()
        _Reader(found[path]).feed(path.read_text(encoding="utf-8"))
    assert len(found) > 50
    return found


def name_of(path):
    return str(path.relative_to(Path(FOLDER).resolve()))


def is_ours(link):
    parts = urlsplit(link)
    return not parts.scheme and not parts.netloc


def target(page, link):
    """Return the path that a link of ours leads to, and the anchor there."""
    parts = urlsplit(link)
    path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    return path, unquote(parts.fragment)
