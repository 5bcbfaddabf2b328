"""skdp's own contract, kept by every estimator and solver beside scikit-learn's checks."""

import re
import warnings
from copy import copy

import numpy as np
import pytest
from containers import dense_containers, fits_in_all, sparse_containers
from refusals import refusal_of
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from told import warned_by

from skdp import DPPCA, DPTruncatedSVD, PrivacyWarning, RowBlocks
from skdp.datasets import make_spiked
from skdp.testing._recording import drawn_noise

SECRET = 0xD1CE << 100
GIVEN = {"row_norm": 1.0, "mean_norm": 1.0}
X = make_spiked(500, 12, k=2, random_state=0)[0]
RESULTS = ["components_", "explained_variance_", "explained_variance_ratio_", "singular_values_"]

every_estimator = pytest.mark.parametrize("make", [DPPCA, DPTruncatedSVD])
every_solver = pytest.mark.parametrize("solver", ["covariance", "power"])
# Which of the noisy components stand out is up to the draw.
pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


# Randomness


@every_estimator
def test_a_generator_seeds_every_fit_anew(make):
    for generator in (np.random.RandomState(0), np.random.default_rng(0)):
        estimator = make(2, random_state=generator, **GIVEN)
        first = estimator.fit(X).components_
        assert not np.allclose(first, estimator.fit(X).components_, atol=1e-6)
        assert estimator.privacy_spent_.seeded


@pytest.mark.covered(at_most=3)
@every_estimator
@every_solver
def test_containers_give_the_same_fit(make, solver, tmp_path):
    rounded = X.astype(np.float32).astype(np.float64)
    containers = {
        **dense_containers(rounded, tmp_path / "X"),
        **sparse_containers(rounded),
        "blocks": RowBlocks(lambda: np.array_split(rounded, 7), X.shape),
        "sparse blocks": RowBlocks(
            lambda: map(sparse.csr_array, np.array_split(rounded, 7)), X.shape
        ),
        "float32 blocks": RowBlocks(
            lambda: [rounded.astype(np.float32)], X.shape, dtype=np.float32
        ),
    }
    # Without noise: containers round differently, and values that differ never share noise.
    estimator = make(2, solver=solver, epsilon=np.inf, random_state=SECRET, **GIVEN)
    reference = clone(estimator).fit(rounded)
    for name, data, other in fits_in_all(estimator, containers, reference, RESULTS):
        if name != "list":
            scores = other.transform(data)
            if isinstance(data, RowBlocks):
                scores = np.vstack(list(scores))
            assert scores.dtype == other.components_.dtype
            np.testing.assert_allclose(scores, reference.transform(rounded), atol=1e-4)


@every_estimator
@every_solver
def test_values_that_differ_by_rounding_share_no_noise(make, solver):
    # Otherwise two fits with one seed would tell the difference, which no noise covers.
    far = X + 1e6
    parameters = {"solver": solver, "random_state": SECRET, "row_norm": 1.0, "mean_norm": 4e6}
    noise = []
    for data in (far, sparse.csr_array(far), far[:, ::-1]):
        with drawn_noise() as draws:
            make(2, **parameters).fit(data)
        # That of the last release: the first values may well agree to the last bit.
        noise.append(draws[-1])
    for other in noise[1:]:
        assert not np.isin(noise[0], other).any()


# Bad input


# Beside what scikit-learn's checks have, and NaN and infinity of the laws.
BAD_DATA = {
    "sparse NaN": (sparse.csr_array(np.where(np.arange(12) == 3, np.nan, X)), "NaN"),
    "infinity by duplicates": (
        sparse.csr_array(([1.5e308, 1.5e308], [0, 0], [0, *[2] * 500]), shape=(500, 12)),
        "infinity",
    ),
    "complex block": (RowBlocks(lambda: [X + 1j], X.shape), "real numbers"),
    "block of long floats": (
        RowBlocks(lambda: [X.astype(np.longdouble)], X.shape),
        "at most 64 bits",
    ),
    "NaN in a block": (RowBlocks(lambda: [X[:-1], X[-1:] * np.nan], X.shape), "NaN"),
    "rows missing from the blocks": (RowBlocks(lambda: [X[:-1]], X.shape), "rows"),
    "column missing from a block": (RowBlocks(lambda: [X[:, :-1]], X.shape), "must have shape"),
    "both kinds of blocks": (
        RowBlocks(lambda: [X[:5], sparse.csr_array(X[5:])], X.shape),
        "dense or sparse as the first",
    ),
    "text": (np.full((500, 12), "secret"), "9 and 2 more hold texts"),
    "generator": ((row for row in X), "must be a string or a real number"),
}
BAD_PARAMETERS = {
    "n_components": (13, 0),
    "epsilon": (0, -1, np.nan, "small"),
    "delta": (1.0, -1e-6, 0),
    "privacy_unit": ("entry",),
    "adjacency": ("add",),
    "row_norm": (0, -1, (0, 1), np.inf),
    "mean_norm": (np.inf, np.nan),
    "solver": ("arpack",),
    "n_iter": (0, 101),
    "n_oversamples": (-1,),
    "random_state": (-1, "secret"),
}
BAD_PCA_PARAMETERS = {
    "center='mean'": "center",
    "center=[1.0]": "center",
    "center=[1e200] * 12": "center must not exceed",
    "center=[float('nan')] * 12": "center contains NaN",
    "n_components=1.5": "n_components",
    "n_components=0.9, solver='power'": "whole spectrum",
    "n_components=None, solver='power'": "whole spectrum",
}


