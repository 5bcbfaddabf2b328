"""A private matrix that solvers see through noisy products, and what stands out from noise."""

import copy
import math

import numpy as np
from scipy.special import chdtri, gammainccinv

from skdp.data.rows import Rows
from skdp.decomposition._problem import EntriesProblem, Factors
from skdp.linalg.denoising import NoisyProduct
from skdp.linalg.norms import LEAST_ROUNDING, UNIT_ROUNDOFF, row_norms
from skdp.privacy import PrivacyBudget, Release, Released
from skdp.privacy.clipping import clip_rows

# ------------------------------
# Which components stand out from noise, by released values and public scales alone.

_RISK = 1e-3  # benchmarks/entries/warned.md, "edge alone"
# At that risk, the quantile of the Tracy-Widom law of real matrices is 3.27, but small matrices
# exceed it twice as often. In simulations from order 2 up, they exceed this value no more often.
_TRACY_WIDOM = 3.84  # not studied
# A singular value must exceed this many standard deviations of its own noise in the second test.
_CORE_DEVIATIONS = 2.0  # benchmarks/entries/warned.md, "edge alone"


def gaussian_norm(shape: tuple[int, ...], noise_std: float) -> float:
    """Compute a bound that the spectral norm of Gaussian noise exceeds once in 1000 times.

    It follows the Tracy-Widom law (I. M. Johnstone, 2001, :doi:`10.1214/aos/1009210544`); the
    centering and the scaling are those of Z. Ma (2012, :doi:`10.3150/10-BEJ334`).
    """
    # With this centering and scaling small matrices are closer to the limit law.
    m, n = np.array(shape) - 0.5
    edge = math.sqrt(m) + math.sqrt(n)
    fluctuation = edge * (1 / math.sqrt(m) + 1 / math.sqrt(n)) ** (1 / 3)
    # The limit law is not for a single row or column, whose squared norm has a chi-squared law.
    column = float(chdtri(max(shape), _RISK))
    return noise_std * math.sqrt(max(edge**2 + _TRACY_WIDOM * fluctuation, column))


def spherical_norm(shape: tuple[int, ...], noise_std: float) -> float:
    """Compute a bound that the Frobenius norm of spherical noise exceeds once in 1000 times."""
    size = math.prod(shape)
    return noise_std * float(gammainccinv(size, _RISK)) / math.sqrt(size + 1)


def count_above(
    singular_values: np.ndarray, *, floor: float, noise_squares: np.ndarray, core_std: float
) -> int:
    r"""Count the components that pass two tests.

    The first asks whether the component exists: its singular value, from the release of the core or
    of the noisy matrix, must exceed `floor`, as noise alone does once in 1000 fits. The second asks
    whether its right vector v is useful: at least half of its squared length must be signal.

    An iteration finds v as the direction of :math:`A^T u` plus noise. The length of :math:`A^T u`
    is at least the released singular value :math:`s = u^T A v`. The noise in n rows has the
    expected squared length :math:`n\, q^T \Gamma q`, given as `noise_squares`, where u = U q and
    :math:`\Gamma` is the covariance of the noise in a row of the average of all products with the
    basis U. So the second test is

    .. math:: s^2 \ge n\, q^T \Gamma q + 4 \tau^2

    where :math:`\tau` is the standard deviation of the noise in the core: the last term rejects an
    s that is mostly noise itself. The test ignores that the rows are shrunk afterwards. Shrinking
    helps coherent vectors, so the test is too strict for them by a factor. For noise on every
    entry, :func:`skdp.linalg.denoising.are_mostly_signal` takes the place of the second test.
    """
    least = np.sqrt(noise_squares + (_CORE_DEVIATIONS * core_std) ** 2)
    return int(np.sum((singular_values > floor) & (singular_values >= least)))


# ------------------------------
# The private matrix, which solvers see only through noisy products.

# Least row norm that noise is scaled for, relative to the root of the mean square of all rows.
_LEAST_NORM = 1e-6  # not tuned


