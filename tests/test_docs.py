"""The documentation names what is there: all of it, and nothing else."""

import importlib
import inspect
import re
import runpy
from pathlib import Path

import pytest

import skdp
import skdp.model_selection

DOCS = Path(__file__).parent.parent / "docs"
API_PAGE = DOCS / "api.rst"
INVENTORY = DOCS / "inventories" / "sklearn.inv"
ESTIMATORS = [
    skdp.DPPCA,
    skdp.DPLowRankFactorizer,
    skdp.DPPersonalizedRegressor,
    skdp.DPTraceRegressor,
    skdp.DPTruncatedSVD,
]
SEARCHES = [skdp.model_selection.DPGridSearch, skdp.model_selection.DPRandomizedSearch]
STREAMS = [skdp.DPStreamingFactorizer, skdp.DPContinualFactorizer, skdp.LowRankFactors]
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


def test_of_each_method_it_is_said_what_the_guarantee_covers():
    said = runpy.run_path(str(DOCS / "_extensions" / "guarantee.py"))["GUARANTEE"]
    methods = {
        name
        for estimator in ESTIMATORS + SEARCHES + STREAMS
        for name in dir(estimator)
        if not name.startswith("_") and callable(getattr(estimator, name))
    }
    assert said.keys() == methods


@pytest.mark.parametrize("entry", INVENTORY.read_text().splitlines()[3:])
def test_names_of_scikit_learn_exist(entry):
    name, kind, page = entry.split()
    owner = name.rpartition(".")[0] if kind == "method" else name
    assert page == f"modules/generated/{owner}.html"
    module_name, _, own_name = owner.rpartition(".")
    value = getattr(importlib.import_module(module_name), own_name)
    assert inspect.isclass(value) == (kind != "function")
    assert owner == name or hasattr(value, name.rpartition(".")[2])


@pytest.mark.parametrize("estimator", ESTIMATORS + SEARCHES + STREAMS[:2])
def test_the_docstring_of_an_estimator_is_no_manual(estimator):
    assert inspect.getdoc(estimator).splitlines().index("Examples") <= 120
