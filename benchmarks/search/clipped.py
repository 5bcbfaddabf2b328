"""How much clipping takes from scores of losses, and whether `private_score` warns of it.

Run

    python -m benchmarks.search.clipped          # 40 scores a line, a minute
    python -m benchmarks.search.clipped --write  # clipped.md beside it
"""

import warnings
from itertools import product
from unittest import mock

import numpy as np
from sklearn.linear_model import LinearRegression

from benchmarks.report import parser_for, publish, seeds_asked_for, table
from skdp import PrivacyWarning
from skdp.model_selection import _score, private_score

SCORES, CAPS = 40, (0.95, 0.98, 0.99, 0.995, 0.999)
TITLE = """\
# What clipping takes from scores

Written by `python -m benchmarks.search.clipped --write`. {} scores a line by `private_score`, mean
absolute errors of a model that predicts 0, so that a loss is the size of a response: root mean
squared errors of the score, in units of the exact one, if the clip level is at most this quantile.
Last at .999, which private_score takes: the mean part of the exact score that is lost, the std that
it prints, and how often it warns that clipping takes more than a tenth of the mean loss. The rules
were chosen on the first half of the laws, and checked on the second. Fewer rows get another
warning in any case.

"""
LAWS = {
    "squared normal": lambda r, n: r.normal(size=n) ** 2,
    "exponential": lambda r, n: r.exponential(size=n),
    "lognormal": lambda r, n: np.exp(r.normal(size=n)),
    "squared lognormal": lambda r, n: (np.exp(0.7 * r.normal(size=n)) - 1) ** 2,
    "log loss": lambda r, n: np.log1p(np.exp(-1 - 1.5 * r.normal(size=n))),
    "uniform": lambda r, n: r.random(n),
    "normal": lambda r, n: np.abs(r.normal(size=n)),
    "lognormal, 1.5": lambda r, n: np.exp(1.5 * r.normal(size=n)),
    "squared t(3)": lambda r, n: r.standard_t(3, size=n) ** 2,
    "squared counts": lambda r, n: (r.poisson(1, size=n) - 1.0) ** 2,
    "rare": lambda r, n: np.where(r.random(n) < 0.02, 20, 0.1) * r.random(n),
    "gamma": lambda r, n: r.gamma(2, size=n),
}
CASES = [*product(LAWS, [(2700, 1.0), (2700, 4.0), (20_000, 1.0), (100_000, 1.0)])]


def cells_of(law: str, n: int, epsilon: float, n_scores: int) -> list[str]:
    """Score many times, and print errors, the part lost, the std and how often a warning came."""
    X, model = np.zeros((n, 1)), LinearRegression().fit(np.zeros((2, 1)), np.zeros(2))
    cells = list[str]()
    for cap in CAPS:
        errors, stds, warned = [], [], []
        for seed in range(n_scores):
            losses = LAWS[law](np.random.default_rng(seed), n)
            with (
                mock.patch.object(_score, "_QUANTILE", cap),
                warnings.catch_warnings(record=True) as caught,
            ):
                warnings.simplefilter("always", PrivacyWarning)
                made = private_score(
                    model, X, losses, scoring="neg_mean_absolute_error", epsilon=epsilon
                )
            errors.append(-made.value / losses.mean() - 1)
            stds.append(made.std / losses.mean())
            warned.append(any("clipping seems to" in str(one.message) for one in caught))
        cells.append(f"{np.sqrt(np.mean(np.square(errors))):.3f}")
    return [
        *cells,
        f"{-np.mean(errors):.3f}",
        f"{np.mean(stds):.4f}",
        f"{100 * np.mean(warned):.0f}",
    ]


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds=f"scores of each line, default {SCORES}",
        quick="10 scores",
        write="replace clipped.md",
    )
    arguments = parser.parse_args()
    n_scores = seeds_asked_for(arguments, usual=SCORES, quick=10)
    caps = [f"{cap:g}"[1:] for cap in CAPS]
    header = ["losses", "rows", "epsilon", *caps, "lost", "std", "warned, of 100"]
    lines = [[law, size[0], f"{size[1]:g}", *cells_of(law, *size, n_scores)] for law, size in CASES]
    publish(TITLE.format(n_scores) + table(header, lines), __file__, write=arguments.write)


if __name__ == "__main__":
    main()
