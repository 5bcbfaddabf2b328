"""Nobody's head or predictions follow other users: bit by bit, with every kernel of BLAS."""

import numpy as np
import pytest

from skdp import DPPersonalizedRegressor
from skdp.linalg.norms import row_products

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
N_USERS, MOVING = 60, 21


def fitted(generator, n_features, n_components, **more):
    """Return a model of random released values, and of odd places in memory."""
    groups = np.repeat(2 * np.arange(N_USERS), 8)
    X = generator.normal(size=(len(groups), n_features))
    y = generator.normal(size=len(groups))
    model = DPPersonalizedRegressor(n_components, epsilon=np.inf, n_iter=1, random_state=0, **more)
    model.fit(X, y, groups)
    model.mean_, model.coef_ = generator.normal(size=(2, n_features))
    model.prior_mix_, model.intercept_variance_ = generator.choice([0.0, 0.3], size=2)
    return model


def variants(generator, X, y, groups):
    """Change the rows, the number of rows, the rank and the presence of one user."""
    own = groups == MOVING
    rest = ~own
    yield np.where(own[:, np.newaxis], 100 * generator.normal(size=X.shape), X), y, groups
    n_more = int(generator.integers(1, 40))
    yield (
        np.concatenate([generator.normal(size=(n_more, X.shape[1])), X[rest]]),
        np.concatenate([generator.normal(size=n_more), y[rest]]),
        np.concatenate([np.full(n_more, MOVING), groups[rest]]),
    )
    for rank in (-1, 2 * N_USERS + 1, 2 * int(generator.integers(N_USERS)) + 1):
        yield X, y, np.where(own, rank, groups)
    yield X[rest], y[rest], groups[rest]
    alone = groups == 0
    yield X[alone], y[alone], groups[alone]


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("n_features", [1, 3, 19, 50])
@pytest.mark.parametrize("decorrelate", [False, True])
def test_heads_and_predictions_of_others_are_equal_bit_by_bit(n_features, decorrelate):
    for number in range(2):
        generator = np.random.default_rng([n_features, decorrelate, number])
        n_components = int(generator.integers(1, min(n_features, 10) + 1))
        model = fitted(generator, n_features, n_components, decorrelate=decorrelate)
        counts = generator.integers(1, generator.choice([3, 30]), size=N_USERS)
        groups = generator.permutation(np.repeat(2 * np.arange(N_USERS), counts))
        groups[0] = MOVING
        X, y = generator.normal(size=(len(groups), n_features)), generator.normal(size=len(groups))
        asked = generator.normal(size=(30, n_features)), np.zeros(30, dtype=int)
        heads = model.personalize(X, y, groups)
        predicted = model.predict(*asked, support=(X, y, groups))
        for given in variants(generator, X, y, groups):
            for user, head in model.personalize(*given).items():
                if user % 2 == 0:
                    np.testing.assert_array_equal(head.coef_, heads[user].coef_)
                    assert head.intercept_ == heads[user].intercept_
            np.testing.assert_array_equal(model.predict(*asked, support=given), predicted)
        own = groups == 0
        head = model.head(X[own], y[own])
        np.testing.assert_array_equal(head.coef_, heads[0].coef_)
        np.testing.assert_array_equal(head.predict(asked[0]), predicted)


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_prediction_does_not_follow_the_other_rows(dtype, order):
    generator = np.random.default_rng(0)
    model = fitted(generator, 19, 2)
    X, y, groups = generator.normal(size=(30, 19)), generator.normal(size=30), np.arange(30) // 3
    asked = np.asarray(generator.normal(size=(40, 19)), dtype=dtype, order=order)
    # Half of them have no rows, and the mean model.
    users = np.arange(40) % 20
    predicted = model.predict(asked, users, support=(X, y, groups))
    for start, stop in ((0, 1), (1, 3), (3, 40), (7, 12), (39, 40)):
        part = np.asarray(asked[start:stop], order=order)
        found = model.predict(part, users[start:stop], support=(X, y, groups))
        np.testing.assert_array_equal(found, predicted[start:stop])


@pytest.mark.parametrize("size", [1, 2, 7, 300, 9000])
def test_a_product_of_rows_is_the_same_wherever_they_are(size):
    generator = np.random.default_rng(size)
    rows, others = generator.normal(size=(2, 9, size))
    for given in (others, others[:1]):
        products = row_products(rows, given)
        np.testing.assert_allclose(products, (rows * given).sum(axis=1), atol=1e-10)
        np.testing.assert_array_equal(products, row_products(np.asfortranarray(rows), given))
        for row in range(9):
            own = given[row : row + 1] if len(given) > 1 else given
            assert row_products(rows[row : row + 1], own)[0] == products[row]
