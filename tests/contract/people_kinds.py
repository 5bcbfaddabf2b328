"""All that protects people with several rows, in all containers, and people to fit it to."""

import numpy as np
from in_parts import in_chunks, in_parts
from scipy.sparse import csr_array

import skdp

N_PEOPLE, N_FEATURES, SECRET = 200, 4, 2**90 + 5
OF_MATRICES = {"matrix_shape": (2, 2), "n_iter": 5}
KINDS = {
    "svd": lambda **more: skdp.DPTruncatedSVD(2, **more),
    "svd, power": lambda **more: skdp.DPTruncatedSVD(2, solver="power", **more),
    "pca": lambda **more: skdp.DPPCA(2, **more),
    "scaler": lambda **more: skdp.DPStandardScaler(with_mean=False, **more),
    "scaler, bounds": lambda **more: skdp.DPStandardScaler(with_mean=False, bounds=(-3, 3), **more),
    "covariance": lambda **more: skdp.DPCovariance(bounds=(-9, 9), **more),
    "classifier": lambda **more: skdp.DPLogisticRegression(classes=[0, 1, 2], **more),
    "regression": lambda **more: skdp.DPLinearRegression(n_iter=5, **more),
    "regression, bounds": lambda **more: skdp.DPLinearRegression(n_iter=5, bounds=(-9, 9), **more),
    "matrices": lambda **more: skdp.DPTraceRegressor(**{**OF_MATRICES, **more}),
    "matrices, spectral": lambda **more: skdp.DPTraceRegressor(
        **{**OF_MATRICES, "init": "spectral", **more}
    ),
    "factors": lambda **more: skdp.DPTraceRegressor(n_iter=5, **more),
    "classes of matrices": lambda **more: skdp.DPTraceClassifier(
        **{"matrix_shape": (2, 2), "classes": [0, 1], **more}
    ),
}
# What each row has beside it.
TARGETS = {
    "classifier": lambda X, y: (y,),
    "classes of matrices": lambda X, y: (y // 2,),
    **dict.fromkeys(
        ("regression", "regression, bounds", "matrices", "matrices, spectral", "factors"),
        lambda X, y: (y + X[:, 1],),
    ),
}
# The last two bring their labels along.
CONTAINERS = {
    "dense": lambda X, *y: (X, *y),
    "csr": lambda X, *y: (csr_array(X), *y),
    "parts": lambda X, *y: (in_parts(X, *y),),
    "chunks": in_chunks,
}
# Each kind, in each container that it takes.
WAYS = [
    (kind, container)
    for kind in KINDS
    for container in CONTAINERS
    if not (kind == "factors" and container in ("parts", "chunks"))
    if (kind, container) not in (("classes of matrices", "csr"), ("covariance", "csr"))
]


def rows_of_people(seed=0):
    """Draw a row and a label of each person, and whose each of more rows is."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_PEOPLE, N_FEATURES)) * [3, 2, 1, 0.5] + 0.5
    y = np.clip(np.rint(X[:, 0] + rng.normal(size=N_PEOPLE)), 0, 2).astype(int)
    return X, y, np.repeat(np.arange(N_PEOPLE), rng.integers(1, 9, N_PEOPLE))


def fitted(kind, X, y, container="dense", users=None, **more):
    """Fit one of the kinds to people."""
    estimator = KINDS[kind](**more)
    rows, *targets = CONTAINERS[container](X, *targets_of(kind, X, y))
    return estimator.fit(
        rows_for(kind, rows), *targets, **({} if users is None else {"users": users})
    )


def rows_for(kind, rows):
    """Give rows, or factors of matrices made of them, as a kind takes them."""
    return skdp.RankOneMatrices(rows[:, :2], rows[:, 2:]) if kind == "factors" else rows


def targets_of(kind, X, y):
    """Give what a fit of a kind takes beside rows, if anything."""
    return TARGETS[kind](X, y) if kind in TARGETS else ()


def numbers_of(model):
    """List what was released."""
    names = ("components_", "explained_variance_", "mean_", "var_", "coef_", "intercept_")
    names += ("location_", "covariance_")
    return [getattr(model, name) for name in names if hasattr(model, name)]


def assert_close(one, other, tolerance):
    """Compare what was released."""
    for a, b in zip(numbers_of(one), numbers_of(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