class NoisyMatrix:
    """A private matrix minus a public one, seen through noisy products.

    The unit has clipped the rows. Before a basis is multiplied, its rows are cut so that no squared
    norm exceeds `cut` times their mean: that bounds the effect of one entry. With a
    `coherence_bound` nothing is cut. Instead the noise of every product is scaled for squared row
    norms of that bound times their mean, and a basis that exceeds them is refused.

    With a private center the matrix is :math:`(I - 1 1^T / m) A`. Centering multiplies A by a
    public matrix from the left. So released products and bases are centered instead of A. This is
    exact and adds no noise, unlike subtracting released means.
    """

    # Eigenvalues of the second moment of the rows are singular values of the matrix to this power.
    _power = 2

    def __init__(
        self, problem: EntriesProblem, rows: Rows, budget: PrivacyBudget, cut: float | None
    ) -> None:
        self._rows, self._budget, self._unit = rows, budget, problem.unit
        self._cut = cut if problem.coherence_bound is None else None
        self._coherence_bound = problem.coherence_bound
        self._is_centered = isinstance(problem.center, str)
        # The public part is the first factor times the second one transposed.
        self._public = (np.zeros((self.shape[0], 0)), np.zeros((self.shape[1], 0)))

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return self._rows.n_rows, self._rows.n_features

    @property
    def is_cut(self) -> bool:
        """Whether long rows of a basis are cut."""
        return self._cut is not None

    @property
    def is_pure(self) -> bool:
        """Whether the noise is for ``delta=0``."""
        return self._budget.cost.is_pure

    def skip(self, *products: Release) -> None:
        """Spend the budget of products without releasing them."""
        self._budget.skip(*products)

    def factors(
        self,
        left: np.ndarray,
        singular_values: np.ndarray,
        right: np.ndarray,
        *,
        noise_std: float,
        n_above_noise: int,
        failed: bool = False,
    ) -> Factors:
        """Express the second moment of the rows by released singular vectors and values."""
        eigenvalues = singular_values**self._power
        return Factors(
            components=right.T,
            eigenvalues=eigenvalues,
            total=float(eigenvalues.sum()),
            eigenvalue_noise=noise_std**self._power,
            n_above_noise=n_above_noise,
            left=left,
            failed=failed,
        )

    def minus(self, left: np.ndarray, right: np.ndarray) -> "NoisyMatrix":
        """Return a view of the matrix minus a public ``left @ right.T``.

        Sensitivities stay, as neighboring matrices differ as before.
        """
        other = copy.copy(self)
        other._public = (np.hstack([self._public[0], left]), np.hstack([self._public[1], right]))
        return other

    def exceeds_bound(self, basis: np.ndarray) -> bool:
        """Whether the basis exceeds the coherence bound."""
        if self._coherence_bound is None:
            return False
        # Rounding may make a row of an orthonormal basis longer than 1; the noise allows for it.
        largest = self._norm_at(self._coherence_bound, basis) * (1 + LEAST_ROUNDING / 2)
        return bool(row_norms(basis).max() > largest)

    def matmul(self, release: Release, basis: np.ndarray) -> NoisyProduct:
        """Release the matrix times `basis`, of shape (n_columns, size)."""
        basis = self._cut_rows(basis)
        norms = self._noise_norms(basis)
        value, rounding = self._multiply(basis, norms)
        change = self._unit.product(norms, by_rows=_is_by_rows(release))
        noisy, noise_std = self._budget.release(release, value, change, rounding)
        left, right = self._public
        product = self._centered(noisy - left @ (right.T @ basis))
        return NoisyProduct(basis, product, noise_std, not self.is_pure)

    def rmatmul(self, release: Release, basis: np.ndarray) -> NoisyProduct:
        """Release the transposed matrix times `basis`, of shape (n_rows, size)."""
        # Cutting comes first: cutting a centered basis would move its column means away from 0.
        basis = self._centered(self._cut_rows(basis))
        norms = self._noise_norms(basis)
        # One unit may change the rounding of every row of the product: the places of the zeros in a
        # sparse matrix may decide which entries are added first.
        n_sums = self.shape[1] if _is_by_rows(release) else math.sqrt(self.shape[1])
        rounding = self._rounding(self._rows.depth, norms) * n_sums
        change = self._unit.rmatmul(norms, by_rows=_is_by_rows(release))
        value = self._rows.rmatmul(basis)
        noisy, noise_std = self._budget.release(release, value, change, rounding)
        left, right = self._public
        return NoisyProduct(basis, noisy - right @ (left.T @ basis), noise_std, not self.is_pure)

    def core(
        self, release: Release, left: np.ndarray, right: np.ndarray, *, is_symmetric: bool = False
    ) -> Released:
        """Release ``left.T @ matrix @ right``; if the matrix is symmetric, `left` is `right`."""
        left = self._centered(left)
        norms = self._norms(left), self._norms(right)
        change = self._unit.symmetric_core(norms[1]) if is_symmetric else self._unit.core(*norms)
        value = left.T @ self._multiply(right, norms[1])[0]
        noisy, noise_std = self._budget.release(release, value, change, self._core_rounding(norms))
        public_left, public_right = self._public
        core = noisy - (left.T @ public_left) @ (public_right.T @ right)
        # Averaging with the transpose makes no noise larger.
        return Released((core + core.T) / 2 if is_symmetric else core, noise_std)

    def with_noise(self, release: Release) -> Released:
        """Release the matrix itself."""
        noisy, noise_std = self._budget.release(release, self._rows.dense())
        left, right = self._public
        return Released(self._centered(noisy - left @ right.T), noise_std)

    def _centered(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(values - values.mean(axis=0)) if self._is_centered else values

    def _multiply(self, basis: np.ndarray, norms: np.ndarray) -> tuple[np.ndarray, float]:
        """Multiply by a basis; bound the rounding error of the rows that one unit may change."""
        rounding = self._rounding(self.shape[1], norms)
        return self._rows.matmul(basis), self._unit.row_errors(self.shape[0]) * rounding

    def _core_rounding(self, norms: tuple[np.ndarray, np.ndarray]) -> float:
        return self._rounding(sum(self.shape), norms[0]) * float(norms[1].sum())

    def _cut_rows(self, basis: np.ndarray) -> np.ndarray:
        if self._cut is None:
            return basis
        return clip_rows(basis.copy(), self._norm_at(self._cut, basis))

    def _noise_norms(self, basis: np.ndarray) -> np.ndarray:
        """Return the row norms that the noise of a product is scaled for."""
        norms = self._norms(basis)
        if self._coherence_bound is None:
            return norms
        return np.maximum(norms, self._norm_at(self._coherence_bound, basis))

    def _norms(self, basis: np.ndarray) -> np.ndarray:
        """Return positive row norms: even a centered basis of one row, which is 0, needs noise."""
        return np.maximum(row_norms(basis), _LEAST_NORM * self._norm_at(1.0, basis))

    @staticmethod
    def _norm_at(multiple: float, basis: np.ndarray) -> float:
        """Return the root of `multiple` times the mean squared row norm of an orthonormal basis."""
        return min(1.0, math.sqrt(multiple * basis.shape[1] / len(basis)))

    def _rounding(self, depth: int, norms: np.ndarray) -> float:
        """Bound the rounding error of `depth` additions of entries times rows of a basis."""
        return (depth + 2) * UNIT_ROUNDOFF * self._unit.largest * float(norms.sum())


class NoisyMoment(NoisyMatrix):
    """The second moment of private rows, a symmetric matrix, seen through noisy products."""

    _power = 1

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix, square."""
        return self._rows.n_features, self._rows.n_features

    def _multiply(self, basis: np.ndarray, norms: np.ndarray) -> tuple[np.ndarray, float]:
        product, rounding, _ = self._rows.normal_product(basis, np.asarray)
        return product, self._rows.bound**2 * rounding

    def _core_rounding(self, norms: tuple[np.ndarray, np.ndarray]) -> float:
        # Both the product and the sum over its rows round.
        depth = self._rows.n_rows + self._rows.n_features
        return (
            2 * self._rows.bound**2 * (depth * UNIT_ROUNDOFF * self._rows.n_rows + LEAST_ROUNDING)
        )


def _is_by_rows(product: Release) -> bool:
    """Whether the noise of a product is drawn row by row."""
    return product.mechanism == "laplace"
