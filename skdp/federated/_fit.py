"""One fit, as every party runs it: what differs is whose rows it reads, and who answers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone

from skdp.data.rows import AgreedRows
from skdp.data.sources import holds_sparse
from skdp.decomposition._matrix_estimator import MatrixEstimator
from skdp.federated._agreement import Agreement
from skdp.privacy.noise import algorithm_generator
from skdp.privacy.releases import PrivacySpent
from skdp.privacy.shares import Exchange, ShareBudget


def view_of(agreement: Agreement, X: Any) -> AgreedRows:
    """Check the rows of one owner against the agreement, and read them once."""
    estimator, problem = agreement.estimator, agreement.problem
    checked = estimator._checked(X)
    n_rows, n_features = checked.shape
    if n_features != agreement.n_features:
        raise ValueError(f"X has {n_features} features, but {agreement.n_features} are agreed on.")
    if not 1 <= n_rows <= agreement.most_rows:
        raise ValueError(
            f"X has {n_rows} rows; an owner has one at least, and {agreement.most_rows} at most."
        )
    if holds_sparse(checked) != problem.is_sparse:
        kinds = ("sparse", "dense") if problem.is_sparse else ("dense", "sparse")
        raise ValueError(
            f"X must be {kinds[0]}, as agreed on by sparse={problem.is_sparse}: the noise depends "
            f"on it. Got {kinds[1]} rows."
        )
    view = partial(
        AgreedRows,
        agreed_n_rows=problem.shape[0],
        agreed_depth=agreement.depth,
    )
    return estimator._view(checked, problem, view)[0]


def no_rows(agreement: Agreement) -> AgreedRows:
    """Return a row of zeros, for a party that has no rows."""
    zeros = np.zeros((1, agreement.n_features))
    return view_of(agreement, csr_array(zeros) if agreement.problem.is_sparse else zeros)


def run_fit(
    agreement: Agreement,
    rows: AgreedRows,
    exchange: Exchange,
    *,
    charge: Callable[[PrivacySpent], None] | None = None,
) -> tuple[MatrixEstimator, list[str]]:
    """Run the fit on the rows of one party; return the model, that of all parties, and warnings."""
    estimator = clone(agreement.estimator)
    n_own = rows.source.shape[0] if agreement.is_unit_owner else 1
    budget = ShareBudget.open(
        agreement.plan, agreement.shares, exchange, n_own=n_own, charge=charge
    )
    generator = algorithm_generator(agreement.seed)
    with np.errstate(all="ignore"):
        result = estimator._solve(agreement.problem, agreement.plan.parts, rows, budget, generator)
        warnings = estimator._keep(agreement.problem, result, budget)
    estimator.n_features_in_ = agreement.n_features
    return estimator, warnings
