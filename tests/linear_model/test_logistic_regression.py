"""The logistic regression: its twin of scikit-learn, its classes, its warnings, what is null."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler
from told import warned_by
from utility import KEY

from skdp import DPLogisticRegression, PrivacyWarning
from skdp.data.parts import Targets
from skdp.data.sources import as_source
from skdp.linear_model.logistic import fit as logistic_fit
from skdp.linear_model.logistic import plan as logistic_plan
from skdp.privacy.clipping import clipped

NAMES = np.array(["ash", "birch", "cedar"])
SEED = 2**100 + 3


def drawn(n_records, n_classes, n_features=4, seed=0):
    """Records whose classes overlap, of unlike sizes."""
    generator = np.random.default_rng(seed)
    codes = np.minimum(generator.geometric(0.5, size=n_records) - 1, n_classes - 1)
    centers = np.random.default_rng(7).normal(size=(n_classes, n_features))
    mixing = np.random.default_rng(8).normal(size=(n_features, n_features))
    return (generator.normal(size=(n_records, n_features)) + centers[codes]) @ mixing + 2, codes


def private(**more):
    return DPLogisticRegression(**{"classes": [0, 1], "random_state": SEED, **more})


def of_standardized(X, y):
    """Fit scikit-learn's with C=1 to standardized columns; coefficients are in units of X."""
    scaler = StandardScaler().fit(X)
    model = LogisticRegression(tol=1e-10, max_iter=10_000).fit(scaler.transform(X), y)
    model.coef_ = model.coef_ / scaler.scale_
    model.intercept_ = model.intercept_ - model.coef_ @ scaler.mean_
    return model


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("container", [np.asarray, csr_array])
@pytest.mark.parametrize("row_norm", [np.inf, None, 2.0])
def test_without_noise_it_is_that_of_scikit_learn_of_clipped_rows(n_classes, container, row_norm):
    X, codes = drawn(400, n_classes)
    ours = DPLogisticRegression(classes=NAMES[:n_classes], epsilon=np.inf, row_norm=row_norm)
    ours.fit(container(X), NAMES[codes])
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    theirs = of_standardized(X * np.minimum(1, (row_norm or np.inf) / norms), NAMES[codes])
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-3, atol=1e-3)
    for name in ("decision_function", "predict_proba", "predict_log_proba"):
        found, expected = getattr(ours, name)(container(X)), getattr(theirs, name)(X)
        np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-3, err_msg=name)
    assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.99
    assert ours.score(X, NAMES[codes]) == np.mean(ours.predict(X) == NAMES[codes])


def test_without_noise_constant_columns_and_columns_in_any_units_do_no_harm():
    X, codes = drawn(400, 2)
    units = 10.0 ** np.array([-150, -8, 0, 8, 150, 3])[: X.shape[1]]
    plain, odd = (DPLogisticRegression(classes=[0, 1], epsilon=np.inf) for _ in range(2))
    plain.fit(X, codes)
    odd.fit(np.column_stack([X * units, np.full(400, 7.0)]), codes)
    np.testing.assert_allclose(odd.coef_[0, :-1] * units, plain.coef_[0], rtol=1e-3, atol=1e-4)
    assert abs(odd.coef_[0, -1]) < 1e-9


@pytest.mark.covered(at_most=5)
@pytest.mark.parametrize("constant", [0.1, 0.3, 7.0])
@pytest.mark.parametrize("offset", [0.0, 1e6, 1e8, 1e10])
def test_without_noise_rounding_tells_nothing(constant, offset):
    """Of columns far from 0, however far, and of columns whose one value has no exact square."""
    X, codes = drawn(600, 2)
    model = DPLogisticRegression(classes=[0, 1], epsilon=np.inf)
    near = clone(model).fit(X, codes).coef_[0]
    far = np.column_stack([X[:, 1:], np.full(600, constant), X[:, 0] + offset])
    coefs = model.fit(far, codes).coef_[0]
    assert np.isfinite(coefs).all()
    assert abs(coefs[-2]) < 1e-9
    if offset <= 1e6:  # farther away rounding hides the column, and what is found of it
        np.testing.assert_allclose(np.append(coefs[-1], coefs[:-2]), near, atol=0.02)


@pytest.mark.covered(at_most=1)
@pytest.mark.filterwarnings("ignore:random_state")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_with_little_noise_it_predicts_as_scikit_learn_does(n_classes, adjacency):
    X, codes = drawn(4000, n_classes)
    bounded = X * np.minimum(1, 6 / np.linalg.norm(X, axis=1, keepdims=True))
    of_norm = {"adjacency": adjacency, "row_norm": 6.0}
    for rows, more in [(X, {"adjacency": adjacency}), (csr_array(X), {}), (bounded, of_norm)]:
        theirs = LogisticRegression().fit(rows, codes).score(rows, codes)
        model = private(classes=range(n_classes), epsilon=4.0, **more).fit(rows, codes)
        assert model.score(rows, codes) > theirs - 0.02


