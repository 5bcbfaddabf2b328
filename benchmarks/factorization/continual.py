r"""Noise of prefix sums: decaying exponentials beside a banded inverse square root.

`DPContinualFactorizer` publishes the sums of all epochs so far. With :math:`A = B C`, A the matrix
of prefix sums, it adds the noise :math:`C^{-1} z` to the epochs. This compares ways to choose C:

- exponentials: the coefficients of the square root of A, fitted by decaying exponentials. That is
  `skdp.linalg.prefix_sums`, measured by its own recursion.
- banded inverse square root, BISR [1]_: the first b coefficients of the inverse of the square root
  are the coefficients of :math:`C^{-1}`, and all others are 0.
- optimized banded inverse [1]_: b coefficients of :math:`C^{-1}` that make the root mean square
  least before columns are normalized, found by descent from BISR and from a multiple of it. The
  optimum may be a local one.
- the binary tree, and noise of each epoch or of each sum by itself.

All that is measured is exact: a sum of Gaussians has a known variance, and nothing is drawn. Run

    python -m benchmarks.factorization.continual            # half a minute
    python -m benchmarks.factorization.continual --write    # continual.md beside it

References
----------
.. [1] N. P. Kalinin, R. McKenna, J. Upadhyay, C. H. Lampert (2025). "Back to square roots: an
   optimal bound on the matrix factorization error for multi-epoch differentially private SGD".
   :arxiv:`2505.12128`
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from unittest.mock import patch

import numpy as np
from scipy.linalg import toeplitz
from scipy.optimize import OptimizeResult, minimize
from scipy.signal import lfilter

from benchmarks.papers.low_rank_factorization_sketches import tree_factors
from benchmarks.report import parser_for, table
from skdp.linalg import prefix_sums

HERE = Path(__file__).parent
HORIZON = 1000
N_EXPONENTIALS = (3, 4, 5, 6, 8)
WIDTHS = (2, 6, 11, 16, 32, 64, 128, 256, 512)
OPTIMIZED_WIDTHS = (2, 6, 11, 16, 32, 64, 128, 256, 1000)
# Beside BISR the descent starts from coefficients that nearly add to 0, as the exact ones do.
START_SUM = 0.999
UNSTABLE = 1e6
GAIN = 0.05
WIDTH_OF_TEXT = 100
BISR, OPTIMIZED = "BISR", "optimized banded inverse"

TITLE = f"""\
# Noise of prefix sums

Written by `python -m benchmarks.factorization.continual --write`. Standard deviation of the noise
of the sums of {HORIZON} epochs, over that of a single release: in the root mean square of all sums,
and in the sum where it is largest. Unit: what changes in one epoch, as in `DPContinualFactorizer`
with `Update`; adjacency "replace" or "zero_out", and any epsilon and delta, which scale all lines
alike. Every C is normalized: its columns are divided by their norms. "Buffers" are arrays of the
size of the sums that are kept from epoch to epoch, beside the sums.

Noise is drawn from the operating system. It cannot be drawn again, so that an inverse of b bands
keeps b - 1 arrays of noise. A stream can afford a few: each is as large as its state.
"""
FINDINGS = """\
At equal memory, {ours.n_buffers} buffers, BISR has {bisr:.2f} times the noise of the package in the
root mean square and {bisr_largest:.2f} times in the largest. Its optimized form has {tuned:.2f} and
{tuned_largest:.2f} times. A few bands do not add up to 0: a part of all old noise stays in every
later sum.

BISR needs more than a hundred buffers to be level. Of the widths here it is best with
{best_bisr.n_buffers}, with a gain of {gain_bisr:.1%} in the root mean square. The best bands of all
gain {gain:.1%}. Bands would be taken for a gain of 5%. {verdict}

There is little to gain. No factorization, Toeplitz or not, has a root mean square below
{bound:.3f}, which is {most:.1%} less. The package is within a per mille of the exact square root.

