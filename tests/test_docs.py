"""The API page lists the public names, all of them and no others."""

import importlib
import inspect
import re
from pathlib import Path

API_PAGE = Path(__file__).parent.parent / "docs" / "api.rst"
PUBLIC_MODULES = [
    "skdp",
    "skdp.datasets",
    "skdp.metrics",
    "skdp.model_selection",
    "skdp.privacy",
    "skdp.privacy.gaussian_dp",
    "skdp.privacy.pure_dp",
    "skdp.units",
]


def public_names():
    for module_name in PUBLIC_MODULES:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isroutine(value):
                yield f"{module_name}.{name}"


def test_api_page_lists_the_public_names():
    listed = re.findall(r"^   (skdp\.[\w.]+)$", API_PAGE.read_text(), flags=re.MULTILINE)
    assert sorted(listed) == sorted(public_names())
