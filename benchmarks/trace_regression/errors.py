r"""Low-rank trace regression: errors of `DPTraceRegressor`, and the rates of the paper.

Records are y_i = <X_i, M> + noise; errors are Frobenius norms of the released matrix less M. What
the published algorithms themselves give, NOT private, is in `papers/trace_regression.py`. Run

    python -m benchmarks.trace_regression.errors                  # some 8 minutes on one core, 1 GB
    python -m benchmarks.trace_regression.errors --seeds 2        # that many seeds everywhere
    python -m benchmarks.trace_regression.errors --section value  # sections with that in their name
    python -m benchmarks.trace_regression.errors --write          # errors.md and .png beside it
"""

from pathlib import Path

import numpy as np

from benchmarks.report import (
    Key,
    Values,
    ignore_drowned_signal,
    measured,
    parser_for,
    section_table,
    titled,
)
from benchmarks.trace_regression.criteria import Criterion
from benchmarks.trace_regression.sections import SECTIONS, TraceSection

HERE = Path(__file__).parent

TITLE = """\
# Trace regression

Written by `python -m benchmarks.trace_regression.errors --write`; the curves are drawn in
`errors.png`. Where nothing else is said the X_i are d x d matrices of standard Gaussians,
the noise of y has a standard deviation of .5, δ is 1e-6, records may be replaced, the design is
known to be isotropic, and there is no intercept. A cell is a median over seeds. Slopes
are powers fitted to the medians."""
FINDINGS = """\
## What the tables say

With constant clipping the error follows the published rates where privacy is what costs: -1 in n,
nearly 1 in d, and nearly in proportion to a large singular value. A level that follows the
residuals is better by a factor that grows with the signal, and the error no longer depends on the
singular value. Above epsilon 2 it is that without privacy, but for some per cent.

A start that spends nothing is better than one that takes a quarter of the budget. What else was
compared with is in `comparisons.md`.

Scales and whitening that are found privately cost little, but for little budget and few records,
where the defaults are behind. Cells and tasks need a higher clip level: one that keeps half of the
gradients, those of entries and tasks with little signal, cuts off most of the others.

Too few records are of no use: the matrix is 0 then. Asked for rank 1, a value that is just beyond
the noise may still leave an error somewhat larger than that of 0.

Protecting the responses only gains nothing: the noise of the gradient is what counts, and levels
follow the residuals in either case.
"""


def verdict(criterion: Criterion, values: Values) -> str:
    number = criterion.measure(values)
    limits = []
    if criterion.at_least > -np.inf:
        limits.append(f"at least {criterion.at_least:.3g}")
    if criterion.at_most < np.inf:
        limits.append(f"at most {criterion.at_most:.3g}")
    result = "holds" if criterion.holds(number) else "**misses**"
    return f"- {criterion.text}: {number:.3g}, {' and '.join(limits)}: {result}"


def part(section: TraceSection, values: Values) -> str:
    def cell(key: Key) -> str:
        return f"{np.median(values[key]):.3g}" if key in values else ""

    verdicts = "\n".join(verdict(criterion, values) for criterion in section.criteria)
    text = f"{section.text} {max(map(len, values.values()))} seeds."
    return titled(section, text, section_table(section, cell), verdicts)


def write(results: dict[str, Values]) -> None:
    # Needs matplotlib, which nothing else here does.
    from benchmarks.trace_regression.figure import draw

    parts = [part(section, results[section.name]) for section in SECTIONS]
    (HERE / "errors.md").write_text("\n\n".join([TITLE, *parts, FINDINGS]))
    draw(results, HERE / "errors.png")


def main() -> None:
    parser = parser_for(
        __doc__, seeds="seeds of each cell, default 3 to 20", write="replace errors.md and .png"
    )
    parser.add_argument("--section", default="", help="sections with this in their name")
    arguments = parser.parse_args()
    if arguments.write and (arguments.seeds or arguments.section):
        parser.error("the committed table has all sections, with the default number of seeds")
    ignore_drowned_signal()

    results = {}
    for section in SECTIONS:
        if arguments.section not in section.name:
            continue
        results[section.name] = measured(section.measure, arguments.seeds or section.n_seeds)
        print(part(section, results[section.name]) + "\n", flush=True)
    if arguments.write:
        write(results)


if __name__ == "__main__":
    main()
