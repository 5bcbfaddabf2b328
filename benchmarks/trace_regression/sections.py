"""The tables of `errors.py`, and what has to hold in them."""

from dataclasses import dataclass
from functools import partial

from benchmarks.report import Section
from benchmarks.trace_regression.criteria import (
    Criterion,
    labels,
    largest,
    largest_over_smallest,
    largest_rise,
    median,
    ratio,
    slope,
    slopes,
)
from benchmarks.trace_regression.measures import (
    CORRELATED,
    DESIGNS,
    EPSILONS,
    ERRORS,
    FEASIBLE,
    FITTED_RANKS,
    INITS,
    METHODS,
    NOISES,
    QUANTILES,
    RANKS,
    SIDES,
    SIZES,
    STARTS,
    UNITS,
    VALUES,
    designs,
    epsilons,
    errors,
    feasible,
    misspecified,
    noises,
    ranks,
    setting,
    sides,
    sizes,
    starts,
    units,
    values,
    without_privacy,
)


@dataclass(frozen=True)
class TraceSection(Section):
    """A table and what has to hold in it."""

    criteria: list[Criterion]
    n_seeds: int = 3


ERROR_ROWS = [setting(*row) for row in ERRORS]
EPSILON_ROWS, SIZE_ROWS = labels(EPSILONS), [str(n) for n in SIZES]
SIDE_ROWS, RANK_ROWS, VALUE_ROWS, NOISE_ROWS = map(labels, (SIDES, RANKS, VALUES, NOISES))
FEW, MANY = ([f"n {n}, rank {rank}" for rank in FITTED_RANKS] for n in (700, 8000))
FEASIBLE_ROWS = list(dict.fromkeys(str(n) for n, *_ in FEASIBLE))
EPSILON_COLUMNS = [f"ε {epsilon:g}" for epsilon in (0.5, 1.0, 2.0, 8.0)]
CURVES = "Constant clipping knows the spread of y, and keeps its level, as the paper's noise does."

