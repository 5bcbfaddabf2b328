"""Classifiers that build on a published one of a tenth of the rows, beside it and plain fits.

Tables are looked for in the folder that the environment variable `SKDP_DATA` names. Run

    python -m benchmarks.classification.prior          # 3 seeds, some minutes
    python -m benchmarks.classification.prior --write  # prior.md beside it
"""

import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.preprocessing import StandardScaler

from benchmarks.priors import section
from benchmarks.report import Key, asked_of_tables, by_halves, ignore_drowned_signal, publish
from benchmarks.sweep.on_tables import scores_of_classes
from benchmarks.sweep.tables import held_out, load
from skdp import DPLogisticRegression

EPSILONS, N_SEEDS = (0.25, 1.0, 4.0), 3
CHOSEN = (
    *("mammography", "email", "storms", "vowel", "yrbss"),
    *("segment", "splice", "polarity", "attrition", "page_blocks"),
)
CHECKED = (
    *("adult", "bank", "coil2000_insurance", "default", "letter"),
    *("spambase", "wine_quality_white", "doctor", "california_housing", "space_ga"),
)
TITLE = """\
# Classifiers with a prior

Written by `python -m benchmarks.classification.prior --write`. AUC of one class against the others
on a quarter of a table, delta 1e-6; means of {} seeds. *public* is a logistic regression of a tenth
of the other rows, whose means and deviations standardize all rows, *none* `DPLogisticRegression`
on the remaining ones, and *prior* the same fit with that model as its prior, whose mean
`prior_weight_` is *weight*. In *flipped* signs of the prior's coefficients are drawn. Classes with
less than six rows in the public tenth are left out, and responses of many values are above their
median or not. The strength is n mu / sqrt(d + 1).

The rules were looked at on other tables once before the share was chosen; nothing else was.
"""
COLUMNS = ["strength", "public", "none", "prior", "weight", "flipped"]


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    X, y = load(name)
    y = y[:, 0] if y.ndim > 1 else y
    y = y if len(np.unique(y)) <= 40 else y > np.median(y)
    whole = np.isfinite(X).all(axis=1)
    return X[whole], y[whole].astype(str)


def measure(seed: int, names: tuple[str, ...]) -> Iterator[tuple[Key, float]]:
    """Fit with priors and without."""
    for name in names:
        train, test, of_train, of_test = held_out(*rows_of(name), seed, stratify=True)
        n = len(train) // 10
        labels, counts = np.unique(of_train[:n], return_counts=True)
        labels = labels[counts >= 6]
        halves = (train[:n], of_train[:n]), (train[n:], of_train[n:]), (test, of_test)
        (X, y), (Z, z), (B, b) = (
            (rows[np.isin(of, labels)], of[np.isin(of, labels)]) for rows, of in halves
        )
        scaler = StandardScaler().fit(X)
        X, Z, B = map(scaler.transform, (X, Z, B))
        public = LogisticRegressionCV(
            Cs=np.logspace(-4, 1, 6), cv=3, scoring="neg_log_loss", max_iter=200
        )
        public.fit(X, y)
        signs = np.random.default_rng(seed).choice([-1, 1], X.shape[1])
        bad = signs * public.coef_, public.intercept_
        for epsilon in EPSILONS:
            case = f"{name}, {epsilon:g}"
            yield (case, "public"), scores_of_classes(public, B, b, labels)[""]
            for which, prior in {"none": None, "prior": public, "flipped": bad}.items():
                model = DPLogisticRegression(
                    classes=labels, epsilon=epsilon, prior=prior, random_state=seed
                ).fit(Z, z)
                yield (case, which), scores_of_classes(model, B, b, labels)[""]
                if which == "prior":
                    yield (case, "weight"), model.prior_weight_
                    strength = len(Z) * model.privacy_spent_.mu / (Z.shape[1] + 1) ** 0.5
                    yield (case, "strength"), strength


def main() -> None:
    arguments, n_seeds = asked_of_tables(__doc__, N_SEEDS, "prior.md")
    ignore_drowned_signal()
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", FutureWarning)
    given = n_seeds, COLUMNS, EPSILONS, ("flipped",)
    text = TITLE.format(n_seeds)
    text += by_halves(
        CHOSEN, CHECKED, arguments.only, lambda names: section(measure, names, *given)
    )
    publish(text, __file__, write=arguments.write)


if __name__ == "__main__":
    main()
