"""What pages say of themselves, and alternative texts of the figures of examples."""

import re

from docutils import nodes
from sphinx_gallery.scrapers import matplotlib_scraper


def setup(app):
    app.connect("html-page-context", describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def describe(app, pagename, templatename, context, doctree):
    """Make the first paragraph of a page its description."""
    paragraphs = doctree.findall(nodes.paragraph) if doctree else ()
    texts = (re.sub(r"\s+", " ", one.astext()) for one in paragraphs)
    first = next((text for text in texts if len(text) > 40), None)
    if first:
        content = nodes.Text(first[:300]).astext().replace('"', "&quot;").replace("<", "&lt;")
        context["metatags"] += f'<meta name="description" content="{content}">'


def described_figures(block, block_vars, gallery_conf):
    """Scrape figures. A comment `sphinx_gallery_alt = "..."` in the block describes them."""
    figures = matplotlib_scraper(block, block_vars, gallery_conf)
    found = re.search(r'^# sphinx_gallery_alt = "(.*)"$', block[1], flags=re.MULTILINE)
    if figures and not found:
        raise ValueError(f"{block_vars['src_file']}: a figure has no `# sphinx_gallery_alt = ...`")
    return re.sub(r":alt: .*", lambda _: f":alt: {found[1]}", figures) if figures else figures


class MainFirst:
    """Sorts the examples of a section: the main one first, then by name."""

    def __init__(self, src_dir):
        pass

    def __call__(self, filename):
        return filename != "quickstart.py", filename
