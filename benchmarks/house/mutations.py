"""Which attacks notice which mistake: a sensitivity or a release that declares too little.

`python -m benchmarks.house.mutations --write` writes mutations.md beside it. The slow tests make
the same mistakes.
"""

import sys
import warnings
from pathlib import Path

from benchmarks.report import parser_for, publish, table

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
# Which mistakes the attacks on the covered cells notice

Written by `python -m benchmarks.house.mutations --write`, in some five minutes. Each mistake
declares {TOO_LITTLE:g} times the true sensitivity: in one function of `sensitivity.py`, or for all
releases of one name. It is noticed if, in one of the covered cells that call the function or make
the release, a neighbor moves a release further than declared.

"""
OF_SENSITIVITIES = ("sensitivity that is too small", "cells", "noticed in")
OF_RELEASES = ("solver", "releases", "not noticed, each alone")


def sensitivities():
    """Yield a line for each sensitivity, with the first cell in which it is noticed."""
    for name, cells in sorted(uses_of_sensitivities().items()):
        with wrong_sensitivity(name):
            found = first_to_notice(cells)
        yield name, str(len(cells)), f"{found[0].name}: {found[1]}" if found else "NOWHERE"


def releases():
    """Yield a line for each solver, with the names of releases that are noticed nowhere."""
    for family, solver in solvers():
        cells, missed = releases_of(family, solver), []
        for name in cells:
            with wrong_release(name):
                if first_to_notice((family, cell) for cell in cells[name]) is None:
                    missed.append(name)
        yield ", ".join(filter(None, (family.name, solver))), str(len(cells)), ", ".join(missed)


def main():
    arguments = parser_for(__doc__, write="replace mutations.md").parse_args()
    warnings.simplefilter("ignore")
    tables = table(OF_SENSITIVITIES, sensitivities()), table(OF_RELEASES, releases())
    publish(TITLE + "\n\n".join(tables), __file__, write=arguments.write)


if __name__ == "__main__":
    main()
