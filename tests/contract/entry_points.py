"""Every public function that takes data, as a function of the one part of it that is bad."""

import warnings

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, Normalizer

import skdp
from skdp.display import score_histogram
from skdp.model_selection import DPGridSearch, private_score
from skdp.units import Update

SHAPE = (12, 4)
generator = np.random.default_rng(0)
X, Y = generator.normal(size=SHAPE), generator.normal(size=SHAPE[0])
GROUPS = np.arange(SHAPE[0]) // 3
LEFT = np.ones((SHAPE[0], 2))

with warnings.catch_warnings():
    warnings.simplefilter("ignore", skdp.PrivacyWarning)
    PCA = skdp.DPPCA(2, row_norm=3.0, mean_norm=3.0).fit(X)
    SVD = skdp.DPTruncatedSVD(2, row_norm=3.0).fit(X)
    FACTORS = skdp.DPLowRankFactorizer(2, row_norm=3.0).fit(X)
    TRACE = skdp.DPTraceRegressor(1, n_iter=2, response_bound=3.0).fit(X, Y)
    LINEAR = skdp.DPLinearRegression(n_iter=2, response_bound=3.0).fit(X, Y)
    LOGISTIC = skdp.DPLogisticRegression(classes=[0, 1]).fit(X, Y > 0)
    MATRIX_CLASSES = skdp.DPTraceClassifier(matrix_shape=(2, 2), classes=[0, 1]).fit(X, Y > 0)
    USERS = skdp.DPPersonalizedRegressor(1).fit(X, Y, GROUPS)
    HEAD = USERS.head(X, Y)
    SCALER = skdp.DPStandardScaler(with_mean=False, bounds=(-3.0, 3.0)).fit(X)
    COVARIANCE = skdp.DPCovariance(bounds=(-3.0, 3.0)).fit(X)
    RELEASED = (
        skdp.DPStreamingFactorizer(2, shape=SHAPE, privacy_unit=Update(1.0))
        .partial_fit(X)
        .finalize()
    )


def fitted(model, *more):
    return lambda bad: clone(model).fit(bad, *more)


def stream(**parameters):
    return skdp.DPStreamingFactorizer(2, shape=SHAPE, privacy_unit=Update(1.0), **parameters)


def blocks(bad):
    first = csr_array(X) if issparse(bad) else X
    return skdp.RowBlocks(lambda: iter([first, bad]), (2 * len(X), X.shape[1]))


def search(*steps):
    return DPGridSearch(make_pipeline(*steps, clone(TRACE)), {"dptraceregressor__n_iter": [1, 2]})


def pipeline(*steps):
    return skdp.make_dp_pipeline(*steps, clone(SCALER), clone(LOGISTIC))


with warnings.catch_warnings():
    warnings.simplefilter("ignore", skdp.PrivacyWarning)
    PIPELINE = pipeline().fit(X, Y > 0)


def methods_of(model, *targets):
    """Give the methods of a fitted estimator that take rows, each as a function of these."""
    name = type(model).__name__
    found = {f"{name}.fit": fitted(model, *targets)}
    for method in ("predict", "transform", "score_samples", "mahalanobis"):
        if hasattr(model, method):
            found[f"{name}.{method}"] = getattr(model, method)
    if hasattr(model, "score"):
        found[f"{name}.score"] = lambda bad: model.score(bad, *targets)
    return found


