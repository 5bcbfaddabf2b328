"""Fits that build on a published model of a tenth of the rows, beside that model and plain fits.

Tables are looked for in the folder that the environment variable `SKDP_DATA` names. Run

    python -m benchmarks.least_squares.prior          # 4 seeds, some minutes
    python -m benchmarks.least_squares.prior --write  # prior.md beside it
"""

from collections.abc import Iterator
from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.priors import section
from benchmarks.report import Key, asked_of_tables, by_halves, ignore_drowned_signal, publish, table
from benchmarks.sweep.tables import held_out, load
from skdp import DPLinearRegression
from skdp.linear_model.least_squares import fit, plan, records
from skdp.preprocessing.scales import Scales

EPSILONS, N_SEEDS = (0.25, 0.5, 1.0, 4.0), 4
CHOSEN = (
    *("ailerons", "ames", "baseball", "hfi", "house8L", "mv"),
    *("nox", "scorecard", "space_ga", "teams", "wind"),
)
CHECKED = (
    *("adult", "california_housing", "compactiv", "diamonds", "doctor"),
    *("email", "mammography", "parkinsons_updrs", "spambase", "wine_quality_white"),
)
TITLE = """\
# Linear regressions with a prior

Written by `python -m benchmarks.least_squares.prior --write`. R2 on a quarter of a table, at least
-1, delta 1e-6; means of {} seeds. *public* is a ridge regression of a tenth of the other rows,
*none* `DPLinearRegression` on the remaining ones, and *prior* the same fit with that model as its
prior, whose mean `prior_weight_` is *weight*. In *permuted* and *negated* the prior has its
coefficients in another order, or with other signs. The strength is n mu / sqrt(d + 1).

Three rules were added after a look at the other tables: predictions are clipped, and rows to bounds
from a strength of 250 on, and if noise hides all responses off the median, predictions are compared
with them in units of their own. The tables of the first half do not mind.
"""
COLUMNS = ["strength", "public", "none", "prior", "weight", "permuted", "negated"]


def rows_of(name: str, seed: int):
    """Split a table, and fit a ridge regression to a tenth of the rows that are not for tests."""
    X, y = load(name)
    y = y[:, 0] if y.ndim > 1 else y
    y = (y == np.unique(y)[-1]) if y.dtype.kind in "UO" else y
    whole = np.isfinite(X).all(axis=1)
    train, test, of_train, of_test = held_out(X[whole], y[whole].astype(float), seed)
    n = len(train) // 10
    alphas = np.logspace(-4, 1.5, 12) * n
    public = make_pipeline(StandardScaler(), RidgeCV(alphas)).fit(train[:n], of_train[:n])
    return public, train[n:], of_train[n:], test, of_test


def measure(seed: int, names: tuple[str, ...]) -> Iterator[tuple[Key, float]]:
    """Fit with priors and without."""
    for name in names:
        public, train, of_train, test, of_test = rows_of(name, seed)

        def scored(model, test=test, of_test=of_test):
            return max(float(r2_score(of_test, model.predict(test))), -1.0)

        of_public = scored(public)
        scale, (coef, mean) = public[0].scale_, (public[1].coef_, public[0].mean_)
        permuted = np.random.default_rng(seed).permutation(coef)
        priors = {"none": None, "prior": public}
        for which, other in {"permuted": permuted, "negated": -coef}.items():
            priors[which] = other / scale, float(public[1].intercept_ - (other / scale) @ mean)
        for epsilon in EPSILONS:
            case = f"{name}, {epsilon:g}"
            yield (case, "public"), of_public
            for which, prior in priors.items():
                model = DPLinearRegression(epsilon=epsilon, prior=prior, random_state=seed)
                model.fit(train, of_train)
                yield (case, which), scored(model)
                if which == "prior":
                    yield (case, "weight"), model.prior_weight_
                    d = len(coef) + 1
                    yield (case, "strength"), len(train) * model.privacy_spent_.mu / d**0.5


# ------------------------------
# Other rules.

PUBLIC = "centers and scales of the public rows"
OTHERS = {
    "as it is": {},
    "clipped rows from a strength of 60 on": {(records, "_CLIPPED"): 60.0},
    "predictions within 3 scales": {(records, "_LARGEST_PREDICTION"): 3.0},
    "half of the noise in the agreement": {(plan, "_AGREED"): plan._AGREED / 2},
    PUBLIC: {
        (records, "_CLIPPED"): 0.0,
        (plan, "_LARGEST_OF_FEATURES"): 1e-3,
        (plan, "_LEAST_OF_FEATURES"): (1e-3, 1e-3),
    },
}
OF_OTHERS = """
## Other rules

Means over tables with the prior, at an epsilon of .25 and 1, and on how many tables it is at most
.01 below *as it is*. The last line has centers and scales of features from the public rows, with no
check of their units, and almost no budget for private ones.

"""


def known_scales(public):
    """Return what releases scales, and then takes those of public rows instead."""
    variance, release = public[0].var_, fit.release_scales
    none = np.zeros(len(variance), bool)
    flags = {"is_point": none, "is_unclear": none, "is_constant": variance <= 0}
    known = Scales(public[0].mean_, variance, variance <= 0, none, np.ones(len(variance)), **flags)
    return lambda *given: release(*given) and known


def score_with(label: str, epsilon: float, seed: int, rows: tuple) -> float:
    """Fit by another rule."""
    public, train, of_train, test, of_test = rows
    constants = dict(OTHERS[label])
    if label == PUBLIC:
        constants[fit, "release_scales"] = known_scales(public)
    with ExitStack() as patches:
        for (module, name), value in constants.items():
            patches.enter_context(patch.object(module, name, value))
        model = DPLinearRegression(epsilon=epsilon, prior=public, random_state=seed)
        model.fit(train, of_train)
    return max(float(r2_score(of_test, model.predict(test))), -1.0)


def table_of_others(n_seeds: int) -> str:
    """Measure both halves with each of the rules."""
    cells: dict[str, list[str]] = {label: [label] for label in OTHERS}
    for names in (CHOSEN, CHECKED):
        splits = [[rows_of(name, seed) for seed in range(n_seeds)] for name in names]
        for epsilon in (0.25, 1.0):
            now = None
            for label, line in cells.items():
                scores = [
                    np.mean([score_with(label, epsilon, *one) for one in enumerate(of_table)])
                    for of_table in splits
                ]
                now = now or scores
                near = np.sum(np.array(scores) >= np.array(now) - 0.01)
                line.append(f"{np.mean(scores):.3f}, {near} of {len(names)}")
    head = [f"{half}, {epsilon:g}" for half in ("chosen on", "others") for epsilon in (0.25, 1.0)]
    return table(["rule", *head], [*cells.values()])


def main() -> None:
    arguments, n_seeds = asked_of_tables(__doc__, N_SEEDS, "prior.md")
    ignore_drowned_signal()
    given = n_seeds, COLUMNS, EPSILONS, ("permuted", "negated")
    text = TITLE.format(n_seeds)
    text += by_halves(
        CHOSEN, CHECKED, arguments.only, lambda names: section(measure, names, *given)
    )
    if not arguments.only:
        text += OF_OTHERS + table_of_others(n_seeds) + "\n"
    publish(text, __file__, write=arguments.write)


if __name__ == "__main__":
    main()
