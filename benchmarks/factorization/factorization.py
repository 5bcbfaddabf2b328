r"""Low-rank factors of a matrix in memory, and of one that arrives as a stream.

`DPLowRankFactorizer` beside `DPStreamingFactorizer`, the best matrix of the same rank, and zero: on
random vectors with noise, and on ratings of which some are withdrawn. Run

    python -m benchmarks.factorization.factorization                # 10 seeds, some 5 minutes
    python -m benchmarks.factorization.factorization --quick        # 3 seeds, no large matrices
    python -m benchmarks.factorization.factorization --only ratings # sections so named
    python -m benchmarks.factorization.factorization --write        # its .md beside it

MovieLens may not be passed on: it is looked for in the folder that the environment variable
`SKDP_DATA` names, and left out without it.
"""

from functools import partial
from pathlib import Path

from benchmarks.data import at_hand
from benchmarks.factorization.sections import SECTIONS, part, warnings_table
from benchmarks.report import (
    measured,
    need_two_seeds,
    parser_for,
    seeds_asked_for,
)

HERE = Path(__file__).parent
SEEDS = 10

TITLE = """\
# Low-rank factors, from memory and in one pass

Written by `python -m benchmarks.factorization.factorization --write`. A cell is mean ± standard
error of {} seeds. A stream draws its noise from the operating system, so that its numbers
differ from run to run, by some standard errors.

"Input", "alternating" and "auto" are the solvers of `DPLowRankFactorizer`, which has the matrix in
memory; "stream" is `DPStreamingFactorizer`. "Zero" is the norm of the matrix, and "best" what the
best matrix of the same rank leaves, without privacy. Unless it is said otherwise the unit is
`FrobeniusChange(1.0)`, any change of the whole matrix of that norm, which covers a row and a change
of rank one. A stream may keep its sketch secret until it ends, or have noise for the worst that a
change can do to a sketch that is known. "Entry" is `Entry((0, 1))`: one cell moves by at most 1,
which a stream trusts and does not enforce. `Update(0.5)`, where one update may be any other, so
that two cells move by up to 1 together, costs the same.

What is *captured* is (1 - e² / z²) / (1 - b² / z²), with e the error of a fit, z that of zero, the
norm of the matrix, and b that of the best matrix of the same rank, all of them Frobenius norms over
all cells: 1 is as good as it gets, 0 as good as zero, and less than 0 worse.
"""
FINDINGS = """\
## What the tables say

In memory, noise on every entry is best for changes of a whole matrix, and "auto" takes it.
"Alternating" costs up to 1.6 times its error at epsilon 1, and next to nothing where the matrix has
more noise of its own. It wins by far where one rating is protected, since its noise follows the
bases, and "auto" takes it there: in all rows the error of "auto" is within one per cent of that of
the better solver.

One pass costs twice the error of "input" where privacy is what limits, with a sketch that is kept
secret, and some 3.5 times with noise for the worst case. If single entries or updates are all that
needs protection it costs 1.3 to 1.4 times. What it gains is memory, and over "input" time, where
the matrix is large; what "alternating" takes beside the matrix are blocks of it, 80 MB at most. On
these matrices none is worse than the zero matrix on the average, but for a per mille: what does not
stand out from the noise, or from the error of the sketch, is 0.

Of MovieLens the iteration in memory captures .93 at epsilon 1 for one component. A stream needs
epsilon 16 for .90, and 8 for some .77. Not only the noise limits it: all that the matrix has beside
the component falls upon the sketch, so that even without noise it captures .95. For three
components the iteration captures .69 at epsilon 1, and a stream .64 at epsilon 8: some eight times
the epsilon. Twice the size of the sketch is better by a few hundredths where there is something to
see, and costs twice the memory.

A stream that ends early has less to show: the noise is the same, and the ratings are fewer.

No good fit warns, and those that are worse than zero all do.
"""
WARNINGS = """\
## Warnings

A fit warns if fewer components stand out from the noise than were asked for. Here are the fits that
are worse than zero, and how many of them say nothing; and those that capture at least .9 of the
best, and how many of them warn."""


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds=f"seeds of each cell, default {SEEDS}",
        only="sections with this in their name",
        quick="3 seeds, without the large matrices",
        write="replace factorization.md",
    )
    arguments = parser.parse_args()
    n_seeds = seeds_asked_for(arguments, usual=SEEDS, quick=3)
    need_two_seeds(parser, n_seeds)
    sections = at_hand([section for section in SECTIONS if arguments.only in section.name])
    complete = len(sections) == len(SECTIONS) and n_seeds >= SEEDS and not arguments.quick
    if arguments.write and not complete:
        parser.error(f"the committed table has all sections and at least {SEEDS} seeds")

    parts, results = list[str](), {}
    for section in sections:
        print(f"{section.name} ...", flush=True)
        measure = partial(section.measure, quick=arguments.quick)
        results[section.name] = measured(measure, n_seeds)
        parts.append(part(section, results[section.name]))
        print(parts[-1], flush=True)
    if any(section.counts_warnings for section in sections):
        parts.append(f"{WARNINGS}\n\n{warnings_table(results)}")
        print(parts[-1])
    if arguments.write:
        text = "\n\n".join([TITLE.format(n_seeds).rstrip(), *parts, FINDINGS])
        (HERE / "factorization.md").write_text(text)


if __name__ == "__main__":
    main()