# What takes a sparse matrix, too.
OF_SPARSE = {
    **methods_of(PCA),
    **methods_of(SVD),
    **methods_of(SCALER),
    **methods_of(FACTORS),
    **methods_of(TRACE, Y),
    **methods_of(LINEAR, Y),
    **methods_of(LOGISTIC, Y > 0),
    "DPTruncatedSVD.fit_transform": lambda bad: clone(SVD).fit_transform(bad),
    "DPTruncatedSVD.partial_fit": lambda bad: (
        clone(SVD).set_params(solver="covariance").partial_fit(X).partial_fit(bad)
    ),
    "DPStandardScaler.inverse_transform": SCALER.inverse_transform,
    "RankOneMatrices, left": lambda bad: skdp.RankOneMatrices(bad, LEFT),
    "RankOneMatrices, right": lambda bad: skdp.RankOneMatrices(LEFT, bad),
    "from_tasks, X": lambda bad: skdp.RankOneMatrices.from_tasks(bad, np.zeros(SHAPE[0], int), 2),
    "partial_fit": lambda bad: stream().partial_fit(bad),
    "LowRankFactors.transform": RELEASED.transform,
    "LowRankFactors.score": RELEASED.score,
    "captured_variance": lambda bad: skdp.metrics.captured_variance(X[:2], bad),
    "private_score": lambda bad: private_score(SVD, bad),
    "score_histogram": lambda bad: score_histogram(SVD, bad),
    "private_score, pipeline": lambda bad: private_score(
        make_pipeline(Normalizer(), TRACE), bad, Y
    ),
    "DPPipeline.fit": lambda bad: pipeline().fit(bad, Y > 0),
    "DPPipeline.fit, steps before": lambda bad: pipeline(Binarizer(), Normalizer()).fit(bad, Y > 0),
    "DPPipeline.predict": PIPELINE.predict,
    "DPGridSearch.fit": lambda bad: search().fit(bad, Y),
    "DPGridSearch.fit, steps before": lambda bad: search(Binarizer(), Normalizer()).fit(bad, Y),
}
OF_BLOCKS = {
    "RowBlocks, fit": lambda bad: clone(SVD).fit(blocks(bad)),
    "RowBlocks, transform": lambda bad: list(SVD.transform(blocks(bad))),
    "RowBlocks, scaling": lambda bad: list(SCALER.transform(blocks(bad))),
    "RowBlocks, score": lambda bad: FACTORS.score(blocks(bad)),
}
OF_ROWS = {
    **OF_SPARSE,
    **OF_BLOCKS,
    "DPPCA.inverse_transform": lambda bad: PCA.inverse_transform(bad),
    **{
        f"{type(model).__name__}.plan": lambda bad, model=model: model.plan(*SHAPE, like=bad)
        for model in (PCA, TRACE, LINEAR, MATRIX_CLASSES)
    },
    **methods_of(COVARIANCE),
    "DPCovariance.partial_fit": lambda bad: (
        clone(COVARIANCE).set_params(scales="bounds").partial_fit(X).partial_fit(bad)
    ),
    **methods_of(MATRIX_CLASSES, Y > 0),
    **methods_of(USERS, Y, GROUPS),
    "DPPersonalizedRegressor.score": lambda bad: USERS.score(bad, Y, groups=GROUPS),
    "DPPersonalizedRegressor.fit, user_column": lambda bad: (
        clone(USERS).set_params(user_column=0).fit(bad, Y)
    ),
    "DPPersonalizedRegressor.predict, support": lambda bad: USERS.predict(
        X, GROUPS, (bad, Y, GROUPS)
    ),
    "head": lambda bad: USERS.head(bad, Y),
    "personalize": lambda bad: USERS.personalize(bad, Y, GROUPS),
    "PersonalHead.predict": HEAD.predict,
    "PersonalHead.score": lambda bad: HEAD.score(bad, Y),
    "LowRankFactors.inverse_transform": RELEASED.inverse_transform,
    "captured_variance, components": lambda bad: skdp.metrics.captured_variance(bad, X),
    "subspace_distance": lambda bad: skdp.metrics.subspace_distance(bad, X[:2]),
    "coherence": skdp.metrics.coherence,
}
OF_COLUMNS = {
    "DPTraceRegressor.fit, y": lambda bad: clone(TRACE).fit(X, bad),
    "DPTraceRegressor.score, y": lambda bad: TRACE.score(X, bad),
    "DPLinearRegression.fit, y": lambda bad: clone(LINEAR).fit(X, bad),
    "DPLinearRegression.score, y": lambda bad: LINEAR.score(X, bad),
    "DPLogisticRegression.fit, y": lambda bad: clone(LOGISTIC).fit(X, bad),
    "DPLogisticRegression.score, y": lambda bad: LOGISTIC.score(X, bad),
    "DPLogisticRegression.score, weights": lambda bad: LOGISTIC.score(X, Y > 0, bad),
    "DPTraceClassifier.fit, y": lambda bad: clone(MATRIX_CLASSES).fit(X, bad),
    "DPTraceClassifier.score, y": lambda bad: MATRIX_CLASSES.score(X, bad),
    "DPPersonalizedRegressor.fit, y": lambda bad: clone(USERS).fit(X, bad, GROUPS),
    "DPPersonalizedRegressor.fit, groups": lambda bad: clone(USERS).fit(X, Y, bad),
    "DPPersonalizedRegressor.predict, groups": lambda bad: USERS.predict(X, bad, (X, Y, GROUPS)),
    "DPPersonalizedRegressor.predict, groups of support": lambda bad: USERS.predict(
        X, GROUPS, (X, Y, bad)
    ),
    "DPPersonalizedRegressor.score, weights": lambda bad: USERS.score(X, Y, bad, GROUPS),
    "head, y": lambda bad: USERS.head(X, bad),
    "personalize, groups": lambda bad: USERS.personalize(X, Y, bad),
    "PersonalHead.score, y": lambda bad: HEAD.score(X, bad),
    "PersonalHead.score, weights": lambda bad: HEAD.score(X, Y, bad),
    "update, rows": lambda bad: stream().update(bad, GROUPS, Y),
    "update, columns": lambda bad: stream().update(GROUPS, bad, Y),
    "update, values": lambda bad: stream().update(GROUPS, GROUPS, bad),
    "update of a continual stream": lambda bad: skdp.DPContinualFactorizer(
        shape=SHAPE, horizon=2, privacy_unit=Update(1.0)
    ).update(GROUPS, GROUPS, bad),
    "from_indices": lambda bad: skdp.RankOneMatrices.from_indices(bad, GROUPS, (4, 4)),
    "from_tasks": lambda bad: skdp.RankOneMatrices.from_tasks(X, bad, 4),
    "rows of RankOneMatrices": lambda bad: skdp.RankOneMatrices(X, LEFT)[bad],
    "rows of RankOneMatrices, ...": lambda bad: skdp.RankOneMatrices(X, LEFT)[bad, ...],
    "private_score, y": lambda bad: private_score(TRACE, X, bad),
    "score_histogram, groups": lambda bad: score_histogram(SVD, X, groups=bad, classes=[0, 1]),
    "DPGridSearch.fit, y": lambda bad: DPGridSearch(clone(TRACE), {"n_iter": [1, 2]}).fit(X, bad),
}
OF_PARAMETERS = {
    "comp_cov": COVARIANCE.error_norm,
    "center": lambda bad: skdp.DPPCA(2, row_norm=3.0, center=bad).fit(
        generator.normal(size=(20, 12))
    ),
}
