"""What owners agree on: what is refused, what tells agreements apart, and fits in one process."""

import gc
import math
import pickle
import re
import warnings

import numpy as np
import pytest
from parties import Talk, a_federation, answer_of, owners_of, the_threads
from sklearn.base import clone

import skdp
from skdp import (
    DPPCA,
    BudgetError,
    DPLinearRegression,
    DPLogisticRegression,
    DPTraceClassifier,
    DPTraceRegressor,
    DPTruncatedSVD,
    PrivacyWarning,
)
from skdp.federated import Federation, _federation
from skdp.ledger import PrivacyLedger
from skdp.units import Interaction

# Small data: most of what is found is noise.
pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

RNG = np.random.default_rng(7)
X = (RNG.normal(size=(120, 3)) @ RNG.normal(size=(3, 6)) + RNG.normal(size=(120, 6)) / 3).clip(
    -9, 9
)
FINITE = {"row_norm": 25.0, "mean_norm": 20.0}
PCA = DPPCA(2, epsilon=8.0, **FINITE)


def in_three(X):
    return [X[i::3] for i in range(3)]


def of_rows(estimator, X=X, **options):
    return a_federation(estimator, **({"n_rows": len(X), "n_features": X.shape[1]} | options))


# ---- the model


def fitted(model):
    return {name for name in vars(model) if name.endswith("_") and name[0] != "_"}


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize(
    "estimator",
    [
        DPPCA(2, epsilon=np.inf, **FINITE),
        DPPCA(2, epsilon=np.inf, solver="power", n_iter=12, **FINITE),
        DPPCA(2, epsilon=np.inf, row_norm=25.0, center=False),
        DPPCA(2, epsilon=np.inf, row_norm=25.0, center=[0.5] * 6),
        DPTruncatedSVD(2, epsilon=np.inf, row_norm=25.0),
        DPTruncatedSVD(2, epsilon=np.inf, row_norm=25.0, solver="power", n_iter=12),
        DPTruncatedSVD(2, epsilon=np.inf, privacy_unit=Interaction()),
    ],
    ids=lambda one: " ".join(map(str, (type(one).__name__, one.solver, one.privacy_unit))),
)
def test_without_noise_it_is_the_central_fit(estimator):
    for aggregator in ("masked", "trusted", "none"):
        assert_is_the_central_fit(estimator, aggregator)


def assert_is_the_central_fit(estimator, aggregator):
    rows = np.rint(abs(X)) if estimator.privacy_unit != "row" else X
    central = clone(estimator).set_params(random_state=0).fit(rows)
    model = of_rows(estimator, aggregator=aggregator).fit(in_three(rows))
    attributes = fitted(central)
    assert {"components_", "privacy_spent_"} <= attributes
    assert fitted(model) == attributes
    signs = np.sign(np.sum(model.components_ * central.components_, axis=1))[:, None]
    np.testing.assert_allclose(model.components_ * signs, central.components_, atol=1e-5)
    for name in attributes - {"components_", "privacy_spent_"}:
        found, expected = getattr(model, name), getattr(central, name)
        if np.asarray(expected).dtype.kind in "fi":
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("options", "excess"),
    [
        ({}, math.sqrt(3 / 2)),
        ({"colluding": 0}, 1.0),
        ({"colluding": 2}, math.sqrt(3)),
        ({"aggregator": "trusted"}, math.sqrt(3 / 2)),
        ({"aggregator": "none"}, math.sqrt(3)),
        ({"aggregator": "none", "colluding": 0}, math.sqrt(3)),
    ],
)
def test_the_scale_of_the_noise(options, excess):
    """Exactly: each share is that of the plan over the root of H, and there are s of them."""
    federation = of_rows(PCA, **options)
    assert federation.noise_factor == excess
    talk = Talk(federation, owners_of(federation, in_three(X)), stop_at=2)
    talk.run()
    n_honest = {1.0: 3, math.sqrt(3 / 2): 2, math.sqrt(3): 1}[excess]
    for owner in talk.owners:
        if owner._waiting is None:  # nothing was asked yet
            owner.handle(talk.next[0])
        name, std = owner._waiting.layout.name, owner._waiting.layout.std
        (planned,) = [one for one in federation.plan.releases if one.name == name]
        central = {one.name: one for one in PCA.plan(120, 6).releases}[name]
        assert std * math.sqrt(n_honest) == pytest.approx(planned.noise_std, rel=1e-15)
        # What rounding adds depends on the agreed depth of sums.
        assert planned.noise_std == pytest.approx(central.noise_std, rel=1e-9)


