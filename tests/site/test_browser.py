"""The built documentation in a headless Chromium, on a phone and on a desktop.

`SKDP_CHROMIUM` names the browser; without it, it is `chromium` of the path.
"""

import os
import shutil
from urllib.parse import quote

import pytest
from site_pages import FOLDER, name_of, needs_pages, pages

CHROMIUM = os.environ.get("SKDP_CHROMIUM") or shutil.which("chromium")
pytestmark = [
    needs_pages,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found: SKDP_CHROMIUM names one"),
]
WIDTHS = {"phone": 390, "desktop": 1440}

# What does not fit where it stands: a page wider than the window, and tables, code and formulas of
# which a part is cut or has to be scrolled to. Formulas may scroll: they have no place to break.
TOO_WIDE = """() => {
    const found = [];
    const root = document.documentElement;
    if (root.scrollWidth > root.clientWidth + 1) found.push(`page ${root.scrollWidth}`);
    const column = document.querySelector('article') || document.body;
    const edge = column.getBoundingClientRect().right + 1;
    for (const block of column.querySelectorAll('table, pre, dl, figure, img, svg')) {
        const box = block.getBoundingClientRect();
        if (!box.width || block.closest('details:not([open])')) continue;
        const within = block.closest('.highlight, .pst-scrollable-table-container');
        const hidden = block.scrollWidth > block.clientWidth + 1 && block.tagName !== 'IMG'
            && block.tagName !== 'svg';
        const scrolled = within && within.scrollWidth > within.clientWidth + 1;
        if (box.right > edge || hidden || scrolled) {
            const text = (block.innerText || block.src || '').trim().slice(0, 60);
            found.push(`${block.tagName} ${Math.round(box.right - edge)} ${text}`);
        }
    }
    return found;
}"""


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        # The sandbox of Chromium does not start for root; all pages are our own.
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS.keys())
def test_pages_fit_and_ask_no_other_site(browser, width):
    specs = []
    tab = browser.new_page(viewport={"width": width, "height": 900})
    tab.on("request", lambda asked: is_here(asked.url) or specs.append(f"asks {asked.url}"))
    # What a page still loads when the next one is opened is not missing.
    tab.on("requestfailed", lambda asked: "ABORTED" in asked.failure or specs.append(asked.url))
    tab.on("pageerror", lambda error: specs.append(str(error)))
    for path in pages():
        tab.goto(path.as_uri())
        specs += [f"{name_of(path)}: {what}" for what in tab.evaluate(TOO_WIDE)]
    tab.close()
    assert not specs, "\n".join(specs)


def is_here(url):
    return url.startswith(("file:", "data:"))


def test_navigation_is_one_line(browser):
    tab = browser.new_page(viewport={"width": 1200, "height": 900})
    tab.goto(f"file://{FOLDER}/index.html")
    assert tab.evaluate("document.querySelector('header').getBoundingClientRect().height") < 90
    tab.close()


SOUGHT = {
    "glossary": "glossary",
    "parquet": "recipes/parquet",
    "csv": "recipes/csv",
    "progress": "user_guide/coming_from_sklearn",
    "stream daily": "recipes/nightly",
    "which epsilon": "faq",
    "publish": "recipes/publish",
    "recommender": "recipes/pairs",
    "dask": "user_guide/on_a_cluster",
    "owners": "user_guide/across_owners",
}


# Results are shown one by one.
FINISHED = """() => {
    const said = document.querySelector('#search-results .search-summary')?.innerText || '';
    const number = said.includes('one page') ? 1 : parseInt(said.match(/\\d+/) || 0);
    return /match/.test(said) && document.querySelectorAll('#search-results li a').length >= number;
}"""


@pytest.mark.parametrize("words", SOUGHT)
def test_search_finds(browser, words):
    tab = browser.new_page()
    tab.goto(f"file://{FOLDER}/search.html?q={quote(words)}")
    tab.wait_for_function(FINISHED)
    links = [link.get_attribute("href") for link in tab.query_selector_all("#search-results li a")]
    tab.close()
    assert any(SOUGHT[words] in link for link in links[:5]), links[:9]
