"""skdp's own contract for the trace regression, beside scikit-learn's checks."""

import copy
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
from containers import dense_containers, sparse_containers
from refusals import refusal_of
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from told import lines_warned_by
from uncut import without_cut

from skdp import DPTraceRegressor, PrivacyWarning, RankOneMatrices
from skdp.datasets import make_trace_regression
from skdp.testing._recording import noise_of

SECRET = 0xD1CE << 100
# A number of records that is the size of nothing else.
N, SHAPE = 397, (4, 3)
X, y, M = make_trace_regression(N, SHAPE, rank=2, noise=0.1, random_state=0)
X = X.astype(np.float32).astype(np.float64)
FLAT = X.reshape(N, -1)
TASKS, TASK_y, _ = make_trace_regression(N, SHAPE, design="tasks", noise=0.1, random_state=0)
CELLS = {
    "rgrad": {},
    "rgrad, zero_out": {"adjacency": "zero_out"},
    "rgrad, spectral": {"init": "spectral"},
    "rgrad, no intercept": {"fit_intercept": False},
    "identity": {"covariance": "identity"},
    "covariances": {"covariance": (2 * np.eye(4), np.eye(3) + 0.5)},
    "response": {"privacy_unit": "response"},
    "response, spectral": {"privacy_unit": "response", "init": "spectral"},
    "response, bounded": {"privacy_unit": "response", "response_bound": 20.0},
}

every_cell = pytest.mark.parametrize("cell", CELLS)
quiet = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
pytestmark = quiet


def estimator_of(cell, **more):
    return DPTraceRegressor(**{"rank": 2, **CELLS[cell], **more})


def assert_same_fit(first, second, **tolerance):
    for name in ("coef_matrix_", "singular_values_", "intercept_"):
        np.testing.assert_allclose(
            getattr(first, name), getattr(second, name), err_msg=name, **tolerance
        )


def noiseless(estimator, X, y):
    """Fit without noise, but with the clipping of a finite epsilon."""
    estimator = clone(estimator).set_params(random_state=SECRET)
    open_own = estimator._open

    def _open(*arguments):
        opened, budget = open_own(*arguments)
        budget._publish = lambda release, value: value
        return opened, budget

    estimator._open = _open
    with without_cut():
        return estimator.fit(X, y)


# Randomness


OTHER_PARAMETERS = {
    "rank": 1,
    "matrix_shape": SHAPE,
    "epsilon": 2.0,
    "delta": 2e-6,
    "privacy_unit": "response",
    "adjacency": "zero_out",
    "response_bound": 100.0,
    "covariance": "identity",
    "fit_intercept": False,
    "init": "spectral",
    "n_iter": 11,
    "clip_quantile": 0.6,
}


def test_any_other_parameter_has_noise_of_its_own():
    # Shared noise at two epsilons solves for the data exactly.
    estimator = estimator_of("rgrad", random_state=SECRET)
    assert {*OTHER_PARAMETERS, "ledger", "n_jobs", "random_state"} == set(estimator.get_params())
    base = noise_of(estimator, X, y)
    assert np.array_equal(base, noise_of(clone(estimator), X, y))
    others = {**OTHER_PARAMETERS, "random_state": SECRET + 1}
    pairs = (np.eye(4), None), (None, np.eye(3)), (np.eye(4), np.eye(3)), np.eye(12)
    for name, value in [*others.items(), *(("covariance", pair) for pair in pairs)]:
        other = clone(estimator).set_params(**{name: value})
        assert not np.isin(base, noise_of(other, X, y)).any(), name


# Containers and layouts


def containers(path):
    return {
        "3-D": X,
        "3-D, strided": np.repeat(X, 2, axis=0)[::2],
        "2-D": FLAT,
        **{f"3-D, {name}": one for name, one in dense_containers(X, path / "3-D").items()},
        **{f"2-D, {name}": one for name, one in dense_containers(FLAT, path / "2-D").items()},
        **sparse_containers(FLAT),
    }