def test_no_large_budget_fits_few_records_alone():
    # Scores grow for as long as training records gain: without a penalty the losses of other
    # records are 1.6 times those of scikit-learn, with it 1.1 times.
    codes, losses = np.arange(1250) % 20, np.zeros(2)
    for seed in range(2):
        generator = np.random.default_rng(seed)
        X = generator.normal(size=(20, 16))[codes] + generator.normal(size=(1250, 16))
        X /= X.std(axis=0)
        ours = DPLogisticRegression(classes=list(range(20)), epsilon=1e5, random_state=SEED + seed)
        models = ours, LogisticRegression(max_iter=1000)
        for model in models:
            model.fit(X[:250], codes[:250])
        losses += [log_loss(codes[250:], model.predict_proba(X[250:])) for model in models]
    assert losses[0] < 1.25 * losses[1]


def test_labels_of_y_are_classes_with_a_warning():
    X, codes = drawn(1000, 3)
    with pytest.warns(PrivacyWarning, match="which labels occur becomes public"):
        model = DPLogisticRegression(epsilon=4.0).fit(X, NAMES[codes])
    assert model.classes_.tolist() == NAMES.tolist()
    assert not model.privacy_spent_.enforced
    given = DPLogisticRegression(classes=NAMES[::-1], epsilon=4.0).fit(X, NAMES[codes])
    assert given.classes_.tolist() == NAMES.tolist()
    assert given.privacy_spent_.enforced


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
@pytest.mark.parametrize(
    "labels", [NAMES, NAMES.astype(object), np.array([-1, 5, 9]), [3.0, 4.0, 5.0]]
)
def test_a_class_without_records_keeps_its_column(labels):
    X, codes = drawn(2000, 2)
    model = DPLogisticRegression(classes=labels, epsilon=8.0).fit(X, np.asarray(labels)[codes])
    assert model.classes_.dtype == np.asarray(labels).dtype
    assert model.coef_.shape == (3, 4)
    assert model.predict_proba(X).shape == (2000, 3)
    assert model.predict_proba(X)[:, 2].mean() < 0.02
    assert set(model.predict(X)) <= set(labels)


@pytest.mark.parametrize(
    "classes",
    [
        [1],
        [],
        [1, 1],
        "ab",
        3,
        [0.5, 1.5],
        [[0, 1]],
        [0, np.nan],
        [None, 1],
        [0, "a"],
        [0, 1.0],
        [0, 2**53],
    ],
)
def test_what_are_no_classes_is_refused_by_name(classes):
    X, codes = drawn(20, 2)
    with pytest.raises(ValueError, match="classes must be"):
        DPLogisticRegression(classes=classes).fit(X, codes)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"delta": 0}, "delta=0"),
        ({"row_norm": np.inf}, "row_norm=inf"),
        ({"privacy_unit": "response"}, "privacy_unit"),
        ({"row_norm": 0.0}, "row_norm"),
    ],
)
def test_what_gives_no_guarantee_is_refused(parameters, message):
    X, codes = drawn(20, 2)
    with pytest.raises(ValueError, match=message):
        private(**parameters).fit(X, codes)


def test_a_plan_needs_classes():
    with pytest.raises(ValueError, match="pass classes"):
        DPLogisticRegression().plan(20, 4)


@pytest.mark.parametrize("size", [1e300, 1e160])
def test_without_noise_rows_too_long_to_be_squared_break_no_fit(size):
    X, codes = drawn(50, 2)
    model = private(epsilon=np.inf).fit(size * X, codes)
    assert np.isfinite(model.coef_).all()


class _Foreign(str):
    """A label with code of its own, whose errors may tell it."""

    def __hash__(self):
        raise ValueError(f"this is {self!r}")


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_code_of_a_label_is_not_run():
    X, codes = drawn(20, 2)
    labels = np.array([_Foreign(name) for name in NAMES[codes]], dtype=object)
    model = private(classes=["ash", "birch"], epsilon=np.inf).fit(X, labels)
    assert model.score(X, labels) == model.score(X, NAMES[codes]) > 0.5
    assert set(map(type, DPLogisticRegression().fit(X, labels).classes_)) == {str}


