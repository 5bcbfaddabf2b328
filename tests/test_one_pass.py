"""Rows in several calls of partial_fit, and one release."""

import copy
import math
import pickle
import warnings
from unittest.mock import patch

import numpy as np
import pytest
from in_parts import in_parts
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import skdp
from skdp import _one_pass
from skdp.privacy.noise import NoiseSource

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
SECRET = 2**99 + 7
LENGTHS = (100, 1, 299, 200)
GENERATOR = np.random.default_rng(0)
X = np.abs(GENERATOR.normal(size=(sum(LENGTHS), 5))) + np.array([0, 1, 2, 0, 1])
SVD = skdp.DPTruncatedSVD(2, solver="covariance", row_norm=6.0, epsilon=4.0)
COVARIANCE = skdp.DPCovariance(bounds=(0, 6), scales="bounds", epsilon=4.0)
KINDS = [
    SVD,
    clone(SVD).set_params(mean_norm=3.0, adjacency="zero_out"),
    COVARIANCE,
    clone(COVARIANCE).set_params(assume_centered=True, adjacency="zero_out"),
    clone(COVARIANCE).set_params(prior=(np.zeros(5), np.eye(5))),
]
EACH = pytest.mark.parametrize("model", KINDS, ids=repr)
FEW = pytest.mark.parametrize("model", [SVD, COVARIANCE], ids=["svd", "covariance"])


def calls(rows=X):
    return np.split(rows, np.cumsum(LENGTHS)[:-1])


def opened(model, parts=None, **more):
    model = clone(model).set_params(**more)
    for rows in calls() if parts is None else parts:
        assert model.partial_fit(rows) is model
    return model


def assert_same(one, other, tolerance=0.0):
    names = {name for name in vars(other) if name.endswith("_") and name != "privacy_spent_"}
    assert {name for name in vars(one) if name.endswith("_")} == {*names, "privacy_spent_"}
    for name in names:
        mine, theirs = getattr(one, name), getattr(other, name)
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance, err_msg=name)


@EACH
def test_it_is_the_fit_of_the_same_rows_in_parts_bit_for_bit(model):
    # Only the digest of the rows, which keys the noise, is another one.
    own = NoiseSource.__init__
    with patch.object(NoiseSource, "__init__", lambda self, seed=None, _=(): own(self, seed, ())):
        whole = clone(model).set_params(random_state=SECRET).fit(in_parts(X, lengths=LENGTHS))
        one = opened(model, random_state=SECRET).finalize()
    assert_same(one, whole)
    assert one.privacy_spent_ == whole.privacy_spent_


@EACH
def test_without_noise_it_is_the_fit_of_all_rows(model):
    whole = clone(model).set_params(epsilon=math.inf).fit(X)
    assert_same(opened(model, epsilon=math.inf).finalize(), whole, 1e-9)


@FEW
def test_a_seed_repeats_a_pass_and_no_other_has_its_noise(model):
    one = opened(model, random_state=SECRET).finalize()
    assert_same(opened(model, random_state=SECRET).finalize(), one)
    name = "components_" if model is SVD else "covariance_"
    others = [
        opened(model, calls()[::-1], random_state=SECRET).finalize(),
        opened(model, [X], random_state=SECRET).finalize(),
        clone(model).set_params(random_state=SECRET).fit(X),
        opened(model).finalize(),
    ]
    assert all(np.all(getattr(one, name) != getattr(other, name)) for other in others)


@EACH
def test_nothing_is_published_before_the_end(model, tmp_path):
    limit = {"dataset": "rows", "epsilon": 9.0, "delta": 1e-5, "adjacency": model.adjacency}
    ledger = skdp.PrivacyLedger.create(tmp_path / "people.skdp", **limit)
    one = opened(model, ledger=ledger)
    assert {name for name in vars(one) if name.endswith("_")} == {"n_features_in_"}
    with pytest.raises(NotFittedError):
        (one.transform if hasattr(one, "transform") else one.mahalanobis)(X)
    assert not ledger.entries()
    one.finalize()
    assert len(ledger.entries()) == 1
    planned = model.plan(*X.shape)
    assert [line.name for line in one.privacy_spent_.releases] == [
        line.name for line in clone(model).fit(X).privacy_spent_.releases
    ]
    assert one.privacy_spent_.epsilon == planned.cost.epsilon
    # The second call releases nothing.
    before = one.privacy_spent_
    assert one.finalize().privacy_spent_ is before
    assert len(ledger.entries()) == 1