The limit of this table: a unit changes one epoch. The paper is about units that take part in many
epochs, which no stream here promises to protect. That is not measured.
"""


@dataclass(frozen=True)
class Noise:
    """How large the noise of sums is."""

    name: str
    n_buffers: int
    rms: float
    largest: float


def unit_vector() -> np.ndarray:
    return np.eye(1, HORIZON)[0]


def root() -> np.ndarray:
    """Coefficients of the square root of the matrix of prefix sums."""
    return np.cumprod([1.0, *(1 - 1 / (2 * np.arange(1, HORIZON)))])


def inverse(coefficients: np.ndarray) -> np.ndarray:
    """Coefficients of the inverse of a lower triangular Toeplitz matrix; the first is 1."""
    return lfilter([1.0], coefficients, unit_vector())


def noise_of(name: str, n_buffers: int, added: np.ndarray) -> Noise:
    """Measure noise by the coefficients of the inverse of C, whose columns are then normalized."""
    padded = np.concatenate([added, np.zeros(HORIZON - len(added))])
    norms = np.sqrt(np.cumsum(np.square(inverse(added))))[::-1]
    sums = np.cumsum(norms[:, np.newaxis] * toeplitz(padded, np.zeros(HORIZON)), axis=0)
    variances = np.square(sums).sum(axis=1)
    return Noise(name, n_buffers, *np.sqrt([variances.mean(), variances.max()]).tolist())


def exponentials(n_buffers: int) -> Noise:
    """Run the recursion of the package on every draw of noise."""
    with patch.object(prefix_sums, "_N_BUFFERS", n_buffers):
        noise = prefix_sums.prefix_noise(HORIZON)
    buffers = np.zeros((n_buffers, HORIZON))
    added = [noise.step(fresh, buffers, epoch) for epoch, fresh in enumerate(np.eye(HORIZON))]
    variances = np.square(np.cumsum(added, axis=0)).sum(axis=1) * noise.sensitivity**2
    stds = np.sqrt([variances.mean(), variances.max()]).tolist()
    return Noise("exponentials", n_buffers, *stds)


def banded(width: int) -> Noise:
    return noise_of(BISR, width - 1, inverse(root())[:width])


def optimized(width: int) -> Noise:
    """Look for the bands with the least root mean square, from two starts."""
    start = inverse(root())[1:width]
    starts = [start, start * (-START_SUM / start.sum())]
    found = min((_descended(one) for one in starts), key=lambda one: float(one.fun))
    return noise_of(OPTIMIZED, width - 1, np.array([1.0, *found.x]))


def _descended(start: np.ndarray) -> OptimizeResult:
    return minimize(_loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000})


def _loss(bands: np.ndarray) -> tuple[float, np.ndarray]:
    """Logarithm of the mean square of the noise, and its gradient in all bands but the first."""
    width = len(bands) + 1
    with np.errstate(all="ignore"):
        column = inverse(np.array([1.0, *bands]))
    if not np.all(np.abs(column) < UNSTABLE):
        return np.log(UNSTABLE), np.zeros(len(bands))
    weights = np.arange(HORIZON, 0, -1) / HORIZON
    summed = np.cumsum([1.0, *bands, *np.zeros(HORIZON - width)])
    sensitivity, variance = column @ column, weights @ summed**2
    of_variance = np.cumsum((2 * weights * summed)[::-1])[::-1][1:width]
    # The derivative of an inverse C in a band is C times C, shifted by that band, with a minus.
    square = np.convolve(column, column)[:HORIZON]
    lags = range(1, width)
    of_sensitivity = np.array([-2 * column[lag:] @ square[: HORIZON - lag] for lag in lags])
    gradient = of_sensitivity / sensitivity + of_variance / variance
    return float(np.log(sensitivity * variance)), gradient


def others() -> Iterator[Noise]:
    root_of_horizon = float(np.sqrt(HORIZON))
    worst, typical = tree_factors(HORIZON)
    yield noise_of("noise of each epoch by itself", 0, unit_vector())
    yield Noise("noise of each sum by itself", 0, root_of_horizon, root_of_horizon)
    yield Noise("binary tree", HORIZON.bit_length(), typical, worst)
    yield noise_of("exact square root", HORIZON - 1, inverse(root()))


def lower_bound() -> float:
    """Mean of the singular values of A, which no factorization has less noise than, in the rms.

    The product of the norms of the factors in the Frobenius norm is at least the nuclear norm of
    A, and no column of C is longer than the longest.
    """
    angles = np.pi * (2 * np.arange(1, HORIZON + 1) - 1) / (4 * HORIZON + 2)
    return float(np.mean(1 / (2 * np.sin(angles))))


def findings(noises: list[Noise], ours: Noise) -> str:
    """Return whether bands gain enough to be taken, in numbers of the table."""
    bands = [one for one in noises if one.name in (BISR, OPTIMIZED)]
    same = {one.name: one for one in bands if one.n_buffers == ours.n_buffers}
    best = min(bands, key=lambda one: one.rms)
    best_bisr = min((one for one in bands if one.name == BISR), key=lambda one: one.rms)
    gain = 1 - best.rms / ours.rms
    text = FINDINGS.format(
        ours=ours,
        bisr=same[BISR].rms / ours.rms,
        bisr_largest=same[BISR].largest / ours.largest,
        tuned=same[OPTIMIZED].rms / ours.rms,
        tuned_largest=same[OPTIMIZED].largest / ours.largest,
        best_bisr=best_bisr,
        gain_bisr=1 - best_bisr.rms / ours.rms,
        gain=gain,
        verdict="They should be." if gain >= GAIN else "They are not.",
        bound=lower_bound(),
        most=1 - lower_bound() / ours.rms,
    )
    return "\n\n".join(fill(part, WIDTH_OF_TEXT) for part in text.split("\n\n"))


def main() -> None:
    parser = parser_for(__doc__, write="replace continual.md")
    arguments = parser.parse_args()
    noises = [exponentials(n) for n in N_EXPONENTIALS]
    ours = next(one for one in noises if one.n_buffers == prefix_sums._N_BUFFERS)
    bands = [*map(banded, WIDTHS), *map(optimized, OPTIMIZED_WIDTHS)]
    lines = [
        [
            f"**{one.name}, as in the package**" if one is ours else one.name,
            str(one.n_buffers),
            *(f"{value:.3f}" for value in (one.rms, one.largest)),
            *(f"{value:.3f}" for value in (one.rms / ours.rms, one.largest / ours.largest)),
        ]
        for one in [*others(), *noises, *bands]
    ]
    header = ["noise", "buffers", "rms", "largest", "rms over ours", "largest over ours"]
    parts = [TITLE.rstrip(), table(header, lines), findings([*noises, *bands], ours)]
    text = "\n\n".join(parts) + "\n"
    print(text)
    if arguments.write:
        (HERE / "continual.md").write_text(text)


if __name__ == "__main__":
    main()
