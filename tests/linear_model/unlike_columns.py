"""Random tables of columns that are unlike each other, and telephone-like ones."""

import numpy as np


def spike(random, n):
    """One value in most of the rows, a long tail beyond it in the others."""
    value = random.choice([0.0, 71.0, 76.0, 94.0])
    beyond = value + random.exponential(30, n)
    return np.where(random.random(n) < random.uniform(0.4, 0.97), value, beyond)


def two_sizes(random, n):
    """Small numbers in half of the rows, large ones in the others."""
    small, large = random.integers(0, 2, n), random.exponential(20, n)
    return np.round(np.where(random.random(n) < 0.5, small, large) + random.normal(0, 0.4, n))


def tail(random, n):
    return np.exp(random.uniform(0.5, 1.5) * random.normal(size=n))


def student(random, n):
    return random.standard_t(random.uniform(2, 5), n)


def integers(random, n):
    return random.poisson(random.uniform(0.3, 20), n).astype(float)


def dates(random, n):
    days = np.datetime64("2011-01-01") + random.integers(0, 3000, n).astype("timedelta64[D]")
    return np.char.replace(days.astype(str), "-", "").astype(float)


def rare(random, n):
    return (random.random(n) < random.uniform(0.001, 0.05)).astype(float)


def rare_size(random, n):
    return rare(random, n) * random.normal(size=n)


def normal(random, n):
    return random.normal(size=n)


KINDS = (spike, spike, two_sizes, tail, student, integers, dates, rare, rare_size, normal)


def random_table(seed, n_records=10_000):
    """Draw columns of random kinds, units and offsets, some nearly collinear; half can be told."""
    random = np.random.default_rng(seed)
    n_columns = int(random.integers(3, 25))
    columns = [KINDS[k](random, n_records) for k in random.integers(len(KINDS), size=n_columns)]
    for j in range(1, n_columns):
        if random.random() < 0.2:
            column = columns[random.integers(j)]
            columns[j] = column + 0.02 * column.std() * random.normal(size=n_records)
    X = np.column_stack(columns)
    spreads = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    signal = (X / spreads) @ random.normal(size=n_columns)
    if random.random() < 0.5:
        signal = np.clip(signal, *np.quantile(signal, [0.1, 0.9]))
    y = signal + signal.std() * random.normal(size=n_records)
    units = 10.0 ** random.uniform(-6, 9, n_columns) * random.choice([1, 1, -1], n_columns)
    offsets = random.choice([0, 0, 1, 77], n_columns) * spreads
    return units * (X + offsets), 10.0 ** random.uniform(-3, 6) * y


TAILS = (
    lambda random, n: random.standard_t(2, n),
    lambda random, n: np.exp(random.normal(size=n)),
    lambda random, n: np.exp(1.5 * random.normal(size=n)),
    lambda random, n: random.pareto(2.5, n),
    lambda random, n: 20.0 * (random.random(n) < 0.04) + random.normal(size=n),
)


def linear_tails(seed, n_records=15_000):
    """Three columns with long tails in which y is linear, and three normal ones."""
    random = np.random.default_rng(seed)
    tails = [TAILS[seed % len(TAILS)](random, n_records) for _ in range(3)]
    X = np.column_stack([*tails, random.normal(size=(n_records, 3))])
    y = (X / X.std(axis=0)) @ [1, -1, 1, 1, 1, -1] + random.normal(size=n_records)
    return X, y


def spiked_columns(seed, n_records=15_000, *, collinear=True):
    """26 columns most rows of which share one value (0, 76, ...); least squares has R^2 .46."""
    random = np.random.default_rng(seed)
    X = np.zeros((n_records, 26))
    X[:, 0] = random.uniform(13, 165, n_records)
    for j, (value, share) in enumerate([(77, 0.45), (76, 0.6), (71, 0.72), (94, 0.87)], 1):
        beyond = value + random.exponential(30, n_records)
        X[:, j] = np.where(random.random(n_records) < share, value, beyond)
    small, large = random.integers(0, 3, n_records), random.integers(3, 70, n_records)
    X[:, 5] = np.where(random.random(n_records) < 0.68, small, large)
    small, large = random.integers(0, 2, n_records), random.exponential(20, n_records)
    base = np.where(random.random(n_records) < 0.5, small, large)
    for j in range(6, 10):
        X[:, j] = np.round(base + random.normal(0, 0.4 if collinear else 10, n_records))
    for j, share in enumerate(np.linspace(0.54, 0.967, 16), 10):
        X[:, j] = np.where(random.random(n_records) < share, 0, random.exponential(35, n_records))
    y = 100.0 * (base > 15) * (random.random(n_records) < 0.8) + 0.1 * X[:, 0] + 0.3 * X[:, 10]
    return X, y + random.normal(0, 10, n_records)
