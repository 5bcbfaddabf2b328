"""How long the way of a fit is: functions and files before its first noise, and kinds of carriers.

`python -m benchmarks.house.ways --write` writes what stands behind "Now" in ways.md, and without
`--write` prints it. With `--tree NAME` it prints the calls of one case before the first noise, each
function once where it is first entered. With `--whole` it prints how many functions and files a
second fit of 2,000 rows of 8 columns enters in all, comprehensions and lambdas among them, beside
what is aimed at.

A function counts if it is defined in `skdp` and entered; so does every nested one. Comprehensions
and lambdas count in a number of its own. A carrier is a class of `skdp` with data of its own of
which an instance is passed to a function, or returned by one. Estimators and what a user gives
(units) are none; the second number leaves out the rooms data/ and linalg/, whose classes are views
of X and matrices.
"""

import argparse
import ast
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

import skdp
from benchmarks.house.weight import weigh
from skdp.units import Edge, Entry, FrobeniusChange, Interaction, Unit

ROOT = str(Path(skdp.__file__).parent)
PAGE, NOW = Path(__file__).with_suffix(".md"), "## Now"
_INNER = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<module>", "<lambda>")
_VIEWS = ("skdp.data.", "skdp.linalg.")
_NOTHING_RELEASED = ("datasets",)
_OTHER_WORDS = {("step", "model_selection/_report.py")}  # a heading
# What stands for a number, or comes behind a name, in names of releases.
_NUMBERED = re.compile(r"(, (count|closer) \d+.*)|(^component \d+: )|( \d+$)")


def cases() -> dict[str, tuple[Callable[[], Any], tuple]]:
    """Make the estimators, and what they are fitted to."""
    rng = np.random.default_rng(0)
    X, wide = rng.normal(size=(2000, 12)), rng.random(size=(600, 450))
    table, y = rng.random(size=(60, 40)), X @ np.ones(12)
    groups, graph = np.repeat(np.arange(500), 4), rng.random((30, 30))
    graph = (graph + graph.T) / 2
    matrices = rng.normal(size=(3000, 4, 5))
    responses = matrices.sum(axis=(1, 2))
    return {
        "DPPCA": (lambda: skdp.DPPCA(2), (X,)),
        "DPPCA, bounds": (lambda: skdp.DPPCA(2, row_norm=5.0, mean_norm=5.0), (X,)),
        "DPPCA, power": (lambda: skdp.DPPCA(2, solver="power"), (X,)),
        "DPTruncatedSVD": (lambda: skdp.DPTruncatedSVD(2), (X,)),
        "DPTruncatedSVD, guided": (lambda: skdp.DPTruncatedSVD(2, epsilon=20.0), (wide,)),
        "DPTruncatedSVD, entries": (
            lambda: skdp.DPTruncatedSVD(2, privacy_unit=Entry((0, 1)), solver="alternating"),
            (table,),
        ),
        "DPTruncatedSVD, edges": (
            lambda: skdp.DPTruncatedSVD(2, privacy_unit=Edge((0, 1))),
            (graph,),
        ),
        "DPTruncatedSVD, interactions": (
            lambda: skdp.DPTruncatedSVD(2, privacy_unit=Interaction()),
            (table > 0.5,),
        ),
        "DPLowRankFactorizer, rows": (lambda: skdp.DPLowRankFactorizer(2), (X,)),
        "DPLowRankFactorizer, sketches": (
            lambda: skdp.DPLowRankFactorizer(
                2, privacy_unit=FrobeniusChange(1.0), solver="two_sketch"
            ),
            (table,),
        ),
        "DPStandardScaler": (lambda: skdp.DPStandardScaler(), (X,)),
        "DPStandardScaler, bounds": (lambda: skdp.DPStandardScaler(bounds=(-3, 3)), (X,)),
        "DPLogisticRegression": (lambda: skdp.DPLogisticRegression(classes=[0, 1]), (X, y > 0)),
        "DPLinearRegression": (lambda: skdp.DPLinearRegression(), (X, y)),
        "DPTraceClassifier": (
            lambda: skdp.DPTraceClassifier(1, classes=[0, 1]),
            (matrices, responses > 0),
        ),
        "DPLogisticRegression, bounds": (
            lambda: skdp.DPLogisticRegression(classes=[0, 1], row_norm=5.0),
            (X, y > 0),
        ),
        "DPTraceRegressor": (lambda: skdp.DPTraceRegressor(1), (matrices, responses)),
        "DPTraceRegressor, vectors": (lambda: skdp.DPTraceRegressor(1), (X, y)),
        "DPTraceRegressor, spectral": (
            lambda: skdp.DPTraceRegressor(1, init="spectral", epsilon=5.0),
            (matrices, responses),
        ),
        "DPTraceRegressor, responses": (
            lambda: skdp.DPTraceRegressor(1, privacy_unit="response", response_bound=9.0),
            (X, y),
        ),
        "DPPersonalizedRegressor": (
            lambda: skdp.DPPersonalizedRegressor(2, epsilon=8.0),
            (X, y, groups),
        ),
        "DPPersonalizedRegressor, altmin": (
            lambda: skdp.DPPersonalizedRegressor(2, epsilon=8.0, solver="altmin"),
            (X, y, groups),
        ),
        "DPPersonalizedRegressor, pooled": (
            lambda: skdp.DPPersonalizedRegressor(0, epsilon=8.0),
            (X, y, groups),
        ),
        "DPPersonalizedRegressor, exponential": (
            lambda: skdp.DPPersonalizedRegressor(
                1,
                solver="exponential",
                fit_intercept=False,
                mean_head=False,
                decorrelate=False,
                random_state=2**70,
            ),
            (X[:, :4], y, groups),
        ),
    }