@pytest.mark.covered(at_most=2)
@every_cell
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("fit", ["unclipped", "clipped"])
def test_containers_and_layouts_give_the_same_fit(cell, fit, tmp_path):
    def _fit(data, **more):
        estimator = estimator_of(cell, n_iter=3, **more)
        if fit == "clipped":
            return noiseless(estimator, data, y)
        return estimator.set_params(epsilon=np.inf, random_state=SECRET).fit(data, y)

    # Without noise: containers round differently, and values that differ never share noise.
    reference = _fit(X)
    predicted = reference.predict(X)
    for name, data in containers(tmp_path).items():
        if fit == "clipped" and ("order" in name or "matrix" in name or "frame" in name):
            continue
        shape = None if "3-D" in name else SHAPE
        n_jobs = 2 if name in ("3-D, list", "2-D", "csr") else None
        other = _fit(data, matrix_shape=shape, n_jobs=n_jobs)
        is_single = "float32" in name
        assert other.coef_.dtype == (np.float32 if is_single else np.float64), name
        assert other.coef_.shape == (SHAPE if "3-D" in name else (12,)), name
        tolerance = 1e-4 if is_single else 1e-8
        assert_same_fit(reference, other, rtol=tolerance, atol=tolerance)
        ours = other.predict(data)
        assert ours.dtype == other.coef_.dtype
        np.testing.assert_allclose(ours, predicted, atol=1e-3 if is_single else 1e-7)
        # In the other layout, too.
        np.testing.assert_allclose(other.predict(X), predicted, atol=1e-3)
        np.testing.assert_allclose(other.predict(FLAT), predicted, atol=1e-3)


RANK_ONE = {
    "dense": RankOneMatrices(TASKS.left, TASKS.right.toarray()),
    "sparse": RankOneMatrices(sparse.csr_array(TASKS.left), TASKS.right),
    "mixed": TASKS,
}
every_rank_one = pytest.mark.parametrize("kind", RANK_ONE)


@pytest.mark.covered(at_most=3)
@every_rank_one
@every_cell
def test_rank_one_matrices_are_those_written_out(kind, cell):
    matrices = RANK_ONE[kind]
    # Of sparse factors no covariance is released.
    same = {"covariance": "identity", **CELLS[cell]}
    same |= {"matrix_shape": SHAPE, "epsilon": np.inf, "random_state": SECRET}
    ours, theirs = (
        estimator_of(cell, **same).fit(data, TASK_y) for data in (matrices, matrices.toarray())
    )
    assert ours.coef_.shape == (12,)
    assert ours.n_features_in_ == 12
    assert_same_fit(ours, theirs, rtol=1e-5, atol=1e-6)
    predicted = theirs.predict(matrices.toarray())
    for data in (matrices, matrices.toarray(), matrices.toarray().reshape(N, *SHAPE)):
        np.testing.assert_allclose(ours.predict(data), predicted, atol=1e-5)
    assert ours.score(matrices, TASK_y) == pytest.approx(theirs.score(matrices, TASK_y), abs=1e-5)


# What comes out


@pytest.mark.covered(at_most=4)
@every_cell
def test_components_multiply_to_the_coefficients(cell):
    for data, shape in ((X, SHAPE), (FLAT, (12,))):
        fitted = estimator_of(cell, matrix_shape=SHAPE).fit(data, y)
        left, right = fitted.left_components_, fitted.right_components_
        assert left.shape == (4, 2)
        assert right.shape == (2, 3)
        product = left * fitted.singular_values_ @ right
        np.testing.assert_array_equal(product, fitted.coef_matrix_)
        assert fitted.coef_.shape == shape
        np.testing.assert_array_equal(fitted.coef_.ravel(), fitted.coef_matrix_.ravel())
        for basis in (left, right.T):
            np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-12)
        assert np.all(np.diff(fitted.singular_values_) <= 0)
        assert fitted.singular_values_.min() >= 0
        assert isinstance(fitted.intercept_, float)
        assert (fitted.intercept_ == 0) == (not fitted.fit_intercept)
        predicted = np.einsum("nij,ij->n", X, fitted.coef_matrix_) + fitted.intercept_
        np.testing.assert_allclose(fitted.predict(data), predicted, atol=1e-10)


def test_vectors_have_vectors_of_coefficients():
    for matrix_shape in (None, (12, 1), (1, 12), [12, 1]):
        fitted = DPTraceRegressor(matrix_shape=matrix_shape).fit(FLAT, y)
        assert fitted.coef_.shape == (12,)
        assert fitted.coef_matrix_.shape == tuple(matrix_shape or (12, 1))
        np.testing.assert_array_equal(fitted.coef_, fitted.coef_matrix_.ravel())


