"""Fits that build on a published model of a tenth of the rows, beside that model and plain fits.

Tables are looked for in the folder that the environment variable `SKDP_DATA` names. Run

    python -m benchmarks.least_squares.prior          # 2 seeds, some minutes
    python -m benchmarks.least_squares.prior --write  # prior.md beside it
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.priors import section
from benchmarks.report import Key, asked_of_tables, by_halves, ignore_drowned_signal
from benchmarks.sweep.tables import held_out, load
from skdp import DPLinearRegression

HERE = Path(__file__).parent
EPSILONS, N_SEEDS = (0.25, 0.5, 1.0, 4.0), 2
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


def measure(seed: int, names: tuple[str, ...]) -> Iterator[tuple[Key, float]]:
    """Fit with priors and without."""
    for name in names:
        X, y = load(name)
        y = y[:, 0] if y.ndim > 1 else y
        y = (y == np.unique(y)[-1]) if y.dtype.kind in "UO" else y
        whole = np.isfinite(X).all(axis=1)
        train, test, of_train, of_test = held_out(X[whole], y[whole].astype(float), seed)
        n = len(train) // 10
        alphas = np.logspace(-4, 1.5, 12) * n
        public = make_pipeline(StandardScaler(), RidgeCV(alphas)).fit(train[:n], of_train[:n])

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
                model.fit(train[n:], of_train[n:])
                yield (case, which), scored(model)
                if which == "prior":
                    yield (case, "weight"), model.prior_weight_
                    d = len(coef) + 1
                    yield (case, "strength"), (len(train) - n) * model.privacy_spent_.mu / d**0.5


def main() -> None:
    arguments, n_seeds = asked_of_tables(__doc__, N_SEEDS, "prior.md")
    ignore_drowned_signal()
    given = n_seeds, COLUMNS, EPSILONS, ("permuted", "negated")
    text = TITLE.format(n_seeds)
    text += by_halves(
        CHOSEN, CHECKED, arguments.only, lambda names: section(measure, names, *given)
    )
    print(text)
    if arguments.write:
        (HERE / "prior.md").write_text(text)


if __name__ == "__main__":
    main()
