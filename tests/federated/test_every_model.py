"""Models with scales and targets across owners: sums of parts, neighbors, lies, names, ledgers."""

import pickle

import numpy as np
import pandas as pd
import pytest
from parties import (
    LABELS,
    RESPONSES,
    SPARSE,
    TABLE,
    Talk,
    assert_lies_lead_alike,
    assert_same_attributes,
    federation_like,
    owners_of,
    parts_of,
)
from scipy import sparse
from sklearn.base import clone

from skdp import (
    DPCovariance,
    DPLinearRegression,
    DPLogisticRegression,
    DPStandardScaler,
    DPTraceRegressor,
    RankOneMatrices,
    make_dp_pipeline,
)
from skdp.exceptions import FederationError
from skdp.federated import Federation, _agreement
from skdp.ledger import PrivacyLedger
from skdp.privacy.noise import algorithm_generator
from skdp.testing._recording import RecordingBudget, scripted_budget

# Small data: most of what is found is noise.
pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

RNG = np.random.default_rng(11)
X, Y, (N, D) = TABLE, RESPONSES, TABLE.shape
CELLS = RankOneMatrices.from_indices(RNG.integers(4, size=N), RNG.integers(3, size=N), (4, 3))
CLASSIFIER = DPLogisticRegression(classes=["yes", "no"])
CASES = {
    "scaler": (DPStandardScaler(), X, None),
    "scaler, bounds": (DPStandardScaler(bounds=(-20, 20)), X, None),
    "scaler, sparse": (DPStandardScaler(with_mean=False), SPARSE, None),
    "covariance": (DPCovariance(), X, None),
    "covariance, marginals": (DPCovariance(marginals=True, bounds=(-20, 20)), X, None),
    "linear": (DPLinearRegression(), X, Y),
    "linear, bounds": (DPLinearRegression(bounds=(-20, 20), response_bound=50), X, Y),
    "linear, sparse": (DPLinearRegression(fit_intercept=False), SPARSE, Y),
    "logistic": (CLASSIFIER, X, LABELS),
    "logistic, norm": (clone(CLASSIFIER).set_params(row_norm=10.0), X, LABELS),
    "logistic, sparse": (CLASSIFIER, SPARSE, LABELS),
    "trace": (DPTraceRegressor(rank=2), X.reshape(N, 3, 2), Y),
    "trace, spectral": (DPTraceRegressor(init="spectral", n_iter=3), X.reshape(N, 3, 2), Y),
    "trace, vectors": (DPTraceRegressor(n_iter=5), X, Y),
    "trace, cells": (DPTraceRegressor(rank=1, n_iter=5), CELLS, Y),
}
EACH = pytest.mark.parametrize("name", CASES)


def federation_of(name, *args, **options):
    return federation_like(*CASES[name][:2], *args, **options)


def solved(federation, rows, y, kind):
    """Run the fit of one party with a budget of that kind; return the budget."""
    agreement = federation._agreement
    view = _agreement.view_of(agreement, rows, y)
    budget = kind.of(agreement.plan)
    budget.public_generator = algorithm_generator(agreement.seed)
    with np.errstate(all="ignore"):
        agreement.estimator._solve(agreement.spec, agreement.plan.parts, view, budget)
    return budget


def scripts_of(federation, rows, y):
    """Releases of all rows, and some that no rows give."""
    whole = solved(federation, rows, y, RecordingBudget)
    yield whole.values, whole.released
    rng = np.random.default_rng(3)
    released = [one * rng.uniform(-1, 2, one.shape) for one in whole.released[: len(whole.values)]]
    released = [
        (one + one.T) / 2 if one.ndim == 2 and len(one) == len(one.T) else one for one in released
    ]
    yield None, released


@pytest.mark.covered(at_most=6)
@EACH
@pytest.mark.parametrize("aggregator", ["masked", "trusted"])
def test_without_noise_it_is_the_fit_in_one_place(name, aggregator):
    estimator, rows, y = CASES[name]
    one = clone(estimator).set_params(epsilon=np.inf, random_state=0).fit(rows, y)
    federation = federation_of(name, np.inf, aggregator=aggregator)
    assert_same_attributes(federation.fit(parts_of(rows), parts_of(y)), one)


@pytest.mark.covered(at_most=7)
@EACH
def test_parts_add_up_to_the_sums_of_all_rows(name):
    """Each party gives its part of the very sums of all rows, and nothing of another size."""
    _, rows, y = CASES[name]
    federation = federation_of(name)
    values, script = next(scripts_of(federation, rows, y))
    targets = parts_of(y) or [None] * 3
    of_parts = [
        solved(federation, part, its, scripted_budget(script)).values
        for part, its in zip(parts_of(rows), targets, strict=True)
    ]
    assert {len(one) for one in of_parts} == {len(values)}
    for number, expected in enumerate(values):
        found = sum(one[number] for one in of_parts)
        scale = max(np.abs(expected).max(initial=0), 1)
        np.testing.assert_allclose(found, expected, atol=1e-9 * scale)


