"""How many functions a fit enters, and how many classes carry its data.

`python -m benchmarks.house.ways` prints a table of fits: how many functions and files each of them
enters before its first noise and in all, and how many kinds of carriers it has. `--write` writes
the table into ways.md, below "Now". `--tree NAME` prints the calls of one fit before its first
noise, each function where it is first entered. `--whole` prints, beside the aims, how many
functions and files a second fit of 2,000 rows of 8 columns enters in all.

A function counts if it is defined in `skdp`; nested functions count, too. Comprehensions and
lambdas are counted in a column of their own, and with `--whole`. A carrier is a class of `skdp`
whose instances are passed to functions or returned. Estimators and units, which users make, are no
carriers; the second number leaves out `data/` and `linalg/`, whose classes are views of X and
matrices.
"""

import argparse
import ast
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

import skdp
from benchmarks.house.weight import weigh
from skdp.units import Edge, Entry, FrobeniusChange, Interaction, Unit

ROOT = str(Path(skdp.__file__).parent)
PAGE, NOW = Path(__file__).with_suffix(".md"), "## Now"
_VIEWS = ("skdp.data.", "skdp.linalg.")
_NOTHING_RELEASED = ("datasets",)
_OTHER_WORDS = {("step", "model_selection/_report.py")}  # a heading
# Parts of the names of releases that number them, such as "component 2: " and "norm, counts 3".
_NUMBERED = re.compile(r"(, (count|closer) \d+.*)|(^component \d+: )|( \d+$)")


def cases() -> dict[str, tuple[Any, tuple]]:
    """Make the estimators, each with the arguments of its fit."""
    rng = np.random.default_rng(0)
    X, wide = rng.normal(size=(2000, 12)), rng.random(size=(600, 450))
    table, y = rng.random(size=(60, 40)), X @ np.ones(12)
    groups, graph = np.repeat(np.arange(500), 4), rng.random((30, 30))
    graph = (graph + graph.T) / 2
    matrices = rng.normal(size=(3000, 4, 5))
    responses = matrices.sum(axis=(1, 2))
    svd, classes = skdp.DPTruncatedSVD, {"classes": [0, 1]}
    of_entries = {"privacy_unit": Entry((0, 1)), "solver": "alternating"}
    two_sketch = {"privacy_unit": FrobeniusChange(1.0), "solver": "two_sketch"}
    of_responses = {"privacy_unit": "response", "response_bound": 9.0}
    personal = skdp.DPPersonalizedRegressor(2, epsilon=8.0)
    no_extras = dict.fromkeys(("fit_intercept", "mean_head", "decorrelate"), False)
    exponential = skdp.DPPersonalizedRegressor(
        1, solver="exponential", **no_extras, random_state=2**70
    )
    return {
        "DPPCA": (skdp.DPPCA(2), (X,)),
        "DPPCA, bounds": (skdp.DPPCA(2, row_norm=5.0, mean_norm=5.0), (X,)),
        "DPPCA, power": (skdp.DPPCA(2, solver="power"), (X,)),
        "DPTruncatedSVD": (svd(2), (X,)),
        "DPTruncatedSVD, guided": (svd(2, epsilon=20.0), (wide,)),
        "DPTruncatedSVD, entries": (svd(2, **of_entries), (table,)),
        "DPTruncatedSVD, edges": (svd(2, privacy_unit=Edge((0, 1))), (graph,)),
        "DPTruncatedSVD, interactions": (svd(2, privacy_unit=Interaction()), (table > 0.5,)),
        "DPLowRankFactorizer, rows": (skdp.DPLowRankFactorizer(2), (X,)),
        "DPLowRankFactorizer, sketches": (skdp.DPLowRankFactorizer(2, **two_sketch), (table,)),
        "DPStandardScaler": (skdp.DPStandardScaler(), (X,)),
        "DPStandardScaler, bounds": (skdp.DPStandardScaler(bounds=(-3, 3)), (X,)),
        "DPLogisticRegression": (skdp.DPLogisticRegression(**classes), (X, y > 0)),
        "DPLinearRegression": (skdp.DPLinearRegression(), (X, y)),
        "DPTraceClassifier": (skdp.DPTraceClassifier(1, **classes), (matrices, responses > 0)),
        "DPLogisticRegression, bounds": (
            skdp.DPLogisticRegression(**classes, row_norm=5.0),
            (X, y > 0),
        ),
        "DPTraceRegressor": (skdp.DPTraceRegressor(1), (matrices, responses)),
        "DPTraceRegressor, vectors": (skdp.DPTraceRegressor(1), (X, y)),
        "DPTraceRegressor, spectral": (
            skdp.DPTraceRegressor(1, init="spectral", epsilon=5.0),
            (matrices, responses),
        ),
        "DPTraceRegressor, responses": (skdp.DPTraceRegressor(1, **of_responses), (X, y)),
        "DPPersonalizedRegressor": (personal, (X, y, groups)),
        "DPPersonalizedRegressor, altmin": (
            clone(personal).set_params(solver="altmin"),
            (X, y, groups),
        ),
        "DPPersonalizedRegressor, pooled": (
            skdp.DPPersonalizedRegressor(0, epsilon=8.0),
            (X, y, groups),
        ),
        "DPPersonalizedRegressor, exponential": (exponential, (X[:, :4], y, groups)),
    }