def test_the_record_is_that_of_the_plan():
    for options, unit in (({}, "row"), ({"unit": "owner", "n_rows": None}, "owner")):
        federation = of_rows(PCA, **options)
        spent = federation.fit(in_three(X)).privacy_spent_
        assert (spent.unit, spent.epsilon, spent.delta) == (unit, 8.0, 1e-6)
        assert spent.adjacency == "replace"
        assert [one.name for one in spent.releases] == [
            one.name for one in federation.plan.releases
        ]
        assert f"per {unit}" in repr(federation)


def test_owners_of_many_rows_are_units():
    """The number of units is that of owners, whatever rows they have."""
    federation = of_rows(DPPCA(2, epsilon=np.inf, **FINITE), n_rows=None, unit="owner")
    parts = [X[:10], X[10:100], X[100:101]]
    model = federation.fit(parts)
    means = np.mean([part.mean(axis=0) for part in parts], axis=0)
    np.testing.assert_allclose(model.mean_, means, atol=1e-9)
    # Whoever repeats rows does not count for more.
    again = federation.fit([np.repeat(X[:10], 7, axis=0), *parts[1:]])
    np.testing.assert_allclose(again.components_, model.components_, atol=1e-7)


def test_more_units_than_owners_would_move_a_search(monkeypatch):
    """The copy that counts rows where owners are the units looks for a quantile that is none."""
    estimator = DPPCA(2, epsilon=1e4, mean_norm=20.0)
    parts = [X[i::12] for i in range(12)]
    options = {"owners": 12, "unit": "owner", "aggregator": "trusted"}

    def fit(n_rows):
        return of_rows(estimator, n_rows=n_rows, **options).fit(parts).row_norm_

    # Noise decides at which of a few steps around the quantile a search ends.
    norms = np.linalg.norm(X, axis=1)
    low, high = norms.max() / 2, 2 * norms.max()
    assert low < fit(None) < high
    with pytest.raises(ValueError, match="n_rows must be None with unit='owner'"):
        fit(120)
    monkeypatch.setattr(_federation, "_checked_sizes", lambda *facts: ())
    assert low < fit(12) < high
    assert not low < fit(120) < high


def test_parts_are_those_agreed_on():
    federation = of_rows(PCA)
    with pytest.raises(ValueError, match="parts must be of 3 owners, got 2"):
        federation.fit([X[:60], X[60:]])
    with pytest.raises(ValueError, match="parts have 119 rows, but n_rows=120"):
        federation.fit([X[:40], X[40:80], X[80:119]])
    with pytest.raises(ValueError, match=r"0 sample|0 rows"):
        federation.fit([X[:60], X[60:], X[:0]])


def test_the_estimator_is_not_changed():
    estimator = DPPCA(2, epsilon=8.0, **FINITE)
    before = estimator.get_params()
    federation = of_rows(estimator)
    model = federation.fit(in_three(X))
    assert estimator.get_params() == before
    assert not hasattr(estimator, "components_")
    assert model is not estimator
    assert model.get_params() == before
    # Nor does what happens to it later change what was agreed on.
    text = repr(federation)
    estimator.set_params(epsilon=1.0)
    assert repr(federation) == text
    assert model.transform(X).shape == (120, 2)


def test_federations_are_pickled():
    federation = of_rows(PCA)
    back = pickle.loads(pickle.dumps(federation))
    assert back._agreement.digest == federation._agreement.digest
    assert repr(back) == repr(federation)
    talk = Talk(back, owners_of(federation, in_three(X)))
    assert talk.run() is not None


# ---- the digest of the agreement

