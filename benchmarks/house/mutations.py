"""Which law notices which mistake: every sensitivity and every release that declares too little.

`python -m benchmarks.house.mutations --write` writes mutations.md beside it. The slow tests try the
same.
"""

import sys
import warnings
from pathlib import Path

from benchmarks.report import line, parser_for

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1] / "tests"), str(HERE.parents[1] / "tests" / "attack")]

from mutations import (  # noqa: E402
    TOO_LITTLE,
    first_to_notice,
    releases_of,
    solvers,
    uses_of_sensitivities,
    wrong_release,
    wrong_sensitivity,
)

TITLE = f"""\
# What the laws on the covered cells notice

Written by `python -m benchmarks.house.mutations --write`. Each line is a mistake: something that is
declared {TOO_LITTLE:g} times what it is. "Cells" are those of the cover in which it is made, and
the last column has the first one in which the law of neighbors fails.

"""
COLUMNS = ("what is too small", "cells", "noticed in")


def rows():
    """Yield a line for each mistake."""
    for name, cells in sorted(uses_of_sensitivities().items()):
        with wrong_sensitivity(name):
            yield f"`sensitivity.{name}`", str(len(cells)), first_to_notice(cells)
    for family, solver in solvers():
        for name, cells in releases_of(family, solver).items():
            with wrong_release(name):
                what = ", ".join(filter(None, (family.name, solver, name)))
                yield what, str(len(cells)), first_to_notice((family, cell) for cell in cells)


def main():
    arguments = parser_for(__doc__, write="replace mutations.md").parse_args()
    warnings.simplefilter("ignore")
    lines = [line(COLUMNS), line(["---"] * len(COLUMNS))]
    for what, n_cells, cell in rows():
        noticed = "NOWHERE" if cell is None else f"{cell[0].name}: {cell[1]}"
        lines.append(line((what, n_cells, noticed)))
        print(lines[-1], flush=True)
    if arguments.write:
        (HERE / "mutations.md").write_text(TITLE + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
