"""The public agreement of all parties of a federated fit, and the fit that each party runs."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
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
from skdp.data.reduce import rounding_of_depth
from skdp.data.rows import Agreed, Rows
from skdp.data.sources import Source, as_source, digests, holds_sparse, largest_depth
from skdp.decomposition._matrix_estimator import MatrixEstimator
from skdp.decomposition._spec import MatrixSpec
from skdp.linalg.norms import LEAST_ROUNDING, UNIT_ROUNDOFF
from skdp.linear_model._logistic_regression import PrivateClassifier
from skdp.linear_model._supervised import SupervisedEstimator, given_classes
from skdp.pipeline import DPPipeline
from skdp.pipeline._composition import steps_of
from skdp.pipeline._dp_pipeline import planned
from skdp.pipeline._run import warnings_of
from skdp.privacy import Plan, PrivacyBudget
from skdp.privacy.noise import algorithm_generator, digest_of
from skdp.privacy.releases import PrivacySpent
from skdp.privacy.shares import Exchange, Party, ShareBudget, ShareLayout, Shares
from skdp.units import ResolvedRow

# Largest number of rows of an owner who is the unit: the number is private, and the bound on
# rounding depends on it.
MOST_ROWS = 1 << 24  # not tuned
# Roundings after those within one part: 14 additions in the tree of up to 2 ** 14 parts, and the
# division by the number of rows.
_MORE_DEPTH = 15  # not tuned
# Fields of a spec that the kind of rows determines, so that they are equal for all owners.
_OF_KIND = ("matrix_shape", "coef_shape", "factors", "is_dense")


@dataclass(frozen=True)
class ResolvedOwner(ResolvedRow):
    """The unit is an owner with all its rows, who contributes their mean."""

    name: ClassVar[str] = "owner"
    counted: ClassVar[str] = "owners"
    remedy: ClassVar[str] = "more owners, a larger epsilon or a tighter row_norm"


@dataclass(frozen=True, eq=False)
class Terms:
    """Public facts from which the spec of each fit follows."""

    shares: Shares
    most_rows: int  # of one owner
    is_unit_owner: bool
    seed: int

    def spec_of(self, estimator: PrivateEstimator, like: Any, null: Any) -> tuple[Any, Agreed]:
        """Return the spec of all owners' rows together, which no party has seen."""
        depth = _depth_of(estimator, null, self.most_rows)
        spec = _spec_of(estimator, self.shares.n_units, like, null, depth)
        if self.is_unit_owner:
            spec = replace(spec, unit=ResolvedOwner(spec.unit.adjacency))
        return spec, Agreed(_n_rows(spec), depth)


@dataclass(frozen=True, eq=False)
class Agreement(Terms):
    """Facts of a federated fit, which every party computes for itself."""

    estimator: Any
    spec: Any  # None for a pipeline, whose steps each have a spec
    like: Any  # a null record: zeros in the shape and layout of X
    null_target: Any  # its response or label
    names: list[str] | None  # of the features
    plan: Plan
    is_masked: bool
    dropouts: int  # owners who may leave
    digest: bytes

    @property
    def n_owners(self) -> int:
        """Number of owners."""
        return self.shares.n_owners

    @property
    def has_roll_calls(self) -> bool:
        """Whether owners report before each release that they are ready."""
        return self.dropouts > 0

    @property
    def n_features(self) -> int:
        """Number of features."""
        return math.prod(self.like.shape[1:])

    @property
    def layouts(self) -> list[ShareLayout]:
        """The layouts of the releases on the default branch."""
        return [self.shares.planned(self.plan.cost, release) for release in self.plan.releases]


def agreement_of(federation: Any) -> Agreement:
    """Return the agreement of a federation; refuse other objects."""
    agreement = getattr(federation, "_agreement", None)
    if not isinstance(agreement, Agreement):
        raise TypeError(f"federation must be a Federation, got {type(federation).__name__}.")
    return agreement


