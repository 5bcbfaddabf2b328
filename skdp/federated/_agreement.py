"""What all parties of a federated fit agree on, and the one fit that every party runs."""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.utils import check_scalar
from sklearn.utils._param_validation import Interval, StrOptions

from skdp._estimator import check_unwatched, parameters_by_value, plan_of
from skdp._validation import AT_LEAST_ONE, validate_plain
from skdp.data.rows import AgreedRows
from skdp.data.sources import holds_sparse, largest_depth
from skdp.decomposition import DPPCA, DPTruncatedSVD
from skdp.decomposition._matrix_estimator import MatrixEstimator
from skdp.decomposition._spec import MatrixSpec
from skdp.linalg.norms import LEAST_ROUNDING, UNIT_ROUNDOFF
from skdp.privacy import Plan
from skdp.privacy.noise import algorithm_generator, digest_of
from skdp.privacy.releases import PrivacySpent
from skdp.privacy.shares import Exchange, ShareBudget, ShareLayout, Shares
from skdp.units import ONE_ROW_EACH, Interaction, ResolvedRow

_NOT_NEGATIVE = Interval(Integral, 0, None, closed="left")  # not tuned
_CONSTRAINTS: dict[str, Any] = {
    "n_features": [AT_LEAST_ONE],
    "owners": [AT_LEAST_ONE],
    "unit": [StrOptions({"row", "owner"})],
    "aggregator": [StrOptions({"masked", "trusted", "none"})],
    "colluding": [_NOT_NEGATIVE],
    "seed": [_NOT_NEGATIVE],
    "sparse": ["boolean"],
}
# Bound on the rows of an owner who is a unit. Their number is private, and the rounding of their
# sum depends on it.
_MOST_ROWS = 1 << 24  # not tuned
# Additions besides those of rows in one part: those of up to 2 ** 14 parts, and one for the
# division by the number of rows.
_MORE_DEPTH = 15  # not tuned


@dataclass(frozen=True)
class ResolvedOwner(ResolvedRow):
    """All rows of one owner, whose part is divided by their number."""

    name: ClassVar[str] = "owner"
    counted: ClassVar[str] = "owners"
    remedy: ClassVar[str] = "more owners, a larger epsilon or a tighter row_norm"


@dataclass(frozen=True, eq=False)
class Agreement:
    """The facts of one federated fit, as every party computes them."""

    estimator: MatrixEstimator
    spec: MatrixSpec
    plan: Plan
    shares: Shares
    is_unit_owner: bool
    is_masked: bool
    seed: int
    most_rows: int  # of one owner
    depth: int  # of the sum of the rows of one owner
    digest: bytes

    @property
    def n_owners(self) -> int:
        """Number of owners."""
        return self.shares.n_owners

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.spec.shape[1]

    @property
    def layouts(self) -> list[ShareLayout]:
        """The layouts of the releases of the default branch."""
        return [self.shares.planned(self.plan.cost, release) for release in self.plan.releases]


def agree(
    estimator: Any,
    n_rows: int | None,
    n_features: int,
    owners: int,
    unit: str,
    aggregator: str,
    colluding: int,
    seed: int,
    sparse: bool,
) -> Agreement:
    """Check the facts that owners agree on, and plan the fit without data."""
    given = {"n_features": n_features, "owners": owners, "unit": unit, "aggregator": aggregator}
    given |= {"colluding": colluding, "seed": seed, "sparse": sparse}
    validate_plain(_CONSTRAINTS, given, "Federation")
    if colluding >= owners:
        raise ValueError(
            f"colluding={colluding} of {owners} owners leaves nobody to protect: it must be "
            "smaller than owners."
        )
    _check_estimator(estimator, unit)
    n_rows = _checked_n_rows(n_rows, owners, unit)
    # Sums of small numpy integers would wrap.
    n_features, owners, colluding, seed = map(int, (n_features, owners, colluding, seed))
    is_unit_owner = unit == "owner"
    most_rows = _MOST_ROWS if is_unit_owner else n_rows
    # The clone is not fitted, and has its own copies of the parameters.
    estimator = clone(estimator)
    is_sparse = sparse or estimator._resolved_unit().is_sparse
    depth = largest_depth(most_rows, n_features, is_sparse=is_sparse) + _MORE_DEPTH
    spec = _spec_of(estimator, (n_rows, n_features), depth, sparse)
    if is_unit_owner:
        spec = replace(spec, unit=ResolvedOwner(spec.unit.adjacency))
    plan = plan_of(spec, estimator._plan(spec))
    n_honest = 1 if aggregator == "none" else owners - colluding
    # Bounds the entries of a sum of products of rows, where clipping is off without noise.
    largest = spec.n_units * float(getattr(spec, "row_norm", None) or 1.0) ** 2
    shares = Shares(owners, n_honest, spec.n_units, largest)
    for release in {line for branch in plan.branches for line in branch}:
        # Refuses releases that rounding or words cannot hold, before anybody reads data.
        shares.planned(plan.cost, release)
    versions = sys.modules["skdp"].__version__, np.__version__
    model = type(estimator).__name__, parameters_by_value(estimator)
    facts = (n_rows, n_features, owners, unit, aggregator, colluding, seed, bool(sparse))
    return Agreement(
        estimator,
        spec,
        plan,
        shares,
        is_unit_owner=is_unit_owner,
        is_masked=aggregator == "masked",
        seed=seed,
        most_rows=most_rows,
        depth=depth,
        digest=digest_of("skdp federation", *versions, *model, *facts),
    )


