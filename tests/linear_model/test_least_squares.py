"""Least squares at every budget: weak and strong signals, collinear and sparse rows, levels."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LinearRegression
from told import lines_warned_by, warned_by

from skdp import DPLinearRegression, DPStandardScaler, PrivacyWarning, make_dp_pipeline
from skdp.linear_model.least_squares.plan import SIZE_BINS
from skdp.linear_model.least_squares.steps import Level, Whitening, level_from
from skdp.linear_model.low_rank.records import N_POWERS, _visible_bins

KEY = 2**100
ignore_warnings = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


def rows(n, d, seed=0, noise=1.0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, d))
    return X, X @ generator.normal(size=d) / np.sqrt(d) + noise * generator.normal(size=n)


# ------------------------------
# Little budget.


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_too_few_records_for_any_coefficient_give_none_and_say_so(fit_intercept):
    X, y = rows(200, 5)
    model = DPLinearRegression(epsilon=0.5, fit_intercept=fit_intercept, random_state=KEY)
    with pytest.warns(PrivacyWarning, match="^Too few records, .* for any coefficient: all are 0"):
        model.fit(X, y)
    assert not model.coef_.any()
    assert model.feature_bounds_ is None
    assert (model.predict(X) == model.intercept_).all()
    assert fit_intercept or model.intercept_ == 0


def test_fewer_records_than_coefficients_are_too_few_at_each_epsilon():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(60, 80)), generator.normal(size=60)
    model = DPLinearRegression(epsilon=256.0, bounds=(-5, 5))
    with pytest.warns(PrivacyWarning, match="^Too few records, 60 with .* for 81 coefficients"):
        model.fit(X, y)
    assert "Too few" not in warned_by(lambda: model.fit(X[:, :20], y))


@ignore_warnings
def test_a_weak_signal_is_hardly_ever_worse_than_the_mean():
    # Long steps whitened by a noisy moment had an R2 of -.2 here.
    X, y = rows(3000, 50, noise=0.7)
    scores = [DPLinearRegression(random_state=KEY + s).fit(X, y).score(X, y) for s in range(5)]
    assert min(scores) > -0.05
    assert np.mean(scores) > 0.1


@ignore_warnings
def test_with_little_budget_a_strong_signal_keeps_its_length():
    """A released ratio, noisier than the coefficients, shortened half of such fits by a third."""
    X, _ = rows(4000, 4)
    y = X @ [1, 2, 3, 0] + 0.3 * np.random.default_rng(1).normal(size=4000)
    fits = [DPLinearRegression(epsilon=0.25, random_state=KEY + s).fit(X, y) for s in range(10)]
    # Of 100 others all are.
    assert np.mean([fit.score(X, y) > 0.9 for fit in fits]) >= 0.9


@pytest.mark.parametrize("factor", [4.5, 5.9])
def test_one_bin_of_noise_makes_no_clip_level(factor):
    """A bin of few records once made levels, and intercepts, of any size."""
    before, counts = Level(1.3, 0.5), np.zeros(len(SIZE_BINS))
    counts[-1] = factor * 60.0
    assert level_from(counts, 60.0, 331, 0.1, before) is before
    counts[-1] = 7 * 60.0
    assert level_from(counts, 60.0, 331, 0.1, before).value > 1e3


def test_means_of_weights_that_are_noise_stay_within_those_of_responses():
    white = Whitening(np.eye(2), np.ones(2), np.zeros(2), np.full(2, True))
    assert white.mean_of(np.array([0.0, -700.0])) == -1


@ignore_warnings
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_responses_that_tell_nothing_give_hardly_any_coefficients(epsilon):
    X, _ = rows(3000, 10)
    y = np.random.default_rng(7).normal(size=3000)
    assert DPLinearRegression(epsilon=epsilon, random_state=KEY).fit(X, y).score(X, y) > -0.1


# ------------------------------
# Much budget.


@pytest.mark.parametrize("epsilon", [64.0, 1024.0])
def test_the_noise_of_whitening_falls_with_the_budget(epsilon):
    """Five columns of nearly one direction each, apart by a hundredth of their variance."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(20_000, 5))
    X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
    y = 10 * (X[:, 1] - X[:, 0]) + 0.3 * generator.normal(size=20_000)
    best = LinearRegression().fit(X, y).score(X, y)
    model = DPLinearRegression(epsilon=epsilon, random_state=KEY)
    assert model.fit(X, y).score(X, y) > best - 0.02


def test_a_private_fit_that_has_not_converged_says_so():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(4000, 5))
    X[:, 1] = X[:, 0] + 0.05 * X[:, 1]
    y = 30 * (X[:, 1] - X[:, 0]) + 0.3 * generator.normal(size=4000)
    n_warned = 0
    for seed in range(5):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            DPLinearRegression(epsilon=16.0, random_state=KEY + seed).fit(X, y)
        n_warned += any("has not converged" in str(one.message) for one in warned)
    # Of one fit in twenty the predictions are in doubt, and the warning says that instead.
    assert n_warned >= 3


