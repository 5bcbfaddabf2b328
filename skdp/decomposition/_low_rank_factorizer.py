"""Low-rank factorization of a private matrix, which publishes left and right factors."""

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from skdp import units
from skdp._estimator import in_dtype
from skdp._validation import AT_LEAST_ONE, with_parameters
from skdp.decomposition import _spec
from skdp.decomposition._matrix_estimator import (
    MatrixEstimator,
    ReconstructionMixin,
    warnings_for_factors,
)
from skdp.decomposition.entries.plan import plan_entries
from skdp.decomposition.entries.solvers import solve_best_fit
from skdp.decomposition.rows.fit import solve_projection
from skdp.decomposition.rows.plan import plan_projection
from skdp.decomposition.streams.sketches import RESERVED_PART, plan_one_pass, solve_one_pass
from skdp.exceptions import shown
from skdp.privacy import Plan
from skdp.privacy.clipping import NO_CLIPPING

_SUPPORT = {  # not studied
    # For rows, `resolve_rows` chooses the solver.
    units.ResolvedRow: _spec.SUPPORT[units.ResolvedRow],
    units.ResolvedEntry: _spec.Support(
        {"alternating": 5, "input": 0, "two_sketch": 0}, pure=("alternating",), count=math.prod
    ),
    units.ResolvedFrobeniusChange: _spec.Support(
        {"alternating": 6, "input": 0, "two_sketch": 0}, pure=("alternating",)
    ),
}
# Number of dense copies of the matrix that solver "input" holds in memory.
_N_DENSE_COPIES = 4  # not tuned
# Number of extra columns of a basis, for a promised change: with two, an iteration hardly ever
# misses a component.
_OVERSAMPLES = 2  # not studied
_TABLE = "pass skdp.interactions.interaction_table(X, items=catalog).X."  # not tuned


