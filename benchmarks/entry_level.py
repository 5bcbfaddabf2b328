r"""Singular vectors when one entry, one edge or one interaction is protected.

What the released vectors capture, :math:`\|X V\|_F` over its largest value, beside noise on every
entry ("input"), noise for the worst basis ("worst"), and the iteration of the papers without
averaging and shrinkage ("plain"). On synthetic matrices a step of 1 is promised
(`entry_level_methods.py`); everything else goes through the estimators. Run

    python benchmarks/entry_level.py                   # 10 seeds, some 25 minutes on one core, 2 GB
    python benchmarks/entry_level.py --quick           # 3 seeds, nothing above 1024 rows
    python benchmarks/entry_level.py --only movielens  # sections with that in their name
    python benchmarks/entry_level.py --write           # entry_level.md and .png beside it

MovieLens and Gowalla may not be passed on: they are looked for in the folder that the environment
variable `SKDP_DATA` names, and left out without it.
"""

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
from entry_level_measures import Values
from entry_level_sections import SECTIONS, Section

from skdp import PrivacyWarning

HERE = Path(__file__).parent
SEEDS = 10

TITLE = """\
# One entry, one edge, one interaction

Written by `python benchmarks/entry_level.py --write`; the tables on coherence and on MovieLens are
drawn in `entry_level.png`. Where nothing else is said a cell is what the released vectors V
capture, the norm of X V over its largest value: mean ± standard error (median) of {} seeds, delta
1e-6.

"power", "alternating" and "deflation" are the solvers with the defaults of the estimators, "input"
is noise on every entry or pair of entries. "Plain" is the iteration of the papers (Hardt and Roth,
2013, arXiv:1211.0975) with exact sensitivities and exact accounting: each basis is that of the last
product, which is neither averaged with others nor shrunk. "Worst" is the same with noise for the
worst basis, as for changes of spectral norm 1, and "figure 2" the published listing
(`papers/coherence_svd.py`), which knows the coherence of the data. The synthetic matrices have
entries of any size, and a step of 1 is promised for them (`entry_level_methods.py`); tables, graphs
and digits go through the estimators, which enforce their bounds.
"""
FINDINGS = """\
## What the tables say

The noise of an iteration does not grow with n, and that of input perturbation does: at n 4096
nothing is left of a signal that the iteration finds as well as at n 256. Coherence is what the
plain iteration pays for. It loses to input perturbation at a coherence of n / 4, and
`coherence_right_` shows why, for it follows the coherence of the exact vector from 16 up; below, it
is that of noise, some 2 log n. With products averaged and rows shrunk the solvers lose next to
nothing there.

Cutting matters where signal is scarce: the noise of a step grows with the rows that stick out, be
they signal or noise. `basis_cut=None` loses most there, and `basis_cut=2` more than the default, 1,
but for hubs and a coherence of n / 4; at large epsilon there is next to no difference. Where hardly
any noise is left cutting bends the vectors a little: with the gap of small changes and epsilon 10
the sine is .006, and was .003 with `basis_cut=2`. Deflation takes one column a step, which is best
for the first vector at small epsilon and worse than two columns where vectors are coherent. For
several vectors it is behind, as each has a part of the budget and the errors of those before it;
with eigenvalues close to each other it may miss one.

For whole matrices whose change is small the power iteration wins where there is a gap after the
wanted eigenvectors and noise is what limits; where the eigenvalues fall slowly, and at epsilon 10,
one release of the matrix is as good or better. A floor of the degree buys nothing here: the largest
row of a cut basis is smaller than what the floor guarantees. One interaction in the place of a
whole row buys much.

Matrices with fewer than some 30 rows and columns for one component, and 50 for five, are better
perturbed as a whole.
"""


def cell(values: np.ndarray, digits: int) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.{digits}f} ± {error:.{digits}f} ({np.median(values):.{digits}f})"


def table(section: Section, values: Values) -> str:
    lines = [[section.corner, *section.columns], ["---"] * (len(section.columns) + 1)]
    for row in section.rows:
        cells = [
            cell(values[row, column], section.digits) if (row, column) in values else ""
            for column in section.columns
        ]
        lines.append([row, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def measured(section: Section, n_seeds: int, *, quick: bool) -> Values:
    """Return what each column gives in each row, in every seed."""
    found: dict[tuple[str, str], list[float]] = {}
    for seed in range(n_seeds):
        for key, value in section.measure(seed, quick):
            found.setdefault(key, []).append(value)
    return {key: np.array(numbers) for key, numbers in found.items()}


def sections_at_hand(only: str) -> list[Section]:
    chosen = [section for section in SECTIONS if only in section.name]
    if os.environ.get("SKDP_DATA"):
        return chosen
    for section in chosen:
        if section.needs_folder:
            print(f"{section.name} is skipped: SKDP_DATA names no folder.")
    return [section for section in chosen if not section.needs_folder]


def write(text: str, results: dict[str, Values]) -> None:
    # Needs matplotlib, which nothing else here does.
    from entry_level_figure import draw

    (HERE / "entry_level.md").write_text(text)
    draw(results, HERE / "entry_level.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, help=f"seeds of each cell, default {SEEDS}")
    parser.add_argument("--only", default="", help="sections with this in their name")
    parser.add_argument("--quick", action="store_true", help="3 seeds, at most 1024 rows")
    parser.add_argument("--write", action="store_true", help="replace entry_level.md and .png")
    arguments = parser.parse_args()
    n_seeds = arguments.seeds or (3 if arguments.quick else SEEDS)
    if n_seeds < 2:
        parser.error("a standard error needs at least 2 seeds")
    sections = sections_at_hand(arguments.only)
    complete = len(sections) == len(SECTIONS) and n_seeds >= SEEDS and not arguments.quick
    if arguments.write and not complete:
        parser.error(f"the committed table has all sections and at least {SEEDS} seeds")
    # The estimators say that some components drown in noise; that is what is measured here.
    warnings.simplefilter("ignore", PrivacyWarning)

    parts, results = [], {}
    for section in sections:
        print(f"{section.name} ...", flush=True)
        results[section.name] = measured(section, n_seeds, quick=arguments.quick)
        parts.append(
            f"## {section.title}\n\n{section.text}\n{table(section, results[section.name])}"
        )
        print(parts[-1], flush=True)
    if arguments.write:
        text = "\n\n".join([TITLE.format(n_seeds), *parts, FINDINGS])
        write(text, results)


if __name__ == "__main__":
    main()