SECTIONS: list[TraceSection] = [
    TraceSection(
        "errors",
        "Errors",
        "Singular values 1.5 and 1, δ 1e-5; the defaults have δ 1e-6 and an intercept.",
        "",
        ERROR_ROWS,
        ["identity", "private scale", "defaults"],
        errors,
        [
            Criterion(f"identity, {row}", median((row, "identity")), at_most=limit)
            for row, limit in zip(ERROR_ROWS, (0.038, 0.19, 0.097, 0.072), strict=True)
        ],
        n_seeds=20,
    ),
    TraceSection(
        "no privacy",
        "No privacy",
        "d 20, r 2, 50 steps. The reference is the noise times the root of r (2d - r) / n.",
        "n",
        ["400", "800", "1600", "4000"],
        ["skdp, ε inf", "reference"],
        without_privacy,
        [
            Criterion(
                f"over the reference, n {n}",
                ratio((n, "skdp, ε inf"), (n, "reference")),
                at_most=1.35,
            )
            for n in ("400", "800", "1600", "4000")
        ],
    ),
    TraceSection(
        "epsilon",
        "Epsilon",
        f"n 32000, d 12, r 1, σ 1. {CURVES}",
        "ε",
        EPSILON_ROWS,
        list(METHODS),
        epsilons,
        [
            Criterion(
                "skdp from an ε to the next", largest_rise(EPSILON_ROWS, "skdp"), at_most=1.05
            ),
            Criterion(
                "skdp over no privacy, ε 10",
                ratio(("10", "skdp"), ("10", "no privacy")),
                at_most=1.1,
            ),
            Criterion(
                "slope of constant clipping, ε .15 to .3",
                slope(EPSILON_ROWS[:2], "constant clipping"),
                -1.1,
                -0.7,
            ),
        ],
    ),
    TraceSection(
        "records",
        "Records, where privacy is what costs",
        "d 12, r 1, σ 1, ε .3, noise .2. The published rates are -1 for privacy and -.5 without.",
        "n",
        SIZE_ROWS,
        list(METHODS),
        partial(sizes, 0.2, 0.3),
        slopes(SIZE_ROWS, skdp=(-1.2, -0.4), constant=(-1.2, -0.85), exact=(-0.6, -0.4)),
    ),
    TraceSection(
        "records, noisier",
        "Records, where noise of the model is what costs",
        "The same with ε 1 and noise .5.",
        "n",
        SIZE_ROWS,
        list(METHODS),
        partial(sizes, 0.5, 1.0),
        slopes(SIZE_ROWS, skdp=(-1.0, -0.4), constant=(-1.2, -0.7), exact=(-0.6, -0.4)),
    ),
    TraceSection(
        "side",
        "Rows and columns",
        "n 24000, r 1, σ 1, ε .5. The published rates are 1 for privacy and .5 without.",
        "d",
        SIDE_ROWS,
        list(METHODS),
        sides,
        slopes(SIDE_ROWS, skdp=(0.4, 1.1), constant=(0.8, 1.15), exact=(0.4, 0.6)),
    ),
    TraceSection(
        "rank",
        "Rank",
        "n 32000, d 16, all σ 1, ε 1. Published: 1 for privacy, and .5 more because the level of "
        "constant clipping grows with the norm of the matrix; .5 without.",
        "r",
        RANK_ROWS,
        list(METHODS),
        ranks,
        slopes(RANK_ROWS, skdp=(0.3, 1.0), constant=(1.0, 1.6), exact=(0.35, 0.65)),
    ),
    TraceSection(
        "singular value",
        "The singular value",
        f"n 32000, d 12, r 1, ε 1. {CURVES}",
        "σ",
        VALUE_ROWS,
        list(METHODS),
        values,
        [
            Criterion(
                "skdp, largest over smallest",
                largest_over_smallest(VALUE_ROWS, "skdp"),
                at_most=1.1,
            ),
            Criterion(
                "constant clipping, σ 8 over σ 1",
                ratio(("8", "constant clipping"), ("1", "constant clipping")),
                at_least=4.0,
            ),
        ],
        n_seeds=10,
    ),
    TraceSection(
        "noise",
        "Noise of the model",
        "n 32000, d 12, r 1, σ 1, ε 1.",
        "noise",
        NOISE_ROWS,
        list(METHODS),
        noises,
        [
            Criterion("slope of skdp", slope(NOISE_ROWS, "skdp"), 0.9, 1.1),
            Criterion(
                "constant clipping, noise .1 over .05",
                ratio(("0.1", "constant clipping"), ("0.05", "constant clipping")),
                at_most=1.2,
            ),
        ],
    ),
    TraceSection(
        "starts",
        "Starts",
        "Relative errors, ε 1, δ 1e-5.",
        "",
        list(STARTS),
        list(INITS),
        starts,
        [
            Criterion(
                f"random over spectral, {row}",
                ratio((row, "random"), (row, "spectral")),
                at_most=1.1,
            )
            for row in STARTS
        ],
    ),
    TraceSection(
        "feasible",
        "How many records it takes",
        "d 20, r 2, singular values 1.5 and 1, δ 1e-5; the matrix 0 has the error 1.80.",
        "n",
        FEASIBLE_ROWS,
        EPSILON_COLUMNS,
        feasible,
        [
            Criterion("n 2000, ε .5", median(("2000", "ε 0.5")), at_most=1.05 * 1.803),
            Criterion("n 2000, ε 2", median(("2000", "ε 2")), at_most=0.33),
            Criterion("n 2000, ε 8", median(("2000", "ε 8")), at_most=0.13),
            Criterion("n 20000, ε .5", median(("20000", "ε 0.5")), at_most=0.08),
            Criterion("n 20000, ε 8", median(("20000", "ε 8")), at_most=0.04),
        ],
        n_seeds=5,
    ),
    TraceSection(
        "rank asked for",
        "A rank that is too large, and too few records",
        "d 16, one singular value of 1, so that the matrix 0 has the error 1; ε 1, δ 1e-5; n 8000 "
        "with 5 seeds.",
        "",
        [*FEW, *MANY],
        ["with the cut", "without", "defaults"],
        misspecified,
        [
            Criterion(
                "with the cut, worst of all seeds, n 700",
                largest([(row, "with the cut") for row in FEW]),
                at_most=1.05,
            ),
            Criterion(
                "defaults, worst of all seeds, n 700",
                largest([(row, "defaults") for row in FEW]),
                at_most=1.05,
            ),
        ],
        n_seeds=20,
    ),
    TraceSection(
        "designs",
        "Designs",
        'Relative errors, n 16000, d 16, r 2, singular values 1.5 and 1, ε 1, δ 1e-5. "Known" is '
        '`covariance="identity"`, or `(None, covariance)` where entries are correlated.',
        "",
        [*DESIGNS, CORRELATED],
        ["known", "private scale", "defaults", *(f"quantile {q:g}" for q in QUANTILES)],
        designs,
        [
            Criterion("completion, known", median(("completion", "known")), at_most=0.06),
            Criterion("tasks, known", median(("tasks", "known")), at_most=0.045),
            Criterion("correlation .6, known", median((CORRELATED, "known")), at_most=0.045),
        ],
        n_seeds=5,
    ),
    TraceSection(
        "units",
        "What is protected",
        "n 8000, d 20, r 2, singular values 1.5 and 1, δ 1e-5.",
        "ε",
        ["0.5", "1"],
        list(UNITS),
        units,
        [
            Criterion(f"response, ε {e}", median((e, "response")), at_most=limit)
            for e, limit in (("0.5", 0.187), ("1", 0.0935))
        ],
        n_seeds=5,
    ),
]
