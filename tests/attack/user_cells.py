"""What can be asked of personal regressions, the data, and users who break what is not careful."""

from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from harness import NamedCell, altered, group
from scipy.linalg import null_space

from skdp import DPPersonalizedRegressor
from skdp.linear_model.personal import fit as personal_fit
from skdp.testing._recording import RecordingBudget, fit_with

N_USERS, N_FEATURES, N_ROWS = 24, 5, (1, 4, 11)
LARGEST = np.finfo(float).max


@dataclass(frozen=True)
class Cell(NamedCell):
    """One way to ask for a fit."""

    adjacency: str
    solver: str = "gradient"
    n_components: int = 2
    n_iter: int = 2
    fit_intercept: bool = True
    mean_head: bool = True
    decorrelate: bool = True
    max_rows_per_user: int | None = None
    delta: float = 1e-6
    dtype: type = np.float64
    # Noise has to leave scales at which something can be attacked.
    epsilon: float = 300.0

    def __call__(self, **more):
        """Make an estimator."""
        own = {name: value for name, value in vars(self).items() if name != "dtype"}
        return DPPersonalizedRegressor(**{**own, **more})


def _cells():
    for adjacency in ("replace", "zero_out"):
        yield Cell(adjacency)
        yield Cell(adjacency, fit_intercept=False, mean_head=False)
        yield Cell(
            adjacency, fit_intercept=False, mean_head=False, decorrelate=False, max_rows_per_user=3
        )
        yield Cell(adjacency, n_components=0)
        bare = {"fit_intercept": False, "mean_head": False, "decorrelate": False}
        yield Cell(adjacency, "exponential", 1, delta=0.0, **bare)
    # The first of these is covered: in it every release that is declared too small is noticed.
    yield from (Cell(adjacency, "altmin") for adjacency in ("zero_out", "replace"))
    yield Cell("replace", "exponential", 1, **bare)
    yield Cell("replace", n_iter=0)
    yield Cell("replace", max_rows_per_user=1)
    yield Cell("zero_out", n_components=0, fit_intercept=False, decorrelate=False)
    yield Cell("zero_out", "altmin", 1, fit_intercept=False, mean_head=False, decorrelate=False)
    yield Cell("replace", n_components=N_FEATURES, dtype=np.float32)


CELLS = tuple(_cells())


@dataclass(frozen=True)
class Data:
    """Rows and responses of each user."""

    rows: tuple
    responses: tuple
    dtype: type = np.float64

    @property
    def arguments(self):
        """What `fit` is given."""
        limit = np.finfo(self.dtype).max
        X = np.clip(np.concatenate(self.rows), -limit, limit).astype(self.dtype)
        ids = np.repeat(np.arange(len(self.rows)), list(map(len, self.rows)))
        return X, np.concatenate(self.responses), ids

    def with_first(self, rows, responses):
        """Exchange the first user."""
        return Data((rows, *self.rows[1:]), (responses, *self.responses[1:]), self.dtype)


def drawn(cell, seed=0, n_users=N_USERS):
    """Draw users of whom each has a few rows, and coefficients in a plane."""
    generator = np.random.default_rng(seed)
    plane = np.linalg.qr(generator.normal(size=(N_FEATURES, 2)))[0]
    rows, responses = [], []
    for _ in range(n_users):
        own = generator.normal(size=(generator.choice(N_ROWS), N_FEATURES))
        coefficients = plane @ (generator.normal(size=2) + 1)
        rows.append(own)
        responses.append(own @ coefficients + 0.3 * generator.normal(size=len(own)) + 2)
    return Data(tuple(rows), tuple(responses), cell.dtype)


def datasets(cell):
    """Ordinary users."""
    return {"drawn": drawn(cell)}


def strange(cell):
    """Users that numerical methods do not like, all finite."""
    data, generator = drawn(cell), np.random.default_rng(3)

    def mixed(own):
        signs = generator.choice([-1, 1], own.shape)
        return signs * 10.0 ** generator.uniform(-300, 300, own.shape)

    changes = {
        "zeros": np.zeros_like,
        "huge": lambda own: np.full_like(own, 1e200),
        "largest": lambda own: LARGEST * np.sign(own),
        "denormal": lambda own: np.full_like(own, 5e-324),
        "small": lambda own: 1e-310 * own,
        "mixed scales": mixed,
        "constant": np.ones_like,
        "far from the origin": lambda own: own + 1e10,
        "one row each": lambda own: own[:1],
        "many rows": lambda own: np.repeat(own, 40, axis=0),
    }
    found = {
        name: Data(*(tuple(map(change, one)) for one in (data.rows, data.responses)), cell.dtype)
        for name, change in changes.items()
    }
    same = Data(data.rows[:1] * N_USERS, data.responses[:1] * N_USERS, cell.dtype)
    return {**found, "all the same": same}


def null_user(index):
    """Take the rows of a user out of every fit inside; its slot stays."""

    def forget(users, _):
        for batch in users.batches:
            kept = batch.slots != index
            for name, values in vars(batch).items():
                setattr(batch, name, values[kept])
        users.by_block = [
            [batch for batch in block if len(batch.slots)] for block in users.by_block
        ]
        return users

    return altered(forget)