KINDS_OF_LABELS = {
    "bools of numbers": ([0, 1], lambda codes: codes > 0),
    "long ints": ([2**52, 2**52 + 1], lambda codes: codes.astype(np.uint64) + np.uint64(2**52)),
    "numbers as objects": ([0, 1], lambda codes: codes.astype(object)),
    "strings": (["ash", "birch"], lambda codes: NAMES[codes]),
    "objects": (["ash", "birch"], lambda codes: NAMES.astype(object)[codes]),
    "a list": (range(2), lambda codes: codes.tolist()),
    "categories": (["ash", "birch"], lambda codes: pd.Series(NAMES[codes]).astype("category")),
}


@pytest.mark.filterwarnings("ignore:random_state")
@pytest.mark.parametrize("kind", KINDS_OF_LABELS)
def test_labels_of_any_kind_give_the_same_classes(kind):
    (classes, of_codes), (X, codes) = KINDS_OF_LABELS[kind], drawn(300, 2)
    given = {"epsilon": np.inf, "row_norm": np.inf}
    found = DPLogisticRegression(classes=classes, **given).fit(X, of_codes(codes))
    expected = DPLogisticRegression(classes=[0, 1], **given).fit(X, codes)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    assert found.classes_.tolist() == list(classes)
    assert found.score(X, of_codes(codes)) == expected.score(X, codes)


@pytest.mark.covered
@pytest.mark.parametrize("classes", [["ash", "birch"], None])
@pytest.mark.parametrize("odd", [1, None, np.nan, 0.5, b"ash", ("ash", 1), 1j, NAMES])
def test_labels_that_cannot_be_compared_are_refused_unnamed(odd, classes):
    X, codes = drawn(50, 2)
    labels = NAMES.astype(object)[codes]
    labels[7] = odd
    with pytest.raises(ValueError, match=r"Unknown label|NaN|cannot be read") as refused:
        DPLogisticRegression(classes=classes).fit(X, labels)
    assert not any(name in str(refused.value) for name in NAMES)
    assert refused.value.__cause__ is refused.value.__context__ is None


@pytest.mark.filterwarnings("ignore:random_state")
def test_it_warns_of_what_noise_hides():
    X, codes = drawn(2000, 2)
    model = private(epsilon=2.0)
    assert warned_by(lambda: model.fit(X, codes)) == ""
    few = warned_by(lambda: model.fit(X[:30], codes[:30]))
    assert "Probabilities may be no better" in few
    assert "row_norm" in few
    assert "clip norm: the search ended" in warned_by(lambda: model.fit(X * 1e20, codes))
    # Noise alone exceeds its edge now and then.
    seeds = range(SEED, SEED + 9)
    fits = [private(row_norm=1e6, random_state=seed) for seed in seeds]
    told = [warned_by(lambda fit=fit: fit.fit(X, codes)) for fit in fits]
    hidden = [text for text in told if "noise hides how most columns vary" in text]
    assert len(hidden) > 4
    assert all("pass a smaller row_norm" in text for text in hidden)
    # A single feature has no other beside it.
    assert warned_by(lambda: model.fit(X[:, :1], codes)) == ""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:random_state")
def test_no_model_of_noise_is_silent():
    generator = np.random.default_rng(0)
    for n_classes in (2, 3):
        for key in range(8):
            X, codes = generator.normal(size=(3000, 12)), generator.integers(n_classes, size=3000)
            model = private(classes=range(n_classes), random_state=SEED + key)
            told = warned_by(lambda model=model, X=X, codes=codes: model.fit(X, codes))
            assert "Probabilities may be no better" in told
            # Probabilities are nearly the frequencies.
            assert np.ptp(model.decision_function(X), axis=0).max() < 4


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:random_state")
def test_noise_alone_seldom_gives_a_column_of_zeros_a_coefficient():
    """New rows may have other values there."""
    X = np.random.default_rng(0).normal(size=(3000, 4))
    codes = (2 * X[:, 0] + np.random.default_rng(1).logistic(size=3000) > 0).astype(int)
    X[:, -1] = 0
    fits = [private(epsilon=4.0, random_state=SEED + key).fit(X, codes) for key in range(20)]
    assert sum(fit.coef_[0, -1] == 0 for fit in fits) > 16


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("rare", NAMES[:2])
def test_it_names_a_class_that_noise_hides(rare):
    X, _ = drawn(2000, 2)
    often = next(name for name in NAMES[:2] if name != rare)
    few, many = (np.where(np.arange(len(X)) < count, rare, often) for count in (4, 300))
    models = [private(classes=NAMES[:2], epsilon=2.0, random_state=SEED + key) for key in range(6)]
    warned = [warned_by(lambda model=model: model.fit(X, few)) for model in models]
    named = f"1 of 2 classes (classes_[{list(NAMES[:2]).index(rare)}]) may be lost in the noise"
    # The noise of one fit in twelve hides all, and another warning tells.
    assert sum(named in one for one in warned) >= 4
    model = models[0]
    # Enough of them, though few beside the others.
    assert "may be lost in the noise" not in warned_by(lambda: model.fit(X, many))
    # Of too few records altogether another warning tells.
    told = warned_by(lambda: model.fit(X[:30], few[:30]))
    assert "may be lost in the noise" not in told
    assert "Probabilities may be no better" in told


