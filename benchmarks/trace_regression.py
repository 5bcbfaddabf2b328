r"""Low-rank trace regression: errors of `DPTraceRegressor`, and the rates of the paper.

Records are y_i = <X_i, M> + noise; errors are Frobenius norms of the released matrix less M. What
the published algorithms themselves give, NOT private, is in `papers/trace_regression.py`. Run

    python benchmarks/trace_regression.py                  # some 8 minutes on one core, 1 GB
    python benchmarks/trace_regression.py --seeds 2        # that many seeds everywhere
    python benchmarks/trace_regression.py --section value  # sections with that in their name
    python benchmarks/trace_regression.py --write          # trace_regression.md and .png beside it
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from trace_regression_criteria import Criterion
from trace_regression_measures import Values
from trace_regression_sections import SECTIONS, Section

from skdp import PrivacyWarning

HERE = Path(__file__).parent

TITLE = """\
# Trace regression

Written by `python benchmarks/trace_regression.py --write`; the curves are drawn in
`trace_regression.png`. Where nothing else is said the X_i are d x d matrices of standard Gaussians,
the noise of y has a standard deviation of .5, δ is 1e-6, records may be replaced, the design is
known to be isotropic, and there is no intercept. A cell is a median over seeds, and in
brackets that of 4 to 6 other seeds of an earlier program of the same algorithm, where there is one.
Slopes are powers fitted to the medians."""
FINDINGS = """\
## What the tables say

With constant clipping the error follows the published rates where privacy is what costs: -1 in n,
nearly 1 in d, and nearly in proportion to a large singular value. A level that follows the
residuals is better by a factor that grows with the signal, and the error no longer depends on the
singular value. Above epsilon 2 it is that without privacy, but for some per cent.

Noise on all entries of the gradient costs iterative hard thresholding some 1.3 to 5 times the error
at the step that is best for it, which nobody knows beforehand; descent without regard to the rank
costs at least as much. A start that spends nothing is better than one that takes a quarter of the
budget.

Scales and whitening that are found privately cost little, but for little budget and few records,
where the defaults are behind. Cells and tasks need a higher clip level: one that keeps half of the
gradients, those of entries and tasks with little signal, cuts off most of the others.

Too few records are of no use: the matrix is 0 then. Asked for rank 1, a value that is just beyond
the noise may still leave an error somewhat larger than that of 0.

Protecting the responses only gains nothing: the noise of the gradient is what counts, and levels
follow the residuals in either case.
"""


def cell(section: Section, values: Values, key: tuple[str, str]) -> str:
    if key not in values:
        return ""
    found = f"{np.median(values[key]):.3g}"
    return f"{found} ({section.earlier[key]:.3g})" if key in section.earlier else found


def table(section: Section, values: Values) -> str:
    lines = [[section.corner, *section.columns], ["---"] * (len(section.columns) + 1)]
    for row in section.rows:
        lines.append([row, *(cell(section, values, (row, c)) for c in section.columns)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def verdict(criterion: Criterion, values: Values) -> str:
    number = criterion.measure(values)
    limits = []
    if criterion.at_least > -np.inf:
        limits.append(f"at least {criterion.at_least:.3g}")
    if criterion.at_most < np.inf:
        limits.append(f"at most {criterion.at_most:.3g}")
    result = "holds" if criterion.holds(number) else "**misses**"
    return f"- {criterion.text}: {number:.3g}, {' and '.join(limits)}: {result}"


def measured(section: Section, n_seeds: int) -> Values:
    """Return what each column gives in each row, in every seed."""
    found: dict[tuple[str, str], list[float]] = {}
    for seed in range(n_seeds):
        for key, value in section.measure(seed):
            found.setdefault(key, []).append(value)
    return section.complete({key: np.array(numbers) for key, numbers in found.items()})


def part(section: Section, values: Values) -> str:
    verdicts = "\n".join(verdict(criterion, values) for criterion in section.criteria)
    n_seeds = max(map(len, values.values()))
    text = f"{section.text} {n_seeds} seeds."
    return f"## {section.title}\n\n{text}\n\n{table(section, values)}\n\n{verdicts}"


def write(results: dict[str, Values]) -> None:
    # Needs matplotlib, which nothing else here does.
    from trace_regression_figure import draw

    parts = [part(section, results[section.name]) for section in SECTIONS]
    (HERE / "trace_regression.md").write_text("\n\n".join([TITLE, *parts, FINDINGS]))
    draw(results, HERE / "trace_regression.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, help="seeds of each cell, default 3 to 20")
    parser.add_argument("--section", default="", help="sections with this in their name")
    parser.add_argument("--write", action="store_true", help="replace trace_regression.md and .png")
    arguments = parser.parse_args()
    if arguments.write and (arguments.seeds or arguments.section):
        parser.error("the committed table has all sections, with the default number of seeds")
    # That noise hides singular values, or all of them, is what is measured.
    warnings.simplefilter("ignore", PrivacyWarning)

    results = {}
    for section in SECTIONS:
        if arguments.section not in section.name:
            continue
        results[section.name] = measured(section, arguments.seeds or section.n_seeds)
        print(part(section, results[section.name]) + "\n", flush=True)
    if arguments.write:
        write(results)


if __name__ == "__main__":
    main()