# What is kept


def test_names_are_those_of_the_last_fit():
    estimator = DPTraceRegressor(matrix_shape=SHAPE)
    frame = pd.DataFrame(FLAT, columns=[f"x{i}" for i in range(12)])
    assert list(estimator.fit(frame, y).feature_names_in_) == list(frame.columns)
    for data in (X, RANK_ONE["dense"], FLAT):
        estimator.fit(frame, y).fit(data, y)
        assert not hasattr(estimator, "feature_names_in_")


# Bad input


def with_one(array, value):
    array = np.array(array, dtype=np.result_type(array, type(value)))
    array.flat[7] = value
    return array


# Beside what scikit-learn's checks have, and NaN and infinity of the laws.
BAD_X = {
    "infinity by duplicates": (
        sparse.csr_array(([1.5e308] * 2, [0, 0], [0, *[2] * N]), shape=(N, 12)),
        "Input X contains infinity",
    ),
    "no matrices of rank one": (TASKS[:0], "0 sample"),
    "text": (np.full(X.shape, "secret"), "hold texts"),
    "4-D": (X[..., np.newaxis], "dim 4"),
    "nothing": (None, "Expected 2D array|got None|NoneType"),
    "lists of different lengths": ([[[1.0, 2.0], [3.0]]] * N, "inhomogeneous"),
    "fewer records than responses": (X[:-1], "inconsistent numbers of samples"),
}
BAD_Y = {
    "too long": (np.append(y, 1.0), "inconsistent numbers of samples"),
    "two columns": (np.column_stack([y, y]), "y should be a 1d array"),
    "lists of two": (np.column_stack([y, y]).tolist(), "y should be a 1d array"),
    "text": (np.full(N, "secret"), "y holds texts"),
    "objects": (np.array(["secret", *y[1:]], dtype=object), "y holds texts"),
    "a number": (3.0, "y should be a 1d array"),
}
BAD_PARAMETERS = {
    "rank": (0, 4),
    "matrix_shape": ((3, 4), (12, 1), (4,), (4.0, 3.0), (-4, -3), (0, 3), 12),
    "delta": (0,),
    "privacy_unit": ("row",),
    "response_bound": (np.inf, 0, np.nan, 1e101),
    "init": ("zero",),
    "n_iter": (0, 10_001),
    "clip_quantile": (0, 1, "median"),
    "covariance": ("public", 1.0, (None, None), (np.eye(4),)),
}
BAD_COVARIANCES = (
    *(np.eye(3), np.tri(4), np.ones(4), np.ones((4, 4)), np.full((4, 4), np.nan), "identity"),
    -np.eye(4),
)


@pytest.mark.parametrize("bad", BAD_X)
def test_bad_matrices_are_refused_before_anything_is_spent(bad):
    data, message = BAD_X[bad]
    fitted = DPTraceRegressor().fit(X[:, :2], y)
    refused = refusal_of(fitted, data, y)
    assert refused.match(message)
    assert_tells_nothing(refused.value)
    assert fitted.n_features_in_ == 6


@pytest.mark.parametrize("bad", BAD_Y)
def test_bad_responses_are_refused_before_anything_is_spent(bad):
    responses, message = BAD_Y[bad]
    fitted = DPTraceRegressor().fit(X, y)
    for data in (X, FLAT, TASKS):
        refused = refusal_of(fitted, data, responses)
        assert refused.match(message)
        assert_tells_nothing(refused.value)


def assert_tells_nothing(error):
    """Whether an error and what it was raised from tell no value."""
    while error is not None:
        values = [*X[0].ravel(), *y[:5], *TASKS.left[0], 1.5e308]
        told = str(error)
        assert not any(value in told for value in ("secret", *(f"{x:.4f}"[:6] for x in values)))
        error = error.__context__


@cache
def fitted_once():
    return DPTraceRegressor(2).fit(X, y)


@pytest.mark.parametrize("name", BAD_PARAMETERS)
def test_bad_parameters_are_refused_before_anything_is_spent(name):
    for bad in BAD_PARAMETERS[name]:
        fitted = copy.deepcopy(fitted_once()).set_params(**{name: bad})
        assert refusal_of(fitted, X, y).match(name), bad


