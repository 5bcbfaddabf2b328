r"""Private model personalization as published: rates, what they take, and a constant that fails.

The paper [1]_ has a theory and no experiments. Here its four algorithms, as listed, meet
`DPPersonalizedRegressor`, on users of 20 rows with 20 features, whose coefficients lie in a plane.

Algorithm 1    alternate: users fit heads to a quarter of their rows; each block of users, met once,
               turns the representation by normal equations; final heads from half of the rows
Algorithm 2    those normal equations: x v' and y clipped row by row, noise on matrix and products
Algorithm 3    start: noise on the sum of products of pairs of rows of norm 1 with clipped responses
Algorithm 4    exponential mechanism over a net of representations

Algorithms 1 to 3 are private for all data, as clipping sees to it, in exact arithmetic and if all
users have the same number of rows, none of norm 0. Their thresholds are made of the true
coefficients and noise, which are private, and there are two choices of them:

printed    those of the lemmas, with 1 for what O-notation hides
tuned      quantiles of .95 of what is clipped: NOT private

The matrix of the normal equations is indefinite unless users are many, and what is to be minimized
then has no minimum: "solved" takes the solution of the equations, "floored" the eigenvalues below
the noise for the edge of the noise.

More users than 20,000 are not drawn: noise is divided instead, so that what remains of it is as of
so many users. That leaves the sampling error of 20,000; the risk that is left without any noise is
that of heads fitted to half of the rows.

Algorithm 4 is not private as printed: its exponent has the number of users as a factor, which the
proof does not. The likelihood ratio is computed exactly, on a net of 36 lines in the plane.

All but "ours" is for comparison, NOT for private records: the noise is numpy's.

.. [1] P. Jain, J. Rush, A. Smith, S. Song, A. Guha Thakurta (2021). "Differentially private model
   personalization". NeurIPS.

Run

    python -m benchmarks.papers.personalization           # 3 seeds, two minutes
    python -m benchmarks.papers.personalization --write   # personalization.md beside it
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.personalization.measures import KEY, Regime, Sample, oracle, ours, ridge
from benchmarks.report import (
    Measured,
    Values,
    ignore_drowned_signal,
    measured,
    parser_for,
    publish,
    table,
)
from skdp.privacy.gaussian_dp import epsilon_at

SEEDS = 3
EPSILON, DELTA = 1.0, 1e-6
D, K, M, NOISE = 20, 2, 20, 0.1
SIZES = (300, 500, 1000, 2000, 20_000)
LARGER = (10**5, 10**6, 3 * 10**6, 10**7, 10**8, 10**9, math.inf)
DRAWN = SIZES[-1]
N_ROUNDS = {"printed": 5, "tuned": 3}
SOLVED, FLOORED = "solved", "floored"
VARIANTS = [(choice, solve) for choice in N_ROUNDS for solve in (SOLVED, FLOORED)]
_BETA, _TUNED_QUANTILE = 0.01, 0.95

Basis = np.ndarray


@dataclass
class Spec:
    """Rows by user, the truth that thresholds are made of, and how the noise is divided."""

    sample: Sample
    seed: int
    n_users: float

    def __post_init__(self) -> None:
        self.X, self.y = self.sample.by_user()
        truth = np.linalg.svd(self.sample.coef, full_matrices=False)[2][:K].T
        self.truth = truth
        heads = self.sample.coef @ truth
        smallest = float(np.linalg.eigvalsh(heads.T @ heads / len(heads))[0])
        # The bound of the norms of heads that incoherence stands for.
        self.largest_head = float(np.linalg.norm(heads, axis=1).max())
        self.incoherence = self.largest_head / math.sqrt(K * smallest)
        self.random = np.random.default_rng([KEY, self.seed, 2])

    @property
    def multiplier(self) -> float:
        """Noise for sensitivity 1, as printed, less what more users would leave of it."""
        printed = math.sqrt(16 * math.log(1 / DELTA)) / EPSILON
        return printed * len(self.X) / self.n_users

    def tail(self) -> float:
        return math.sqrt(2 * math.log(4 * min(self.n_users, LARGER[-2]) * M / _BETA))

    def symmetric_noise(self, size: int, scale: float) -> np.ndarray:
        upper = np.triu(self.random.normal(scale=scale, size=(size, size)))
        return upper + np.triu(upper, 1).T


@dataclass
class Thresholds:
    """Of x v', and of y."""

    row: float
    response: float


