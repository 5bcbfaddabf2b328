"""The documentation names what is there: all of it, and nothing else."""

import importlib
import inspect
import re
import runpy
from pathlib import Path

import pytest
from public import ESTIMATORS

import skdp
import skdp.federated
import skdp.model_selection
import skdp.units

DOCS = Path(__file__).parent.parent / "docs"
API_PAGE = DOCS / "api.rst"
README, CONTRIBUTING = (DOCS.parent / name for name in ("README.md", "CONTRIBUTING.md"))
SOURCES = Path(skdp.__file__).parent
INVENTORY = DOCS / "inventories" / "sklearn.inv"
SEARCHES = [skdp.model_selection.DPGridSearch, skdp.model_selection.DPRandomizedSearch]
STREAMS = [
    *(skdp.DPStreamingFactorizer, skdp.DPContinualFactorizer),
    *(skdp.LowRankFactors, skdp.LocalReports),
]
PARTIES = [getattr(skdp.federated, name) for name in skdp.federated.__all__]
UNITS = [getattr(skdp.units, name) for name in skdp.units.__all__]
# Parameters that mean something else in each algorithm.
OF_EACH_CLASS = {
    *("fit_intercept", "mean_norm", "n_components", "n_iter", "privacy_unit", "row_norm", "solver")
}
# Classes that say more, or less, of a parameter than all others do.
STREAM_NAMES, SEARCH_NAMES = ({one.__name__ for one in kind} for kind in (STREAMS[:2], SEARCHES))
OWN_WORDS = {
    "adjacency": {"DPLowRankFactorizer", "DPPersonalizedRegressor"} | STREAM_NAMES,
    "bounds": {"DPLinearRegression", "DPStandardScaler", "Edge", "SparseRow"},
    "delta": {"DPLowRankFactorizer", "DPPersonalizedRegressor", "DPPCA", "DPTruncatedSVD"},
    "classes": {"DPTraceClassifier"},
    "matrix_shape": {"DPTraceClassifier"},
    "epsilon": {"DPLogisticRegression", "DPPersonalizedRegressor", "DPPipeline"}
    | {"DPLinearRegression", "DPTraceClassifier", "DPTraceRegressor"}
    | SEARCH_NAMES
    | STREAM_NAMES,
    "missing": {"DPCovariance", "DPLowRankFactorizer"},
    "largest": {"SpectralChange"},
    "estimator": {"Federation"},
    "ledger": {"Owner"} | SEARCH_NAMES | STREAM_NAMES,
    "n_oversamples": {"DPLowRankFactorizer"},
    "random_state": SEARCH_NAMES | STREAM_NAMES,
    "prior": {"DPLinearRegression", "DPLogisticRegression", "DPPCA"},
    "zero_is_missing": {"Edge"},
}
PUBLIC_MODULES = [
    "skdp",
    "skdp.datasets",
    "skdp.display",
    "skdp.federated",
    "skdp.interactions",
    "skdp.metrics",
    "skdp.model_selection",
    "skdp.privacy",
    "skdp.privacy.gaussian_dp",
    "skdp.privacy.pure_dp",
    "skdp.testing",
    "skdp.testing.mistakes",
    "skdp.units",
]


# Importing these takes Flower.
OF_FLOWER = ["skdp.federated.flower.client_app", "skdp.federated.flower.server_app"]


def public_names():
    for module_name in PUBLIC_MODULES:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isroutine(value):
                yield f"{module_name}.{name}"


def test_api_page_lists_the_public_names():
    listed = re.findall(r"^   ([\w.]+)$", API_PAGE.read_text(), flags=re.MULTILINE)
    assert sorted(f"skdp.{name}" for name in listed) == sorted([*public_names(), *OF_FLOWER])


def test_tables_name_every_estimator():
    names = {one.__name__ for one in ESTIMATORS + STREAMS[:2]}
    jobs = re.findall(r"^\|.*\| (.*) \|$", README.read_text(), flags=re.MULTILINE)
    assert names <= set(re.findall(r"`(\w+)`", " ".join(jobs)))
    rows = r"^   \* - :class:`~skdp\.(\w+)`$"
    assert names <= set(re.findall(rows, (DOCS / "guarantee.rst").read_text(), flags=re.MULTILINE))


def test_terms_are_linked_from_pages():
    terms = re.findall(r"^   (\w[^:\n]*)$", (DOCS / "glossary.rst").read_text(), flags=re.MULTILINE)
    pages = [*DOCS.glob("[!g]*.rst"), *DOCS.glob("user_guide/*.rst"), DOCS / "guarantee.rst"]
    linked = re.findall(
        r":term:`(?:[^`<]*<)?([^`>]*)>?`", "".join(one.read_text() for one in pages)
    )
    assert 12 <= len(terms) <= 15
    assert set(terms) == set(linked)