def null_record(n_features: Any, *, sparse: bool, like: Any) -> tuple[Any, list[str] | None]:
    """Return a record of zeros, and the names of its features."""
    if like is None:
        if n_features is None:
            raise TypeError("n_features must be the number of features, or pass like, an X.")
        shape = (1, int(n_features))
        return csr_array(shape) if sparse else np.zeros(shape), None
    if sparse:
        raise ValueError("Leave sparse out: like itself shows whether rows are sparse.")
    _, size, like = planned_size(1, None, checks.public_like(like))
    if n_features not in (None, size):
        raise ValueError(f"n_features={n_features}, but like has {size} features: pass only like.")
    dtype, names = float_dtype(like), as_feature_names(checks.feature_names(like))
    if isinstance(like, RankOneMatrices):
        parts = (one[:1] * 0 for one in (like.left, like.right))
        return RankOneMatrices(*parts), names
    if holds_sparse(like):
        return csr_array((1, size), dtype=dtype), names
    shape = getattr(like, "shape", np.shape(like))
    return np.zeros((1, *shape[1:]), dtype), names


def _depth_of(estimator: PrivateEstimator, null: Any, most_rows: int) -> int:
    """Bound the number of roundings in the longest chain of additions of an owner's sum."""
    size, is_sparse = math.prod(null.shape[1:]), holds_sparse(null)
    if isinstance(estimator, MatrixEstimator):
        is_sparse |= estimator._resolved_unit().is_sparse
        return largest_depth(most_rows, size, is_sparse=is_sparse) + _MORE_DEPTH
    # Kinds of blocks: whether rows are sparse, and the width, which sets the length of blocks.
    kinds = [(is_sparse, size)]
    if isinstance(null, RankOneMatrices):
        kinds = [(null.dense_width == 0, null.dense_width)]
    elif isinstance(estimator, SupervisedEstimator):
        # Rows may get a constant; long sparse vectors may become outer products with a number.
        kinds += [(is_sparse, size + 1), (False, size), (False, size + 1)]
        kinds += [(False, 1)] * is_sparse
    longest = (largest_depth(most_rows, size + 1, is_sparse=s, width=w) for s, w in kinds)
    return max(longest) + _MORE_DEPTH


def _n_rows(spec: Any) -> int:
    """Return the number of rows of all owners, also if units are entries of rows."""
    return int(spec.shape[0] if isinstance(spec, MatrixSpec) else spec.n_units)


def _spec_of(estimator: PrivateEstimator, n_units: int, like: Any, null: Any, depth: int) -> Any:
    """Return the spec of all owners' rows together, which no party has seen."""
    size = math.prod(null.shape[1:])
    if isinstance(estimator, MatrixEstimator):
        rounding = max(LEAST_ROUNDING, depth * UNIT_ROUNDOFF * n_units)
        # The spec is that of an array, whatever container holds an owner's rows.
        return estimator._spec_of((n_units, size), like=null, rounding=rounding)
    spec = estimator._spec_of_size(n_units, size, like)
    within = terms_within(spec.matrix_shape) if hasattr(spec, "matrix_shape") else 0
    facts = {"rounding": rounding_of_depth(depth + within, n_units), "depth": depth}
    facts |= {"has_owners": True, "dtype": null.dtype}
    return replace(spec, **{name: value for name, value in facts.items() if hasattr(spec, name)})


# ------------------------------
# The fit that every party runs: on its own rows, with the sums over all owners.


def view_of(agreement: Agreement, X: Any, y: Any = None, number: int | None = None) -> Any:
    """Check the rows of one owner against the agreement, and read them once."""
    names = agreement.names
    refuse_other_columns(names and as_feature_names(checks.feature_names(X)), names)
    view = _view_of(agreement, X, y)
    sizes = agreement.shares.sizes
    if sizes and number is not None and not agreement.is_unit_owner:
        n_rows, size = source_of_view(view).shape[0], sizes[number]
        if n_rows != size:
            raise ValueError(f"X has {n_rows} rows, but {size} are agreed on for this owner.")
    return view


