"""Measures of the quality of a subspace, or of a ranking of items."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.stats import rankdata
from sklearn.metrics import ndcg_score

from skdp._validation import AT_LEAST_ONE, check_numbers, check_rows, validate_plain
from skdp.interactions import InteractionTable, batches_of
from skdp.linalg import spectrum
from skdp.linalg.spectrum import orthonormal_basis

__all__ = ["captured_variance", "coherence", "ndcg_at_k", "recall_at_k", "subspace_distance"]


def subspace_distance(components: Any, reference: Any) -> float:
    """Sine of the largest principal angle between the spans of two sets of components.

    Parameters
    ----------
    components, reference : array-like of shape (n_components, n_features)
        Components as rows, as in ``components_``; they need not be orthonormal. `components` may
        span more dimensions than `reference`.

    Returns
    -------
    float
        0 if `reference` lies in the span of `components`, 1 if some direction of `reference` is
        orthogonal to that span.

    Notes
    -----
    **Privacy.** A function of its arguments; it is as private as they are. A reference computed
    from private rows is not private.

    Examples
    --------
    >>> from skdp.metrics import subspace_distance
    >>> subspace_distance([[1, 0, 0]], [[0.6, 0.8, 0]])
    0.8
    """
    basis, other = (
        orthonormal_basis(check_numbers(rows, "components").T) for rows in (components, reference)
    )
    if len(basis) != len(other):
        raise ValueError(
            "components and reference must have equally many columns, got "
            f"{len(basis)} and {len(other)}."
        )
    # The sine is the norm of the part of `other` outside the span. Computed as the root of 1 minus
    # a squared cosine, small sines would lose digits.
    return float(np.clip(np.linalg.norm(other - basis @ (basis.T @ other), 2), 0.0, 1.0))


def captured_variance(components: Any, X: Any) -> float:
    """Fraction of the sum of squares of X that lies in the span of the components.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Components as rows, as in ``components_``; they need not be orthonormal.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows; pass centered rows for the fraction of the variance.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        If `components` has more rows than columns, as if X were passed instead.

    Notes
    -----
    **Privacy.** A noise-free function of X, not covered by any guarantee.

    Examples
    --------
    >>> from skdp.metrics import captured_variance
    >>> captured_variance([[1, 0]], [[3, 4], [0, 0]])
    0.36
    """
    basis = _basis_of(components, "call captured_variance(components, X), not the other way round")
    X = check_rows(X, "captured_variance").astype(np.float64, copy=False)
    total = X.multiply(X).sum() if issparse(X) else np.vdot(X, X)
    projections = X @ basis
    return float(np.vdot(projections, projections) / total) if total > 0 else 0.0


def coherence(components: Any) -> float:
    r"""Coherence of the span of the components: how much of it lies along a single feature.

    For k orthonormal rows :math:`V` with n columns it is :math:`(n / k) \max_j \|V_j\|^2`, where
    :math:`V_j` is the j-th column [1]_.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Linearly independent components as rows, as in ``components_``; they need not be
        orthonormal.

    Returns
    -------
    float
        1 if the subspace is spread evenly over the features, ``n_features / n_components`` if it
        contains the direction of a single feature.

    Raises
    ------
    ValueError
        If `components` has more rows than columns.

    Notes
    -----
    **Privacy.** A function of its argument, and as private as the argument. If noise dominates,
    noisy components have the coherence of the noise, which exceeds that of evenly spread ones.

    References
    ----------
    .. [1] E. J. Candès, B. Recht (2009). "Exact matrix completion via convex optimization".
       Foundations of Computational Mathematics 9(6). :doi:`10.1007/s10208-009-9045-5`

    Examples
    --------
    >>> from skdp.metrics import coherence
    >>> coherence([[1, 1, 1, 1]]), coherence([[2, 0, 0, 0]])
    (1.0, 4.0)
    """
    return spectrum.coherence(_basis_of(components, "pass left singular vectors transposed"))


def _basis_of(components: Any, remedy: str) -> np.ndarray:
    """Return an orthonormal basis of the span of components; refuse more rows than columns."""
    rows = check_numbers(components, "components")
    if len(rows) > rows.shape[1]:
        raise ValueError(f"components has more rows than columns, {rows.shape}: {remedy}.")
    return orthonormal_basis(rows.T)


def ndcg_at_k(y_true: Any, y_score: Any, k: int, *, seen: Any = None) -> float:
    """Compute the normalized discounted cumulative gain of the first items, averaged over users.

    Parameters
    ----------
    y_true : InteractionTable or {array-like, sparse matrix} of shape (n_users, n_items)
        Gains, such as 1 for items that a user chose later, all nonnegative. Users without gains are
        left out.
    y_score : array-like of shape (n_users, n_items)
        Scores that rank the items. Items with minus infinity are not ranked, and do not count among
        the first `k`.
    k : int
        Number of items that count, at least 1.
    seen : InteractionTable, {array-like, sparse matrix} of that shape, or None, default=None
        Nonzero for earlier items of a user: they are not ranked, and their gain does not count.

    Returns
    -------
    float
        1 if the first items are the best ones for every user.

    See Also
    --------
    sklearn.metrics.ndcg_score : The same score for dense tables and finite scores.

    Notes
    -----
    **Privacy.** A noise-free function of its arguments, not covered by any guarantee.

    Examples
    --------
    >>> from skdp.metrics import ndcg_at_k
    >>> ndcg_at_k([[0, 1, 0], [0, 0, 0]], [[0.9, 0.8, 0.1], [1, 2, 3]], 2)
    0.63
    """
    values = []
    for gains, scores in _rankings(y_true, y_score, k, seen, "ndcg_at_k"):
        ranks = np.where(scores > -np.inf, rankdata(scores, "dense", axis=1), -1)
        # Items that are not ranked earn nothing: appended items of gain 0 come before them.
        n_first = min(k, gains.shape[1])
        zeros = np.zeros((len(gains), n_first))
        mean = ndcg_score(np.hstack([gains, zeros]), np.hstack([ranks, zeros]), k=n_first)
        # The mean of the batch is repeated for each of its users, so that users have equal weights.
        values.append(np.full(len(gains), mean))
    return float(np.concatenate(values).mean())


def recall_at_k(y_true: Any, y_score: Any, k: int, *, seen: Any = None) -> float:
    """Compute the average fraction of each user's items with gains that are among the first `k`.

    Parameters
    ----------
    y_true : InteractionTable or {array-like, sparse matrix} of shape (n_users, n_items)
        Gains, such as 1 for items that a user chose later, all nonnegative. Users without gains are
        left out.
    y_score : array-like of shape (n_users, n_items)
        Scores that rank the items. Items with minus infinity are not ranked, and do not count among
        the first `k`.
    k : int
        Number of items that count, at least 1.
    seen : InteractionTable, {array-like, sparse matrix} of that shape, or None, default=None
        Nonzero for earlier items of a user: they are not ranked, and their gain does not count.

    Returns
    -------
    float
        1 if every user's items with gains are all among the first `k`. It is below 1 if a user has
        more than `k` such items.

    Notes
    -----
    **Privacy.** A noise-free function of its arguments, not covered by any guarantee.

    Examples
    --------
    >>> from skdp.metrics import recall_at_k
    >>> recall_at_k([[0, 1, 1], [0, 0, 0]], [[0.9, 0.8, 0.1], [1, 2, 3]], 2)
    0.5
    """
    values = []
    for gains, scores in _rankings(y_true, y_score, k, seen, "recall_at_k"):
        first = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        is_hit = np.take_along_axis((gains > 0) & (scores > -np.inf), first, axis=1)
        values.append(is_hit.sum(axis=1) / (gains > 0).sum(axis=1))
    return float(np.concatenate(values).mean())


def _rankings(
    y_true: Any, y_score: Any, k: int, seen: Any, name: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield gains and scores in batches of users, without users who have no gains."""
    validate_plain({"k": [AT_LEAST_ONE]}, {"k": k}, name)
    tables = [one for one in (y_true, seen) if isinstance(one, InteractionTable)]
    # Users and items are the second and the third field of a table.
    if len(tables) == 2 and not all(map(np.array_equal, tables[0][1:], tables[1][1:])):
        raise ValueError(
            "y_true and seen must have the same users and items, in one order: make each by "
            "interaction_table(pairs, users=users, items=items)."
        )
    y_true, seen = (one.X if isinstance(one, InteractionTable) else one for one in (y_true, seen))
    gains = check_rows(y_true, name)
    scores = check_numbers(y_score, "y_score", ensure_all_finite=False)
    if gains.shape != scores.shape or gains.shape[1] < 2:
        raise ValueError(
            f"y_true and y_score must have the same shape, with two items or more, got "
            f"{gains.shape} and {scores.shape}."
        )
    if np.isnan(scores).any() or (scores == np.inf).any():
        raise ValueError("y_score contains NaN or infinity; only minus infinity is accepted.")
    if gains.min() < 0:
        raise ValueError("y_true has a negative gain: pass 0 for what a user did not choose.")
    if seen is not None:
        seen = check_rows(seen, name)
        if seen.shape != gains.shape:
            raise ValueError(f"seen must have the shape {gains.shape} of y_true, got {seen.shape}.")
        is_new = (seen.toarray() if issparse(seen) else seen) == 0
        scores = np.where(is_new, scores, -np.inf)
        gains = gains.multiply(is_new).tocsr() if issparse(gains) else gains * is_new
    # As no gain is negative, users with gains are those whose gains have a positive sum.
    users = np.flatnonzero(np.asarray(gains.sum(axis=1)).ravel() > 0)
    if not len(users):
        raise ValueError("y_true has no gain, so that there is nothing to rank: pass other users.")
    for batch in batches_of(len(users), gains.shape[1]):
        chosen = gains[users[batch]]
        yield chosen.toarray() if issparse(chosen) else chosen, scores[users[batch]]