# How many functions, and for the pipeline how many files, a whole fit is to enter.
AIMS = {  # not tuned
    "DPPCA": "160",
    "DPLogisticRegression": "220",
    "DPLinearRegression": "260",
    "pipeline of three steps": "430, 38",
}


def whole_fits() -> Iterator[str]:
    """Count the functions and files of a whole fit of some estimators, in rows of a table."""
    X = np.random.default_rng(0).normal(size=(2000, 8))
    y = X @ np.ones(8)
    steps = skdp.DPStandardScaler(), skdp.DPPCA(2), skdp.DPLogisticRegression()
    fits: list[tuple[Any, tuple]] = [
        (skdp.DPPCA(2, row_norm=3.0, mean_norm=1.0), (X,)),
        (skdp.DPLogisticRegression(), (X, y > 0)),
        (skdp.DPLinearRegression(), (X, y)),
        (skdp.make_dp_pipeline(*steps), (X, y > 0)),
    ]
    yield "| whole fit | functions, files | aim |"
    yield "|---|---|---|"
    for (name, aim), (estimator, data) in zip(AIMS.items(), fits, strict=True):
        yield f"| {name} | {counted(followed(estimator, data)[0].entered)} | {aim} |"


Place = tuple[str, str, int]  # file, qualified name and line of a function


