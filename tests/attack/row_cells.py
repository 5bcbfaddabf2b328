"""What can be asked of fits that protect rows bounded in norm, and neighbors of their data."""

import itertools
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from harness import NamedCell, Slip, group, null_row, strange_numbers

from skdp import DPPCA, DPTruncatedSVD
from skdp.datasets import make_spiked
from skdp.decomposition.rows import fit as rows_fit
from skdp.decomposition.rows import plan as rows_plan
from skdp.decomposition.rows import solvers as rows_solvers

N, D = 40, 6
MODELS = {
    "svd": (DPTruncatedSVD, {}),
    "pca": (DPPCA, {}),
    "pca, public center": (DPPCA, {"center": np.linspace(-1, 1, D)}),
    "pca, not centered": (DPPCA, {"center": False}),
    "pca, prior": (DPPCA, {"prior": (np.zeros(D), np.diag(np.arange(1.0, D + 1)))}),
    "pca, centered again": (DPPCA, {}),
}
# Of guided fits the gate is open, and shut in all others.
SOLVERS = ("covariance", "power")
GUIDED = {"guided covariance": "covariance", "guided power": "power"}
NORMS = {"given": {"row_norm": 1.0, "mean_norm": 1.5}, "private": {}}
ADJACENCIES = ("replace", "zero_out")
RELEASED = {
    "components_",
    "explained_variance_",
    "explained_variance_ratio_",
    "mean_",
    "singular_values_",
}
RELEASED_OF_PCA = {"noise_variance_", "n_components_"}
ERRORS = {"components_noise_angle_", "explained_variance_std_error_"}
PUBLIC = {"n_features_in_", "privacy_spent_", "_unit"}


@dataclass(frozen=True)
class Cell(NamedCell):
    """One way to ask for a fit."""

    model: str
    solver: str
    adjacency: str = "replace"
    norms: str = "given"

    def __call__(self, **more):
        """Make an estimator."""
        make, parameters = MODELS[self.model]
        bounds = dict(NORMS[self.norms])
        if "center" in parameters:
            # There is no private mean to bound the rows for.
            bounds.pop("mean_norm", None)
        return make(
            **{
                "n_components": 2,
                "solver": GUIDED.get(self.solver, self.solver),
                "adjacency": self.adjacency,
                **parameters,
                **bounds,
                **more,
            }
        )


def models_of(solver):
    """Give the models that a solver is attacked in; rows are centered again before any solver."""
    others = () if solver == "covariance" else ("pca, centered again", "pca, prior")
    return [name for name in MODELS if name not in others]


CELLS = (
    *(
        Cell(model, solver, *others)
        for solver in SOLVERS
        for model, *others in itertools.product(models_of(solver), ADJACENCIES, NORMS)
    ),
    *itertools.starmap(Cell, itertools.product(["svd"], GUIDED, ADJACENCIES, NORMS)),
)


@contextmanager
def setting(cell):
    """Take the branch that a cell is about."""
    with ExitStack() as changes:
        changes.enter_context(
            patch.object(rows_fit, "passes_positivity_test", gate_that_is(cell.solver in GUIDED))
        )
        if getattr(cell, "model", "") == "pca, centered again":
            changes.enter_context(patch.object(rows_plan, "needs_second_mean", lambda *_: True))
        yield


def gate_that_is(is_open):
    """Make the gate answer one way, whatever it releases."""

    def passes_positivity_test(*arguments):
        rows_solvers.passes_positivity_test(*arguments)
        return is_open

    return passes_positivity_test


def datasets(cell=None):
    """Ordinary and degenerate datasets, all of one shape."""
    spiked = make_spiked(N, D, k=2, random_state=0)[0]
    outlier = with_row(np.zeros((N, D)), 3, np.full(D, 1e5))
    constant = np.where(np.arange(D) < 3, spiked, 1.0)
    return {
        "spiked": spiked,
        "far from the origin": spiked + 1e8,
        "zeros": np.zeros((N, D)),
        "one outlier": outlier,
        "constant columns": constant,
        "duplicates": np.tile(spiked[0], (N, 1)),
    }


def strange(cell):
    """Finite numbers that are far from ordinary."""
    return strange_numbers((N, D))


def groups(cell, X):
    """Rows that break what is not careful, all in the place of the first one."""
    components = cell(n_components=2).fit(X).components_
    generator = np.random.default_rng(0)
    rows = [
        *adversarial_rows(X, components).values(),
        *(scale * generator.normal(size=D) for scale in (0.1, 1.0, 10.0, 10.0, 10.0)),
    ]
    found = [(X,), *((with_row(X, 0, row),) for row in rows)]
    return [group(cell, found, (X,), lambda: null_row(0))]


def adversarial_rows(X, components):
    """Rows that break what is not careful: scales, signs, alignment."""
    d = X.shape[1]
    first, alternating = X[0], (-1.0) ** np.arange(d)
    outside = alternating - components.T @ (components @ alternating)
    return {
        "zero": np.zeros(d),
        "negated": -first,
        "huge": np.full(d, 1e300),
        "largest": alternating * np.finfo(float).max,
        "denormal": np.full(d, 1e-310),
        "tiny": np.full(d, 1e-200),
        "mixed scales": 10.0 ** np.linspace(-300, 300, d),
        "one huge entry": np.where(np.arange(d) == d - 1, -1e20, first),
        "aligned": components[0],
        "aligned and huge": 1e30 * components[0],
        "outside": outside,
        "outside and huge": 1e20 * outside,
    }


def with_row(X, index, row):
    """Exchange one row."""
    X = X.copy()
    X[index] = row
    return X


# What no covered cell makes.
SLIPS = {
    adjacency: Slip("row_sum", "mean again", Cell("pca, centered again", "covariance", adjacency))
    for adjacency in ADJACENCIES
}


def released(cell):
    """Names of the attributes that come from released values."""
    names = RELEASED | {"row_norm_"}
    if not cell.model.startswith("pca"):
        return names
    names |= {"prior_weight_"} if cell.model == "pca, prior" else set()
    return names | RELEASED_OF_PCA | (ERRORS if cell.solver == "covariance" else set())


def public(cell):
    """Names of those that are public; what stays without a name of its own is."""
    return PUBLIC | ({"n_samples_"} if cell.model.startswith("pca") else set())


def is_reached(cell, worst):
    """Whether an attack got far; a count moves by 1 whatever is tried."""
    sums = [worst[name] for name in worst if not is_count(name)]
    return max(sums) > 0.7


def is_count(name):
    """Whether a release counts rows."""
    return "count" in name or "clip level" in name or name == "positive rows"


def strangers(cell, X):
    """Give matrices that have nothing but their shape in common with X."""
    return [(np.zeros(X.shape),), (-3 * X[::-1, ::-1] + 1e4,)]
