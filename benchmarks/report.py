"""What studies share when they measure, and write tables: seeds, cells, lines, and arguments."""

import argparse
import contextlib
import io
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import at_hand
from skdp import PrivacyWarning

__all__ = [
    "Key",
    "Measured",
    "Section",
    "Values",
    "by_halves",
    "cases_asked_for",
    "ignore_drowned_signal",
    "line",
    "mean_and_error",
    "mean_by_case",
    "measured",
    "need_two_seeds",
    "parser_for",
    "printed",
    "section_table",
    "seeds_asked_for",
    "standard_error",
    "table",
    "titled",
]

# A row and a column.
Key = tuple[str, str]
Measured = Iterator[tuple[Key, float]]
Values = dict[Key, np.ndarray]


@dataclass(frozen=True)
class Section:
    """A table of a study with several; `measure` yields what `measured` collects."""

    name: str
    title: str
    text: str
    corner: str
    rows: list[str]
    columns: list[str]
    measure: Callable[..., Measured]


def measured(measure: Callable[[int], Measured], n_seeds: int) -> Values:
    """Return what `measure` yields for each key, in every seed."""
    found: dict[Key, list[float]] = {}
    for seed in range(n_seeds):
        for key, value in measure(seed):
            found.setdefault(key, []).append(value)
    return {key: np.array(numbers) for key, numbers in found.items()}


def mean_by_case(
    measure: Callable[[int], Measured], n_seeds: int
) -> tuple[dict[Key, float], list[str]]:
    """Return the means over seeds of what `measure` yields, and its rows in their order."""
    means = {key: float(one.mean()) for key, one in measured(measure, n_seeds).items()}
    return means, list(dict.fromkeys(case for case, _ in means))


def by_halves(
    chosen: Sequence[str], others: Sequence[str], only: str, section: Callable[..., str]
) -> str:
    """Write a section on the tables that constants were chosen on, and one on other tables."""
    halves = {"Tables that constants were chosen on": chosen, "Other tables": others}
    text = ""
    for title, names in halves.items():
        if asked := tuple(name for name in names if only in name):
            text += f"\n## {title}\n\n{section(asked)}\n"
    return text


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def mean_and_error(values: np.ndarray, digits: int = 4) -> str:
    return f"{values.mean():.{digits}f} ± {standard_error(values):.{digits}f}"


def line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    return "\n".join(map(line, [header, ["---"] * len(header), *rows]))


def section_table(section: Section, cell: Callable[[Key], str]) -> str:
    rows = [[row, *(cell((row, column)) for column in section.columns)] for row in section.rows]
    return table([section.corner, *section.columns], rows)


def titled(section: Section, *blocks: str) -> str:
    """Set text, a table and what else there is under the title of a section."""
    return "\n\n".join([f"## {section.title}", *blocks])


def parser_for(doc: str, **options: str) -> argparse.ArgumentParser:
    """Return a parser with those of --seeds, --only, --quick and --write that have a help text.

    `doc` is the docstring of the script.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    kinds = {
        "seeds": {"type": int},
        "only": {"default": ""},
        "quick": {"action": "store_true"},
        "write": {"action": "store_true"},
    }
    for name, text in options.items():
        parser.add_argument(f"--{name}", help=text, **kinds[name])
    return parser


def asked_of_tables(doc: str, n_seeds: int, page: str) -> tuple[argparse.Namespace, int]:
    """Read the arguments of a study of tables; return also the number of seeds."""
    parser = parser_for(
        doc,
        seeds=f"seeds of each line, default {n_seeds}",
        only="tables whose names have this",
        write=f"replace {page}",
    )
    arguments = parser.parse_args()
    asked = arguments.seeds or n_seeds
    if arguments.write and (arguments.only or asked < n_seeds):
        parser.error(f"the committed table has all tables, and at least {n_seeds} seeds")
    return arguments, asked


def seeds_asked_for(arguments: argparse.Namespace, *, usual: int, quick: int) -> int:
    return arguments.seeds or (quick if arguments.quick else usual)


def cases_asked_for(
    parser: argparse.ArgumentParser,
    arguments: argparse.Namespace,
    cases: list[Any],
    *,
    n_seeds: int,
    usual: int,
) -> list[Any]:
    """Return the cases that are asked for and at hand; refuse to write a part of the table."""
    found = at_hand([case for case in cases if getattr(arguments, "only", "") in case.name])
    if arguments.write and (len(found) < len(cases) or n_seeds < usual):
        parser.error(f"the committed table has all of {len(cases)}, and at least {usual} seeds")
    return found


def need_two_seeds(parser: argparse.ArgumentParser, n_seeds: int) -> None:
    if n_seeds < 2:
        parser.error("a standard error needs at least 2 seeds")


def publish(text: str, script: str, *, write: bool) -> None:
    """Print the page of a study, and, to `write`, put it beside its script."""
    print(text)
    if write:
        Path(script).with_suffix(".md").write_text(text.rstrip("\n") + "\n")


def printed(tables: Callable[[], None], script: str, *, write: bool) -> None:
    """Print the tables of a study, and, to `write`, put the same text beside its script."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output) if write else contextlib.nullcontext():
        tables()
    if write:
        print(output.getvalue(), end="")
        name = f"benchmarks.{Path(script).parent.name}.{Path(script).stem}"
        title = f"# {Path(script).stem.replace('_', ' ').capitalize()}: the published listings"
        text = f"Written by `python -m {name} --write`, whose first lines say what the columns are."
        blocks = [title, text, f"```\n{output.getvalue().strip()}\n```"]
        Path(script).with_suffix(".md").write_text("\n\n".join(blocks) + "\n")


def ignore_drowned_signal() -> None:
    """Silence the estimators, which say that signal drowns in noise: that is what is measured."""
    warnings.simplefilter("ignore", PrivacyWarning)