class Way:
    """What a fit enters and passes on."""

    def __init__(self) -> None:
        # Functions, each with whether the fit entered it before its first noise.
        self.entered: dict[Place, bool] = {}
        self.carriers: set[str] = set()
        self.tree: list[str] = []
        self._is_before, self._depth = True, 0

    def __call__(self, frame: Any, event: str, arg: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(ROOT):
            return
        place = code.co_filename[len(ROOT) + 1 :], code.co_qualname, code.co_firstlineno
        if is_inner(place):
            self.entered.setdefault(place, self._is_before)
        elif event == "call":
            self._depth += 1
            self._is_before &= place[:2] != ("privacy/noise.py", "draw")
            if self._is_before and place not in self.entered:
                self.tree.append("  " * (self._depth - 1) + f"{place[1]}  ({place[0]})")
            self.entered.setdefault(place, self._is_before)
            for value in list(frame.f_locals.values()):
                self._see(value)
        else:
            self._depth -= 1
            self._see(arg)

    def _see(self, value: Any) -> None:
        for one in value[:5] if type(value) in (tuple, list) else (value,):
            kind = type(one)
            if kind.__module__.startswith("skdp") and not isinstance(one, BaseEstimator | Unit):
                self.carriers.add(f"{kind.__module__}.{kind.__name__}")


def is_inner(place: Place) -> bool:
    """Return whether a function is a comprehension, a lambda, or the body of a module."""
    return place[1].endswith(">")


def counted(places: Iterable[Place]) -> str:
    """Write the numbers of functions and of their files."""
    files = [file for file, *_ in places]
    return f"{len(files)}, {len(set(files))}"


def followed(estimator: Any, arguments: tuple) -> tuple[Way, Any]:
    """Follow one fit after a first one, which has computed what a process computes once."""
    with warnings.catch_warnings(action="ignore"):
        clone(estimator).fit(*arguments)
        estimator, way = clone(estimator), Way()
        sys.setprofile(way)
        try:
            estimator.fit(*arguments)
        finally:
            sys.setprofile(None)
    return way, estimator


def _docstrings(tree: ast.AST) -> Iterator[Any]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value


def files_of_names(names: set[str], root: Path = Path(ROOT)) -> dict[str, list[str]]:
    """Find the files whose code has a name of a release as a string.

    A value of a parameter, in `StrOptions` or as a default, such as the solver "gradient", is no
    such name; nor is a word in a file where nothing is released, or a heading.
    """
    found: dict[str, list[str]] = {name: [] for name in names}
    for path in sorted(root.rglob("*.py")):
        source, place = path.read_text(), path.relative_to(root).as_posix()
        if any(f'"{name}' in source for name in names) and not place.startswith(_NOTHING_RELEASED):
            for name in names & _strings_of(ast.parse(source)):
                if (name, place) not in _OTHER_WORDS:
                    found[name].append(place)
    return found


def _strings_of(tree: ast.AST) -> set[str]:
    """Return the strings of a module, except docstrings and values of parameters."""
    nodes = list(ast.walk(tree))
    left_out = set(map(id, _docstrings(tree)))
    for node in nodes:
        left_out |= {id(one) for part in _parameter_values(node) for one in ast.walk(part)}
    return {
        node.value.strip()
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if id(node) not in left_out
    }


def _parameter_values(node: ast.AST) -> list[ast.AST]:
    """Return the nodes with defaults of parameters and with their admitted values."""
    if isinstance(node, ast.arguments):
        return [*node.defaults, *(one for one in node.kw_defaults if one is not None)]
    if isinstance(node, ast.ClassDef):
        fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
        return [one.value for one in fields if one.value is not None]
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "StrOptions":
        return [*node.args]
    return []


def stem(name: str) -> str:
    """Remove the numbers from the name of a release."""
    while (shorter := _NUMBERED.sub("", name)) != name:
        name = shorter
    return name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", help="a case whose calls before the first noise are printed")
    parser.add_argument("--whole", action="store_true", help="count whole fits, and nothing else")
    parser.add_argument("--write", action="store_true", help="write into ways.md")
    arguments = parser.parse_args()
    if arguments.whole:
        print("\n".join(whole_fits()))
        return
    names: set[str] = set()
    lines = [
        "| fit | functions, files before noise | with comprehensions | budgeting | in all "
        "| kinds of carriers |",
        "|---|---|---|---|---|---|",
    ]
    for case, fit in cases().items():
        if arguments.tree not in (None, case):
            continue
        way, estimator = followed(*fit)
        names |= {stem(one.name) for one in estimator.privacy_spent_.releases}
        lines.append(row_of(case, way))
        lines += way.tree if arguments.tree else []
    lines += ["", *totals(names)]
    if arguments.write:
        before = PAGE.read_text().partition(NOW)[0]
        PAGE.write_text("\n".join([before + NOW, "", *lines, ""]))
    else:
        print("\n".join(lines))


def row_of(case: str, way: Way) -> str:
    """Write a row of the table."""
    before = [place for place, is_before in way.entered.items() if is_before]
    named = [place for place in before if not is_inner(place)]
    in_all = [place for place in way.entered if not is_inner(place)]
    budgeting = sum(
        file.startswith(("privacy/", "ledger/", "units.py")) or "plan" in file for file, *_ in named
    )
    n_kinds = sum(not name.startswith(_VIEWS) for name in way.carriers)
    return (
        f"| {case} | {counted(named)} | {len(before)} | {budgeting} | {counted(in_all)} "
        f"| {len(way.carriers)}, {n_kinds} |"
    )


def totals(names: set[str]) -> list[str]:
    """Write which names of releases several files have, and how many code lines there are."""
    shared = {name: files for name, files in files_of_names(names).items() if len(files) > 1}
    total = sum(weigh(path)["code lines"] for path in Path(ROOT).rglob("*.py"))
    return [
        f"Names of releases in more than one file: {len(shared)} of {len(names)}. "
        f"Code lines: {total}.",
        *(f"- {name}: {', '.join(files)}" for name, files in sorted(shared.items())),
    ]


if __name__ == "__main__":
    main()
