"""Rows that `DPCovariance.sample` makes up: their correlations, marginals, and regressions.

Tables are looked for in the folder that the environment variable `SKDP_DATA` names. Run

    python -m benchmarks.covariance.samples          # 2 seeds, some minutes
    python -m benchmarks.covariance.samples --write  # samples.md beside it
"""

from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skdp._marginals
from benchmarks.report import (
    Key,
    asked_of_tables,
    by_halves,
    ignore_drowned_signal,
    mean_by_case,
    measured,
    publish,
    table,
)
from benchmarks.sweep.tables import held_out, load, public_ends
from skdp import DPCovariance

EPSILONS, N_SEEDS = (1.0, 4.0), 2
CHOSEN = (
    *("adult", "bank", "baseball", "california_housing", "diamonds", "doctor"),
    *("house8L", "mv", "nox", "scorecard", "space_ga", "teams"),
)
CHECKED = (
    *("coil2000_insurance", "compactiv", "default", "email", "letter", "mammography"),
    *("page_blocks", "parkinsons_updrs", "spambase", "storms", "wine_quality_white", "yrbss"),
)
TITLE = """\
# Made-up rows

Written by `python -m benchmarks.covariance.samples --write`. `DPCovariance(marginals=True)` of
three quarters of a table with its target as the last column, delta 1e-6, its types, and bounds of
its ends. As many rows as there were are made up. Means of {} seeds. *Correlations* is the root
mean squared distance of theirs from `correlation_`, and *of these* that of `correlation_` from the
true ones. *Marginals* is the mean distance of Kolmogorov and Smirnov from the true ones, over
columns. Then R2 on the last quarter, or the AUC for two classes, at least 0: of a regression on
made-up rows, behind the clip to `feature_bounds_` that `regression` has, of `regression`, and of
one on the true rows; and of boosted trees on made-up and true rows.
"""
COLUMNS = [
    *("correlations", "of these", "marginals", "made up", "regression", "true"),
    *("trees, made up", "trees, true"),
]


def frame_of(name: str, seed: int) -> tuple[pd.DataFrame, pd.DataFrame, bool]:
    """Split a table into rows of a fit and others; the target is last, and may be a class."""
    X, y = load(name)
    y = y[:, 0] if y.ndim > 1 else y
    labels = np.unique(y)
    if is_class := y.dtype.kind in "UO" or len(labels) == 2:
        y = y.astype(str) == sorted(labels.astype(str))[len(labels) // 2]
    rows = np.column_stack([X[:, X.std(axis=0) > 0], y.astype(float)])
    names = [*(f"x{j}" for j in range(rows.shape[1] - 1)), "y"]
    frame = pd.DataFrame(rows, columns=names)
    whole = {name: "int64" for name in names if (frame[name] % 1 == 0).all()}
    train, test, _, _ = held_out(frame.astype(whole), y, seed)
    return train, test, is_class


def distance(found: pd.Series, true: pd.Series) -> float:
    """Return the largest difference of two distribution functions."""
    places = np.unique(true)
    pairs = [
        np.searchsorted(np.sort(one), places, side="right") / len(one) for one in (found, true)
    ]
    return float(np.abs(pairs[0] - pairs[1]).max())


def root_mean_square(one: np.ndarray, other: np.ndarray) -> float:
    varies = np.isfinite(np.diag(one)) & np.isfinite(np.diag(other))
    pairs = np.triu_indices(varies.sum(), 1)
    return float(np.sqrt(np.mean(np.square((one - other)[np.ix_(varies, varies)][pairs]))))


def measure(
    seed: int,
    names: tuple[str, ...],
    *,
    epsilons: tuple[float, ...] = EPSILONS,
    has_trees: bool = True,
) -> Iterator[tuple[Key, float]]:
    """Fit, make rows up, and compare; without trees their columns are 0."""
    for name in names:
        train, test, is_class = frame_of(name, seed)
        ends = public_ends(pd.concat([train, test]).to_numpy(float), 1.0)
        low, high = ends[0], np.where(ends[1] > ends[0], ends[1], ends[0] + 1)
        score = roc_auc_score if is_class else r2_score

        def scored(model, rows=None, clip=np.asarray, test=test, score=score):
            if rows is not None:
                model = model.fit(rows.iloc[:, :-1].to_numpy(), rows["y"])
            return max(float(score(test["y"], model.predict(clip(test.iloc[:, :-1])))), 0.0)

        ridge = make_pipeline(StandardScaler(), Ridge(1e-6 * len(train)))
        trees = HistGradientBoostingRegressor(max_iter=80)
        of_true = scored(ridge, train), scored(trees, train) if has_trees else 0.0
        for epsilon in epsilons:
            given = {"bounds": (low, high), "epsilon": epsilon, "random_state": seed}
            fitted = DPCovariance(marginals=True, **given).fit(train)
            made = fitted.sample(len(train), seed)
            with np.errstate(invalid="ignore", divide="ignore"):
                correlations = (np.corrcoef(one.to_numpy(float).T) for one in (made, train))
                found, true = correlations
            try:
                regression = scored(fitted.regression("y"), clip=pd.DataFrame)
            except ValueError:
                regression = 0.5 if is_class else 0.0
            low_end, high_end = fitted.feature_bounds_[:, :-1]
            clip = partial(np.clip, a_min=low_end, a_max=high_end)
            values = (
                root_mean_square(found, fitted.correlation_),
                root_mean_square(true, fitted.correlation_),
                float(np.mean([distance(made[one], train[one]) for one in train])),
                *(scored(ridge, made, clip), regression, of_true[0]),
                *(scored(trees, made) if has_trees else 0.0, of_true[1]),
            )
            for column, value in zip(COLUMNS, values, strict=True):
                yield (f"{name}, {epsilon:g}", column), value


def section(names: tuple[str, ...], n_seeds: int) -> str:
    """Measure tables, and print a line for each and the counts of good ones."""
    means, cases = mean_by_case(lambda seed: measure(seed, names), n_seeds)
    lines = [[case, *(f"{means[case, column]:.3f}" for column in COLUMNS)] for case in cases]
    counts = []
    for epsilon in EPSILONS:
        of = [case for case in cases if case.endswith(f", {epsilon:g}")]
        near = sum(means[one, "correlations"] <= 0.02 for one in of)
        good = sum(means[one, "marginals"] <= 0.08 for one in of)
        same = sum(means[one, "made up"] >= means[one, "regression"] - 0.02 for one in of)
        counts.append(
            f"At {epsilon:g}, of {len(of)} tables {near} have correlations within .02, {good} "
            f"marginals within .08, and {same} a regression that is at most .02 worse."
        )
    return "\n\n".join([table(["table, epsilon", *COLUMNS], lines), *counts])


# ------------------------------
# The constants.

CONSTANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    **{f"share {share:g}": {"MARGINALS_SHARE": share} for share in (0.1, 0.3)},
    **{f"{n} bins": {"_N_BINS": n} for n in (16, 64)},
    **{f"{part:g} of the penalty": {"_OF_PENALTY": part} for part in (0.0, 1.0)},
    **{f"{n} corrections": {"_N_CORRECTIONS": n} for n in (1, 10)},
}
OF_CONSTANTS = """
## Constants

Means over the first tables at an epsilon of 1, with other constants: shares of the counts, bins,
parts of the penalty, and steps that correct probabilities.

"""


