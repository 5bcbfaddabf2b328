"""Which constants change results: each tuned number is halved and doubled.

The study covers numbers at module level in `skdp/decomposition`, `linear_model`, `preprocessing`
and `privacy`, except those whose comment says "not tuned". It changes one number at a time, imports
the package again, and measures the accuracy of the cases in `cases.py`. Run

    python -m benchmarks.house.constants                # some 10 minutes on one core
    python -m benchmarks.house.constants --write        # constants.md beside it
    python -m benchmarks.house.constants --only low_rank  # the constants of modules with that name
"""

import ast
import hashlib
import importlib
import itertools
import re
import signal
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, ClassVar

import numpy as np

from benchmarks.house.cases import CASES, Case
from benchmarks.house.weight import kind, remarks
from benchmarks.report import parser_for, publish, standard_error, table

ROOT = Path(__file__).parents[2]
ROOMS = ("decomposition", "linear_model", "preprocessing", "privacy")
SCREEN, FACTORS = (0.5, 2.0), (0.25, 0.5, 1.0, 2.0, 4.0)
# All numbers are measured with `N_SCREENED` seeds. The `N_FINALISTS` numbers with the largest
# effects are measured with all seeds, and the tables show `N_SHOWN` of them.
N_SHOWN, N_FINALISTS, N_SCREENED = 10, 16, 2
LEAST_EFFECT = 5e-4
LONGEST_SECONDS = 60
TITLE = f"""\
# The constants that move results most

Written by `python -m benchmarks.house.constants --write`. Every number in
`skdp/decomposition`, `linear_model`, `preprocessing` and `privacy` that was tuned is halved and
doubled, alone; numbers that count are rounded, and of quantiles it is the odds. Grids, and
sizes that are powers of 2, stay as they are. The cases are those of `benchmarks/house/cases.py`.
The noise of a release is the same whatever the numbers are, but for its scale and its shape.

Accuracy is 1 at best: captured variance beside that of the best components, or the explained
fraction of the sum of squares of a matrix, of its coefficients or of responses. The effect of a
number is the mean absolute change of a case, averaged over the cases of the family that changes
most, by the worse of both factors. One that a fit refuses, such as a share beyond the whole, does
not count. {{seeds}} seeds of each case, after {N_SCREENED} for all numbers."""


@dataclass(frozen=True)
class Number:
    """A literal in a constant of a module."""

    module: str
    name: str
    value: float
    line: int
    column: int

    def __str__(self) -> str:
        name, opening, which = self.name.partition(" (")
        return f"`{name}`{opening}{which} in `{self.module.replace('.', '/')}.py`"

    def at(self, factor: float) -> float:
        if re.search("QUANTILE(?!_GROWTH)", self.name):
            odds = factor * self.value / (1 - self.value)
            return odds / (1 + odds)
        scaled = factor * self.value
        return round(scaled) if isinstance(self.value, int) else scaled


Change = tuple[Number, float]
Means = dict[str, np.ndarray]
Reached = dict[Number, list[Case]]


def numbers_of(module: str, text: str) -> Iterator[Number]:
    for node, said in remarks(text).items():
        if kind(said) == "not tuned" or "Interval" in ast.unparse(node):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=True))
        for name, value in pairs:
            literals = list(literals_of(value))
            for place, (keys, one) in enumerate(literals):
                is_one_of_several = keys in [other for other, _ in literals if _ is not one]
                which = f" ({place + 1} of {len(literals)})" if is_one_of_several else ""
                told = f"{ast.unparse(name)}{keys}{which}"
                yield Number(module, told, one.value, one.lineno, one.col_offset)


def literals_of(node: Any, keys: str = "") -> Iterator[tuple[str, Any]]:
    """Yield numbers with their keys, except grids, and powers, which are sizes of blocks."""
    is_power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift)
    children = list(ast.iter_child_nodes(node))
    is_grid = (
        (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))
        or (isinstance(node, ast.Tuple) and any(isinstance(one, ast.Tuple) for one in children))
        or isinstance(node, ast.GeneratorExp)
    )
    if is_power or is_grid or isinstance(node, ast.Lambda):
        return
    if isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value:
        yield keys, node
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            yield from literals_of(value, f"{keys}[{ast.unparse(key) if key else ''}]")
    else:
        for child in children:
            yield from literals_of(child, keys)


def all_numbers() -> list[Number]:
    return [
        number
        for room in ROOMS
        for path in sorted((ROOT / "skdp" / room).rglob("*.py"))
        for number in numbers_of(
            ".".join(path.relative_to(ROOT).with_suffix("").parts), path.read_text()
        )
    ]