def _view_of(agreement: Agreement, X: Any, y: Any) -> Any:
    if isinstance(agreement.estimator, DPPipeline):
        return _pipeline_data(agreement, X, y)
    spec, null = agreement.spec, agreement.like
    agreed = Agreed(_n_rows(spec), _depth_of(agreement.estimator, null, agreement.most_rows))
    return _own_view(agreement.estimator, spec, agreed, null, agreement, X, y)


def _own_view(
    estimator: PrivateEstimator, spec: Any, agreed: Agreed, null: Any, terms: Terms, X: Any, y: Any
) -> Any:
    """Check and read the rows of one owner, for a fit with the spec of all rows."""
    check_size = partial(_check_size, null=null, most_rows=terms.most_rows)
    if isinstance(estimator, MatrixEstimator):
        checked = estimator._checked(X)
        check_size(checked.shape, is_sparse=holds_sparse(checked))

        def _rows(source: Source, n_jobs: int | None) -> Rows:
            # A fit may wait for days. If X changes meanwhile, old norms must not clip the new rows.
            source.is_repeatable = False
            return Rows(source, n_jobs, agreed=agreed)

        return estimator._view(checked, spec, _rows)[0]
    own = clone(estimator)
    own._part = estimator._part
    if getattr(spec, "interval", None) is not None:
        # Bounds go by position, as arrays and the null record have no column names.
        own.set_params(bounds=spec.interval)
    its, (view, _) = own._validate(*checks.in_parts(X, y))
    source = source_of_view(view)
    check_size(source.shape, is_sparse=getattr(source, "is_sparse", holds_sparse(null)))
    if any(getattr(its, name, None) != getattr(spec, name, None) for name in _OF_KIND):
        raise ValueError("X has another layout than like: all owners pass rows of one kind.")
    _check_classes(getattr(its, "classes", ()), getattr(spec, "classes", ()))
    source.is_repeatable = False
    if isinstance(view, Rows):
        cache = view.cache._replace(norm_counts=None)
        return replace(view, agreed=agreed, cache=cache)
    return replace(view, design=replace(view.design, agreed=agreed))


def _check_classes(found: Any, agreed: Any) -> None:
    if not np.array_equal(found, agreed):
        raise ValueError("y has codes of labels, and classes has labels: pass labels as y.")


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


def _check_size(shape: tuple[int, int], *, is_sparse: bool, null: Any, most_rows: int) -> None:
    """Refuse rows whose number, width or sparsity contradicts the agreement."""
    (n_rows, n_features), size = shape, math.prod(null.shape[1:])
    if n_features != size:
        raise ValueError(f"X has {n_features} features, but {size} are agreed on.")
    if not 1 <= n_rows <= most_rows:
        raise ValueError(
            f"X has {n_rows} rows; an owner has one at least, and {most_rows} at most."
        )
    if is_sparse != (agreed := holds_sparse(null)):
        kinds = ("sparse", "dense") if agreed else ("dense", "sparse")
        raise ValueError(
            f"X must be {kinds[0]}, as agreed on by sparse={agreed}: the noise depends "
            f"on it. Got {kinds[1]} rows."
        )


