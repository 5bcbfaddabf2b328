"""What all parties of a federated fit agree on, and the fit that each party runs."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import joblib
import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.utils import get_tags

from skdp import _validation as checks
from skdp._estimator import Data, PrivateEstimator, planned_size
from skdp.data.containers import as_feature_names, float_dtype, refuse_other_columns
from skdp.data.matrices import RankOneMatrices, terms_within
from skdp.data.people import Agreed
from skdp.data.reduce import rounding_of_depth
from skdp.data.rows import Rows
from skdp.data.sources import Source, as_source, digests, holds_sparse, largest_depth
from skdp.decomposition._matrix_estimator import MatrixEstimator
from skdp.linear_model._logistic_regression import PrivateClassifier
from skdp.linear_model._supervised import SupervisedEstimator, given_classes
from skdp.pipeline import DPPipeline
from skdp.pipeline._composition import steps_of
from skdp.pipeline._dp_pipeline import planned
from skdp.pipeline._run import warnings_of
from skdp.privacy import Plan, PrivacyBudget
from skdp.privacy.noise import algorithm_generator, digest_of
from skdp.privacy.releases import Charge
from skdp.privacy.shares import Exchange, Party, ShareBudget, Shares
from skdp.units import ResolvedRow

# Largest number of rows of an owner if owners are the units. Then their numbers of rows are
# private, so the bound on rounding must hold for any of them.
MOST_ROWS = 1 << 24  # not tuned
# Number of roundings after the sum over one part of the rows: 14 additions in a tree of up to
# 2 ** 14 parts, and a division by the number of rows.
_MORE_DEPTH = 15  # not tuned
# Fields of a spec that depend only on the kind of X, and so must be equal for all owners.
_OF_KIND = ("matrix_shape", "coef_shape", "factors", "is_dense")


@dataclass(frozen=True)
class ResolvedOwner(ResolvedRow):
    """The unit is an owner, whose contribution to a sum is the mean over its rows."""

    name: ClassVar[str] = "owner"
    counted: ClassVar[str] = "owners"
    remedy: ClassVar[str] = "more owners, a larger epsilon or a tighter row_norm"


@dataclass(frozen=True, eq=False)
class Terms:
    """Public facts from which the spec of a fit follows: of a model, or of a pipeline's step."""

    shares: Shares
    most_rows: int  # largest number of rows of one owner
    is_unit_owner: bool
    seed: int

    def spec_of(self, estimator: PrivateEstimator, like: Any, null: Any) -> tuple[Any, Agreed]:
        """Return the spec of a fit to the rows of all owners, and what bounds its roundings."""
        # `like` has the layout of X, and `null` is a record of zeros with this layout.
        n_units, size = self.shares.n_units, math.prod(null.shape[1:])
        depth = _depth_of(estimator, null, self.most_rows)
        if isinstance(estimator, MatrixEstimator):
            # Owners may have different containers, but need one spec: it is the spec for an array.
            rounding = rounding_of_depth(depth, n_units)
            spec = estimator._spec_of((n_units, size), like=null, rounding=rounding)
        else:
            spec = estimator._spec_of_size(n_units, size, like)
            within = terms_within(spec.matrix_shape) if hasattr(spec, "matrix_shape") else 0
            facts = {"rounding": rounding_of_depth(depth + within, n_units), "depth": depth}
            facts |= {"has_owners": True, "dtype": null.dtype}
            # Not every spec has all of these fields.
            spec = replace(spec, **{name: facts[name] for name in facts if hasattr(spec, name)})
        if self.is_unit_owner:
            spec = replace(spec, unit=ResolvedOwner(spec.unit.adjacency))
        return spec, Agreed(n_units, depth)


@dataclass(frozen=True, eq=False)
class Agreement(Terms):
    """Public facts of a federated fit, which every party computes for itself."""

    estimator: Any
    spec: Any  # None for a pipeline, whose steps have specs of their own
    agreed: Agreed | None  # None for a pipeline
    null: Any  # a record of zeros, with the shape and layout of X
    null_target: Any  # response or label of the null record
    names: list[str] | None  # names of the features
    plan: Plan
    is_masked: bool
    # Number of owners who may leave. If positive, each release begins with a roll call, which finds
    # out who is absent.
    dropouts: int
    digest: bytes  # hash of all these facts

    @property
    def n_owners(self) -> int:
        """Number of owners."""
        return self.shares.n_owners