class Changed(SourceFileLoader):
    """Loads a module with another value of a number."""

    change: Change

    def get_code(self, fullname: str) -> CodeType:
        number, factor = self.change
        tree = ast.parse(Path(self.path).read_text())
        for node in ast.walk(tree):
            place = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
            if isinstance(node, ast.Constant) and place == (number.line, number.column):
                node.value = number.at(factor)
        return compile(tree, self.path, "exec")


class Finder(PathFinder):
    """Finds the module in which a number is changed."""

    change: Change | None = None

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: ModuleType | None = None) -> Any:
        if cls.change is None or fullname != cls.change[0].module:
            return None
        spec = super().find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = Changed(fullname, spec.origin)
        spec.loader.change = cls.change
        return spec


class SameNoise:
    """Keys of noise that follow from the seed of a fit, and from names and numbers of releases."""

    seed = 0
    turns: ClassVar[dict[str, Any]] = {}

    def __init__(self, *_: Any) -> None:
        self.fingerprint, self.is_guessable = "", False

    @classmethod
    def begin(cls, seed: int) -> None:
        cls.seed, cls.turns = seed, {}

    def key(self, *release: Any) -> bytes:
        name = str(release[1]) if len(release) > 1 else ""
        turn = next(self.turns.setdefault(name, itertools.count()))
        return hashlib.blake2b(repr((self.seed, name, turn)).encode(), digest_size=32).digest()


def read_anew(change: Change | None) -> None:
    """Import the package with one number changed, and the number of the last call as it is."""
    changed = {one[0].module for one in (change, Finder.change) if one is not None}
    for name in dependents(frozenset(changed)):
        sys.modules.pop(name, None)
    Finder.change = change
    importlib.import_module("skdp")
    for module in [one for name, one in sys.modules.items() if name.startswith("skdp.")]:
        if hasattr(module, "NoiseSource"):
            module.NoiseSource = SameNoise  # type: ignore[attr-defined]


@cache
def imported() -> dict[str, set[str]]:
    """Return the packages and modules that each module of the package imports from."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "skdp").rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[name] = {
            one
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom)
            for one in (f"{node.module}", *(f"{node.module}.{alias.name}" for alias in node.names))
        }
    return found


@cache
def dependents(modules: frozenset[str]) -> set[str]:
    """Return the modules with all that import them, directly or not."""
    found, more = set(modules), set(modules)
    while more:
        more = {name for name, names in imported().items() if names & found} - found
        found |= more
    return found


@cache
def drawn(case: Case, seed: int) -> Any:
    return case.draw(seed)


def give_up(*_: Any) -> None:
    raise TimeoutError


def accuracies(change: Change | None, cases: list[Case], n_seeds: int) -> Means:
    """Measure each case with every seed; NaN where a fit refuses the changed number."""
    found = {case.name: np.full(n_seeds, np.nan) for case in cases}
    read_anew(change)
    for case in cases:
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_SECONDS)
        try:
            for seed in range(n_seeds):
                SameNoise.begin(seed)
                found[case.name][seed] = case.measure(drawn(case, seed), seed)
        except Exception as error:
            print(f"    {case.name} refuses: {type(error).__name__}: {error}"[:120], flush=True)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return found


def reads_of(case: Case) -> dict[str, set[str]]:
    """Return by module the names that a fit reads: in the functions that it runs, and at import."""
    codes: set[CodeType] = set()
    data = drawn(case, 0)
    read_anew(None)
    sys.setprofile(lambda frame, event, _: event == "call" and codes.add(frame.f_code))
    try:
        case.measure(data, 0)
    finally:
        sys.setprofile(None)
    found: dict[str, set[str]] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        run = [code for code in codes if code.co_filename == file]
        if run and name.startswith("skdp."):
            found[name] = set().union(*(code.co_names for code in run))
            found[name].update(mentioned(ast.parse(Path(str(file)).read_text())))
    return found


def mentioned(node: ast.AST) -> Iterator[str]:
    """Yield the names that are read when a module is imported."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    for child in ast.iter_child_nodes(node):
        if not (isinstance(node, ast.FunctionDef) and child in node.body):
            yield from mentioned(child)


def is_read(number: Number, reads: dict[str, set[str]]) -> bool:
    names = set(re.findall(r"\w+", re.split(r"[\[(]", number.name)[0]))
    return any(
        names & mentioned_there
        for module, mentioned_there in reads.items()
        if module == number.module or not number.name.startswith("_")
    )