def test_matrices_of_two_sparse_factors_are_of_the_kind_that_is_agreed_on():
    _, rows, y = CASES["trace, cells"]
    federation = federation_of("trace, cells")
    view = _agreement.view_of(federation._agreement, parts_of(rows)[0], parts_of(y)[0])
    assert len(view.responses) == len(parts_of(y)[0])


FAR = [1e300, -1e300, 1e6, 0.0, -40.0, 1e-300]


@pytest.mark.covered(at_most=8)
@EACH
@pytest.mark.parametrize("seed", range(2))
def test_a_record_moves_the_part_of_its_owner_by_no_more_than_is_paid_for(name, seed):
    """Whatever sums the owner gets, true ones or not."""
    _, rows, y = CASES[name]
    federation, rng = federation_of(name), np.random.default_rng(seed)
    mine, other = slice(0, 40), rng.integers(40)
    own, its = rows[mine], None if y is None else y[mine]
    if isinstance(rows, RankOneMatrices):
        left, right = own.left.toarray(), own.right.toarray()
        left[other] = rng.choice(FAR, size=left.shape[1])
        theirs = RankOneMatrices(sparse.csr_array(left), sparse.csr_array(right))
    else:
        theirs = own.toarray() if sparse.issparse(own) else own.copy()
        theirs[other] = rng.choice([*FAR, *theirs[other].ravel()], size=theirs[other].shape)
        theirs = sparse.csr_array(theirs) if sparse.issparse(own) else theirs
    targets = its
    if y is not None:
        targets = its.copy()
        targets[other] = rng.choice(["yes", "no"] if y.dtype.kind == "U" else FAR)
    for values, script in scripts_of(federation, rows, y):
        try:
            one, two = (
                solved(federation, part, them, scripted_budget(script))
                for part, them in ((own, its), (theirs, targets))
            )
        except (AssertionError, IndexError, TypeError, ValueError):
            # Made-up releases may lead to another branch, of more or other releases than these.
            assert values is None
            continue
        assert len(one.values) == len(two.values) > 0
        for release, a, b in zip(one.spent().releases, one.values, two.values, strict=False):
            if a.size:
                assert np.linalg.norm(a - b) <= release.sensitivity * (1 + 1e-9), release.name


def test_a_mean_of_the_own_rows_is_the_part_of_an_owner_who_is_a_unit():
    federation = federation_of("scaler, bounds", np.inf, n_rows=None, unit="owner")
    model = federation.fit(parts_of(X))
    means = [part.mean(axis=0) for part in parts_of(X)]
    np.testing.assert_allclose(model.mean_, np.mean(means, axis=0), rtol=1e-12)
    federation = federation_of("logistic", np.inf, n_rows=None, unit="owner")
    model = federation.fit(parts_of(X), parts_of(LABELS))
    # Whoever repeats rows does not count for more.
    often = [np.repeat(part, 5, axis=0) for part in parts_of(X)[:1]] + parts_of(X)[1:]
    labels = [np.repeat(part, 5) for part in parts_of(LABELS)[:1]] + parts_of(LABELS)[1:]
    np.testing.assert_allclose(federation.fit(often, labels).coef_, model.coef_, rtol=1e-6)
    assert federation_of("linear", 4.0, n_rows=None, unit="owner").plan.unit == "owner"


def test_every_party_divides_the_mean_error_by_the_number_of_all_records():
    """Also the coordinator, which has no rows."""
    rows = X[:, :1] - X[:, :1].mean(axis=0)
    # Steps clip most errors of every eighth response, so that the mean error stands out.
    y = rows[:, 0] + 5.0 * (np.arange(N) % 8 == 0)
    model = federation_like(DPLinearRegression(), rows, 200.0).fit(parts_of(rows), parts_of(y))
    assert abs(model.intercept_ - y.mean()) < 3


# ---- names, layouts and labels


def test_names_are_agreed_on():
    names = list("abcdef")
    frame = pd.DataFrame(X, columns=names)
    bounds = {name: (-20 - i, 20.0) for i, name in enumerate(names)}
    scaler = DPStandardScaler(bounds=bounds, epsilon=np.inf)
    federation = Federation(scaler, N, owners=3, like=frame[:1])
    federation.fit(parts_of(X))
    model = federation.fit(parts_of(frame))
    assert model.feature_names_in_.tolist() == names
    np.testing.assert_allclose(model.mean_, X.mean(axis=0), rtol=1e-12)
    assert model.transform(frame).shape == X.shape
    digests = {
        Federation(DPStandardScaler(), N, owners=3, like=like)._agreement.digest
        for like in (frame[:1], frame[names[::-1]][:1], X[:1], X[:1].astype(np.float32), SPARSE * 0)
        if not sparse.issparse(like)
    }
    assert len(digests) == 4
    with pytest.raises(ValueError, match="columns"):
        federation.fit(parts_of(frame[names[::-1]]))
    with pytest.raises(ValueError, match="columns"):
        owners_of(federation, parts_of(frame[names[::-1]]))