@with_parameters
class DPLowRankFactorizer(ReconstructionMixin, MatrixEstimator):  # numpydoc ignore=PR02
    r"""Low-rank factorization with differential privacy that publishes the factors of both sides.

    Publishes an approximation :math:`U \operatorname{diag}(s) V^T` of X. :class:`DPTruncatedSVD`
    publishes V with its variances. This class also publishes the factors of single rows, from which
    entries of X can be estimated.

    Parameters
    ----------
    n_components : int, default=2
        Rank, at most the smaller of the numbers of rows and of features.
    epsilon : float, default=1.0
        Privacy budget of one fit, dimensionless, ``0 < epsilon <= inf``. Smaller is more private;
        ``inf`` switches the noise off.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 <= delta < 1``, well below one over the
        number of units. 0 is pure differential privacy, for solver "alternating".
    privacy_unit : "row", Entry or FrobeniusChange, default="row"
        What is protected: one row of X, one of its entries (:class:`skdp.units.Entry`), or a change
        of the whole matrix whose size is promised (:class:`skdp.units.FrobeniusChange`).
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighboring datasets differ by exchanging one row or entry for any other, or by one that is
        null, which takes less noise and promises less: :doc:`/user_guide/what_is_protected`. It
        does not matter to a promised change.
    row_norm : float or None, default=None
        Public bound on the Euclidean norm of a row, in the units of X, only for
        ``privacy_unit="row"`` and else refused. Longer rows are scaled down to it. From 1e-100 to
        1e100, or ``inf`` with ``epsilon=inf``. ``None`` estimates a high quantile of the norms
        privately.
    solver : {"auto", "projection", "input", "alternating", "two_sketch"}, default="auto"
        ``"projection"``, only for rows, releases components and the rows projected on them, around
        their mean. It finds the components by the solver that :class:`DPTruncatedSVD` would choose.
        ``"input"`` adds noise to every entry, in O(n_samples n_features) memory.
        ``"alternating"`` multiplies released bases by X from both sides, in
        O((n_samples + n_features) n_components) memory.
        ``"two_sketch"`` reads X once and fits two random sketches of it, as
        :class:`DPStreamingFactorizer` does, with more noise. ``"auto"`` is "projection" for rows.
        Else it is "alternating" if dense copies of X would exceed `max_memory`, and for promised
        changes with ``delta=0``. Otherwise it is "input" for promised changes, and for entries it
        chooses as :class:`DPTruncatedSVD` does.
    missing : {"zero", "middle"}, default="zero"
        Which value stands for an entry of 0, which for :class:`skdp.units.Entry` may mean that the
        entry is missing. ``"zero"`` approximates X itself, by the best matrix of that rank with
        ``epsilon=inf``. ``"middle"`` replaces 0 by the middle of the bounds, which is far better
        for ratings: the fit subtracts the middle from all other entries, and `reconstruct` and
        `inverse_transform` add it.
    max_memory : float, default=1024
        Megabytes that ``solver="auto"`` may spend on dense copies of X.
    n_iter : int or "auto", default="auto"
        For "alternating", and for a "projection" that iterates: number of steps, 1 to 100.
    n_oversamples : int or "auto", default="auto"
        For the same solvers: columns beyond `n_components` in a basis. ``"auto"`` is 2 for promised
        changes with a positive `delta`, else as in :class:`DPTruncatedSVD`.
    ledger : PrivacyLedger or None, default=None
        Where the whole cost of a fit is charged before its first release. ``None`` keeps no ledger.
    n_jobs : int or None, default=None
        Threads that share the data; no number depends on it. ``None`` uses the threads of BLAS.
    random_state : int, RandomState or Generator instance or None, default=None
        ``None`` takes fresh noise in every fit, as the guarantee assumes. A secret int, such as
        ``secrets.randbits(128)``, repeats a fit in the same container on the same kind of machine;
        an int that can be guessed voids the guarantee.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        V transposed: orthonormal rows. Covered by the guarantee.
    singular_values_ : ndarray of shape (n_components,)
        s: singular values of the released approximation, shrunk for the noise in the factors; 0 if
        noise hides a component. Covered by the guarantee.
    left_components_ : ndarray of shape (n_samples, n_components)
        U: orthonormal columns, with one row for each row of X. Covered by the guarantee.
    middle_ : float
        With ``missing="middle"``: middle of the bounds, which `reconstruct` adds. Public.
    row_norm_ : float
        For ``privacy_unit="row"``: bound that the rows were clipped to. Covered by the guarantee.
    privacy_spent_ : PrivacySpent
        Record of every release. Public.
    n_features_in_ : int
        Number of features. Public.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X has names that are strings. Public.

    See Also
    --------
    DPTruncatedSVD : Publishes only components, and spends the whole budget on them.

    Notes
    -----
    **Privacy.** Unit: `privacy_unit`. Adjacency: `adjacency`. Mechanism: Gaussian, accounted for
    exactly in Gaussian differential privacy, or Laplace and spherical with ``delta=0``. Rows are
    clipped to `row_norm`, entries to their bounds; a promised change is not enforced. Released, by
    "projection": ten counts if ``row_norm=None``, what the solver of the components releases, the
    mean, 24 counts of lengths around the mean, and the rows projected on the components; by "input"
    all entries; by "alternating" products with released bases, and a core; by "two_sketch" both
    sketches. For a promised change and with ``random_state=None``, "two_sketch" reserves half of
    delta, at any shape, for the event that a random sketch is exceptionally long; this assumes that
    nobody knows the sketches before the fit. `plan` lists every release before a fit,
    `privacy_spent_` afterwards. Assumed public: the shape of X, its dtype, whether it is dense or
    sparse, feature names, and parameters. NaN and infinity are refused, which reveals that there
    are none. Not covered: what `transform`, `fit_transform` and `score` return, noise-free
    functions of the rows; and the running time.

    "input" is input perturbation with the shrinkage of Gavish and Donoho (2017,
    :doi:`10.1109/TIT.2017.2653801`). Before shrinking, the error for every matrix is at most
    :math:`\Delta_k + 2 \sqrt{2k} \|G\|_2`, where :math:`\Delta_k` is the error of the best
    approximation and G is the noise. In the setting of Upadhyay (2018, :arxiv:`1604.01429`) this
    has the order of the lower bound. "alternating" follows Hardt and Roth (2013,
    :arxiv:`1211.0975`).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPLowRankFactorizer
    >>> from skdp.units import Entry
    >>> X = load_digits().data
    >>> model = DPLowRankFactorizer(5, privacy_unit=Entry(bounds=(0, 16))).fit(X)
    >>> model.reconstruct(rows=[0, 1], columns=slice(10)).shape
    (2, 10)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MatrixEstimator._parameter_constraints,
        "n_components": [AT_LEAST_ONE],
        "solver": [StrOptions({"auto", "projection", "input", "alternating", "two_sketch"})],
        "missing": [StrOptions({"zero", "middle"})],
        "max_memory": [Interval(Real, 0, None, closed="left")],
    }

    _support = _SUPPORT

    n_components: int = 2
    _: KW_ONLY
    epsilon: float = 1.0
    delta: float = 1e-6
    privacy_unit: Any = "row"
    adjacency: str = "replace"
    row_norm: float | None = None
    solver: str = "auto"
    missing: str = "zero"
    max_memory: float = 1024
    n_iter: int | str = "auto"
    n_oversamples: int | str = "auto"
    ledger: Any = None
    n_jobs: int | None = None
    random_state: Any = None

    def _spec_of(self, shape: tuple[int, int], **facts: Any) -> _spec.MatrixSpec:
        if {"user", "item"} <= {*(facts.get("names") or ())} and shape[1] <= 4:
            raise ValueError(
                f"X has a column 'user' and a column 'item', and must be their table: {_TABLE}"
            )
        facts |= {"releases_mean": False, "releases_total": False}
        facts["solver"] = self._chosen_solver(shape)
        if self._is_promised and self.delta > 0 and self.n_oversamples == "auto":
            facts["n_oversamples"] = _OVERSAMPLES
        return super()._spec_of(shape, **facts)

    def _resolved_unit(self) -> units.ResolvedUnit:
        unit = super()._resolved_unit()
        if self.missing == "zero":
            return unit
        if (
            not isinstance(unit, units.ResolvedEntry)
            or not unit.keep_zeros
            or unit.upper >= NO_CLIPPING
        ):
            raise ValueError(
                "missing='middle' is for entries with finite bounds of which a 0 is missing, such "
                f"as privacy_unit=skdp.units.Entry((1, 5)), got {shown(self.privacy_unit)}."
            )
        half = (unit.upper - unit.lower) / 2
        return replace(unit, lower=-half, upper=half, shift=unit.lower + half)

    def _warnings(self, spec: _spec.AnySpec, plan: Plan) -> Iterator[str]:
        unit = spec.unit
        # A hundred rows of three columns may be triples of a user, an item and a rating.
        if isinstance(unit, units.ResolvedEntry) and spec.shape[1] == 3 and spec.shape[0] >= 100:
            names = str(getattr(self, "feature_names_in_", "user")).lower()
            if unit.upper - unit.lower > 1 and ("user" in names or "item" in names):
                yield f"X has 3 columns: if they are users, items and ratings, {_TABLE}"
        is_rating = isinstance(unit, units.ResolvedEntry) and unit.keep_zeros and unit.lower > 0
        if is_rating and self.missing == "zero":
            yield (
                "Entries of 0 are below the bounds, so they seem to be missing, but missing='zero' "
                "approximates them as zeros: pass missing='middle' to predict them."
            )

    def _plan(self, spec: _spec.AnySpec) -> Any:
        if isinstance(spec, _spec.RowsSpec):
            return plan_projection(spec)
        return (plan_one_pass if spec.solver == "two_sketch" else plan_entries)(spec)

    def _solve(self, spec: _spec.AnySpec, plan: Any, *opened: Any) -> _spec.Factors:
        if isinstance(spec, _spec.RowsSpec):
            return solve_projection(spec, plan, *opened)
        solve = solve_one_pass if spec.solver == "two_sketch" else solve_best_fit
        return solve(spec, plan, *opened)

    @property
    def _is_promised(self) -> bool:
        """Whether the unit is a change of X whose norm the caller promises to be bounded."""
        return isinstance(self.privacy_unit, units.FrobeniusChange)

    def _chosen_solver(self, shape: tuple[int, int]) -> str:
        """Choose the solver by public facts; "auto" leaves the choice to `super()._spec_of`."""
        if isinstance(self.privacy_unit, str):
            if self.solver not in ("auto", "projection"):
                raise ValueError(
                    f"solver={self.solver!r} is not for privacy_unit={self.privacy_unit!r}; choose "
                    "'auto' or 'projection'."
                )
            # Any solver of `DPTruncatedSVD` may find the components of "projection".
            return "auto"
        if self.solver != "auto":
            return self.solver
        megabytes = _N_DENSE_COPIES * 8 * math.prod(shape) / 1e6
        if megabytes > self.max_memory or (self._is_promised and self.delta == 0):
            return "alternating"
        return "input" if self._is_promised else "auto"

    def _reserved_part(self) -> float:
        # A random sketch rarely lengthens a change much, so less noise suffices, if nobody knows
        # the sketch before the fit. Whoever knows the seed knows the sketch.
        has_secret_sketch = self.solver == "two_sketch" and self.random_state is None
        return RESERVED_PART if self._is_promised and has_secret_sketch else 0.0

    def _set_attributes(self, result: _spec.Factors, spec: _spec.MatrixSpec) -> list[str]:
        self._unit = spec.unit
        factors = result.leading(self.n_components)
        assert factors.left is not None
        self.components_ = in_dtype(factors.components, spec.dtype)
        self.singular_values_ = in_dtype(np.sqrt(factors.eigenvalues), spec.dtype)
        self.left_components_ = in_dtype(factors.left, spec.dtype)
        if result.row_norm is not None:
            self.row_norm_ = result.row_norm
        if isinstance(spec.unit, units.ResolvedEntry) and self.missing == "middle":
            self.middle_ = spec.unit.shift
        return warnings_for_factors(result, self.n_components, spec)