@pytest.mark.parametrize(
    "bad", [np.eye(4), -np.eye(12), np.tri(12), np.ones((12, 12)), np.full((12, 12), np.nan)]
)
def test_bad_covariances_of_all_entries_are_refused(bad):
    fitted = copy.deepcopy(fitted_once()).set_params(covariance=bad)
    assert refusal_of(fitted, X, y).match("covariance .*(12, 12)|covariance is no matrix")


def test_the_covariance_of_all_entries_is_for_arrays():
    fitted = DPTraceRegressor(covariance=np.eye(12))
    assert refusal_of(fitted, RankOneMatrices(X[:, :, 0], X[:, 0]), y).match(".*in dense arrays")


def test_bad_covariances_are_refused_by_the_name_of_their_side():
    rows = [("row_cov", (bad, None)) for bad in BAD_COVARIANCES]
    for name, bad in (*rows, ("col_cov", (None, np.diag([1.0, 1.0, 0.0])))):
        fitted = copy.deepcopy(fitted_once()).set_params(covariance=bad)
        assert refusal_of(fitted, X, y).match(name), bad


@pytest.mark.parametrize("matrix_shape", [(5, 3), (3, 4, 1), (12,), (0, 12)])
def test_shapes_that_do_not_fit_rows_are_refused(matrix_shape):
    estimator = DPTraceRegressor(matrix_shape=matrix_shape)
    for data in (FLAT, sparse.csr_array(FLAT)):
        refused = refusal_of(estimator, data, y)
        assert refused.match("two positive integers with the product 12")
    refused = refusal_of(DPTraceRegressor(matrix_shape=(3, 4)), TASKS, TASK_y)
    assert refused.match(r"it should be \(4, 3\)")


def test_rank_of_vectors_is_one():
    for data in (FLAT, sparse.csr_array(FLAT)):
        refused = refusal_of(DPTraceRegressor(2), data, y)
        assert refused.match(r"rank=2 exceeds .* whose shape is \(12, 1\).* matrix_shape=")


def test_matrices_of_other_shapes_are_not_predicted():
    fitted = DPTraceRegressor(2).fit(X, y)
    with pytest.raises(NotFittedError):
        DPTraceRegressor(2).predict(X)
    for data in (X.transpose(0, 2, 1), X[:, :3], RankOneMatrices(TASKS.left, TASKS.left)):
        with pytest.raises(ValueError, match=r"was fitted with \(4, 3\)"):
            fitted.predict(data)
    with pytest.raises(ValueError, match=r"^X is a single matrix: pass X\[numpy\.newaxis\]"):
        fitted.predict(X[0])
    assert fitted.predict(X[0][np.newaxis]).shape == (1,)
    for data in (FLAT[:, :5], sparse.csr_array(FLAT[:, :5])):
        with pytest.raises(ValueError, match=r"5 features, but .* is expecting 12"):
            fitted.predict(data)
    with pytest.raises(ValueError, match="NaN"):
        fitted.predict(RankOneMatrices(with_one(TASKS.left, np.nan), TASKS.right))
    with pytest.raises(ValueError, match="NaN"):
        fitted.predict(with_one(X, np.nan))
    assert fitted.predict(TASKS[:0]).shape == (0,)


# Warnings, of public facts only


def messages_of(estimator, X, y):
    return lines_warned_by(lambda: estimator.fit(X, y))


def test_warnings():
    generous = partial(DPTraceRegressor, 2, epsilon=500.0)
    with pytest.warns(PrivacyWarning, match="number of responses, 397"):
        generous(delta=0.1, privacy_unit="response").fit(X, y)
    with pytest.warns(PrivacyWarning, match="Too few records, 397 with epsilon=0.1, for 1. coef"):
        DPTraceRegressor(2, epsilon=0.1).fit(X, y)
    with pytest.warns(PrivacyWarning, match="The coefficients do not stand out"):
        DPTraceRegressor(2, epsilon=0.001, covariance="identity", random_state=SECRET).fit(X, y)
    for epsilon in (500.0, np.inf):
        for seed in (None, SECRET):
            assert messages_of(DPTraceRegressor(2, epsilon=epsilon, random_state=seed), X, y) == []