def test_nothing_is_read_of_like_but_its_kind():
    for name, (_, rows, _) in CASES.items():
        digest = federation_of(name)._agreement.digest
        assert federation_of(name, like=rows[5:9])._agreement.digest == digest


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_a_federation_holds_no_value_of_like(layout):
    # Nor signs, gaps or which cells a first record has.
    kept = []
    for left in ([[1.0, 0.0], [2.0, 3.0]], [[-1.0, np.nan], [0.0, 3.0]], [[0.0, np.inf]] * 2):
        like = RankOneMatrices(layout(left), layout(left))
        kept.append(pickle.dumps(Federation(CASES["trace, cells"][0], N, owners=3, like=like)))
    assert kept[0] == kept[1] == kept[2]


@pytest.mark.parametrize(
    ("name", "rows", "y", "match"),
    [
        ("trace", X, Y, "another layout than like|rank=2 exceeds"),
        ("trace, vectors", X.reshape(N, 3, 2), Y, "another layout than like"),
        ("trace, cells", X.reshape(N, 4, 3) if D == 12 else X, Y, "features|layout"),
        ("linear", SPARSE, Y, "X must be dense, as was agreed on"),
        ("logistic, sparse", X, LABELS, "X must be sparse, as was agreed on"),
        ("logistic", X, (LABELS == "yes").astype(int), "pass labels as y"),
        ("logistic", X, np.where(LABELS == "yes", "yes", "other"), "a label that is not among"),
        ("linear", X, None, "y"),
        ("linear", X[:, :5], Y, "X has 5 features, but 6 are agreed on"),
        ("linear", X, Y[:-1], "inconsistent|Found"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_spent(name, rows, y, match, tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "a.skdp", dataset="a", epsilon=20.0, delta=1e-5)
    with pytest.raises(ValueError, match=match):
        federation_of(name).fit(parts_of(rows), parts_of(y), ledger=ledger)
    assert len(ledger.entries()) == 0


def test_targets_are_a_list():
    with pytest.raises(ValueError, match="y must be a list with the targets of 3 owners"):
        federation_of("linear").fit(parts_of(X), Y)


@pytest.mark.parametrize("name", ["linear", "logistic"])
def test_a_pipeline_says_that_targets_are_missing(name):
    last = clone(CASES[name][0])
    federation = Federation(make_dp_pipeline(DPStandardScaler(), last), N, D, owners=3)
    with pytest.raises(ValueError, match=f"{type(last).__name__} requires y to be passed"):
        federation.fit(parts_of(X))


# ---- ledgers, states and lies


def test_each_ledger_is_charged_once_and_owners_come_back(tmp_path):
    federation = federation_of("logistic")
    ledgers = [
        PrivacyLedger.create(
            tmp_path / f"{i}.skdp", dataset="a", epsilon=20.0, delta=1e-5, unit="record"
        )
        for i in range(3)
    ]

    def owners(rows=X, labels=LABELS):
        parts = parts_of(rows), parts_of(labels)
        return owners_of(federation, *parts, folder=tmp_path, ledgers=ledgers)

    Talk(federation, owners(), stop_at=9).run()
    swapped = LABELS.copy()
    swapped[5] = "no" if LABELS[5] == "yes" else "yes"
    for data in ((X + 1e-9, LABELS), (X, swapped)):
        with pytest.raises(FederationError, match="belongs to another federation"):
            owners(*data)
    model = Talk(federation, owners()).run()
    assert model.coef_.shape == (1, D)
    assert [len(ledger.entries()) for ledger in ledgers] == [1, 1, 1]
    assert "DPLogisticRegression of 3 owners" in str(ledgers[2].entries()[0])


@pytest.mark.parametrize("name", ["linear", "linear, sparse"])
def test_regressions_of_many_features_fit_without_a_moment_of_their_columns(name, monkeypatch):
    monkeypatch.setattr("skdp.linear_model.least_squares.plan._LONGEST_WITH_MOMENT", 1)
    assert "response moment" not in {one.name for one in federation_of(name).plan.releases}
    test_without_noise_it_is_the_fit_in_one_place(name, "masked")
    test_parts_add_up_to_the_sums_of_all_rows(name)
    test_a_record_moves_the_part_of_its_owner_by_no_more_than_is_paid_for(name, 0)


@pytest.mark.covered(at_most=5)
@EACH
@pytest.mark.parametrize("seed", range(2))
def test_lying_sums_end_a_fit_or_lead_all_owners_alike(name, seed):
    _, rows, y = CASES[name]
    assert_lies_lead_alike(federation_of(name, aggregator="trusted"), rows, y, seed)