SVD = DPTruncatedSVD(2, epsilon=8.0, row_norm=25.0)
OTHERS = {
    DPPCA: {
        "n_components": 3,
        "epsilon": np.nextafter(8.0, 9),
        "delta": 2e-6,
        "adjacency": "zero_out",
        "privacy_unit": None,
        "row_norm": 24.0,
        "mean_norm": 19.0,
        "center": False,
        "coherence_bound": None,
        "prior": None,
        "solver": "covariance",
        "n_iter": None,
        "n_oversamples": None,
        "whiten": True,
    },
    DPTruncatedSVD: {
        "n_components": 3,
        "epsilon": 9.0,
        "delta": 2e-6,
        "adjacency": "zero_out",
        "privacy_unit": Interaction(),
        "row_norm": 24.0,
        "mean_norm": None,
        "coherence_bound": None,
        "solver": "power",
        "n_iter": None,
        "n_oversamples": None,
    },
}
# None: this one needs others.
TOGETHER = [
    (DPPCA, {"center": False, "mean_norm": None}),
    *[
        (DPPCA, {"solver": "covariance", "prior": (np.zeros(6), size * np.eye(6))})
        for size in (1.0, 2.0)
    ],
    (DPTruncatedSVD, {"privacy_unit": Interaction(), "row_norm": None}),
    (DPTruncatedSVD, {"privacy_unit": Interaction(2), "row_norm": None}),
    *[
        (kind, {"solver": "power"} | more)
        for kind in (DPPCA, DPTruncatedSVD)
        for more in ({"n_iter": 2}, {"n_iter": 3}, {"n_oversamples": 1})
    ],
]