def thresholds(spec: Spec, choice: str) -> Thresholds:
    if choice == "printed":
        response = (spec.largest_head + NOISE) * spec.tail()
        return Thresholds(spec.largest_head * math.sqrt(D) * spec.tail(), response)
    norms = np.linalg.norm(spec.X, axis=2)
    norms *= np.linalg.norm(spec.sample.coef, axis=1)[:, np.newaxis]
    quantile = partial(np.quantile, q=_TUNED_QUANTILE)
    return Thresholds(float(quantile(norms)), float(quantile(np.abs(spec.y))))


def algorithm_3(spec: Spec, limits: Thresholds) -> Basis:
    """Start: the index of the pairs is mended, (2i, 2i + 1) being one row too far."""
    X = spec.X / np.linalg.norm(spec.X, axis=2, keepdims=True)
    y = np.clip(spec.y, -limits.response, limits.response)
    first, second = (X[:, start::2] * y[:, start::2, np.newaxis] for start in (0, 1))
    products = first.reshape(-1, D).T @ second.reshape(-1, D)
    upper = np.triu(products)
    noise = spec.symmetric_noise(D, spec.multiplier * limits.response**2 * M)
    return np.linalg.eigh(upper + np.triu(products, 1).T + noise)[1][:, -K:]


def algorithm_1(spec: Spec, start: Basis, limits: Thresholds, choice: str, how: str) -> Basis:
    """Alternate; each user is part of one block."""
    basis, quarter = start, M // 4
    order = spec.random.permutation(len(spec.X))
    for block in np.array_split(order, N_ROUNDS[choice]):
        X, y = spec.X[block], spec.y[block]
        heads = least_squares(X[:, :quarter] @ basis, y[:, :quarter])
        second = slice(quarter, 2 * quarter)
        basis = algorithm_2(spec, X[:, second], y[:, second], heads, limits, how)
    return basis


def algorithm_2(
    spec: Spec, X: np.ndarray, y: np.ndarray, heads: np.ndarray, limits: Thresholds, how: str
) -> Basis:
    rows = np.einsum("nk,nmd->nmkd", heads, X).reshape(-1, K * D)
    rows *= np.minimum(1, limits.row / np.linalg.norm(rows, axis=1))[:, np.newaxis]
    responses = np.clip(y, -limits.response, limits.response).ravel()
    scale = M * spec.multiplier / 2 * limits.row
    matrix = rows.T @ rows + spec.symmetric_noise(K * D, scale * limits.row)
    products = rows.T @ responses
    products += spec.random.normal(scale=scale * limits.response, size=K * D)
    if how == SOLVED:
        found = np.linalg.solve(matrix, products)
    else:
        values, vectors = np.linalg.eigh(matrix)
        edge = 2 * scale * limits.row * math.sqrt(K * D)
        found = vectors @ (vectors.T @ products / np.maximum(values, edge))
    return np.linalg.qr(found.reshape(K, D).T)[0]


