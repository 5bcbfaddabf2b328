"""Where descents end that start in random directions, or in those of the mean of y_i X_i.

python -m benchmarks.trace_regression.starts            # some 2 minutes on one core
python -m benchmarks.trace_regression.starts --write    # replace starts.md
"""

import warnings
from collections.abc import Iterator
from unittest import mock

import numpy as np

from benchmarks import report
from skdp import DPTraceRegressor, PrivacyWarning
from skdp.datasets import make_trace_regression
from skdp.linear_model.low_rank import descent, plan

EPSILONS, N_FITS, N_TABLES, N_TEST = (0.25, 1.0, 256.0), 4, 1, 2000
# A fit this much behind the best one of its table is in a local minimum, or has not converged.
BEHIND = 0.05
# Starts; the least strength and the clip of the package, which the last two change.
USUAL = plan._LEAST_STRENGTH, descent._DIRECTION_CLIP
STARTS = {
    "random": ("random", *USUAL),
    "auto": ("auto", *USUAL),
    "auto, however weak": ("auto", 0.0, USUAL[1]),
    "auto, however weak, clip 1.5": ("auto", 0.0, 1.5),
}
TEXT = """\
# Starts

Written by `python -m benchmarks.trace_regression.starts --write`. Random directions, those of the
released mean of y_i X_i where that is strong enough (`init="auto"`), and those wherever it is; also
with its terms clipped to 1.5 times their usual norm, not .8. Each number is a mean of {n_all} fits:
R2 on new rows, and in brackets how many are .05 behind the best R2 of their table in any column, at
any epsilon. Strength is what `_LEAST_STRENGTH` is compared with."""


def designs(seed: int) -> Iterator[tuple[str, int, np.ndarray, np.ndarray]]:
    """Yield names, ranks, matrices of unlike variances, and their responses without noise."""
    random = np.random.default_rng(seed)

    def coefficients(shape: tuple[int, int], rank: int) -> np.ndarray:
        return random.normal(size=(shape[0], rank)) @ random.normal(size=(rank, shape[1]))

    def scaled(n: int, shape: tuple[int, int], scales: np.ndarray) -> np.ndarray:
        return random.normal(size=(n, *shape)) * scales

    spreads = {
        "unlike entries": (16_000, (10, 10), 10 ** random.uniform(-0.5, 0.5, (10, 10)), 1),
        "more unlike entries": (8000, (8, 8), 10 ** random.uniform(-1, 1, (8, 8)), 1),
        "unlike entries, wide": (12_000, (16, 16), 10 ** random.uniform(-0.5, 0.5, (16, 16)), 1),
        "unlike rows": (8000, (12, 12), 10 ** random.uniform(-1, 1, (12, 1)), 2),
    }
    for name, (n, shape, scales, rank) in spreads.items():
        X = scaled(n + N_TEST, shape, scales)
        yield name, rank, X, np.tensordot(X, coefficients(shape, rank))
    X = random.normal(size=(8000 + N_TEST, 16, 16))
    for _ in range(2):
        X = X + 0.7 * np.roll(X, 1, axis=1) + 0.7 * np.roll(X, 1, axis=2)
    X *= random.choice([0.3, 1, 2], size=(16, 16))
    yield "pixels", 2, X, np.tensordot(X, coefficients((16, 16), 2))
    for n, shape, rank in ((8000, (20, 20), 2), (4000, (10, 10), 3)):
        X, y, _ = make_trace_regression(n + N_TEST, shape, rank=rank, noise=0, random_state=seed)
        yield f"isotropic, {n} of {shape[0]} x {shape[1]}, rank {rank}", rank, X, y


def scores(X: np.ndarray, y: np.ndarray, rank: int, epsilon: float, start: str) -> list[float]:
    """Score fits on new rows."""
    init, least, clip = STARTS[start]
    with (
        mock.patch.object(plan, "_LEAST_STRENGTH", least),
        mock.patch.object(descent, "_DIRECTION_CLIP", clip),
    ):
        fits = [
            DPTraceRegressor(rank, epsilon=epsilon, init=init).fit(X[N_TEST:], y[N_TEST:])
            for _ in range(N_FITS)
        ]
    return [fit.score(X[:N_TEST], y[:N_TEST]) for fit in fits]


def strength_of(X: np.ndarray, rank: int, epsilon: float) -> float:
    """Compute what `_LEAST_STRENGTH` is compared with."""
    shape = X.shape[1:]
    mu = DPTraceRegressor(rank, epsilon=epsilon).plan((len(X) - N_TEST, *shape)).mu
    edge = np.sqrt(X[0].size * rank) * sum(np.sqrt(shape))
    return float((len(X) - N_TEST) * mu / edge)


def page() -> Iterator[str]:
    yield TEXT.format(n_all=N_FITS * N_TABLES)
    found: dict[str, dict[float, dict[str, list[list[float]]]]] = {}
    best: dict[str, list[float]] = {}
    strengths = {}
    for seed in range(N_TABLES):
        for name, rank, X, y in designs(seed):
            y = y / y.std() + 0.2 * np.random.default_rng(seed).normal(size=len(y))
            for epsilon in EPSILONS:
                strengths[name, epsilon] = strength_of(X, rank, epsilon)
                for start in STARTS:
                    if start.startswith("auto, ") and epsilon > 1:
                        continue
                    here = scores(X, y, rank, epsilon, start)
                    own = found.setdefault(name, {}).setdefault(epsilon, {})
                    own.setdefault(start, []).append(here)
            tops = [max(max(one[-1]) for one in at.values()) for at in found[name].values()]
            best.setdefault(name, []).append(max(tops))
    rows = []
    for name, by_epsilon in found.items():
        for epsilon, by_start in by_epsilon.items():
            cells = [name, f"{epsilon:g}", f"{strengths[name, epsilon]:.1f}"]
            for start in STARTS:
                tables = by_start.get(start, [])
                pairs = zip(tables, best[name], strict=True) if tables else ()
                behind = sum(one < top - BEHIND for table, top in pairs for one in table)
                cells.append(f"{np.mean(tables):.3f} ({behind})" if tables else "")
            rows.append(cells)
    yield report.table(["design", "epsilon", "strength", *STARTS], rows)


def main() -> None:
    asked = report.parser_for(__doc__, write="replace starts.md").parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    report.publish("\n\n".join(page()), __file__, write=asked.write)


if __name__ == "__main__":
    main()