@contextmanager
def watched_priors():
    """Give a list that collects the priors at which the fits inside take their steps."""
    priors = []

    def watching(function):
        def _watching(users, prior, *others):
            priors.append(prior)
            return function(users, prior, *others)

        return _watching

    with (
        patch.object(personal_fit, "_clipped_gradient", watching(personal_fit._clipped_gradient)),
        patch.object(personal_fit, "_clipped_sums", watching(personal_fit._clipped_sums)),
    ):
        yield priors


def groups(cell, data):
    """Users in the place of the first one."""
    with watched_priors() as priors:
        fitted, _ = fit_with(cell(), data.arguments, RecordingBudget)
    found = [data.with_first(*user) for user in candidates(fitted, priors)]
    datasets = [one.arguments for one in [data, *found]]
    return [group(cell, datasets, data.arguments, lambda: null_user(0))]


def candidates(fitted, priors):
    """Users with one row or many, along the representation or off it, of any scale."""
    bases = [prior.basis for prior in priors] or [np.eye(N_FEATURES)[:, :2]]
    found = []
    for step, basis in enumerate(bases):
        off = null_space(basis.T) if basis.shape[1] < N_FEATURES else basis[:, 2:]
        inside, outside = basis[:, 0], off[:, 0]
        for number, vector in enumerate((inside, basis[:, -1], outside, off[:, -1])):
            # Odd scales once: they are as odd beside any basis.
            scales = SCALES[:2] if step else SCALES
            found += [([scale * vector], [y]) for scale, y in scales[number % 2 :: 2]]
        for sign in (1, -1):
            # A head that is long, and residuals off the representation, of either sign.
            found.append(([30 * inside, 30 * outside], [1e3, sign * 1e4]))
            found.append(([30 * basis[:, -1], 30 * outside], [1e3, sign * 1e4]))
            found.append(([1e9 * (inside + sign * outside)], [1e9]))
    wild = 10.0 ** np.linspace(-300, 300, N_FEATURES)
    found += [([wild], [1.0]), ([wild, -wild[::-1]], [LARGEST, -LARGEST])]
    found += [([0 * wild], [0.0]), ([0 * wild] * 30, [1e300] * 30), ([0 * wild] * 3, [1.0] * 3)]
    found += [([bases[0][:, 0]] * 50, [7.0] * 50), (list(1e3 * np.eye(N_FEATURES)), [1e3] * 5)]
    return [unmapped(fitted, np.array(rows), np.array(y)) for rows, y in found]


SCALES = (
    (1.0, 1.0),
    (1.0, -1.0),
    (1e4, 1e4),
    (1e4, -1e4),
    (-1e9, 1e9),
    (1e9, 1e9),
    (1e200, 1.0),
    (1e200, -1e200),
    (1e-310, 1.0),
    (1e-170, 1e200),
    (1.0, 1e200),
    (1.0, 5e-324),
    (-1.0, LARGEST),
)


def unmapped(fitted, rows, responses):
    """Return rows that are mapped to these by what was released."""
    whitening = np.eye(N_FEATURES) if fitted.whitening_ is None else fitted.whitening_
    with np.errstate(over="ignore", invalid="ignore"):
        rows = np.linalg.solve(whitening.astype(float), rows.T).T + fitted.mean_
        responses = responses + fitted.intercept_ + float(fitted.coef_ @ fitted.mean_)
    return np.clip(np.nan_to_num(rows), -LARGEST, LARGEST), np.clip(responses, -LARGEST, LARGEST)


def strangers(cell, data):
    """As many users without anything in common, and with other numbers of rows."""
    other = drawn(cell, seed=9)
    rows = tuple(-3 * np.concatenate([own, own]) + 1e4 for own in other.rows)
    responses = tuple(np.tile(-3 * own + 1e4, 2) for own in other.responses)
    zeros = Data((np.zeros((1, N_FEATURES)),) * N_USERS, (np.zeros(1),) * N_USERS, cell.dtype)
    return [zeros.arguments, Data(rows, responses, cell.dtype).arguments]


RELEASED = {
    "mean_",
    "components_",
    "coef_",
    "intercept_",
    "prior_variances_",
    "intercept_variance_",
    "noise_variance_",
    "prior_mix_",
    "snr_",
}
PUBLIC = {"n_features_in_", "privacy_spent_"}


def released(cell):
    """Names of the attributes that come from released values."""
    return RELEASED | ({"whitening_"} if cell.decorrelate else set())


def public(cell):
    """Names of those that are public."""
    return PUBLIC | ({"whitening_"} if not cell.decorrelate else set())


SUMS = ("row center 1", "user moment", "products", "mean products", "gradient", "normal matrix 1")
CHOICES = ("response bound", "representation", "choice of prior")


def is_reached(cell, worst):
    """Whether an attack got far."""
    if cell.solver == "exponential":
        return min(worst[name] for name in CHOICES) > 0.45
    sums = [worst[name] for name in worst if name.startswith(SUMS) and "norm, " not in name]
    # With all directions in the representation gradients off it are rounding errors.
    return min(sums) > (0.9 if cell.n_components < N_FEATURES else 0.4)
