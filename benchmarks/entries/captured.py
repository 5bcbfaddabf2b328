r"""Singular vectors when one entry, one edge or one interaction is protected.

What the released vectors capture, :math:`\|X V\|_F` over its largest value, beside noise on every
entry ("input"), noise for the worst basis ("worst"), and the iteration of the papers without
averaging and shrinkage ("plain"). On synthetic matrices a step of 1 is promised
(`methods.py`); everything else goes through the estimators. Run

    python -m benchmarks.entries.captured           # 10 seeds, some 25 minutes on one core, 2 GB
    python -m benchmarks.entries.captured --quick   # 3 seeds, nothing above 1024 rows
    python -m benchmarks.entries.captured --only movielens  # sections with that in their name
    python -m benchmarks.entries.captured --write   # captured.md and .png beside it

MovieLens and Gowalla may not be passed on: they are looked for in the folder that the environment
variable `SKDP_DATA` names, and left out without it.
"""

from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.data import at_hand
from benchmarks.entries.sections import SECTIONS, EntrySection
from benchmarks.report import (
    Key,
    Values,
    ignore_drowned_signal,
    mean_and_error,
    measured,
    need_two_seeds,
    parser_for,
    section_table,
    seeds_asked_for,
    titled,
)

HERE = Path(__file__).parent
SEEDS = 10

TITLE = """\
# One entry, one edge, one interaction

Written by `python -m benchmarks.entries.captured --write`; the tables on coherence and on MovieLens
are drawn in `captured.png`. Where nothing else is said a cell is what the released vectors V
capture, the norm of X V over its largest value: mean ± standard error (median) of {} seeds, delta
1e-6.

"power", "alternating" and "deflation" are the solvers with the defaults of the estimators, "input"
is noise on every entry or pair of entries. "Plain" is the iteration of the papers (Hardt and Roth,
2013, arXiv:1211.0975) with exact sensitivities and exact accounting: each basis is that of the last
product, which is neither averaged with others nor shrunk. "Worst" is the same with noise for the
worst basis, as for changes of spectral norm 1, and "figure 2" the published listing
(`papers/coherence_svd.py`), which knows the coherence of the data. The synthetic matrices have
entries of any size, and a step of 1 is promised for them (`methods.py`); tables, graphs and digits
go through the estimators, which enforce their bounds. `basis_cut` is `BASIS_CUT` of
`decomposition/entries/solvers.py`, what rows of a basis are cut to; more of it is in `cut.md`.
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


def part(section: EntrySection, values: Values) -> str:
    def cell(key: Key) -> str:
        if key not in values:
            return ""
        median = f"{np.median(values[key]):.{section.digits}f}"
        return f"{mean_and_error(values[key], section.digits)} ({median})"

    return titled(section, section.text, section_table(section, cell))


def write(text: str, results: dict[str, Values]) -> None:
    # Needs matplotlib, which nothing else here does.
    from benchmarks.entries.figure import draw

    (HERE / "captured.md").write_text(text)
    draw(results, HERE / "captured.png")


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds=f"seeds of each cell, default {SEEDS}",
        only="sections with this in their name",
        quick="3 seeds, at most 1024 rows",
        write="replace captured.md and .png",
    )
    arguments = parser.parse_args()
    n_seeds = seeds_asked_for(arguments, usual=SEEDS, quick=3)
    need_two_seeds(parser, n_seeds)
    sections = at_hand([section for section in SECTIONS if arguments.only in section.name])
    complete = len(sections) == len(SECTIONS) and n_seeds >= SEEDS and not arguments.quick
    if arguments.write and not complete:
        parser.error(f"the committed table has all sections and at least {SEEDS} seeds")
    ignore_drowned_signal()

    parts, results = [], {}
    for section in sections:
        print(f"{section.name} ...", flush=True)
        measure = partial(section.measure, quick=arguments.quick)
        results[section.name] = measured(measure, n_seeds)
        parts.append(part(section, results[section.name]))
        print(parts[-1], flush=True)
    if arguments.write:
        text = "\n\n".join([TITLE.format(n_seeds), *parts, FINDINGS])
        write(text, results)


if __name__ == "__main__":
    main()
