"""Rows of unlike length: what clipping leaves of them, what counts tell of it, larger quantiles.

    python -m benchmarks.diagonal_prior.tails            # 4 seeds, some 5 minutes
    python -m benchmarks.diagonal_prior.tails --write    # tails.md beside it

Real tables are looked for in the folder that the environment variable `SKDP_DATA` names, and left
out without it.
"""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
from sklearn.utils.extmath import row_norms

from benchmarks.diagonal_prior.components import KEY, TABLES, Chosen, captured, rows_of
from benchmarks.report import (
    Measured,
    cases_asked_for,
    ignore_drowned_signal,
    measured,
    parser_for,
    seeds_asked_for,
    standard_error,
    table,
)
from skdp import DPTruncatedSVD
from skdp.decomposition.rows import fit as rows_fit
from skdp.decomposition.rows import plan as rows_plan

HERE = Path(__file__).parent
SEEDS = 4
QUANTILES = (0.6, 0.75, 0.9)
EPSILONS = (2.0, 4.0, 8.0, 16.0)
GROWTHS = (0.3, 0.6)

TITLE = """\
# Rows of unlike length

Written by `python -m benchmarks.diagonal_prior.tails --write`. Means of {} seeds, delta 1e-6.

## What clipping leaves

Part of the sum of squares that is left when norms are clipped at a quantile: "estimate / truth".
The estimate takes norms to be log-normal and knows the noisy counts of a search at epsilon 8 only.
A fit warns if its components hold little of the rest, too; nan: in some fit no count was near
enough above the bound.
"""
LARGER = """\
## Larger quantiles with much budget

Captured by `DPTruncatedSVD` of raw rows, where r is above 200: as it is, and the change if the
quantile grew there by so much for each factor of e.
"""
FINDINGS = """\
## What the tables say

Where the estimate is below .5, so is the truth, or nearly so; for sums of log-normal numbers it is
too high, as their norms have longer tails than any log-normal law. A larger quantile gains where
rows are that unlike, and loses up to .05 on Gowalla: the quantile stays, and the fit warns.
"""


def counts(spread: float) -> np.ndarray:
    """Draw counts with five directions in their logarithms, and noise of that spread."""
    random = np.random.default_rng(0)
    logarithms = random.normal(size=(3000, 5)) @ random.normal(size=(5, 200)) / 2
    return np.rint(np.exp(logarithms + spread * random.normal(size=(3000, 200))))


def scaled_rows() -> np.ndarray:
    """Draw normal rows, each times a number with the tail of Student's t with two degrees."""
    random = np.random.default_rng(1)
    return random.normal(size=(3000, 200)) * np.abs(random.standard_t(2, size=(3000, 1)))


CHOSEN = [
    *(one for one in TABLES if one.name != "ten strong of 400"),
    *(
        Chosen(f"counts, {spread:g}", 5, partial(counts, spread), needs_folder=False)
        for spread in (0.5, 1.0)
    ),
    Chosen("scaled rows", 5, scaled_rows, needs_folder=False),
]


def left(chosen: Chosen, seed: int) -> Measured:
    """Tell what is left of the raw rows, as estimated and in truth."""
    X = rows_of(chosen, "raw")
    norms = row_norms(X)
    for q in QUANTILES:
        with (
            patch.object(rows_fit, "norm_quantile", lambda *_, q=q: q),
            patch.object(rows_fit, "unclipped_squares", wraps=rows_fit.unclipped_squares) as asked,
        ):
            svd = DPTruncatedSVD(1, epsilon=8.0, solver="covariance", random_state=KEY + seed)
            svd.fit(X)
        bound = np.quantile(norms, q)
        yield (chosen.name, f"{q:g} truth"), float(np.sum(np.minimum(norms, bound) ** 2))
        yield (chosen.name, f"{q:g} whole"), float(np.sum(norms**2))
        estimate = rows_fit.unclipped_squares(*asked.call_args.args) if asked.called else math.nan
        yield (chosen.name, f"{q:g} estimate"), estimate


def growing(growth: float) -> Callable[[object], float]:
    """Return a quantile that grows faster where the strength is above 200."""
    usual = rows_plan._quantile_of_strength

    def quantile(spec: object) -> float:
        strength = rows_plan._signal_to_noise(spec)
        return usual(spec) + max(growth - 0.18, 0.0) * math.log(max(strength / 200, 1.0))

    return quantile


def larger(chosen: Chosen, seed: int) -> Measured:
    """Measure fits to raw rows with each growth."""
    X = rows_of(chosen, "raw")
    for epsilon in EPSILONS:
        svd = DPTruncatedSVD(chosen.n_components, epsilon=epsilon, random_state=KEY + seed)
        if rows_plan._signal_to_noise(svd._spec_like(*X.shape, X)) < 200:
            continue
        for growth in (0.18, *GROWTHS):
            with patch.object(rows_plan, "_quantile_of_strength", growing(growth)):
                svd.fit(X)
            yield (
                (f"{chosen.name}, epsilon {epsilon:g}", f"{growth:g}"),
                captured(chosen, "raw", svd),
            )


def tables_of(chosen: list[Chosen], n_seeds: int) -> list[str]:
    lines, more = [], []
    for one in chosen:
        found = measured(partial(left, one), n_seeds)
        cells = []
        for q in QUANTILES:
            part = {kind: found[one.name, f"{q:g} {kind}"].mean() for kind in ("truth", "whole")}
            estimate = found[one.name, f"{q:g} estimate"].mean()
            cells.append(f"{estimate:.2f} / {part['truth'] / part['whole']:.2f}")
        lines.append([one.name, *cells])
        found = measured(partial(larger, one), n_seeds)
        for row in dict.fromkeys(row for row, _ in found):
            usual = found[row, "0.18"]
            changes = [found[row, f"{growth:g}"] - usual for growth in GROWTHS]
            shown = [f"{one.mean():+.4f} ± {standard_error(one):.4f}" for one in changes]
            more.append([row, f"{usual.mean():.4f}", *shown])
    return [
        table(["", *(f"quantile {q:g}" for q in QUANTILES)], lines),
        LARGER.rstrip(),
        table(["", ".18, as it is", *(f"{growth:g}" for growth in GROWTHS)], more),
    ]


def main() -> None:
    parser = parser_for(
        __doc__, seeds=f"seeds, default {SEEDS}", quick="2 seeds", write="replace tails.md"
    )
    arguments = parser.parse_args()
    n_seeds = seeds_asked_for(arguments, usual=SEEDS, quick=2)
    chosen = cases_asked_for(parser, arguments, CHOSEN, n_seeds=n_seeds, usual=SEEDS)
    ignore_drowned_signal()
    text = "\n\n".join(
        [TITLE.format(n_seeds).rstrip(), *tables_of(chosen, n_seeds), FINDINGS.rstrip()]
    )
    print(text)
    if arguments.write:
        (HERE / "tails.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