def effect(cases: list[Case], usual: Means, changed: list[Means]) -> float:
    """Return the largest mean change of accuracy in a family of cases, over all factors."""
    largest = 0.0
    for means in changed:
        for family in {case.family for case in cases}:
            moved = [
                abs(np.mean(means[case.name] - usual[case.name]))
                for case in cases
                if case.family == family
            ]
            n_all = sum(case.family == family for case in CASES)
            largest = max(largest, float(np.nansum(moved)) / n_all)
    return largest


def section(number: Number, cases: list[Case], usual: Means, changed: dict[float, Means]) -> str:
    """Write the table of a number, with a row for each case that the number changes."""
    columns = {**changed, 1.0: usual}
    cases = [
        case
        for case in cases
        if any(not np.array_equal(means[case.name], usual[case.name]) for means in changed.values())
    ]
    header = ["case", *(f"{number.at(factor):g}" for factor in FACTORS)]
    rows = [
        [case.name, *(shown(columns[factor][case.name]) for factor in FACTORS)] for case in cases
    ]
    everything = {
        factor: np.mean([means[case.name] - usual[case.name] for case in cases], axis=0)
        for factor, means in columns.items()
    }
    rows.append(["mean, less the default's", *(difference(everything[f]) for f in FACTORS)])
    return table(header, rows)


def shown(values: np.ndarray) -> str:
    return "refused" if np.isnan(values).any() else f"{values.mean():.3f}"


def difference(values: np.ndarray) -> str:
    if np.isnan(values).any():
        return ""
    return f"{values.mean():+.4f} ± {standard_error(values):.4f}"


def screened(numbers: list[Number], cases: Reached, n_seeds: int) -> dict[Number, float]:
    """Return the effect of each number."""
    usual, effects = accuracies(None, list(CASES), n_seeds), {}
    for number in numbers:
        changed = [accuracies((number, factor), cases[number], n_seeds) for factor in SCREEN]
        effects[number] = effect(cases[number], usual, changed)
        print(f"{effects[number]:.4f} {number} ({number.value:g})", flush=True)
    return effects


def sections(
    numbers: list[Number], cases: Reached, n_seeds: int
) -> tuple[dict[Number, float], list[str]]:
    """Return the effects of numbers, and tables of those that have the largest."""
    usual = accuracies(None, list(CASES), n_seeds)
    found, effects = {}, {}
    for number in numbers:
        found[number] = {
            factor: accuracies((number, factor), cases[number], n_seeds)
            for factor in FACTORS
            if factor != 1
        }
        changed = [found[number][factor] for factor in SCREEN]
        effects[number] = effect(cases[number], usual, changed)
    shown = sorted(numbers, key=lambda number: -effects[number])
    rows = [[str(number), f"{number.value:g}", f"{effects[number]:.4f}"] for number in shown]
    blocks = [table(["number", "value", "effect"], rows)]
    for number in shown[:N_SHOWN]:
        blocks += [f"## {number}", section(number, cases[number], usual, found[number])]
    return effects, blocks


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds="seeds of each case in the tables, default 6",
        only="numbers of modules with this in their name",
        write="replace constants.md",
    )
    parser.set_defaults(seeds=6)
    arguments = parser.parse_args()
    if arguments.write and arguments.only:
        parser.error("--write takes all numbers")
    warnings.simplefilter("ignore")
    sys.meta_path.insert(0, Finder)
    signal.signal(signal.SIGVTALRM, give_up)
    reads = {case: reads_of(case) for case in CASES}
    numbers = [number for number in all_numbers() if arguments.only in number.module]
    cases = {number: [case for case in CASES if is_read(number, reads[case])] for number in numbers}
    effects = screened(numbers, cases, N_SCREENED)
    finalists = sorted(numbers, key=lambda number: -effects[number])[:N_FINALISTS]
    more, blocks = sections(finalists, cases, arguments.seeds)
    title = TITLE.format(seeds=arguments.seeds)
    text = "\n\n".join([title, counted(numbers, cases, {**effects, **more}), *blocks]) + "\n"
    publish(text, __file__, write=arguments.write)


def counted(numbers: list[Number], cases: Reached, effects: dict[Number, float]) -> str:
    unread = sum(not cases[number] for number in numbers)
    still = sum(effects[number] < LEAST_EFFECT for number in numbers) - unread
    return (
        f"Of {len(numbers)} numbers {unread} are read by no case, and {still} have an effect below "
        f"{LEAST_EFFECT:g}."
    )


if __name__ == "__main__":
    main()