@FEW
def test_exact_sums_are_neither_pickled_nor_copied(model):
    one = opened(model)
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="neither copied nor pickled"):
            leave(one)
    with pytest.raises(ValueError, match="call partial_fit first"):
        clone(one).finalize()
    one.finalize()
    assert "_open_sums" not in vars(pickle.loads(pickle.dumps(one)))


@EACH
@pytest.mark.parametrize("seed", [None, SECRET])
def test_a_file_of_the_sums_is_resumed_once(model, seed, tmp_path):
    key, path = b"k" * 32, tmp_path / "rows.skdp"
    limit = {"dataset": "rows", "epsilon": 9.0, "delta": 1e-5, "adjacency": model.adjacency}
    ledger = skdp.PrivacyLedger.create(tmp_path / "people.skdp", **limit)
    more = {"random_state": seed, "ledger": ledger}
    one = opened(model, calls()[:2], **more)
    one.checkpoint(path, key)
    with pytest.raises(ValueError, match="call partial_fit first"):
        one.finalize()
    with pytest.raises(ValueError, match="cannot be resumed"):
        type(model).resume(path, b"l" * 32)
    again = type(model).resume(path, key)
    with pytest.raises(ValueError, match="resumed before"):
        type(model).resume(path, key)
    if seed is not None:
        with pytest.raises(ValueError, match="has changed since"):
            again.partial_fit(X)
    again.set_params(random_state=seed)
    for rows in calls()[2:]:
        again.partial_fit(rows)
    with pytest.raises(skdp.LedgerError):
        again.finalize()
    again.set_params(ledger=ledger).finalize()
    assert len(ledger.entries()) == 1
    whole = opened(model, random_state=seed).finalize()
    assert again.privacy_spent_.releases == whole.privacy_spent_.releases
    if seed is not None:
        assert_same(again, whole)


def test_what_is_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(ValueError, match="32 secret bytes"):
        opened(SVD).checkpoint(tmp_path / "a", b"short")
    with pytest.raises(ValueError, match="no rows"):
        clone(SVD).checkpoint(tmp_path / "a", b"k" * 32)
    one = opened(SVD)
    (tmp_path / "a").touch()
    with pytest.raises(OSError, match="a"):
        one.checkpoint(tmp_path / "a", b"k" * 32)
    # It goes on.
    one.finalize()
    opened(SVD).checkpoint(tmp_path / "b", b"k" * 32)
    with pytest.raises(ValueError, match="it is a DPTruncatedSVD"):
        skdp.DPCovariance.resume(tmp_path / "b", b"k" * 32)


@FEW
def test_a_refused_call_adds_nothing(model):
    one = opened(model, epsilon=math.inf)
    bad = X[:9].copy()
    bad[3, 2] = np.nan
    for refused in (bad, X[:, :4], X[:0]):
        with pytest.raises(ValueError, match=r"NaN|features|minimum"):
            one.partial_fit(refused)
    assert_same(one.finalize(), clone(model).set_params(epsilon=math.inf).fit(X), 1e-9)
    first = clone(model)
    with pytest.raises(ValueError, match="NaN"):
        first.partial_fit(bad)
    assert not hasattr(first, "n_features_in_")


@FEW
@pytest.mark.parametrize("more", [{"epsilon": 8.0}, {"adjacency": "zero_out"}, {"random_state": 1}])
def test_parameters_do_not_change_on_the_way(model, more):
    one = opened(model).set_params(**more)
    for go_on in (lambda: one.partial_fit(X), one.finalize):
        with pytest.raises(ValueError, match="has changed since the first partial_fit"):
            go_on()
    one.set_params(**{name: model.get_params()[name] for name in more}).finalize()


@pytest.mark.parametrize(
    ("model", "more"),
    [
        *((SVD, {"solver": solver}) for solver in ("auto", "power")),
        (SVD, {"row_norm": None}),
        (SVD, {"privacy_unit": "user"}),
        (SVD, {"privacy_unit": skdp.units.Entry((0, 6)), "row_norm": None, "solver": "auto"}),
        (COVARIANCE, {"scales": None}),
        (COVARIANCE, {"marginals": True}),
        (COVARIANCE, {"privacy_unit": "user"}),
    ],
)
def test_what_takes_more_readings_is_refused_with_what_to_pass(model, more):
    one = clone(model).set_params(**more)
    assert not hasattr(one, "partial_fit")
    with pytest.raises(AttributeError) as refusal:
        one.partial_fit(X)
    assert "Pass these" in str(refusal.value)


def test_units_of_bounds_need_bounds_and_whole_rows():
    for more in ({"bounds": None}, {"missing": "mean"}):
        with pytest.raises(ValueError, match="scales='bounds' needs bounds"):
            clone(COVARIANCE).set_params(**more).fit(X)


