"""What generous bounds cost: no bounds, exact ends, and ends far beyond the data.

Captured variance of five components behind `DPStandardScaler`, AUC of a classifier behind it, and
R2 of `DPLinearRegression`. Run

    SKDP_DATA=... python -m benchmarks.scaling.bounds                   # half an hour on one core
    SKDP_DATA=... python -m benchmarks.scaling.bounds --seeds 3 --write # bounds.md beside it

Without SKDP_DATA only the digits are used, and the others named as skipped.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.data import at_hand, file_at_hand
from benchmarks.report import ignore_drowned_signal, line, parser_for, table
from skdp import DPPCA, DPLinearRegression, DPLogisticRegression, DPStandardScaler, make_dp_pipeline
from skdp.privacy import PrivacyCost
from skdp.privacy.gaussian_dp import epsilon_at

HERE = Path(__file__).parent
N_SEEDS, N_COMPONENTS, SHARE, DELTA, CLIP = 5, 5, 0.15, 1e-6, 5
EPSILONS = (0.25, 1.0, 4.0, 16.0)
# How far ends lie beyond the data, in ranges of the column.
BEYOND = {"exact": 0.0, "x1.5": 0.5, "x4": 3.0, "x100": 99.0}
LABELS = ("none", *BEYOND)
LOSS = 0.01
TITLE = """\
# Generous bounds

Written by `python -m benchmarks.scaling.bounds --seeds {n} --write`, means of {n} fits with fresh
noise. Bounds are the least and the largest entry of a column ("exact"), or ends that are pushed out
by half, 3 and 99 times the range; ends at 0 and 1 stay. "Captured": variance of five components
that `DPPCA` finds (.85 of the square of mu) behind `DPStandardScaler` (.15), of that of the best
five of exactly standardized columns. "AUC": `DPStandardScaler` and `DPLogisticRegression` in one
pipeline. "R2": `DPLinearRegression`, median. The last two on a quarter of the rows, held out.
"!" marks what is more than .01 below the better of no bounds and exact ends."""


@dataclass(frozen=True)
class Table:
    """A table, and what is measured on it."""

    name: str
    file: str
    scores: tuple[str, ...]

    @property
    def needs_folder(self) -> bool:
        return bool(self.file)

    def load(self) -> tuple[np.ndarray, np.ndarray]:
        if not self.file:
            digits = load_digits()
            return digits.data, digits.target
        path = file_at_hand(self.file)
        assert path is not None, self.file
        data = np.load(path, allow_pickle=True)
        return np.asarray(data["X"], np.float64), data["y"]


TABLES = [
    Table("diamonds", "diamonds.npz", ("captured", "R2")),
    Table("bank", "bank.npz", ("captured", "AUC")),
    Table("spambase", "spambase.npz", ("captured", "AUC")),
    Table("compactiv", "compactiv.npz", ("captured", "R2")),
    Table("letter", "letter.npz", ("captured",)),
    Table("wine", "wine_quality_white.npz", ("captured", "R2")),
    Table("california", "california_housing.npz", ("captured", "R2")),
    Table("adult", "adult.npz", ("captured",)),
    Table("digits", "", ("captured",)),
]


def bounds_of(X: np.ndarray, label: str) -> tuple[np.ndarray, np.ndarray] | None:
    if label == "none":
        return None
    low, high = X.min(axis=0), X.max(axis=0)
    width = BEYOND[label] * np.where(high > low, high - low, 1.0)
    high = np.where(high > low, high, low + 1)
    return low - width * (low < 0), high + width * ~np.isin(high, [0, 1])


def captured(X: np.ndarray, y: np.ndarray, label: str, epsilon: float, seed: int) -> float:
    mu = PrivacyCost(epsilon, DELTA).mu
    of_scaler, of_pca = (epsilon_at(mu * np.sqrt(part), DELTA) for part in (SHARE, 1 - SHARE))
    scaler = DPStandardScaler(bounds=bounds_of(X, label), epsilon=of_scaler, clip=CLIP).fit(X)
    pca = DPPCA(N_COMPONENTS, epsilon=of_pca).fit(scaler.transform(X))
    basis = np.linalg.qr(pca.components_.T)[0]
    spread = X.std(axis=0)
    exact = np.cov((X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), rowvar=False)
    best = np.linalg.eigvalsh(exact)[-N_COMPONENTS:].sum()
    return float(np.trace(basis.T @ exact @ basis) / best)


def auc(X: np.ndarray, y: np.ndarray, label: str, epsilon: float, seed: int) -> float:
    classes = np.unique(y)
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
    classifier = DPLogisticRegression(classes=classes)
    scaler = DPStandardScaler(bounds=bounds_of(train, label))
    model = make_dp_pipeline(scaler, classifier, epsilon=epsilon).fit(train, y_train)
    return float(roc_auc_score(y_test == classes[1], model.predict_proba(test)[:, 1]))


def r2(X: np.ndarray, y: np.ndarray, label: str, epsilon: float, seed: int) -> float:
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
    model = DPLinearRegression(bounds=bounds_of(train, label), epsilon=epsilon)
    return float(model.fit(train, y_train).score(test, y_test))


SCORES = {"captured": captured, "AUC": auc, "R2": r2}


def row(data: Table, score: str, epsilon: float, n_seeds: int) -> tuple[list[str], int, int]:
    """Measure one line; return it, and how many of the usual generous ends lose, of how many."""
    X, y = data.load()
    typical = np.median if score == "R2" else np.mean
    found = {
        label: float(
            typical([SCORES[score](X, y, label, epsilon, seed) for seed in range(n_seeds)])
        )
        for label in LABELS
    }
    least = max(found["none"], found["exact"]) - LOSS
    cells = [f"{value:.3f}{'!' * (value < least)}" for value in found.values()]
    lost = [found[label] < least for label in ("exact", "x1.5", "x4")]
    return [data.name, score, f"{epsilon:g}", *cells], sum(lost), len(lost)


def main() -> None:
    parser = parser_for(
        __doc__, seeds=f"fits of each cell, default {N_SEEDS}", write="replace bounds.md"
    )
    arguments = parser.parse_args()
    n_seeds = arguments.seeds or N_SEEDS
    ignore_drowned_signal()
    lines = [table(["data", "score", "epsilon", *LABELS], [])]
    print(lines[0])
    n_lost = n_cells = 0
    for data in at_hand(TABLES):
        for score in data.scores:
            for epsilon in EPSILONS:
                cells, lost, n_measured = row(data, score, epsilon, n_seeds)
                n_lost, n_cells = n_lost + lost, n_cells + n_measured
                lines.append(line(cells))
                print(lines[-1], flush=True)
    total = f"Of {n_cells} cells with exact ends, x1.5 and x4, {n_lost} are marked."
    print(total)
    if arguments.write:
        text = "\n\n".join([TITLE.format(n=n_seeds), "\n".join(lines), total])
        (HERE / "bounds.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
