"""Every seeded utility test under 50 fresh seeds: how far from its threshold it stays.

The cases are those of `tests/accuracy_cases.py`; the tests take seed 0, this takes 1 to 50. Run

    python -m benchmarks.seeds.seeds --write        # seeds.md beside it, some 8 minutes on one core
    python -m benchmarks.seeds.seeds --only digits  # those with "digits" in their name
"""

import sys
from pathlib import Path

import numpy as np

from benchmarks.report import line, parser_for

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))

from accuracy_cases import CASES  # noqa: E402
from utility import Case  # noqa: E402

TITLE = """\
# Utility tests under fresh seeds

Written by `python -m benchmarks.seeds.seeds --write`. "Worst" is the value nearest to, or beyond,
the threshold.

"""
COLUMNS = ("case", "threshold", "worst", "5%", "median", "95%", "passes")


def row(case: Case, seeds: range) -> tuple[str, ...]:
    values = np.array([case.measure(seed) for seed in seeds])
    worst = values.min() if case.at_most is None else values.max()
    passes = sum(case.holds(value) for value in values)
    numbers = (worst, *np.quantile(values, [0.05, 0.5, 0.95]))
    return (
        case.name,
        case.threshold,
        *(f"{number:.4f}" for number in numbers),
        f"{passes} of {len(values)}",
    )


def padded(cells: tuple[str, ...]) -> str:
    widths = (max(len(case.name) for case in CASES), 9, 6, 6, 6, 6, 8)
    return line(f"{c:<{w}}" for c, w in zip(cells, widths, strict=True))


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds="seeds of each case, default 50",
        only="cases with this in their name",
        write="replace seeds.md",
    )
    parser.set_defaults(seeds=50)
    arguments = parser.parse_args()
    cases = [case for case in CASES if arguments.only in case.name]
    if arguments.write and (len(cases) < len(CASES) or arguments.seeds < 50):
        parser.error("the committed table has all cases and at least 50 seeds")

    lines = [padded(COLUMNS), padded(("---",) * len(COLUMNS))]
    print("\n".join(lines), flush=True)
    for case in cases:
        lines.append(padded(row(case, range(1, arguments.seeds + 1))))
        print(lines[-1], flush=True)
    if arguments.write:
        (HERE / "seeds.md").write_text(TITLE + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