def digest_of(estimator, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return of_rows(estimator, **options)._agreement.digest


def test_every_parameter_tells_agreements_apart():
    digests = [digest_of(PCA), digest_of(SVD)]
    changed = {DPPCA: set(), DPTruncatedSVD: set()}
    single = [
        (kind, {name: value})
        for kind, values in OTHERS.items()
        for name, value in values.items()
        if value is not None and name not in ("center", "privacy_unit")
    ]
    for kind, values in single + TOGETHER:
        digests.append(digest_of(clone(PCA if kind is DPPCA else SVD).set_params(**values)))
        changed[kind] |= set(values)
    assert len(set(digests)) == len(digests)
    for kind, names in changed.items():
        assert set(OTHERS[kind]) == set(kind().get_params()) - {"ledger", "n_jobs", "random_state"}
        # These act on other units only, which owners cannot agree on.
        assert set(OTHERS[kind]) - names <= {"coherence_bound", "privacy_unit", "mean_norm"}


def test_every_fact_tells_agreements_apart(monkeypatch):
    digests = [
        digest_of(PCA),
        digest_of(PCA, n_rows=121),
        digest_of(PCA, n_features=7),
        digest_of(PCA, owners=4),
        digest_of(PCA, aggregator="trusted"),
        digest_of(PCA, aggregator="none"),
        digest_of(PCA, colluding=0),
        digest_of(PCA, colluding=2),
        digest_of(PCA, seed=1),
        digest_of(PCA, seed=2**70),
        digest_of(PCA, n_rows=None, unit="owner"),
        digest_of(SVD, sparse=True),
        digest_of(SVD),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(skdp, "__version__", "0.0")
        digests.append(digest_of(PCA))
    with monkeypatch.context() as patch:
        patch.setattr(np, "__version__", "1.0")
        digests.append(digest_of(PCA))
    assert len(set(digests)) == len(digests)
    assert digest_of(PCA) == digests[0]


def test_long_parameters_count_as_a_whole():
    """Where repr elides, values do not."""
    center = np.zeros(3000)
    other = center.copy()
    other[1500] = 1e-300
    assert repr(center) == repr(other)
    one, two = (
        digest_of(DPPCA(2, epsilon=8.0, row_norm=25.0, center=c), n_features=3000)
        for c in (center, other)
    )
    assert one != two


def test_what_changes_nothing_in_a_fit_is_not_agreed_on():
    assert digest_of(clone(PCA).set_params(n_jobs=2)) == digest_of(PCA)
    assert digest_of(clone(PCA).set_params(epsilon=8)) == digest_of(PCA)


# ---- what is refused


class Subclass(DPPCA):
    """May release something else."""


@pytest.mark.parametrize(
    ("estimator", "options", "error", "match"),
    [
        (DPTraceClassifier(), {}, TypeError, "of these, got DPTraceClassifier: other fits"),
        (DPLogisticRegression(), {}, ValueError, "pass classes, a list of all possible labels"),
        (
            DPTraceRegressor(privacy_unit="response"),
            {},
            ValueError,
            "must be 'row', 'record' for models with y",
        ),
        (DPLinearRegression(privacy_unit="user"), {}, ValueError, "unit='owner' protects all rows"),
        (PCA, {"like": np.zeros((1, 6)), "sparse": True}, ValueError, "sparse must be left out"),
        (PCA, {"like": np.zeros((1, 7))}, ValueError, "n_features=., but like has 7 features"),
        (PCA, {"n_features": None}, TypeError, "Pass n_features, the number of columns, or like"),
        (Subclass(2, **FINITE), {}, TypeError, "got Subclass"),
        (DPPCA, {}, TypeError, "got type|got ABCMeta"),
        (None, {"estimator": 3}, TypeError, "got int"),
        (DPPCA(2, delta=0.0, **FINITE), {}, ValueError, "delta|mechanism"),
        (DPPCA(2, epsilon=-1.0, **FINITE), {}, ValueError, "'epsilon' parameter"),
        (DPPCA(2, random_state=0, **FINITE), {}, ValueError, "random_state must be None"),
        (DPPCA(9, **FINITE), {}, ValueError, "n_components=9"),
        (DPPCA(2, row_norm=np.inf, mean_norm=5.0), {}, ValueError, "row_norm"),
        (DPTruncatedSVD(2, privacy_unit="column", row_norm=5.0), {}, ValueError, "privacy_unit"),
        (
            DPTruncatedSVD(2, privacy_unit=Interaction()),
            {"unit": "owner", "n_rows": None},
            ValueError,
            "unit='owner' needs privacy_unit='row', got Interaction",
        ),
        (PCA, {"unit": "rows"}, ValueError, "'unit' parameter of Federation must be a str among"),
        (PCA, {"unit": None}, ValueError, "'unit' parameter .* Got None"),
        (PCA, {"unit": ["row"]}, ValueError, "'unit' parameter .* Got <list>"),
        (PCA, {"aggregator": "server"}, ValueError, "'aggregator' parameter .* Got 'server'"),
        (PCA, {"colluding": 3}, ValueError, r"dropouts=\d+ must add to less than owners=3"),
        (PCA, {"colluding": -1}, ValueError, "'colluding' parameter .* Got -1"),
        (PCA, {"colluding": 0.5}, TypeError, "'colluding' parameter .* must be an int"),
        (PCA, {"owners": 0}, ValueError, "'owners' parameter .* Got 0"),
        (PCA, {"owners": "3"}, TypeError, "'owners' parameter .* must be an int"),
        (PCA, {"owners": 1}, ValueError, r"dropouts=\d+ must add to less than owners=1"),
        (PCA, {"owners": 121}, ValueError, "n_rows == 120, must be >= 121"),
        (PCA, {"seed": -1}, ValueError, "'seed' parameter .* Got -1"),
        (PCA, {"seed": None}, TypeError, "'seed' parameter .* must be an int"),
        (
            PCA,
            {"n_rows": None},
            TypeError,
            "n_rows must be the number of rows of all owners",
        ),
        (PCA, {"n_rows": 120.0}, TypeError, "n_rows must be an instance of"),
        (PCA, {"n_features": 0}, ValueError, "'n_features' parameter .* Got 0"),
        (PCA, {"n_rows": 120, "unit": "owner"}, ValueError, "n_rows must be None .* got 120"),
        (DPPCA(2, epsilon=1e-6, delta=1e-6, **FINITE), {"owners": 60}, BudgetError, "fewer owners"),
    ],
)
def test_what_no_owners_can_agree_on(estimator, options, error, match):
    given = {"estimator": estimator, "n_rows": 120, "n_features": 6, "owners": 3} | options
    with pytest.raises(error, match=match):
        Federation(given.pop("estimator"), **given)


def test_an_estimator_with_a_ledger_is_refused(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "a.skdp", dataset="a", epsilon=20.0, delta=1e-5)
    with pytest.raises(ValueError, match="each owner has its own"):
        of_rows(clone(PCA).set_params(ledger=ledger))


@pytest.mark.skipif(not hasattr(PCA, "set_callbacks"), reason="scikit-learn has none below 1.9")
def test_an_estimator_with_callbacks_is_refused():
    """Nobody would call them, nor tear them down."""

    class Watching:
        def setup(self, estimator, context):
            raise AssertionError("A fit calls what was refused.")

        teardown = on_fit_task_begin = on_fit_task_end = setup

    watched = clone(PCA).set_callbacks(Watching())
    with pytest.raises(TypeError, match=r"DPPCA has callbacks .* set_callbacks\(\) removes them"):
        of_rows(watched)
    assert of_rows(watched.set_callbacks()).fit(in_three(X)).n_components_ == 2


# ---- the ledger


def test_a_fit_is_charged_once(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "a.skdp", dataset="a", epsilon=20.0, delta=1e-5)
    federation = of_rows(PCA)
    with pytest.raises(ValueError, match="parts have"):
        federation.fit([X, X, X], ledger=ledger)
    bad = in_three(X.copy())
    bad[2][3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        federation.fit(bad, ledger=ledger)
    assert len(ledger.entries()) == 0
    federation.fit(in_three(X), ledger=ledger)
    (entry,) = ledger.entries()
    assert "DPPCA" in str(entry)
    left = ledger.remaining()
    for _ in range(2):
        with pytest.raises(BudgetError):
            of_rows(clone(PCA).set_params(epsilon=19.0)).fit(in_three(X), ledger=ledger)
    assert len(ledger.entries()) == 1
    assert ledger.remaining() == left


# ---- threads


def test_no_thread_stays_behind(tmp_path):
    before = the_threads()
    federation = of_rows(PCA)
    federation.fit(in_three(X))
    assert the_threads() <= before
    little = PrivacyLedger.create(tmp_path / "b.skdp", dataset="b", epsilon=1.0, delta=1e-6)
    with pytest.raises(BudgetError):
        federation.fit(in_three(X), ledger=little)
    assert the_threads() <= before
    # Owners that nobody closes, in the middle of a fit and at its end.
    for stop_at in (3, None):
        talk = Talk(federation, owners_of(federation, in_three(X)), stop_at=stop_at)
        talk.run()
        if stop_at:
            assert len(the_threads() - before) == 3
        del talk
        gc.collect()
        assert the_threads() <= before


def test_what_is_raised_in_a_fit_arrives(monkeypatch):
    before = the_threads()

    def fails(*_, **__):
        raise ZeroDivisionError("In a thread.")

    monkeypatch.setattr("skdp.federated._owner.run_fit", fails)
    with pytest.raises(ZeroDivisionError, match="In a thread"):
        of_rows(PCA).fit(in_three(X))
    assert the_threads() <= before


def test_owners_who_leave_while_a_fit_goes_on():
    federation = of_rows(PCA)
    owners = owners_of(federation, in_three(X))

    def closing(number, i, question):
        if number == 3 and i == 1:
            owners[1].close()
        return question

    with pytest.raises(skdp.FederationError, match="closed or interrupted"):
        Talk(federation, owners, tamper=closing).run()


# ---- bytes


def test_the_agreement_in_words():
    text = repr(a_federation(DPPCA(1, epsilon=8.0, **FINITE), n_rows=600, owners=10, colluding=2))
    assert "Federation of 10 owners, 8 honest shares" in text
    assert "noise std of sums: 1.118 times that of the plan" in text
    assert "exchanges: 5 at most" in text
    assert "0.1 kB of numbers each" in text
    assert "second moment" in text
    assert "exchanges: 3 at most" in repr(
        a_federation(DPPCA(1, epsilon=8.0, **FINITE), n_rows=600, aggregator="trusted")
    )


def planned_sizes(federation):
    """Bytes of each release of the plan, by its name."""
    shares, plan = federation._agreement.shares, federation.plan
    return {one.name: shares.planned(plan.cost, one).n_bytes for one in plan.releases}


def test_planned_bytes():
    wide = DPPCA(10, row_norm=5.0, center=False, solver="covariance")
    federation = a_federation(wide, n_rows=10_000, n_features=500, owners=10)
    assert planned_sizes(federation) == {"second moment": 501_000}
    assert "sends and gets 501.0 kB" in repr(federation)
    # As many columns again, for oversampling.
    steps = DPTruncatedSVD(10, row_norm=5.0, solver="power", n_iter=2)
    sizes = planned_sizes(a_federation(steps, n_rows=10**6, n_features=5000, owners=10))
    assert sizes["step 1"] == sizes["step 2"] == 400_000


@pytest.mark.parametrize("solver", ["covariance", "power"])
def test_bytes_are_those_of_the_plan(solver):
    federation = of_rows(clone(PCA).set_params(solver=solver))
    talk = Talk(federation, owners_of(federation, in_three(X)))
    talk.run()
    answers = [answer_of(one[0]) for one in talk.answers]
    sent = sum(array.nbytes for answer in answers for array in answer.arrays)
    assert sent == sum(planned_sizes(federation).values())
    (kilobytes,) = re.findall(r"sends and gets ([\d,.]+) kB", repr(federation))
    assert float(kilobytes) == pytest.approx(sent / 1e3, abs=0.05)
    assert len(talk.answers) == int(re.findall(r"exchanges: (\d+) at most", repr(federation))[0])
    # Heads are all there is beside numbers, in both directions.
    for i in range(2, len(talk.answers)):
        assert len(talk.answers[i][0]) - sum(a.nbytes for a in answers[i].arrays) < 300