@FEW
def test_a_fit_forgets_the_rows_and_a_pass_forgets_the_fit(model):
    one = opened(model, epsilon=math.inf)
    one.fit(X[:50])
    assert_same(one, clone(model).set_params(epsilon=math.inf).fit(X[:50]))
    one.partial_fit(X[50:300])
    assert not hasattr(one, "privacy_spent_")
    one.partial_fit(X[300:]).finalize()
    assert_same(one, clone(model).set_params(epsilon=math.inf).fit(X[50:]), 1e-9)


def test_rows_may_be_sparse_or_in_parts():
    parts = [csr_array(X[:300]), in_parts(X[300:])]
    whole = clone(SVD).set_params(epsilon=math.inf).fit(X)
    assert_same(opened(SVD, parts, epsilon=math.inf).finalize(), whole, 1e-9)


def test_an_interruption_leaves_the_calls_before_as_they_were():
    one = opened(COVARIANCE, epsilon=math.inf)
    trees = copy.deepcopy(one._open_sums.trees)
    stopped = patch.object(_one_pass, "digest_of", side_effect=KeyboardInterrupt)
    with stopped, pytest.raises(KeyboardInterrupt):
        one.partial_fit(X)
    for (_, before), (_, after) in zip(trees, one._open_sums.trees, strict=True):
        np.testing.assert_array_equal(before[0], after[0])


# ------------------------------
# Covariances in units of bounds.


def test_in_bounds_it_is_exact_without_noise_and_near_with_it():
    n = 20_000
    rows = np.random.default_rng(1).multivariate_normal(
        [1, 0, 4], [[1, 0.5, 0], [0.5, 2, 0], [0, 0, 1]], n
    )
    bounds = [(-3, 5), (-6, 6), (0, 8)]
    clipped = np.clip(rows, *np.transpose(bounds))
    model = skdp.DPCovariance(bounds=bounds, scales="bounds", epsilon=math.inf).fit(rows)
    np.testing.assert_allclose(model.covariance_, np.cov(clipped.T, bias=True), rtol=1e-9)
    np.testing.assert_allclose(model.location_, clipped.mean(axis=0), rtol=1e-9)
    assert model.is_located_.all()
    private = clone(model).set_params(epsilon=2.0, random_state=SECRET).fit(rows)
    errors = np.abs(private.covariance_ - model.covariance_) / private.noise_std_
    assert errors.max() < 5
    assert (np.abs(private.location_ - model.location_) < 5 * private.location_noise_std_).all()
    assert private.unclipped_ > 0.95
    np.testing.assert_array_equal(private.feature_bounds_, np.transpose(bounds))
    assert private.regression(1, on=[0])[-1].coef_[0] == pytest.approx(0.5, abs=0.1)
    assert [line.name for line in private.privacy_spent_.releases] == ["scaled second moment"]


def test_in_bounds_rows_are_shortened_alike():
    # Most entries are at one end: all rows are long, and noise is that of shorter ones.
    rows = np.random.default_rng(2).exponential(size=(20_000, 6))
    rows[:, 1] += rows[:, 0]
    given = {"bounds": (0, 40), "scales": "bounds", "random_state": SECRET}
    exact = skdp.DPCovariance(**given, epsilon=math.inf).fit(rows)
    private = skdp.DPCovariance(**given, epsilon=256.0).fit(rows)
    assert 0.3 < private.unclipped_ < 0.7
    np.testing.assert_allclose(private.scale_, exact.scale_, rtol=0.1)
    np.testing.assert_allclose(private.correlation_, exact.correlation_, atol=0.1)
    np.testing.assert_allclose(private.location_, exact.location_, atol=0.2)


def test_in_bounds_a_constant_predicts_nothing():
    rows = np.column_stack([X[:, :2], np.full(len(X), 0.3)])
    exact = skdp.DPCovariance(bounds=(0, 6), scales="bounds", epsilon=math.inf).fit(rows)
    assert exact.correlation_[2].tolist() == [0, 0, 1]
    assert exact.regression(0, on=[1, 2])[-1].coef_[1] == 0


def test_bounds_that_hide_all_columns_are_warned_of():
    model = skdp.DPCovariance(bounds=(-1e4, 1e4), scales="bounds", random_state=SECRET)
    with pytest.warns(skdp.PrivacyWarning, match="Pass bounds that fit better"):
        model.fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", skdp.PrivacyWarning)
        clone(model).set_params(bounds=(0, 6), epsilon=50.0).fit(X)