def least_squares(Z: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.einsum("nkm,nm->nk", np.linalg.pinv(Z), y)


def final_risk(spec: Spec, basis: Basis) -> float:
    half = slice(M // 2, None)
    heads = least_squares(spec.X[:, half] @ basis, spec.y[:, half])
    return spec.sample.risk(heads @ basis.T)


def subspace_error(spec: Spec, basis: Basis) -> float:
    return float(np.linalg.norm(basis - spec.truth @ (spec.truth.T @ basis)))


def name_of(choice: str, how: str) -> str:
    return f"{choice}, {how}"


def row_of(n_users: float) -> str:
    return f"{n_users:g}"


def published(sample: Sample, n_users: float, seed: int) -> Measured:
    """Yield the risks of all variants, and how far start and result are from the truth."""
    row = row_of(n_users)
    for choice, how in VARIANTS:
        spec = Spec(sample, seed, n_users)
        limits = thresholds(spec, choice)
        start = algorithm_3(spec, limits)
        basis = algorithm_1(spec, start, limits, choice, how)
        yield (row, name_of(choice, how)), final_risk(spec, basis)
        if how == FLOORED:
            yield (row, f"{choice}, start"), subspace_error(spec, start)
            yield (row, f"{choice}, end"), subspace_error(spec, basis)


def risks(seed: int) -> Measured:
    for n_users in SIZES:
        sample, row = Regime("S", n_users, D, K, M, NOISE).draw(seed), row_of(n_users)
        yield (row, "ridge"), ridge(sample)
        yield (row, "oracle"), oracle(sample)
        yield (row, "ours"), ours(sample, seed, EPSILON)
        yield from published(sample, n_users, seed)
    for n_users in LARGER:
        yield from published(sample, n_users, seed)


def risk_table(values: Values) -> str:
    names = ["ridge", "oracle", *(name_of(*variant) for variant in VARIANTS), "ours"]
    rows = [
        [_drawn(n), *(_shown(values, row_of(n), name) for name in names)] for n in (*SIZES, *LARGER)
    ]
    return table(["users", *names], rows)


def _drawn(n_users: float) -> str:
    if math.isinf(n_users):
        return "no noise"
    return f"{n_users:,}" + " (noise of)" * (n_users > DRAWN)


def _shown(values: Values, row: str, name: str) -> str:
    found = values.get((row, name))
    return "-" if found is None else f"{np.median(found):.3g}"


def slope_lines(values: Values) -> str:
    """Compare powers of the number of users with those of the lemmas, of what noise adds."""
    lines = []
    for what, lemma, choice, between in (
        ("start", "4.6", "tuned", (10**6, 10**7)),
        ("end", "4.4", "tuned", (10**6, 10**7)),
        ("start", "4.6", "printed", (10**7, 10**8)),
        ("end", "4.4", "printed", (10**8, 10**9)),
    ):
        key = f"{choice}, {what}"
        without = np.median(values[row_of(math.inf), key])
        found = [float(np.median(values[row_of(n), key])) for n in between]
        added = np.sqrt(np.maximum(np.square(found) - without**2, 1e-12))
        slope = math.log(added[1] / added[0]) / math.log(between[1] / between[0])
        end = {"start": "start", "end": "result"}[what]
        lines.append(
            f"- Lemma {lemma}, {choice} thresholds: distance of the {end} from the true plane "
            f"{found[0]:.3f} at {between[0]:,} users, {found[1]:.3f} at {between[1]:,}, "
            f"{without:.3f} without noise; what noise adds goes with the power {slope:.2f} of "
            "their number, -1 in the lemma."
        )
    return "\n".join(lines)


def spent_table() -> str:
    """Account exactly for what the printed noise spends: the start, and one block of two sums."""
    rows = []
    for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
        mu = math.sqrt(3) * epsilon / math.sqrt(16 * math.log(1 / DELTA))
        rows.append([f"{epsilon:g}", f"{epsilon_at(mu, DELTA):.2f}"])
    return table(["epsilon of the theorem", "epsilon spent"], rows)


N_LINES = 36
COUNTS = (10, 100, 1000)


def net() -> np.ndarray:
    angles = np.arange(N_LINES) * np.pi / N_LINES
    return np.column_stack([np.cos(angles), np.sin(angles)])


def user_scores(x: np.ndarray, y: float) -> np.ndarray:
    """Return min over |v| <= 1 of |u'x v - y| for all u of the net, of a user of equal rows."""
    along = np.clip(net() @ x, -1.0, 1.0)
    return np.maximum(np.abs(y) - np.abs(along), 0.0)


def largest_log_ratio(exponent: float, n_users: int) -> float:
    """Compare all probabilities before and after one user is exchanged; the others have y = 0."""
    others = (n_users - 1) * user_scores(np.array([1.0, 0.0]), 0.0)
    log_probabilities = []
    for x in np.eye(2):
        weights = -exponent * (others + user_scores(x, 1.0))
        log_probabilities.append(weights - np.logaddexp.reduce(weights))
    return float(np.abs(np.subtract(*log_probabilities)).max())


def ratio_table() -> str:
    """Tabulate log ratios, for losses, features and heads that are bounded by 1."""
    header = ["users", "as printed", "as proved", "from the range of a score", "allowed"]
    exponents = (lambda n: EPSILON * n / 8, lambda n: EPSILON / 8, lambda n: EPSILON / 2)
    rows = [
        [n, *(f"{largest_log_ratio(exponent(n), n):g}" for exponent in exponents), f"{EPSILON:g}"]
        for n in COUNTS
    ]
    return table(header, rows)


SMALL = {"d": 3, "m": 6, "noise": 0.3, "bound": 3.0, "n_net": 400}
SMALL_CASES = ((200, 1.0), (200, 4.0), (1000, 1.0))
EXPONENTS = ("as proved", "from the range of a score")


def small_net() -> np.ndarray:
    """Return points that spread evenly over half of the sphere, whatever the data."""
    n = int(SMALL["n_net"])
    height = (np.arange(n) + 0.5) / n
    turn = np.pi * (1 + math.sqrt(5)) * np.arange(n)
    flat = np.sqrt(1 - height**2)
    return np.column_stack([flat * np.cos(turn), flat * np.sin(turn), height])


def algorithm_4(sample: Sample, epsilon: float, seed: int, how: str) -> float:
    """Draw a direction by squared loss, of responses clipped, in which a score is below bound^2."""
    X, y = sample.by_user()
    half, bound = X.shape[1] // 2, SMALL["bound"]
    clipped = np.clip(y[:, :half], -bound, bound)
    along = np.einsum("nmd,gd->ngm", X[:, :half], small_net())
    explained = np.square(np.einsum("ngm,nm->ng", along, clipped))
    explained /= np.maximum(np.square(along).sum(axis=2), 1e-12)
    scores = (np.square(clipped).sum(axis=1)[:, np.newaxis] - explained).sum(axis=0) / half
    exponent = epsilon / (2 * bound**2)
    if how == "as proved":
        largest = 40 * math.sqrt(X.shape[2]) * math.log(y.size)
        exponent = epsilon / (8 * largest * 2 * (bound + largest))
    weights = -exponent * scores
    random = np.random.default_rng([KEY, seed, 4])
    direction = small_net()[
        random.choice(len(weights), p=np.exp(weights - np.logaddexp.reduce(weights)))
    ]
    Z = X[:, half:] @ direction
    heads = (Z * y[:, half:]).sum(axis=1) / (np.square(Z).sum(axis=1) + SMALL["noise"] ** 2)
    return sample.risk(heads[:, np.newaxis] * direction)


def small_risks(seed: int) -> Measured:
    for n_users, epsilon in SMALL_CASES:
        regime = Regime("net", n_users, int(SMALL["d"]), 1, int(SMALL["m"]), SMALL["noise"])
        sample, row = regime.draw(seed), f"{n_users} users, epsilon {epsilon:g}"
        yield (row, "ridge"), ridge(sample)
        yield (row, "oracle"), oracle(sample)
        for how in EXPONENTS:
            yield (row, how), algorithm_4(sample, epsilon, seed, how)
        yield (row, "ours, delta 1e-6"), ours(sample, seed, epsilon)


def small_table(values: Values) -> str:
    names = ["ridge", "oracle", *EXPONENTS, "ours, delta 1e-6"]
    rows = [f"{n} users, epsilon {epsilon:g}" for n, epsilon in SMALL_CASES]
    return table(["", *names], [[row, *(_mean(values[row, n]) for n in names)] for row in rows])


def _mean(found: np.ndarray) -> str:
    return f"{found.mean():.3f}"


TITLE = """\
# Private model personalization, as published

Written by `python -m benchmarks.papers.personalization --write`: Algorithms 1 to 4 of P. Jain, J.
Rush, A. Smith, S. Song and A. Guha Thakurta, "Differentially private model personalization"
(NeurIPS 2021), as listed; `personalization.py` says how. The paper has no experiments: there are
rates to compare with, and no numbers. {} users a row at most are drawn, medians of {} seeds.
"""
RISKS = """\
## Algorithms 1 to 3: users that it takes

Excess risk, d = 20, k = 2, 20 rows a user, noise .1, epsilon 1, delta 1e-6. "Noise of" so many
users: 20,000 of them with noise divided. Zero has a risk of 2. "Printed" thresholds and "tuned"
ones, the latter **not private**; the normal equations "solved", or "floored" where they are
indefinite. Ours releases its thresholds within the budget.
"""
SPENT = """\
## What the printed noise spends

Of Algorithms 3 and 1 together, exactly, in Gaussian differential privacy, delta 1e-6. The paper
does not compose them; its constant has room for it.
"""
RATIOS = """\
## Algorithm 4: log of the likelihood ratio when one user is exchanged

Epsilon 1, loss |u'x v - y|, on a net of 36 lines in the plane; |u'x|, |v| and y at most 1. What is
above 1 is not private. As printed the exponent has the number of users as a factor too many.
"""
NET = """\
## Algorithm 4 with an exponent that is private

Excess risk, d = 3, k = 1, 6 rows a user, noise .3, a net of 400 directions, squared loss with
responses clipped at 3, means of {} seeds. "As proved" has the bound of the theorem on what is
clipped, 40 d^.5 log(nm). Ours is of delta 1e-6, the others of delta 0.
"""
FINDINGS = """\
## What the tables say

- The powers of the number of users are those of the lemmas, or near to them, where noise is what
  limits. The constants are not small: with printed thresholds, ten million users are about where
  the published algorithms meet ridge regression of each user alone, and with tuned ones, which are
  not private, between 20,000 and 100,000, if indefinite equations are mended, and up to a million
  if not. Ours is below ridge from 500 users on, with thresholds that it pays for. What makes the
  difference: a whole user is clipped, and not each row; all users and rows take part in all
  rounds; and a gradient has d k numbers, where the normal equations have their square.
- Below that the published algorithms are worse than zero, 2: heads are fitted on a plane that says
  nothing, without a penalty.
- The constant of the theorem is wide: of epsilon 1 less than half is spent.
- Algorithm 4 as printed is not private: the log ratio is n / 8. As proved it is a quarter of what
  the range of a score allows, in this example; with the theorem's own bounds for regression the
  exponent is so small that the draw is uniform.
- The exponential mechanism gets close to ridge at 200 users only for epsilon 4, and is not near
  ours, which has a positive delta.
"""


def main() -> None:
    parser = parser_for(
        __doc__, seeds=f"seeds of each line, default {SEEDS}", write="replace personalization.md"
    )
    parser.set_defaults(seeds=SEEDS)
    arguments = parser.parse_args()
    if arguments.write and arguments.seeds < SEEDS:
        parser.error(f"the committed tables have at least {SEEDS} seeds")
    ignore_drowned_signal()
    n_net_seeds = 10 * arguments.seeds
    found = measured(risks, arguments.seeds)
    blocks = [
        f"{TITLE.format(f'{DRAWN:,}', arguments.seeds)}\n{FINDINGS.rstrip()}",
        f"{RISKS}\n{risk_table(found)}\n\n{slope_lines(found)}",
        f"{SPENT}\n{spent_table()}",
        f"{RATIOS}\n{ratio_table()}",
        f"{NET.format(n_net_seeds)}\n{small_table(measured(small_risks, n_net_seeds))}",
    ]
    publish("\n\n".join(blocks), __file__, write=arguments.write)


if __name__ == "__main__":
    main()