def agreement_of(federation: Any) -> Agreement:
    """Return the agreement of a federation; refuse other objects."""
    agreement = getattr(federation, "_agreement", None)
    if not isinstance(agreement, Agreement):
        raise TypeError(f"federation must be a Federation, got {type(federation).__name__}.")
    return agreement


def null_record(n_features: Any, *, sparse: bool, like: Any) -> tuple[Any, list[str] | None]:
    """Return a record of zeros with the layout of `like`, and the names of its features."""
    if like is None:
        if n_features is None:
            raise TypeError("Pass n_features, the number of columns, or like, an X of public rows.")
        shape = (1, int(n_features))
        return csr_array(shape) if sparse else np.zeros(shape), None
    if sparse:
        raise ValueError("sparse must be left out with like, which shows whether rows are sparse.")
    _, size, like = planned_size(1, None, checks.public_like(like))
    if n_features not in (None, size):
        raise ValueError(f"n_features={n_features}, but like has {size} features: pass like alone.")
    dtype, names = float_dtype(like), as_feature_names(checks.feature_names(like))
    if isinstance(like, RankOneMatrices):
        parts = (_zeros(one, one.dtype) for one in (like.left, like.right))
        return RankOneMatrices(*parts), names
    return _zeros(like, dtype), names


def _zeros(like: Any, dtype: np.dtype) -> Any:
    """Return a record of zeros with the number of features of `like`, sparse if `like` is."""
    shape = (1, *np.shape(like)[1:])
    return csr_array(shape, dtype=dtype) if holds_sparse(like) else np.zeros(shape, dtype)


def _depth_of(estimator: PrivateEstimator, null: Any, most_rows: int) -> int:
    """Bound the longest chain of additions in a sum over the rows of one owner."""
    size, is_sparse = math.prod(null.shape[1:]), holds_sparse(null)
    if isinstance(estimator, MatrixEstimator):
        is_sparse |= estimator._resolved_unit().is_sparse
        return largest_depth(most_rows, size, is_sparse=is_sparse) + _MORE_DEPTH
    # The depth depends on the length of blocks, and so on the kind of rows: whether they are
    # sparse, and their width. Some fits sum rows of other kinds than X.
    kinds = [(is_sparse, size)]
    if isinstance(null, RankOneMatrices):
        kinds = [(null.dense_width == 0, null.dense_width)]
    elif isinstance(estimator, SupervisedEstimator):
        # An intercept adds a column.
        kinds += [(is_sparse, size + 1), (False, size), (False, size + 1)]
        if is_sparse:
            # A trace regression stores long sparse rows as rank-one matrices with one column.
            kinds.append((False, 1))
    depths = (largest_depth(most_rows, size + 1, is_sparse=s, width=w) for s, w in kinds)
    return max(depths) + _MORE_DEPTH


# ------------------------------
# The fit that every party runs: on its own rows, with the sums over all owners.


def view_of(agreement: Agreement, X: Any, y: Any = None, number: int | None = None) -> Any:
    """Check the rows of one party against the agreement, and return a view of them.

    `number` is the number of an owner; the coordinator, which has a null record instead of rows,
    passes None.
    """
    names = agreement.names
    refuse_other_columns(names and as_feature_names(checks.feature_names(X)), names)
    if isinstance(agreement.estimator, DPPipeline):
        view: Any = _pipeline_data(agreement, X, y)
    else:
        estimator, spec, agreed = agreement.estimator, agreement.spec, agreement.agreed
        view = _own_view(agreement, estimator, spec, agreed, agreement.null, X, y)
    sizes = agreement.shares.sizes
    if sizes and number is not None and not agreement.is_unit_owner:
        n_rows, size = source_of_view(view).shape[0], sizes[number]
        if n_rows != size:
            raise ValueError(f"X has {n_rows} rows, but {size} are agreed on for this owner.")
    return view


