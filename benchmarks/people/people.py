"""What whole people cost: variance lost by components of people with several rows. Run

    python -m benchmarks.people.people              # 20 seeds, some minutes
    python -m benchmarks.people.people --quick      # 2 seeds
    python -m benchmarks.people.people --write      # people.md beside it

Made-up people with 1 to 100 rows, log-uniform, of 20 features; three directions hold most of the
variance, of which a part lies between people. What is wanted are the components of the variance of
a row of a random person, and "lost" is the part of what the best three hold that is missing. All
ways clip at the same public norm, and promise (epsilon, 1e-6) for all rows of a person:

- "whole people": ``privacy_unit="user"``;
- "one row each": the row unit, with a random row of each person;
- "at most 5" or "at most 20": the row unit, with so many random rows of each person at most, at the
  mu of the promise divided by that number.

"Rows only" protects a row and no person: it is what the others pay for.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.report import (
    Measured,
    ignore_drowned_signal,
    mean_and_error,
    measured,
    need_two_seeds,
    parser_for,
    seeds_asked_for,
    table,
)
from skdp import DPPCA
from skdp.privacy.gaussian_dp import epsilon_at, mu_from_epsilon_delta

HERE = Path(__file__).parent
N_FEATURES, K, MOST_ROWS, DELTA, SEEDS = 20, 3, 100, 1e-6, 20
VARIANCES = np.concatenate([[4.0, 3.0, 2.0], np.full(N_FEATURES - 3, 0.3)])
ROW_NORM = float(np.sqrt(VARIANCES.sum()))
PEOPLE, BETWEEN, EPSILONS = (2000, 10_000), (0.5, 0.1), (1.0, 4.0)
WAYS = ("whole people", "one row each", "at most 5", "at most 20", "rows only")


class Drawn(NamedTuple):
    """Rows, whose they are, and the components that are wanted."""

    X: np.ndarray
    users: np.ndarray
    basis: np.ndarray


def drawn(n_people: int, between: float, seed: int) -> Drawn:
    """Draw people, of whose variance the part `between` lies between them."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(N_FEATURES, N_FEATURES)))[0]
    counts = np.exp(rng.uniform(0, np.log(MOST_ROWS), n_people)).astype(int)
    users = np.repeat(np.arange(n_people), counts)
    centers = rng.normal(size=(n_people, N_FEATURES)) * np.sqrt(between)
    own = rng.normal(size=(len(users), N_FEATURES)) * np.sqrt(1 - between)
    return Drawn(((centers[users] + own) * np.sqrt(VARIANCES)) @ basis.T, users, basis)


def some_rows(users: np.ndarray, at_most: int, rng: np.random.Generator) -> np.ndarray:
    """Choose so many random rows of each person at most."""
    order = rng.permutation(len(users))
    order = order[np.argsort(users[order], kind="stable")]
    counts = np.bincount(users)
    place = np.arange(len(users)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.sort(order[place < at_most])


def fitted(way: str, data: Drawn, epsilon: float, rng: np.random.Generator) -> DPPCA:
    """Fit components by one of the ways."""
    pca = DPPCA(K, delta=DELTA, row_norm=ROW_NORM, center=False, solver="covariance")
    if way == "whole people":
        return pca.set_params(epsilon=epsilon, privacy_unit="user").fit(data.X, users=data.users)
    if way == "rows only":
        return pca.set_params(epsilon=epsilon).fit(data.X)
    at_most = {"one row each": 1, "at most 5": 5, "at most 20": 20}[way]
    mu = mu_from_epsilon_delta(epsilon, DELTA) / at_most
    kept = some_rows(data.users, at_most, rng)
    return pca.set_params(epsilon=epsilon_at(mu, DELTA)).fit(data.X[kept])


def lost(model: DPPCA, basis: np.ndarray) -> float:
    """Return the part of the variance of the best components that these do not hold."""
    covariance = (basis * VARIANCES) @ basis.T
    held = np.trace(model.components_ @ covariance @ model.components_.T)
    return float(1 - held / VARIANCES[:K].sum())


def losses(seed: int) -> Measured:
    """Measure all ways once."""
    rng = np.random.default_rng([seed, 1])
    for n_people in PEOPLE:
        for between in BETWEEN:
            data = drawn(n_people, between, seed)
            for epsilon in EPSILONS:
                for way in WAYS:
                    model = fitted(way, data, epsilon, rng)
                    yield (row_of(n_people, between, epsilon), way), lost(model, data.basis)


def row_of(n_people: int, between: float, epsilon: float) -> str:
    return f"{n_people} people, {between:.0%} between, epsilon {epsilon:g}"


def main() -> None:
    parser = parser_for(
        __doc__, seeds=f"instead of {SEEDS}", quick="2 seeds", write="write people.md"
    )
    asked = parser.parse_args()
    n_seeds = seeds_asked_for(asked, usual=SEEDS, quick=2)
    need_two_seeds(parser, n_seeds)
    ignore_drowned_signal()
    with threadpool_limits(1):
        found = measured(losses, n_seeds)
    rows = dict.fromkeys(row for row, _ in found)
    lines = [[row, *(mean_and_error(found[row, way]) for way in WAYS)] for row in rows]
    text = table(["lost variance", *WAYS], lines)
    print(text)
    if asked.write:
        HERE.joinpath("people.md").write_text(PAGE.format(n_seeds=n_seeds, table=text))


PAGE = """# People with several rows

Written by `python -m benchmarks.people.people --write`, with {n_seeds} seeds; means with standard
errors. The docstring of the script says what was measured.

{table}

Whole people lose the least of all ways that protect a person, or as little as the best. One row
each has the same noise, and a larger error of sampling: where noise dominates, with few people or a
small epsilon, it is as good. Caps pay for each row with noise.
"""

if __name__ == "__main__":
    main()