# Functions, and for the pipeline files, that a whole fit is to enter.
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
    makes: list[tuple[Callable[[], Any], tuple]] = [
        (lambda: skdp.DPPCA(2, row_norm=3.0, mean_norm=1.0), (X,)),
        (lambda: skdp.DPLogisticRegression(), (X, y > 0)),
        (lambda: skdp.DPLinearRegression(), (X, y)),
        (
            lambda: skdp.make_dp_pipeline(
                skdp.DPStandardScaler(), skdp.DPPCA(2), skdp.DPLogisticRegression()
            ),
            (X, y > 0),
        ),
    ]
    yield "| whole fit | functions, files | aim |"
    yield "|---|---|---|"
    for (name, aim), (make, data) in zip(AIMS.items(), makes, strict=True):
        way, _ = followed(make, data)
        entered = way.functions[1] | way.every_inner
        yield f"| {name} | {len(entered)}, {len({one[0] for one in entered})} | {aim} |"


class Way:
    """What a fit enters and passes on, before its first noise and in all."""

    def __init__(self) -> None:
        self.functions: list[set[tuple[str, str, int]]] = [set(), set()]
        # Comprehensions and lambdas before the first noise.
        self.inner: set[tuple[str, str, int]] = set()
        self.every_inner: set[tuple[str, str, int]] = set()
        self.carriers: list[Counter[str]] = [Counter(), Counter()]
        self.tree: list[str] = []
        self.is_before, self._depth = True, 0

    def __call__(self, frame: Any, event: str, arg: Any) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(ROOT) or code.co_name in _INNER:
            if code.co_filename.startswith(ROOT):
                place = code.co_filename[len(ROOT) + 1 :]
                self.every_inner.add((place, code.co_qualname, code.co_firstlineno))
                if self.is_before:
                    self.inner.add((place, code.co_qualname, code.co_firstlineno))
            return
        if event == "call":
            self._depth += 1
            if code.co_name == "draw" and code.co_filename.endswith("privacy/noise.py"):
                self.is_before = False
            self._enter(code)
            for value in list(frame.f_locals.values()):
                self._see(value)
        elif event == "return":
            self._depth -= 1
            self._see(arg)

    def _enter(self, code: Any) -> None:
        entered = (code.co_filename[len(ROOT) + 1 :], code.co_qualname, code.co_firstlineno)
        if self.is_before and entered not in self.functions[0]:
            self.tree.append("  " * (self._depth - 1) + f"{entered[1]}  ({entered[0]})")
        for phase in range(1 - self.is_before, 2):
            self.functions[phase].add(entered)

    def _see(self, value: Any) -> None:
        parts = value if type(value) in (tuple, list) else (value,)
        for one in parts[:5]:
            kind = type(one)
            if kind.__module__.startswith("skdp") and not isinstance(one, BaseEstimator | Unit):
                for phase in range(1 - self.is_before, 2):
                    self.carriers[phase][f"{kind.__module__}.{kind.__name__}"] += 1


def followed(make: Callable[[], Any], arguments: tuple) -> tuple[Way, Any]:
    """Follow one fit; what is computed once in a process has been before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make().fit(*arguments)
        estimator, way = make(), Way()
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
    """Find the files in whose code a name of a release stands as a string.

    A value of a parameter, such as "gradient" of a solver, is no such name: what `StrOptions` and
    defaults hold. Nor is a word in a room where nothing is released, or a heading.
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
    """Give the strings of a module, but for docstrings and values of parameters."""
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
    """Give what says which values parameters may have, and have by default."""
    if isinstance(node, ast.arguments):
        return [*node.defaults, *(one for one in node.kw_defaults if one is not None)]
    if isinstance(node, ast.ClassDef):
        fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
        return [one.value for one in fields if one.value is not None]
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "StrOptions":
        return [*node.args]
    return []


def stem(name: str) -> str:
    """Take the numbers off the name of a release."""
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
    for case, (make, data) in cases().items():
        if arguments.tree not in (None, case):
            continue
        way, estimator = followed(make, data)
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
    counts = [f"{len(seen)}, {len({one[0] for one in seen})}" for seen in way.functions]
    budgeting = sum(
        one[0].startswith(("privacy/", "ledger/", "units.py")) or "plan" in one[0]
        for one in way.functions[0]
    )
    kinds = [name for name in way.carriers[1] if not name.startswith(_VIEWS)]
    carriers = f"{len(way.carriers[1])}, {len(kinds)}"
    inner = len(way.functions[0]) + len(way.inner)
    return f"| {case} | {counts[0]} | {inner} | {budgeting} | {counts[1]} | {carriers} |"


def totals(names: set[str]) -> list[str]:
    """Write which names stand in more than one file, and how much code there is."""
    shared = {name: files for name, files in files_of_names(names).items() if len(files) > 1}
    total = sum(weigh(path)["code lines"] for path in Path(ROOT).rglob("*.py"))
    return [
        f"Names of releases in more than one file: {len(shared)} of {len(names)}. "
        f"Code lines: {total}.",
        *(f"- {name}: {', '.join(files)}" for name, files in sorted(shared.items())),
    ]


if __name__ == "__main__":
    main()
