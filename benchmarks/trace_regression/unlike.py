"""Data unlike those of the tables: offsets, huge units, rare responses and features."""

import numpy as np
from scipy import sparse
from scipy.stats import norm

N = 20_000
COEFFICIENTS = np.array([1.0, -0.8, 0.6, 0.9, -0.7, 0.5])
NOISE = 0.75
SPREAD = float(np.hypot(np.linalg.norm(COEFFICIENTS), NOISE))


def usual(random, n_records):
    X = random.normal(size=(n_records, len(COEFFICIENTS)))
    return X, X @ COEFFICIENTS + NOISE * random.normal(size=n_records)


def with_first_feature(change):
    """Change what the first feature is written as."""

    def make(random, n_records):
        X, y = usual(random, n_records)
        return np.column_stack([change(X[:, 0]), X[:, 1:]]), y

    return make


def with_responses(change):
    def make(random, n_records):
        X, y = usual(random, n_records)
        return X, change(y)

    return make


def above(share):
    """Tell the largest responses."""
    return lambda y: (y > SPREAD * norm.isf(share)).astype(float)


def date_of(z):
    """Write numbers as dates YYYYMMDD."""
    days = np.datetime64("2011-01-01") + np.round(800 * z).astype("timedelta64[D]")
    months = days.astype("datetime64[M]")
    year = days.astype("datetime64[Y]").astype(int) + 1970
    month = months.astype(int) % 12 + 1
    return 10_000.0 * year + 100 * month + (days - months).astype(int) + 1


def indicators(n_features, share, n_others=0, container=np.asarray, size=1.0):
    """Features that are `size` in a share of the records, else 0, beside usual ones."""

    def make(random, n_records):
        X = (random.random((n_records, n_features)) < share).astype(float)
        coefficients = np.random.default_rng(5).normal(size=n_features)
        coefficients *= 1.9 / np.linalg.norm(coefficients) / np.sqrt(share * (1 - share))
        others = random.normal(size=(n_records, n_others))
        y = X @ coefficients + others @ COEFFICIENTS[:n_others]
        y += NOISE * random.normal(size=n_records)
        return container(np.hstack([others, size * X])), y

    return make


def rare_and_large(random, n_records):
    X, y = usual(random, n_records)
    is_rare = random.random(n_records) < 0.002
    return np.column_stack([X, np.where(is_rare, 1000 * random.normal(size=n_records), 0.0)]), y


def most_at_zero(y):
    return np.where(np.abs(y) > SPREAD * norm.isf(0.05), y, 0.0)


# Data, and the parameters that go with them.
OFFSETS = {
    "1e5 + z": with_first_feature(lambda z: 1e5 + z),
    "1e8 + z": with_first_feature(lambda z: 1e8 + z),
    "1e9 + 1e6 z": with_first_feature(lambda z: 1e9 + 1e6 * z),
    "dates": with_first_feature(date_of),
    "years": with_first_feature(lambda z: 2011 + 0.5 * z),
    "a feature of size 1e14": with_first_feature(lambda z: 1e15 + 1e14 * z),
    "responses of size 1e14": with_responses(lambda y: 1e14 * y),
    "responses far from 0": with_responses(lambda y: 1e15 + 1e14 * y),
}
RARE_RESPONSES = {
    "5% ones": (above(0.05), None),
    "2% ones, bounded": (above(0.02), 1.0),
    "5% ones, bounded": (above(0.05), 1.0),
    "95% ones": (lambda y: 1 - above(0.05)(y), None),
    "90% zeros": (most_at_zero, None),
    "90% zeros, bounded": (most_at_zero, 10.0),
}
INDICATORS = {
    "6 of 3%": indicators(6, 0.03),
    "20 of 3%": indicators(20, 0.03),
    "50 of 3%": indicators(50, 0.03),
    "50 of 3% of size 100": indicators(50, 0.03, size=100.0),
    "50 of 50%": indicators(50, 0.5),
    "6 of 3% and 6 others": indicators(6, 0.03, 6),
    "20 of 3% and 6 others": indicators(20, 0.03, 6),
}
SPARSE_INDICATORS = {
    "50 of 3%": indicators(50, 0.03, container=sparse.csr_array),
    "50 of 50%": indicators(50, 0.5, container=sparse.csr_array),
}