def test_an_ordinary_fit_does_not_warn():
    X, y = rows(8000, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        for seed in range(3):
            DPLinearRegression(epsilon=2.0, random_state=KEY + seed).fit(X, y)


@pytest.mark.parametrize("offset", [3.0, 200.0])
def test_columns_far_from_0_without_an_intercept_are_warned_of(offset):
    X, y = rows(8000, 3)
    X += offset
    # A column of ones is an intercept.
    model = DPLinearRegression(fit_intercept=False, epsilon=16.0, random_state=KEY)
    texts = warned_by(lambda: model.fit(np.column_stack([X, np.ones(8000)]), y))
    assert ("columns lie far from 0" in str(texts)) == (offset > 20)


# ------------------------------
# Sparse rows that are not written out.


@ignore_warnings
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_long_sparse_rows_are_fitted_as_written_out_ones_without_noise(fit_intercept):
    generator = np.random.default_rng(0)
    X = sparse.csr_array(sparse.random(600, 90, 0.2, "csr", random_state=generator))
    y = X @ generator.normal(size=90) + 0.1 * generator.normal(size=600) + 2
    exact = LinearRegression(fit_intercept=fit_intercept).fit(X.toarray(), y)
    model = DPLinearRegression(epsilon=np.inf, fit_intercept=fit_intercept).fit(X, y)
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=1e-7)
    np.testing.assert_allclose(model.predict(X), exact.predict(X), atol=1e-7)


@ignore_warnings
def test_long_sparse_rows_predict_what_clipped_dense_ones_do():
    generator = np.random.default_rng(0)
    X = sparse.csr_array(sparse.random(4000, 90, 0.1, "csr", random_state=generator))
    y = X @ generator.normal(size=90) + 1
    model = DPLinearRegression(epsilon=20.0, random_state=KEY).fit(X, y)
    assert model.score(X, y) > 0.4
    clipped = np.clip(X.toarray(), *model.feature_bounds_)
    np.testing.assert_allclose(model.predict(X), clipped @ model.coef_ + model.intercept_)


@ignore_warnings
def test_rows_too_long_for_a_moment_have_none(monkeypatch):
    monkeypatch.setattr("skdp.linear_model.least_squares.plan._LONGEST_WITH_MOMENT", 80)
    generator = np.random.default_rng(0)
    X = sparse.csr_array(sparse.random(4000, 90, 0.1, "csr", random_state=generator))
    y = 3 * X @ np.ones(90)
    model = DPLinearRegression(epsilon=50.0, random_state=KEY).fit(X, y)
    names = {release.name for release in model.privacy_spent_.releases}
    assert "response moment" not in names
    assert model.score(X, y) > 0.1


@ignore_warnings
def test_hashed_texts_need_no_matrix_of_their_columns():
    # A square matrix of them would take half a terabyte.
    generator = np.random.default_rng(0)
    X = sparse.csr_array(sparse.random(300, 1 << 18, 1e-5, "csr", random_state=generator))
    y = generator.normal(size=300)
    model = DPLinearRegression(epsilon=np.inf, n_iter=8).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


# ------------------------------
# Responses most of which are the same.


def rare_responses(kind, n, d, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, d))
    signal = X @ generator.normal(size=d) / np.sqrt(d)
    above = signal - np.quantile(signal, {"events": 0.96, "amounts": 0.9}[kind])
    return X, (above > 0) * 1.0 if kind == "events" else np.maximum(above, 0.0)


@ignore_warnings
@pytest.mark.parametrize("kind", ["events", "amounts"])
def test_rare_responses_decide_a_fit(kind):
    """Gradients clipped to the usual size, which is that of all others, gave the mean at best."""
    X, y = rare_responses(kind, 6000, 10)
    best = LinearRegression().fit(X, y).score(X, y)
    for epsilon, loss in ((4.0, 0.06), (256.0, 0.01)):
        fits = [DPLinearRegression(epsilon=epsilon, random_state=KEY + s) for s in range(3)]
        scores = [fit.fit(X, y).score(X, y) for fit in fits]
        assert np.median(scores) > best - loss


@ignore_warnings
def test_long_tails_are_clipped_less_as_the_budget_grows():
    """Entries clipped to five scales at any budget left .06 behind least squares."""
    generator = np.random.default_rng(0)
    X = np.exp(1.5 * generator.normal(size=(8000, 8)))
    signal = np.minimum((X - X.mean(0)) / X.std(0), 8) @ generator.normal(size=8)
    y = (signal > np.quantile(signal, 0.95)) * 1.0
    best = LinearRegression().fit(X, y).score(X, y)
    fits = [DPLinearRegression(epsilon=256, random_state=KEY + s).fit(X, y) for s in range(3)]
    assert np.median([fit.score(X, y) for fit in fits]) > best - 0.01