def run_fit(
    agreement: Agreement,
    rows: Any,
    exchange: Exchange,
    *,
    charge: Callable[[PrivacySpent], None] | None = None,
) -> tuple[Any, list[str]]:
    """Run the fit on the rows of one party; return the model of all parties, and warnings."""
    estimator = clone(agreement.estimator)
    shares, n_rows = agreement.shares, source_of_view(rows).shape[0]
    n_own = n_rows if agreement.is_unit_owner else 1
    # If sums weight owners by their numbers of rows, so do means over owners.
    has_sizes = bool(shares.sizes) and not agreement.is_unit_owner
    weight = n_rows / shares.n_units if has_sizes else n_own / shares.n_owners
    opening = partial(
        ShareBudget.open, shares=shares, exchange=exchange, n_own=n_own, weight=weight
    )
    if isinstance(rows, PipelineData):
        party = party_of(agreement, opening, charge)
        warnings = estimator._fit(*rows, party=party)
        named = [estimator, estimator.pipeline_.steps[0][1]]
    else:
        estimator.n_features_in_ = agreement.n_features
        named = [estimator]
    for one in named if agreement.names else ():
        one.feature_names_in_ = np.asarray(agreement.names, dtype=object)
    if isinstance(rows, PipelineData):
        return estimator, warnings
    generator = algorithm_generator(agreement.seed)
    budget = opening(agreement.plan, charge=charge)
    with np.errstate(all="ignore"):
        result = estimator._solve(agreement.spec, agreement.plan.parts, rows, budget, generator)
        warnings = estimator._keep(agreement.spec, result, budget)
    return estimator, warnings


# ------------------------------
# Pipelines: all owners fit each step together, to rows transformed by the steps before it.


class PipelineData(NamedTuple):
    """Copies of an owner's rows and targets, which each step reads again."""

    source: Any
    y: Any


def party_of(
    terms: Terms, opening: Callable[..., PrivacyBudget], charge: Callable[..., None] | None
) -> Party:
    """Return how the steps of a pipeline find their spec, read their rows and release sums."""

    def _spec_of_all(one: Any, like: Any) -> tuple[Any, Agreed, Any]:
        null, _ = null_record(None, sparse=False, like=like)
        return *terms.spec_of(one, null, null), null

    def _validate(one: Any, X: Any, y: Any) -> tuple[Any, Data]:
        spec, agreed, null = _spec_of_all(one, X)
        view = _own_view(one, spec, agreed, null, terms, X, y)
        one.n_features_in_ = X.shape[1]
        return spec, (view, lambda: None)

    def _open(plan: Plan, charge: Any) -> tuple[PrivacyBudget, np.random.Generator]:
        plan.check_memory()
        return opening(plan, charge=charge), algorithm_generator(terms.seed)

    unit = ResolvedOwner.name if terms.is_unit_owner else None
    facts = terms.shares.n_units, unit
    return Party(*facts, lambda one, like: _spec_of_all(one, like)[0], _validate, _open, charge)


def opened_pipeline(pipeline: DPPipeline, terms: Terms, X: Any, y: Any) -> tuple[Plan, list[str]]:
    """Check steps, rows and targets; return the plan, and warnings; nothing is spent."""
    party = party_of(terms, ShareBudget.open, None)
    run, shares, _, places = pipeline._opened(X, y, party=party)
    return planned(run, shares, places), warnings_of(run, shares, places)


def _pipeline_data(agreement: Agreement, X: Any, y: Any) -> PipelineData:
    """Check an owner's rows and targets, and copy them for all steps."""
    checks.refuse_blocks(X, "A DPPipeline across owners")
    pipeline, null = agreement.estimator, agreement.like
    takes_gaps = get_tags(pipeline.steps[0][1]).input_tags.allow_nan
    finite = "allow-nan" if takes_gaps else True
    rows = checks.check_rows_or_blocks(X, "DPPipeline", ensure_all_finite=finite)
    _check_size(rows.shape, is_sparse=holds_sparse(rows), null=null, most_rows=agreement.most_rows)
    for step in steps_of(pipeline):
        if get_tags(step.estimator).target_tags.required:
            checks.check_given(y, type(step.estimator).__name__)
        if isinstance(step.estimator, PrivateClassifier):
            classes, _ = step.estimator._classes_and_codes(y)
            _check_classes(classes, given_classes(step.estimator.classes))
    data = PipelineData(rows.astype(null.dtype, copy=True), None if y is None else np.array(y))
    opened_pipeline(pipeline, agreement, *data)
    return data