def table_of_constants(n_seeds: int) -> str:
    """Measure the first tables with each of the constants."""
    lines = []
    for label, constants in CONSTANTS.items():
        with patch.multiple(skdp._marginals, **{"_SINGLE": 4.0, **constants}):
            given = {"epsilons": (1.0,), "has_trees": False}
            found = measured(lambda seed, given=given: measure(seed, CHOSEN, **given), n_seeds)
        means = {
            column: np.mean([values.mean() for key, values in found.items() if key[1] == column])
            for column in COLUMNS[:6]
        }
        lines.append([label, *(f"{mean:.4f}" for mean in means.values())])
    return table(["constants", *means], lines)


# ------------------------------
# What chance does to correlations.

OF_CHANCE = """
## Chance

Scores of made-up rows are uncorrelated, if there are ten rows a column; without that they are
independent draws. Mean correlations, how many tables have them within .02, and how many a
regression that is at most .02 worse.

"""


def table_of_chance(n_seeds: int) -> str:
    """Measure all tables with scores as they are, and with independent ones."""
    lines = []
    for title, names in {"chosen on": CHOSEN, "others": CHECKED}.items():
        for label, least in {"as it is": 10, "independent": np.inf}.items():
            with patch.object(skdp._marginals, "_LEAST_DRAWS", least):
                means, cases = mean_by_case(
                    lambda seed, names=names: measure(seed, names, has_trees=False), n_seeds
                )
            for epsilon in EPSILONS:
                of = [case for case in cases if case.endswith(f", {epsilon:g}")]
                far = np.array([means[one, "correlations"] for one in of])
                worse = [means[one, "regression"] - means[one, "made up"] for one in of]
                counts = f"{np.sum(far <= 0.02)} of {len(of)}", f"{np.sum(np.array(worse) <= 0.02)}"
                lines.append([f"{title}, {label}, {epsilon:g}", f"{far.mean():.4f}", *counts])
    return table(["tables, scores, epsilon", "correlations", "within .02", "regressions"], lines)


def main() -> None:
    arguments, n_seeds = asked_of_tables(__doc__, N_SEEDS, "samples.md")
    ignore_drowned_signal()
    text = TITLE.format(n_seeds)
    text += by_halves(CHOSEN, CHECKED, arguments.only, lambda names: section(names, n_seeds))
    if not arguments.only:
        text += OF_CONSTANTS + table_of_constants(n_seeds) + "\n"
        text += OF_CHANCE + table_of_chance(n_seeds) + "\n"
    publish(text, __file__, write=arguments.write)


if __name__ == "__main__":
    main()