def test_rare_responses_that_are_too_few_are_warned_of():
    X, y = rare_responses("events", 6000, 64)
    with pytest.warns(PrivacyWarning, match="those that differ are too few for 65 coefficients"):
        DPLinearRegression(epsilon=2.0, random_state=KEY).fit(X, y)


@ignore_warnings
def test_a_weak_fit_of_skewed_responses_is_drawn_to_their_mean():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(6000, 60)), (generator.uniform(size=6000) < 0.2) * 1.0
    fits = [DPLinearRegression(epsilon=0.5, random_state=KEY + s).fit(X, y) for s in range(5)]
    # The median is 0.
    assert np.median([fit.predict(X).mean() for fit in fits]) > 0.1


# ------------------------------
# Levels of gradients.


@pytest.mark.slow
@pytest.mark.parametrize("explained", [0.0, 0.1])
def test_a_weak_signal_is_no_silent_loss(explained):
    """Predictions that noise makes are not published without a warning."""
    n_silent, n_fits = 0, 15
    for seed in range(n_fits):
        generator = np.random.default_rng(seed)
        X, noise = generator.normal(size=(4500, 12)), generator.normal(size=4500)
        y = np.sqrt(explained) * X[:, 0] + np.sqrt(1 - explained) * noise
        model = DPLinearRegression(epsilon=0.25, random_state=seed)
        with pytest.warns(PrivacyWarning) as given:
            model.fit(X[:1500], y[:1500])
        is_warned = "no better than the mean" in str(given[0].message)
        n_silent += not is_warned and model.score(X[1500:], y[1500:]) < -0.02
    assert n_silent <= 3


@pytest.mark.parametrize(("at", "response", "least"), [(8, -6.0, 0.0), (16, -12.0, 0.2)])
def test_few_far_rows_that_are_contrary_are_fitted_if_noise_cannot_hide_them(at, response, least):
    # Clipped gradients fitted the other rows. Without privacy R2 is .03, and .43.
    generator = np.random.default_rng(0)

    def rows():
        X = generator.normal(size=(8000, 3))
        y, is_far = X[:, 0] + 0.5 * generator.normal(size=8000), generator.random(8000) < 0.03
        X[is_far, 0] += at
        return X, np.where(is_far, response, y)

    # A warning would be an error.
    model = DPLinearRegression(epsilon=8.0).fit(*rows())
    assert model.score(*rows()) > least


def test_features_that_are_nearly_the_same_get_more_steps():
    # R2 of their difference was .2 at an epsilon of 4, and .55 at 16, with a warning. Twin: .75.
    generator = np.random.default_rng(0)

    def rows():
        first = generator.normal(50, 15, 6000)
        second = first + generator.normal(0, 0.7, 6000)
        y = second - first + 0.4 * generator.normal(size=6000)
        return np.column_stack([first, second, generator.normal(size=6000)]), y

    model = DPLinearRegression(epsilon=16.0).fit(*rows())
    names = [line.name for line in model.privacy_spent_.releases]
    assert sum(name.startswith("collinear gradient") for name in names) == 48
    assert model.score(*rows()) > 0.65


@ignore_warnings
def test_shortened_predictions_keep_their_mean():
    # Noise hides the centers of some hinges, so that slopes and intercept cancel.
    random = np.random.default_rng(0)
    place = random.uniform(0, 10, 4000)
    X = np.maximum(0, place[:, np.newaxis] - np.arange(0, 10, 0.5))
    y = np.sin(place) + random.normal(0, 0.3, 4000)
    model = make_dp_pipeline(DPStandardScaler(), DPLinearRegression(), epsilon=1.0)
    assert model.set_params(random_state=KEY).fit(X, y).score(X, y) > 0.4


@ignore_warnings
def test_far_rows_with_other_responses_shorten_predictions():
    random = np.random.default_rng(0)
    X, is_far = random.normal(size=(10_000, 5)), np.arange(10_000) < 100
    y = X.sum(axis=1) + random.normal(size=10_000)
    X[is_far], y[is_far] = 30 * X[is_far], random.normal(0, 30, 100)
    model = DPLinearRegression(epsilon=256.0, random_state=KEY).fit(X, y)
    # It was -1.2 to -.4.
    assert model.score(X, y) > -0.1


def one_hot(n=3000, n_categories=40):
    """Categories that are rarer and rarer, each with a mean of its own, and the split of rows."""
    random = np.random.default_rng(5)
    shares = 1 / np.arange(1, n_categories + 1)
    of_rows = random.choice(n_categories, 2 * n, p=shares / shares.sum())
    y = random.normal(size=n_categories)[of_rows] + random.normal(0, 0.5, 2 * n)
    X = np.eye(n_categories)[of_rows]
    return X[:n], y[:n], X[n:], y[n:]


