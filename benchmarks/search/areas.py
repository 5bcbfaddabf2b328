"""Measure the error of a released area under the curve, by bins and by records of the rarer class.

Beside other scores in a list, by the share of the sum that corrects the area, too. The share was
chosen on normal scores, and checked on others. 10,000 records, epsilon 1. No release without bias
errs less than the limit that docs/user_guide/classification.rst derives.
"""

import math
import warnings
from unittest import mock

import numpy as np
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, roc_auc_score

from benchmarks.report import parser_for, publish, table
from skdp import DPLogisticRegression
from skdp.model_selection import _score, private_score
from skdp.privacy import gaussian_dp

N, BINS, SHARES = 10_000, (6, 10, 14, 20), (0.15, 0.25, 0.4, 0.55, 0.7)
OTHERS = {"balanced_accuracy": balanced_accuracy_score, "f1": f1_score, "accuracy": accuracy_score}
NORMAL, HEAVY = "normal", "Student t(2)"
CASES = [
    (n, shift, kind)
    for n in (300, 1000, 5000)
    for shift, kind in ((1.0, NORMAL), (2.5, NORMAL), (1.0, HEAVY))
]

TEXT = """\
# Error of a released area under the curve

Written by `python -m benchmarks.search.areas --write`: root mean square of the
errors of {} releases about {:,} records at epsilon 1, by bins of
scores, and the limit of any release without bias.

{}

In a list with all other scores of counts, by the share of the sum that corrects the
area.

{}"""


def records(n_rare, shift, kind, seed):
    """Scores of two classes, one of which is shifted."""
    generator = np.random.default_rng(seed)
    scores = generator.normal(size=N) if kind == NORMAL else generator.standard_t(2, N)
    is_rare = np.arange(N) < n_rare
    return (scores + shift * is_rare)[:, np.newaxis], is_rare.astype(int)


def identity():
    """A model whose scores follow the only column."""
    X, y = records(N // 2, 1.0, NORMAL, seed=0)
    return DPLogisticRegression(classes=[0, 1], epsilon=np.inf, row_norm=np.inf).fit(X, y)


def root_mean_square(model, case, n_bins, n_seeds):
    """Root mean square of the errors of released areas."""
    errors = []
    for seed in range(n_seeds):
        X, y = records(*case, seed)
        with mock.patch.object(_score, "N_BINS", n_bins):
            found = private_score(model, X, y, scoring="roc_auc", epsilon=1.0)
        errors.append(found.value - roc_auc_score(y, X[:, 0]))
    return math.sqrt(np.mean(np.square(errors)))


def of_one(n_seeds):
    """Make the table of a single score."""
    model, mu, rows = identity(), gaussian_dp.mu_from_epsilon_delta(1.0, 1e-6), []
    for case in CASES:
        limit = 1 / (case[0] * math.sqrt(math.expm1(mu**2)))
        found = (root_mean_square(model, case, n, n_seeds) for n in BINS)
        rows.append([*case, *(f"{one:.4f}" for one in (limit, *found))])
    return table(["rarer class", "shift", "scores", "limit", *(f"{n} bins" for n in BINS)], rows)


def of_list(model, case, share, n_seeds):
    """Root mean squares of the errors of all scores of a list, by names."""
    errors = {name: [] for name in ("roc_auc", *OTHERS)}
    for seed in range(n_seeds):
        X, y = records(*case, seed)
        with mock.patch.object(_score, "_ORDER_SHARES", (0.7, share)):
            found = private_score(model, X, y, scoring=[*errors], epsilon=1.0)
        errors["roc_auc"].append(found["roc_auc"].value - roc_auc_score(y, X[:, 0]))
        for name, score in OTHERS.items():
            errors[name].append(found[name].value - score(y, model.predict(X)))
    return {name: math.sqrt(np.mean(np.square(each))) for name, each in errors.items()}


def of_lists(n_seeds):
    """Make the table of lists."""
    model, rows = identity(), []
    for case in CASES:
        for share in SHARES:
            found = of_list(model, case, share, n_seeds)
            rows.append([*case, share, *(f"{one:.4f}" for one in found.values())])
    return table(["rarer class", "shift", "scores", "share", "roc_auc", *OTHERS], rows)


def main():
    """Print the tables, or write them."""
    asked = parser_for(__doc__, seeds="default 60", write="write areas.md").parse_args()
    warnings.simplefilter("ignore")
    n_seeds = asked.seeds or 60
    text = TEXT.format(n_seeds, N, of_one(n_seeds), of_lists(n_seeds))
    publish(text, __file__, write=asked.write)


if __name__ == "__main__":
    main()