def test_the_readme_is_short_and_its_links_lead_somewhere():
    page = README.read_text()
    assert len(page.splitlines()) <= 70
    links = re.findall(r"\]\(([^)#]+)\)", page)
    assert len(links) > 10
    assert [link for link in links if not (README.parent / link).exists()] == []


def code_lines(page):
    """Give the lines of code of a page, without their remarks."""
    for block in re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL):
        yield from (line.partition("  #")[0].strip() for line in block.splitlines())


def test_the_code_that_contributors_are_shown_is_that_of_the_package():
    sources = "\n".join(path.read_text() for path in SOURCES.rglob("*.py"))
    lines = list(code_lines(CONTRIBUTING.read_text()))
    assert len(lines) > 7
    assert [line for line in lines if line not in sources] == []


def test_of_each_method_it_is_said_what_the_guarantee_covers():
    said = runpy.run_path(str(DOCS / "_extensions" / "guarantee.py"))["GUARANTEE"]
    methods = {
        name
        for estimator in [*ESTIMATORS, *SEARCHES, *STREAMS, skdp.DPPipeline, skdp.PlannedEstimator]
        for name in dir(estimator)
        if not name.startswith("_") and callable(getattr(estimator, name))
    }
    # scikit-learn has no callbacks below 1.9.
    assert said.keys() == methods | {"set_callbacks"}


def test_of_each_method_of_a_party_it_is_said_what_the_guarantee_covers():
    said = runpy.run_path(str(DOCS / "_extensions" / "guarantee.py"))["OF_PARTIES"]
    methods = {
        f"{party.__name__}.{name}"
        for party in PARTIES
        for name, value in vars(party).items()
        if not name.startswith("_") and inspect.isfunction(value)
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


@pytest.mark.parametrize("estimator", [*ESTIMATORS, *SEARCHES, *STREAMS[:2], skdp.DPPipeline])
def test_the_docstring_of_an_estimator_is_no_manual(estimator):
    assert inspect.getdoc(estimator).splitlines().index("Examples") <= 120


def parameters_of(cls):
    """Give the text of each parameter of a class, its type included."""
    texts, names = {}, []
    section = inspect.getdoc(cls).partition("Parameters\n----------\n")[2]
    for line in re.split(r"\n\w[\w ]*\n-{3,}\n", section)[0].splitlines():
        if line.strip() and not line.startswith(" "):
            names, _, kind = line.partition(" : ")
            names = names.split(", ")
            texts |= dict.fromkeys(names, kind)
        elif line.strip():
            texts |= {name: f"{texts[name]} {line.strip()}" for name in names}
    return texts


def told_in_two_ways(classes, own_words):
    """Give the parameters whose texts differ, but for classes that have their own words.

    Also those whose own words are those of the others. To refer to another class is no text.
    """
    texts, own = {}, {}
    for one in classes:
        for name, text in parameters_of(one).items():
            is_own = one.__name__ in own_words.get(name, ())
            if not re.search(r"As (in|of) :class:`\w+`\.$", text):
                (own if is_own else texts).setdefault(name, []).append(text)
    differ = {name for name, found in texts.items() if len(set(found)) > 1}
    return differ | {name for name, found in own.items() if set(found) & set(texts.get(name, ()))}


WITH_PARAMETERS = [*ESTIMATORS, *SEARCHES, *STREAMS[:2], *UNITS, *PARTIES, skdp.DPPipeline]


def test_a_parameter_of_one_name_has_one_text():
    assert told_in_two_ways(WITH_PARAMETERS, OWN_WORDS) == OF_EACH_CLASS


@pytest.mark.parametrize("cls", [*WITH_PARAMETERS, skdp.LocalReports])
def test_every_parameter_of_a_constructor_is_documented_in_order(cls):
    assert list(parameters_of(cls)) == list(inspect.signature(cls).parameters)


def documented(name, text):
    doc = f"Title.\n\nParameters\n----------\n{name} : int\n    {text}\n\nNotes\n-----\nMore."
    return type(name.title() + text.title(), (), {"__doc__": doc})


def test_two_texts_of_one_parameter_are_seen():
    one, other = documented("size", "one"), documented("size", "other")
    assert told_in_two_ways([one, documented("rank", "x"), one], {}) == set()
    assert told_in_two_ways([one, other], {}) == {"size"}
    assert told_in_two_ways([one, other], {"size": {"SizeOther"}}) == set()
    # Own words that are none.
    same = type("Same", (), {"__doc__": one.__doc__})
    assert told_in_two_ways([one, same], {"size": {"Same"}}) == {"size"}
    assert told_in_two_ways([one, documented("size", "As in :class:`SizeOne`.")], {}) == set()