@pytest.mark.covered(at_most=2)
@ignore_warnings
@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize(("epsilon", "lost"), [(16.0, 0.05), (64.0, 0.02), (256.0, 0.02)])
def test_rare_categories_are_not_taken_for_constants(epsilon, lost, moves):
    # At 256 the rarest were left out, and behind a scaler most of them, at any budget.
    X, y, X_new, y_new = one_hot()
    least = LinearRegression().fit(X, y).score(X_new, y_new) - lost
    model = DPLinearRegression(epsilon=epsilon, random_state=KEY).fit(X + 7 * moves, y)
    assert model.score(X_new + 7 * moves, y_new) > least
    model = make_dp_pipeline(DPStandardScaler(), DPLinearRegression(), epsilon=epsilon)
    assert model.set_params(random_state=KEY).fit(X, y).score(X_new, y_new) > least


@ignore_warnings
# 7 and 8 have other powers of two, 5 and 6 have not.
@pytest.mark.parametrize("value", [0.0, 7.0, 5.0])
def test_constants_beside_rare_values_have_no_coefficient(value):
    random = np.random.default_rng(0)
    X = random.normal(size=(4000, 8))
    X[:, 4:6] = value
    X[:, 6:] = value + (random.random((4000, 2)) < 0.01)
    y = X[:, 0] + 3 * X[:, 6] + 0.3 * random.normal(size=4000)
    model = DPLinearRegression(epsilon=256.0, random_state=KEY).fit(X, y)
    assert np.abs(model.coef_[4:6]).max() == 0
    assert model.coef_[6] == pytest.approx(3, rel=0.15)


def test_a_tail_beside_the_bulk_counts_in_the_scale_of_responses():
    fractions = np.zeros(N_POWERS)
    fractions[[0, 1, 38, 40, 42, 43, 46, 70]] = 0.2, 0.1, 0.1, 0.4, 0.1, 0.1, 0.1, 0.1
    found = np.flatnonzero(_visible_bins(fractions, 0.15, 0.0267))
    np.testing.assert_array_equal(found, [0, 38, 40, 42, 43])


def test_a_long_tail_that_noise_hides_in_each_bin_counts_in_the_scale_of_responses():
    fractions, noise_std = np.zeros(N_POWERS), 0.02
    fractions[[39, 40]] = 0.3
    fractions[44:52] = 0.05
    # Eight bins have 20 standard deviations of noise together, more than 6 times the root of 8.
    found = np.flatnonzero(_visible_bins(fractions, 6 * noise_std, noise_std))
    np.testing.assert_array_equal(found, [39, 40, *range(44, 52)])
    # The bins of all responses are visible, so that no other bin is merged.
    fractions[[39, 40]] = 0.5
    found = np.flatnonzero(_visible_bins(fractions, 6 * noise_std, noise_std))
    np.testing.assert_array_equal(found, [39, 40])


def test_a_tail_that_noise_hides_gives_a_warning():
    random, warned = np.random.default_rng(0), 0
    y = np.where(np.arange(1600) % 2 == 0, 30, 2.0 ** random.uniform(7, 17, 1600))
    y += random.normal(size=1600)
    for seed in range(20):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            DPLinearRegression(epsilon=0.25, random_state=KEY + seed).fit(y[:, None] % 3, y)
        warned += any("numpy.arcsinh" in str(one.message) for one in caught)
    assert warned >= 12


@pytest.mark.parametrize(("n_hidden", "epsilon", "is_told"), [(3, 1, 0), (5, 1, 1), (3, 0.05, 1)])
def test_few_hidden_features_matter_in_weak_fits_only(n_hidden, epsilon, is_told):
    random = np.random.default_rng(0)
    X = random.normal(size=(20_000, 8))
    X[:, :n_hidden] = random.random((20_000, n_hidden)) < 0.001
    y = X[:, -1] + 0.3 * random.normal(size=20_000)
    model = DPLinearRegression(epsilon=epsilon, random_state=KEY)
    told = lines_warned_by(lambda: model.fit(X, y))
    assert any("a third of the columns" in one for one in told) == is_told


@pytest.mark.parametrize(("size", "is_chance"), [(0.0, True), (2.0, False)])
def test_models_that_few_records_explain_by_chance_are_told(size, is_chance):
    # Nothing explains these responses: R2 is .13 on the records of the fit, and -.18 on new ones.
    generator = np.random.default_rng(0)
    X = generator.normal(size=(400, 60))
    y = size * X[:, 0] + generator.normal(size=400)
    told = warned_by(lambda: DPLinearRegression(epsilon=256.0).fit(X, y))
    assert ("by chance" in told) == is_chance