@every_estimator
@pytest.mark.parametrize("bad", BAD_DATA)
def test_bad_data_are_refused_before_anything_is_spent(make, bad):
    data, message = BAD_DATA[bad]
    refused = refusal_of(make(2, **GIVEN).fit(X[:, :5]), data)
    assert refused.match(message)
    told = str(refused.value)
    assert not any(value in told for value in ("secret", *(f"{x:.4f}"[:6] for x in X[0])))


@every_estimator
@pytest.mark.parametrize("name", BAD_PARAMETERS)
def test_bad_parameters_are_refused_before_anything_is_spent(make, name):
    fitted = make(2, **GIVEN).fit(X)
    for bad in BAD_PARAMETERS[name]:
        assert refusal_of(copy(fitted).set_params(**{name: bad}), X).match(name)


@pytest.mark.parametrize("bad", BAD_PCA_PARAMETERS)
def test_bad_pca_parameters_are_refused_before_anything_is_spent(bad):
    fitted = DPPCA(2, **GIVEN).fit(X).set_params(**eval(f"dict({bad})"))
    assert refusal_of(fitted, X).match(BAD_PCA_PARAMETERS[bad])


def test_mle_needs_more_rows_than_columns():
    with pytest.raises(ValueError, match="n_samples >= n_features"):
        DPPCA("mle", **GIVEN).fit(X[:5])


# Any finite data fit


# Of odd shapes: the laws have the odd values.
STRANGE_DATA = {
    "one row": X[:1],
    "one feature": X[:, :1],
    "one number": np.array([[3.0]]),
    "more columns than rows": X[:5],
    "one huge row": np.vstack([X[:30], np.full(12, 1e300)]),
}


@pytest.mark.covered
@every_estimator
@every_solver
@pytest.mark.parametrize("norms", [GIVEN, {}], ids=["given", "private"])
@pytest.mark.parametrize("contain", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("strange", STRANGE_DATA)
def test_any_finite_data_fit_without_warnings_about_them(make, solver, norms, contain, strange):
    data = contain(STRANGE_DATA[strange])
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", PrivacyWarning)
        estimator = make(1, solver=solver, **norms).fit(data)
    for name in RESULTS:
        assert np.isfinite(getattr(estimator, name)).all(), name
    np.testing.assert_allclose(np.linalg.norm(estimator.components_, axis=1), 1)
    assert 0 <= estimator.explained_variance_ratio_.sum() <= 1 + 1e-12


# Warnings, of public facts only


@every_estimator
def test_warnings(make):
    with pytest.warns(PrivacyWarning, match="delta=0.1 exceeds one over") as caught:
        make(1, delta=0.1, **GIVEN).fit(X)
    assert {warning.filename for warning in caught} == {__file__}
    with pytest.warns(PrivacyWarning, match="an int below .*, may be guessed"):
        make(1, random_state=42, **GIVEN).fit(X)
    with pytest.warns(PrivacyWarning, match="Generator, may be guessed"):
        make(1, random_state=np.random.default_rng(0), **GIVEN).fit(X)
    with pytest.warns(PrivacyWarning, match="row_norm may be far off"):
        make(1).fit(X[:50])
    with pytest.warns(PrivacyWarning, match="of 2 components stand out from the noise"):
        make(2, epsilon=0.01, **GIVEN).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(1, epsilon=50, random_state=SECRET, **GIVEN).fit(X)


@every_estimator
def test_a_warning_turned_into_an_error_leaves_what_was_paid_for(make):
    estimator = make(2, epsilon=0.01, random_state=SECRET, **GIVEN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PrivacyWarning, match="stand out from the noise"):
            estimator.fit(X)
    assert estimator.components_.shape == (2, 12)
    assert estimator.privacy_spent_.epsilon == 0.01


def test_components_that_noise_hides_are_not_counted():
    digits = load_digits().data
    pca = DPPCA(0.999, mean_norm=64, row_norm=40, random_state=SECRET)
    with pytest.warns(PrivacyWarning, match=r"Only (\d+) of \d+ components stand out") as caught:
        pca.fit(digits)
    (text,) = (str(warning.message) for warning in caught)
    assert pca.n_components_ == int(text.split()[1]) < 20


@every_estimator
@pytest.mark.parametrize("scale", [0.001, 1.0])
def test_a_warning_tells_what_noise_hides_unless_it_is_next_to_nothing(make, scale):
    random = np.random.default_rng(0)
    turn = np.linalg.qr(random.normal(size=(12, 12)))[0]
    rows = random.normal(size=(2000, 12)) * np.append([3.0, 2.0], np.full(10, scale)) @ turn
    estimator = make(8, epsilon=16 if scale < 1 else 0.1, random_state=SECRET, **GIVEN)
    told = re.search(r"hold up to (\d+)%", warned_by(lambda: estimator.fit(rows)))
    assert told is None if scale < 1 else 10 < int(told[1]) <= 100


@every_estimator
def test_transform_of_other_widths_is_refused(make):
    estimator = make(1, **GIVEN).fit(X)
    for data in (X[:, :5], RowBlocks(lambda: [X[:, :5]], (500, 5))):
        with pytest.raises(ValueError, match=r"5 features, but .* is expecting 12"):
            estimator.transform(data)