def _own_view(
    terms: Terms, estimator: Any, spec: Any, agreed: Agreed | None, null: Any, X: Any, y: Any
) -> Any:
    """Check and read the rows of one owner, for a fit with the spec of the rows of all owners."""
    # Between two sums a fit may wait for days. If X has changed meanwhile, norms of the old rows
    # must not clip the new rows. So norms are not stored, which `is_repeatable` would allow.
    if isinstance(estimator, MatrixEstimator):
        checked = estimator._checked(X)
        _check_size(terms, null, checked.shape, is_sparse=holds_sparse(checked))

        def _rows(source: Source, n_jobs: int | None) -> Rows:
            source.is_repeatable = False
            return Rows(source, n_jobs, agreed=agreed)

        return estimator._view(checked, spec, _rows)[0]
    own = clone(estimator)
    own._part = estimator._part
    is_agreed = getattr(X, "shape", null.shape)[1:] == null.shape[1:]
    if is_agreed and getattr(spec, "interval", None) is not None:
        # Arrays lack the names that `bounds` may have; `spec` has bounds in order of columns.
        own.set_params(bounds=spec.interval)
    # Federations refuse public steps, so an error must not advise one.
    flaw, of_step = "", "SimpleImputer(strategy='constant') does in a DPPipeline, or "
    try:
        own_spec, (view, _) = own._validate(*checks.in_parts(X, y))
    except ValueError as error:
        if of_step not in (flaw := str(error)):
            raise
    if flaw:
        raise ValueError(flaw.replace(of_step, ""))
    source = source_of_view(view)
    # Rank-one matrices may have two sparse factors, and their rows are dense all the same.
    is_sparse = holds_sparse(null) if isinstance(null, RankOneMatrices) else source.is_sparse
    _check_size(terms, null, source.shape, is_sparse=is_sparse)
    if any(getattr(own_spec, name, None) != getattr(spec, name, None) for name in _OF_KIND):
        raise ValueError("X has another layout than like: all owners must pass rows of one kind.")
    _check_classes(getattr(own_spec, "classes", ()), getattr(spec, "classes", ()))
    source.is_repeatable = False
    if isinstance(view, Rows):
        return replace(view, agreed=agreed, cache=view.cache._replace(norm_counts=None))
    return replace(view, design=replace(view.design, agreed=agreed))


def _check_classes(found: Any, agreed: Any) -> None:
    if not np.array_equal(found, agreed):
        raise ValueError("y has codes of labels, but classes has labels: pass labels as y.")


def source_of_view(view: Any) -> Any:
    """Return the source of a view's rows."""
    return getattr(view, "design", view).source


def digest_of_view(view: Any) -> bytes:
    """Hash the rows of an owner, with their responses or labels."""
    if isinstance(view, PipelineData):
        return digest_of("pipeline", joblib.hash(tuple(view)))
    source, targets = source_of_view(view), getattr(view, "codes", getattr(view, "responses", None))
    is_outer = isinstance(source, RankOneMatrices)
    parts = map(as_source, (source.left, source.right)) if is_outer else [source]
    return b"".join(digests(*parts, *([] if targets is None else [targets])))


def _check_size(terms: Terms, null: Any, shape: tuple[int, int], *, is_sparse: bool) -> None:
    """Refuse rows whose number, width or sparsity contradicts the agreement."""
    (n_rows, n_features), most_rows = shape, terms.most_rows
    agreed_width = math.prod(null.shape[1:])
    if n_features != agreed_width:
        raise ValueError(f"X has {n_features} features, but {agreed_width} are agreed on.")
    if not 1 <= n_rows <= most_rows:
        raise ValueError(f"X has {n_rows} rows; an owner has one at least and {most_rows} at most.")
    if is_sparse != (agreed := holds_sparse(null)):
        kinds = ("sparse", "dense") if agreed else ("dense", "sparse")
        raise ValueError(
            f"X must be {kinds[0]}, as was agreed on by sparse={agreed}, because the noise depends "
            f"on it. Got {kinds[1]} rows."
        )


