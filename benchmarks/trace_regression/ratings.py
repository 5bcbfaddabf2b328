"""Ratings without privacy: the descent beside alternating least squares of rank 1.

`python -m benchmarks.trace_regression.ratings` prints the table of `ratings.md`.
"""

import numpy as np

from benchmarks.report import line, parser_for
from benchmarks.sweep.designs import Ratings, load_ratings, ratings

N_ITER, RIDGES = 100, (1e-9, 0.1, 1.0, 3.0)


def alternating(data: Ratings, shift: float, ridge: float) -> float:
    """Return the squared error of `shift` plus a product of a number of who and one of what."""
    who, what, y = data.who[data.train], data.what[data.train], data.y[data.train] - shift
    of_what = np.ones(data.what.max() + 1)
    for _ in range(N_ITER):
        of_who = np.bincount(who, y * of_what[what]) / (
            np.bincount(who, of_what[what] ** 2) + ridge
        )
        of_what = np.bincount(what, y * of_who[who]) / (np.bincount(what, of_who[who] ** 2) + ridge)
    return data.loss(shift + of_who[data.who[data.test]] * of_what[data.what[data.test]])


def main() -> None:
    parser = parser_for(__doc__, seeds="splits of the ratings, default 3")
    for seed in range(parser.parse_args().seeds or 3):
        data = load_ratings(np.random.default_rng(seed))
        errors = [-ratings(np.random.default_rng(seed)).fit(np.inf)[""]]
        for shift in (0.0, data.y[data.train].mean()):
            errors.append(min(alternating(data, shift, ridge) for ridge in RIDGES))
        print(line([seed, *(f"{error:.3f}" for error in errors)]))


if __name__ == "__main__":
    main()
