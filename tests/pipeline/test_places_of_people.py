"""What is made of people's rows between steps: the rows of one person move those of no other."""

import numpy as np
import pytest
from in_parts import in_parts
from scipy.sparse import coo_array, csr_array
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures
from watched import SEED, farthest

from skdp import DPPCA, DPStandardScaler, make_dp_pipeline
from skdp.data.people import People
from skdp.pipeline._public_steps import of_people

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

GENERATOR = np.random.default_rng(0)
N_PEOPLE = 40
USERS = GENERATOR.permutation(np.repeat(np.arange(N_PEOPLE), GENERATOR.integers(1, 15, N_PEOPLE)))
X = GENERATOR.standard_normal((len(USERS), 4)) * [3, 2, 1, 1]
N_OWN = (1, 2, 3, 50, 5000)


def with_first(n_own):
    """Give the first person other rows, at any places."""
    others, generator = USERS != 0, np.random.default_rng(n_own)
    places = np.sort(generator.integers(0, others.sum() + 1, n_own))
    rows = np.insert(X[others], places, generator.standard_normal((n_own, 4)) * 1e3, axis=0)
    return rows, np.insert(USERS[others], places, 0)


def rounded_by_place(rows):
    """Stand for a product, which a processor may round otherwise in another place.

    Not in the first two, as steps are tried with two public rows.
    """
    by_place = 1e-3 * np.maximum(np.arange(len(rows)) - 1, 0)
    return np.asarray(rows) * (1 + by_place)[:, np.newaxis]


def of_others(rows, users):
    made = of_people(rounded_by_place, People.of(users, N_PEOPLE), rows)
    assert made.shape == rows.shape
    return made[users != 0]


@pytest.mark.parametrize("n_own", N_OWN)
def test_the_rows_of_one_person_leave_all_others_as_they_are(n_own):
    rows, users = with_first(n_own)
    np.testing.assert_array_equal(of_others(rows, users), of_others(X, USERS))
    # Where rows are taken as they come, all that follow move.
    assert (rounded_by_place(rows)[users != 0][-1] != rounded_by_place(X)[USERS != 0][-1]).all()


@pytest.mark.parametrize("contain", [csr_array, coo_array, lambda rows: rows.tolist()])
def test_rows_keep_their_order_in_any_container(contain):
    made = of_people(lambda rows: rows * 2.0, People.of(USERS, N_PEOPLE), contain(X))
    np.testing.assert_array_equal(made.toarray() if hasattr(made, "toarray") else made, 2 * X)


def test_rows_in_parts_have_no_places_and_are_refused():
    unit = {"privacy_unit": "user"}
    pipeline = make_dp_pipeline(DPPCA(2, **unit), DPStandardScaler(**unit), shares={"dppca": 0.5})
    with pytest.raises(ValueError, match="need all rows in memory"):
        pipeline.fit(in_parts(X), users=USERS)


@pytest.mark.slow
@pytest.mark.parametrize(("n_own", "threshold"), [(50, 0), (5000, 0.3)])
def test_no_person_moves_columns_further_than_declared(n_own, threshold):
    unit = {"privacy_unit": "user"}
    codes = OneHotEncoder(categories=[[-1.0, 0.0, 1.0]] * 2, handle_unknown="ignore")
    scaler = DPStandardScaler(**unit, missing="mean")
    parts = [
        ("behind", make_pipeline(FunctionTransformer(np.tanh), scaler), [0, 1]),
        ("codes", make_pipeline(FunctionTransformer(np.rint), codes), [2, 3]),
    ]
    step = ColumnTransformer(parts, sparse_threshold=threshold)
    pipeline = make_dp_pipeline(step, DPPCA(2, **unit), epsilon=4.0, random_state=SEED)

    def fit(rows, users):
        pipeline.fit(with_gaps(rows), users=users)

    assert farthest(fit, (X, USERS), with_first(n_own)) <= 1 + 1e-12


def with_gaps(rows):
    return np.where(np.abs(rows) < [0.2, 0.2, 0, 0], np.nan, rows)


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("n_own", N_OWN)
def test_no_person_moves_a_pipeline_further_than_declared(n_own):
    unit = {"privacy_unit": "user"}
    steps = DPPCA(2, **unit), PolynomialFeatures(), DPStandardScaler(**unit)
    pipeline = make_dp_pipeline(*steps, shares={"dppca": 0.5}, epsilon=4.0, random_state=SEED)
    movement = farthest(
        lambda X, users: pipeline.fit(X, users=users), (X, USERS), with_first(n_own)
    )
    assert movement <= 1 + 1e-12


def test_without_places_of_their_own_people_move_others(monkeypatch):
    monkeypatch.setattr(DPPCA, "transform", _by_place(DPPCA.transform))
    monkeypatch.setattr("skdp.pipeline._public_steps.of_people", lambda function, _, X: function(X))
    with pytest.raises(AssertionError):
        test_no_person_moves_a_pipeline_further_than_declared(max(N_OWN))


def _by_place(transform):
    return lambda own, X: rounded_by_place(transform(own, X))


def test_a_step_that_rounds_by_place_moves_no_other_person(monkeypatch):
    monkeypatch.setattr(DPPCA, "transform", _by_place(DPPCA.transform))
    test_no_person_moves_a_pipeline_further_than_declared(max(N_OWN))