def run_fit(
    agreement: Agreement,
    rows: Any,
    exchange: Exchange,
    *,
    charge: Charge | None = None,
) -> tuple[Any, list[str]]:
    """Run the fit on the rows of one party; return the model, equal for all, and warnings."""
    # At each release `exchange` returns the sum over all owners; `charge` charges this owner.
    estimator = clone(agreement.estimator)
    shares, n_rows = agreement.shares, source_of_view(rows).shape[0]
    n_own, weight = n_rows if agreement.is_unit_owner else 1, None
    if shares.sizes and not agreement.is_unit_owner:
        # A mean over owners weights each owner by its number of rows, which is public.
        weight = n_rows / shares.n_units

    def _open(plan: Plan, charge: Any) -> PrivacyBudget:
        budget = ShareBudget.open(plan, shares, exchange, n_own=n_own, weight=weight, charge=charge)
        budget.public_generator = algorithm_generator(agreement.seed)
        return budget

    if isinstance(rows, PipelineData):
        warnings = estimator._fit(*rows, party=party_of(agreement, _open, charge))
        _set_names(agreement, estimator, estimator.pipeline_.steps[0][1])
        return estimator, warnings
    estimator.n_features_in_ = math.prod(agreement.null.shape[1:])
    _set_names(agreement, estimator)
    budget = _open(agreement.plan, charge)
    with np.errstate(all="ignore"):
        result = estimator._solve(agreement.spec, agreement.plan.parts, rows, budget)
        warnings = estimator._keep(agreement.spec, result, budget)
    return estimator, warnings


def _set_names(agreement: Agreement, *estimators: Any) -> None:
    """Set the names of features, as a fit to a data frame does."""
    for one in estimators if agreement.names else ():
        one.feature_names_in_ = np.asarray(agreement.names, dtype=object)


# ------------------------------
# Pipelines: all owners fit each step together, to rows that the steps before it have transformed.


class PipelineData(NamedTuple):
    """Copies of an owner's rows and targets; each step reads them again."""

    source: Any
    y: Any


def party_of(
    terms: Terms, opener: Callable[..., PrivacyBudget], charge: Charge | None = None
) -> Party:
    """Return what a pipeline calls for each step: functions that make its spec, rows and budget."""
    # `opener` opens the budget of a step, given its plan, and `charge` charges the ledger.

    def _spec_of_all(step: Any, like: Any) -> tuple[Any, Agreed, Any]:
        null, _ = null_record(None, sparse=False, like=like)
        return *terms.spec_of(step, null, null), null

    def _validate(step: Any, X: Any, y: Any) -> tuple[Any, Data]:
        spec, agreed, null = _spec_of_all(step, X)
        view = _own_view(terms, step, spec, agreed, null, X, y)
        step.n_features_in_ = X.shape[1]
        return spec, (view, lambda: None)

    def _spec(step: Any, like: Any) -> Any:
        return _spec_of_all(step, like)[0]

    unit = ResolvedOwner.name if terms.is_unit_owner else None
    return Party(terms.shares.n_units, unit, _spec, _validate, opener, charge)


def opened_pipeline(pipeline: DPPipeline, terms: Terms, X: Any, y: Any) -> tuple[Plan, list[str]]:
    """Check steps, rows and targets; return the plan and its warnings, and spend nothing."""
    run, shares, _, places = pipeline._opened(X, y, party=party_of(terms, ShareBudget.open))
    return planned(run, shares, places), warnings_of(run, shares, places)


def _pipeline_data(agreement: Agreement, X: Any, y: Any) -> PipelineData:
    """Check the rows and targets of an owner, and copy them for all steps."""
    checks.refuse_blocks(X, "A DPPipeline across owners")
    pipeline, null = agreement.estimator, agreement.null
    takes_gaps = get_tags(pipeline.steps[0][1]).input_tags.allow_nan
    finite = "allow-nan" if takes_gaps else True
    rows = checks.check_rows_or_blocks(X, "DPPipeline", ensure_all_finite=finite)
    _check_size(agreement, null, rows.shape, is_sparse=holds_sparse(rows))
    for step in steps_of(pipeline):
        if get_tags(step.estimator).target_tags.required:
            checks.check_given(y, type(step.estimator).__name__)
        if isinstance(step.estimator, PrivateClassifier):
            classes, _ = step.estimator._classes_and_codes(y)
            _check_classes(classes, given_classes(step.estimator.classes))
    data = PipelineData(rows.astype(null.dtype, copy=True), None if y is None else np.array(y))
    opened_pipeline(pipeline, agreement, *data)
    return data