def agreement_of(federation: Any) -> Agreement:
    """Return the agreement of a federation; refuse other objects."""
    agreement = getattr(federation, "_agreement", None)
    if not isinstance(agreement, Agreement):
        raise TypeError(f"federation must be a Federation, got {type(federation).__name__}.")
    return agreement


def _check_estimator(estimator: Any, unit: str) -> None:
    # A subclass, of the estimator or of its unit, may release something else.
    if type(estimator) not in (DPPCA, DPTruncatedSVD):
        raise TypeError(
            f"estimator must be a DPPCA or a DPTruncatedSVD, got {type(estimator).__name__}."
        )
    estimator._validate_params()
    check_unwatched(
        "estimator: ", estimator, "fits across owners call none, and set_callbacks() removes them"
    )
    given = estimator.privacy_unit
    if not (type(given) is Interaction or (isinstance(given, str) and given == "row")):
        is_user = isinstance(given, str) and given == "user"
        hint = f": {ONE_ROW_EACH}; unit='owner' protects all rows of an owner" * is_user
        raise ValueError(
            f"privacy_unit must be 'row' or Interaction() across owners, got {given!r}{hint}."
        )
    if unit == "owner" and given != "row":
        raise ValueError(f"unit='owner' needs privacy_unit='row', got {given!r}.")
    if estimator.random_state is not None:
        raise ValueError(
            "random_state must be None: owners draw their noise from the operating system. seed, "
            "which is public, sets the random start of the algorithm."
        )
    if estimator.ledger is not None:
        raise ValueError("ledger of the estimator must be None: each owner has its own.")


def _checked_n_rows(n_rows: int | None, owners: int, unit: str) -> int:
    """Return the number of units: rows, or owners."""
    if unit == "owner":
        if n_rows is not None and n_rows != owners:
            raise ValueError(
                f"n_rows must be None with unit='owner', where each of the {owners} owners is one "
                f"unit and the numbers of their rows are private, got {n_rows!r}."
            )
        return int(owners)
    if n_rows is None:
        raise TypeError(
            "n_rows must be the number of rows of all owners together with unit='row', got None."
        )
    check_scalar(n_rows, "n_rows", Integral, min_val=owners)
    return int(n_rows)


def _spec_of(
    estimator: MatrixEstimator, shape: tuple[int, int], depth: int, sparse: bool
) -> MatrixSpec:
    """Pose the spec of all rows together, of which no party has seen any."""
    n_rows, n_features = shape
    spec = estimator._spec_of(
        shape,
        like=csr_array((1, n_features)) if sparse else np.empty((1, n_features)),
        dtype=np.dtype(np.float64),
        rounding=max(LEAST_ROUNDING, depth * UNIT_ROUNDOFF * n_rows),
    )
    for name in ("row_norm", "mean_norm"):
        if getattr(spec, name, None) == math.inf:
            raise ValueError(
                f"{name} must be finite across owners, also with epsilon=inf: their sums are added "
                "up in fixed point. Pass a bound that clips no row."
            )
    return spec


# ------------------------------
# The one fit. Parties differ in the rows that it reads, and in who answers.


def view_of(agreement: Agreement, X: Any) -> AgreedRows:
    """Check the rows of one owner against the agreement, and read them once."""
    estimator, spec = agreement.estimator, agreement.spec
    checked = estimator._checked(X)
    n_rows, n_features = checked.shape
    if n_features != agreement.n_features:
        raise ValueError(f"X has {n_features} features, but {agreement.n_features} are agreed on.")
    if not 1 <= n_rows <= agreement.most_rows:
        raise ValueError(
            f"X has {n_rows} rows; an owner has one at least, and {agreement.most_rows} at most."
        )
    if holds_sparse(checked) != spec.is_sparse:
        kinds = ("sparse", "dense") if spec.is_sparse else ("dense", "sparse")
        raise ValueError(
            f"X must be {kinds[0]}, as agreed on by sparse={spec.is_sparse}: the noise depends "
            f"on it. Got {kinds[1]} rows."
        )
    view = partial(AgreedRows, agreed_n_rows=spec.shape[0], agreed_depth=agreement.depth)
    return estimator._view(checked, spec, view)[0]


def no_rows(agreement: Agreement) -> AgreedRows:
    """Return a row of zeros: the coordinator has no rows."""
    zeros = np.zeros((1, agreement.n_features))
    return view_of(agreement, csr_array(zeros) if agreement.spec.is_sparse else zeros)


def run_fit(
    agreement: Agreement,
    rows: AgreedRows,
    exchange: Exchange,
    *,
    charge: Callable[[PrivacySpent], None] | None = None,
) -> tuple[MatrixEstimator, list[str]]:
    """Run the fit on the rows of one party; return the model of all parties, and warnings."""
    estimator = clone(agreement.estimator)
    n_own = rows.source.shape[0] if agreement.is_unit_owner else 1
    budget = ShareBudget.open(
        agreement.plan, agreement.shares, exchange, n_own=n_own, charge=charge
    )
    generator = algorithm_generator(agreement.seed)
    with np.errstate(all="ignore"):
        result = estimator._solve(agreement.spec, agreement.plan.parts, rows, budget, generator)
        warnings = estimator._keep(agreement.spec, result, budget)
    estimator.n_features_in_ = agreement.n_features
    return estimator, warnings
