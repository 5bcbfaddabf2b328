"""Links, files and pictures of the built documentation, without a browser."""

import re

from site_pages import is_ours, name_of, needs_pages, pages, target

pytestmark = needs_pages


def test_links_lead_to_pages_and_anchors():
    broken = []
    for path, page in pages().items():
        for link in filter(is_ours, set(page.links)):
            there, anchor = target(path, link)
            known = pages().get(there)
            if not there.exists() or (anchor and known and anchor not in known.anchors):
                broken.append(f"{name_of(path)}: {link}")
    assert broken == []


def test_files_are_there_and_no_file_is_elsewhere():
    missing = [
        f"{name_of(path)}: {file}"
        for path, page in pages().items()
        for file in page.files
        if not is_ours(file) or not target(path, file)[0].exists()
    ]
    assert missing == []


def test_pictures_say_what_is_seen():
    silent = [
        f"{name_of(path)}: {source} {text!r}"
        for path, page in pages().items()
        for source, text in page.pictures
        if len(text) < 25 and not re.search("logo|_thumb", source)  # these stand beside their names
    ]
    assert silent == []


def test_pages_have_titles_of_their_own():
    titles = {}
    for path, page in pages().items():
        titles.setdefault(page.titles[0], []).append(name_of(path))
    assert {title: found for title, found in titles.items() if len(found) > 1} == {}


def test_first_pages_describe_themselves():
    missing = [
        name_of(path)
        for path, page in pages().items()
        if re.fullmatch(r"(recipes/|user_guide/)?(?!search|genindex)\w+\.html", name_of(path))
        and not (page.descriptions and len(page.descriptions[0]) > 40)
    ]
    assert missing == []