@pytest.mark.covered
@pytest.mark.parametrize("container", [np.asarray, csr_array])
@pytest.mark.parametrize("bound", [1e-100, 1.0, 1e100])
@pytest.mark.parametrize("noise", [1e-12, 1e-3, 1.0, 1e12])
def test_no_gradient_of_a_record_is_longer_than_the_level(container, bound, noise):
    """However long the mean, and however unlike the eigenvalues, by which rows are whitened."""
    generator, beside, longest = np.random.default_rng(0), logistic_plan.weights_beside(bound), 0.0
    rows = bound * (generator.normal(size=(30, 5)) * 10.0 ** np.arange(-3, 2) + 1)
    for row in rows:
        moment = noise * bound**2 * generator.normal(size=(9, 9)) + np.diag([bound**2] * 9) / 4
        moment[:5, 5] += beside[0] * row
        white = logistic_plan.whitening_of(moment + moment.T, noise * bound**2, beside[0], 5)
        source, codes = as_source(container(row[None])), Targets.of(np.array([1]))
        view = logistic_plan.LabeledRows(source, codes=codes).measured()
        level = np.hypot(white.clip_norm, 1) / 4
        record = logistic_fit.whitened(clipped(view, bound), white, level)
        weights = 10.0 ** generator.uniform(-3, 8) * generator.normal(size=(6, 3))
        longest = max(longest, np.linalg.norm(record.gradient(weights)) / level)
    assert 0.99 < longest <= 1 + 1e-9


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_types_and_shapes():
    X, codes = drawn(1000, 2)
    model = private().fit(X.astype(np.float32), codes)
    assert model.coef_.dtype == model.intercept_.dtype == np.float32
    assert model.decision_function(X).shape == (1000,)
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_few_records_have_nearly_the_loss_of_the_frequencies():
    """Where the joint moment hides how frequent classes are, their counts are released."""
    parts = np.array([0.5, 0.3, 0.15, 0.04, 0.01])
    excess = []
    for seed in range(10):
        generator = np.random.default_rng(seed)
        X, y = generator.normal(size=(1750, 6)), generator.choice(5, size=1750, p=parts)
        model = DPLogisticRegression(epsilon=0.25, classes=list(range(5)), random_state=seed)
        probabilities = model.fit(X[:750], y[:750]).predict_proba(X[750:])
        excess.append(log_loss(y[750:], probabilities, labels=range(5)) + parts @ np.log(parts))
    assert np.median(excess) < 0.18


@pytest.mark.parametrize("n_classes", [2, 3])
def test_far_rows_have_probabilities_like_those_of_the_fit(n_classes):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(8000, 5))
    scores = 2 * X[:, :n_classes] + generator.gumbel(size=(8000, n_classes))
    y = scores.argmax(axis=1)
    # Each has a column that is missing by this number.
    X[np.arange(0, 8000, 20), generator.integers(0, 5, 400)] = -999.0
    model = DPLogisticRegression(classes=range(n_classes), random_state=KEY).fit(X, y)
    likely = model.predict_proba(X)
    assert log_loss(y, likely) < 0.96 * np.log(n_classes)
    assert likely.min() > 1e-9
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(likely))
    assert (np.abs(model.set_params(epsilon=np.inf).fit(X, y).score_bounds_) > 1e300).all()


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_predicted_class_is_the_most_probable_one_beyond_the_bounds_of_scores(n_classes, dtype):
    X, y = drawn(400, n_classes)
    model = private(classes=range(n_classes), epsilon=64.0).fit(X.astype(dtype), y)
    # Bounds that favor the first class: those of a weak fit to a rare class are like these.
    favored = np.arange(model.score_bounds_.shape[1], 0, -1.0)
    sign = -1 if n_classes == 2 else 1
    model.score_bounds_ = np.stack([sign * favored - 0.1, sign * favored + 0.1]).astype(dtype)
    predicted, likely = model.predict(X.astype(dtype)), model.predict_proba(X.astype(dtype))
    assert len(np.unique(predicted)) == n_classes
    np.testing.assert_array_equal(likely.argmax(axis=1), predicted)
    np.testing.assert_allclose(likely.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(
        model.predict_log_proba(X.astype(dtype)), np.log(likely), rtol=1e-4, atol=1e-5
    )
