"""Pipelines across owners: one budget, steps behind released steps, lies, and what is refused."""

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
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer

from skdp import (
    DPPCA,
    DPLinearRegression,
    DPLogisticRegression,
    DPPipeline,
    DPStandardScaler,
    DPTruncatedSVD,
    make_dp_pipeline,
)
from skdp.exceptions import FederationError
from skdp.federated import Federation

# Small data: most of what is found is noise.
pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

# One column is far wider than the others.
X, Y, (N, D) = TABLE * [1, 1, 30, 1, 1, 1], RESPONSES, TABLE.shape
CLASSES = DPLogisticRegression(classes=["yes", "no"])
CASES = {
    "scaler, classes": (make_dp_pipeline(DPStandardScaler(), CLASSES), X, LABELS),
    "scaler, pca, linear": (
        make_dp_pipeline(DPStandardScaler(bounds=(-200, 200)), DPPCA(3), DPLinearRegression()),
        X,
        Y,
    ),
    "sparse": (
        make_dp_pipeline(DPStandardScaler(with_mean=False), DPTruncatedSVD(3, row_norm=4.0)),
        SPARSE,
        None,
    ),
}
EACH = pytest.mark.parametrize("name", CASES)


def federation_of(name, *args, **options):
    return federation_like(*CASES[name][:2], *args, **options)


@pytest.mark.covered(at_most=1)
@EACH
def test_without_noise_it_is_the_fit_in_one_place(name):
    pipeline, rows, y = CASES[name]
    one = clone(pipeline).set_params(epsilon=np.inf, random_state=0).fit(rows, y)
    model = federation_of(name, np.inf).fit(parts_of(rows), parts_of(y))
    assert set(vars(model)) == set(vars(one))
    for (_, ours), (_, theirs) in zip(model.pipeline_.steps, one.pipeline_.steps, strict=True):
        assert_same_attributes(ours, theirs)


@pytest.mark.covered(at_most=1)
@EACH
def test_the_record_is_that_of_the_whole(name):
    _, rows, y = CASES[name]
    for options in ({}, {"n_rows": None, "unit": "owner"}):
        federation = federation_of(name, 8.0, **options)
        model = federation.fit(parts_of(rows), parts_of(y))
        spent, plan = model.privacy_spent_, federation.plan
        unit = "owner" if options else {"sparse": "row"}.get(name, "record")
        assert (spent.unit, spent.epsilon, plan.unit) == (unit, 8.0, unit)
        assert spent.mu <= plan.cost.mu * (1 + 1e-9)
        names = {one.name for branch in plan.branches for one in branch}
        done = [one.name for one in spent.releases if not one.name.endswith(": skipped")]
        assert set(done) <= names


@pytest.mark.covered(at_most=1)
@EACH
def test_all_owners_get_one_model_and_the_noise_is_that_of_the_plan(name):
    """The noise of each share, in units of the plan's."""
    _, rows, y = CASES[name]
    federation = federation_of(name, colluding=0)
    owners = owners_of(federation, parts_of(rows), parts_of(y))
    stds = {}

    def watching(number, i, question):
        for owner in owners:
            if owner._waiting is not None:
                stds[owner._waiting.layout.name] = owner._waiting.layout.std
        return question

    model = Talk(federation, owners, tamper=watching).run()
    first, *others = (owner.estimator_.pipeline_.steps[-1][1] for owner in owners)
    attribute = "coef_" if hasattr(first, "coef_") else "components_"
    for other in (*others, model.pipeline_.steps[-1][1]):
        np.testing.assert_array_equal(getattr(other, attribute), getattr(first, attribute))
    for release in model.privacy_spent_.releases:
        own_name = release.name.partition(": ")[2]
        if (
            own_name != "skipped"
            and sum(one.name.endswith(f": {own_name}") for one in model.privacy_spent_.releases)
            == 1
        ):
            assert stds[own_name] * np.sqrt(3) == pytest.approx(release.noise_std)


@pytest.mark.covered
@EACH
@pytest.mark.parametrize("seed", range(2))
def test_lying_sums_end_a_fit_or_lead_all_owners_alike(name, seed):
    _, rows, y = CASES[name]
    assert_lies_lead_alike(federation_of(name, aggregator="trusted"), rows, y, seed)


def test_names_and_bounds_by_names():
    frame = pd.DataFrame(X, columns=list("abcdef"))
    scaler = DPStandardScaler(bounds=dict.fromkeys("abcdef", (-300.0, 300.0)))
    pipeline = make_dp_pipeline(scaler, DPPCA(2), epsilon=np.inf)
    federation = Federation(pipeline, N, owners=3, like=frame[:1])
    for parts in (parts_of(frame), parts_of(X)):
        model = federation.fit(parts)
        assert model.feature_names_in_.tolist() == list("abcdef")
        assert model.transform(frame).shape == (N, 2)
    with pytest.raises(ValueError, match="columns"):
        federation.fit(parts_of(frame[list("fedcba")]))


def test_an_owner_comes_back_with_its_state(tmp_path):
    federation = federation_of("scaler, classes")

    def owners(labels=LABELS):
        return owners_of(federation, parts_of(X), parts_of(labels), folder=tmp_path)

    Talk(federation, owners(), stop_at=20).run()
    with pytest.raises(FederationError, match="belongs to another federation"):
        owners(LABELS[::-1])
    assert Talk(federation, owners()).run().score(X, LABELS) >= 0


def test_every_parameter_of_a_step_tells_agreements_apart():
    def digest(*steps, **options):
        return Federation(make_dp_pipeline(*steps, **options), N, D, owners=3)._agreement.digest

    scaler, pca = DPStandardScaler(), DPPCA(2)
    digests = [
        digest(scaler, pca),
        digest(scaler, pca, epsilon=2.0),
        digest(scaler, pca, delta=1e-7),
        digest(scaler, pca, shares={"dppca": 0.5}),
        digest(scaler, DPPCA(3)),
        digest(DPStandardScaler(clip=4.0), pca),
        digest(pca),
        Federation(DPPCA(2), N, D, owners=3)._agreement.digest,
        Federation(DPPipeline([("a", scaler), ("dppca", pca)]), N, D, owners=3)._agreement.digest,
    ]
    assert len(set(digests)) == len(digests)
    assert digest(scaler, pca) == digests[0]


@pytest.mark.parametrize(
    ("steps", "error", "match"),
    [
        ((FunctionTransformer(), DPPCA(2)), TypeError, "a DPPipeline of these, got Function"),
        ((DPStandardScaler(), DPPCA(0.9)), ValueError, "n_components of a step across owners"),
        ((DPStandardScaler(), DPLogisticRegression()), ValueError, "classes"),
        ((DPPCA(2, random_state=0),), ValueError, "random_state"),
    ],
)
def test_what_no_owners_can_agree_on(steps, error, match):
    with pytest.raises(error, match=match):
        Federation(make_dp_pipeline(*steps), N, D, owners=3)
