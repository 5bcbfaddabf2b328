"""What the matrix and the iteration capture of wide tables without zeros, and what "auto" does.

`DPTruncatedSVD` with both solvers named, and by `solver="auto"`, which lets the part that the
released mean holds of the rows decide. Sparse tables are in `solvers.py`. Run

    python -m benchmarks.diagonal_prior.wide                  # 2 seeds, some 5 minutes
    python -m benchmarks.diagonal_prior.wide --only digits    # tables so named
    python -m benchmarks.diagonal_prior.wide --write          # wide.md beside it

Real tables are looked for in the folder that the environment variable `SKDP_DATA` names, and left
out without it.
"""

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from scipy import ndimage
from sklearn.datasets import load_digits, load_sample_image

from benchmarks.data import file_at_hand
from benchmarks.diagonal_prior.components import KEY, Chosen, captured, rows_of
from benchmarks.report import (
    Measured,
    Values,
    cases_asked_for,
    ignore_drowned_signal,
    measured,
    parser_for,
    seeds_asked_for,
    table,
)
from skdp import DPTruncatedSVD
from skdp.privacy.sensitivity import ADJACENCIES

HERE = Path(__file__).parent
SEEDS = 2
EPSILONS = (0.5, 1.5)
SOLVERS = ("covariance", "power", "auto")

TITLE = """\
# Wide tables that are not sparse

Written by `python -m benchmarks.diagonal_prior.wide --write`. Sum of squares of the rows along k
components of `DPTruncatedSVD`, over that along the best k: means of {} seeds, delta 1e-6. Rows are
divided by their norm, and `row_norm=1`; for "raw" rows it is None. "Held" is the squared length of
the mean of such rows: "auto" takes the matrix if a released mean says that it is between the two
numbers of `_HELD_BY_MEAN`, which were chosen on the tables of the first part, and if the mean is
spread over features, `_LEAST_SPREAD`, which was chosen for the words of the second.
"""


def mnist() -> np.ndarray:
    images = np.load(file_at_hand("mnist_t10k.npz"))
    return images["X"].reshape(len(images["X"]), -1) / 255.0


def patches(name: str, size: int, n_rows: int) -> np.ndarray:
    """Cut gray squares out of a photograph."""
    image = load_sample_image(name).mean(axis=2) / 255
    corners = np.random.default_rng(0).integers(np.array(image.shape) - size, size=(n_rows, 2))
    return np.array([image[i : i + size, j : j + size].ravel() for i, j in corners])


def slopes(name: str, size: int, n_rows: int) -> np.ndarray:
    """Take how steep the gray of such squares is."""
    squares = patches(name, size, n_rows).reshape(n_rows, size, size)
    return np.hypot(*np.gradient(squares, axis=(1, 2))).reshape(n_rows, -1)


def large_digits(factor: float) -> np.ndarray:
    return np.array(
        [ndimage.zoom(image, factor, order=1).ravel() for image in load_digits().images]
    )


def mixtures(n_rows: int, n_features: int, n_parts: int) -> np.ndarray:
    """Draw mixtures of positive parts, and noise that is positive, too."""
    random = np.random.default_rng(0)
    parts = random.gamma(0.5, size=(n_parts, n_features))
    X = random.dirichlet(np.full(n_parts, 0.3), size=n_rows) @ parts
    return X + 0.15 * random.gamma(1.0, size=X.shape)


def spectra(n_rows: int, n_features: int, width: float = 0.02) -> np.ndarray:
    """Draw six peaks a row, anywhere."""
    random = np.random.default_rng(0)
    at, height = random.uniform(size=(n_rows, 6)), random.gamma(1.0, size=(n_rows, 6))
    widths, X = width + 0.05 * random.uniform(size=(n_rows, 6)), 0.0
    for peak in range(6):
        distances = np.arange(n_features) / n_features - at[:, [peak]]
        X = X + height[:, [peak]] * np.exp(-np.square(distances / widths[:, [peak]]))
    return X + 0.05 * random.uniform(size=X.shape)


def kernels(file: str, n_centers: int, steepness: float, n_rows: int) -> np.ndarray:
    """Compute Gaussian kernels of standardized rows with some of them."""
    X = np.load(file_at_hand(file))["X"].astype(float)
    X = np.random.default_rng(0).permutation((X - X.mean(axis=0)) / X.std(axis=0))[:n_rows]
    squares, centers = np.square(X).sum(axis=1), X[:n_centers]
    distances = squares[:, None] + squares[:n_centers] - 2 * X @ centers.T
    return np.exp(-steepness * distances / X.shape[1])


def products(n_features: int) -> np.ndarray:
    """Multiply pairs of columns of a table of shares."""
    X = np.load(file_at_hand("communities_crime.npz"))["X"][:, :-1].astype(float)
    X = X[:, X.max(axis=0) <= 1]
    first, second = np.random.default_rng(0).integers(X.shape[1], size=(2, n_features))
    return X[:, first] * X[:, second]


def topics(n_rows: int, n_words: int, n_topics: int, length: int) -> np.ndarray:
    """Draw counts of words in long texts."""
    random = np.random.default_rng(0)
    words = random.dirichlet(1 / np.arange(1, n_words + 1), size=n_topics)
    mix = random.dirichlet(np.full(n_topics, 0.2), size=n_rows)
    return random.poisson(length * mix @ words).astype(float)


def _made(name: str, k: int, load: Callable[[], np.ndarray], needs_folder: bool = False) -> Chosen:
    return Chosen(name, k, load, needs_folder)


CHOICE = [
    _made("MNIST", 10, mnist, True),
    _made("MNIST, inverted, every third row", 10, lambda: 1 - mnist()[::3], True),
    _made("photograph, 20 x 20", 10, partial(patches, "china.jpg", 20, 4000)),
    _made("digits, 24 x 24", 10, partial(large_digits, 3)),
    _made("5 parts", 5, partial(mixtures, 4000, 450, 5)),
    _made("20 parts", 10, partial(mixtures, 4000, 400, 20)),
    _made("peaks of 400", 10, partial(spectra, 4000, 400)),
    _made("kernels of letters", 10, partial(kernels, "letter.npz", 400, 1.0, 5000), True),
    _made("products of shares", 5, partial(products, 500), True),
]
CHECK = [
    _made("MNIST, 3 components", 3, mnist, True),
    _made("photograph, 24 x 24", 5, partial(patches, "flower.jpg", 24, 4000)),
    _made("slopes of a photograph", 10, partial(slopes, "china.jpg", 20, 4000)),
    _made("digits, 28 x 28", 5, partial(large_digits, 3.5)),
    _made("10 parts", 10, partial(mixtures, 5000, 500, 10)),
    _made("wide peaks of 500", 8, partial(spectra, 5000, 500, 0.08)),
    _made("kernels of wines", 10, partial(kernels, "wine_quality_white.npz", 450, 0.5, 4000), True),
    _made("words of long texts", 10, partial(topics, 4000, 500, 12, 300)),
    _made("words of short texts", 10, partial(topics, 4000, 500, 12, 30)),
]


def cells_of(chosen: Chosen, seed: int) -> Measured:
    """Measure each solver at each budget, and "auto" for raw rows, too."""
    X = rows_of(chosen, "unit")
    held = float(np.square(X.mean(axis=0)).sum())
    for kind, adjacency, epsilon in itertools.product(("unit", "raw"), ADJACENCIES, EPSILONS):
        row = f"{chosen.name}, {kind} rows, {adjacency} {epsilon:g}"
        if kind == "raw" and (adjacency, epsilon) != ("replace", EPSILONS[-1]):
            continue
        yield (row, "held"), held
        for solver in SOLVERS:
            svd = DPTruncatedSVD(
                chosen.n_components,
                epsilon=epsilon,
                adjacency=adjacency,
                row_norm=1.0 if kind == "unit" else None,
                solver=solver,
                random_state=KEY + seed,
            )
            yield (row, solver), captured(chosen, kind, svd.fit(rows_of(chosen, kind)))


def lines_of(values: Values) -> str:
    lines = []
    for row in dict.fromkeys(row for row, _ in values):
        found = [float(values[row, solver].mean()) for solver in SOLVERS]
        behind = max(found[:2]) - found[2]
        lines.append(
            [row, f"{values[row, 'held'][0]:.2f}", *(f"{x:.3f}" for x in found), f"{behind:.3f}"]
        )
    return table(["", "held", *SOLVERS, "auto behind the better"], lines)


def regrets(values: Values) -> str:
    """Tell how far each choice is behind the better of the two solvers."""
    rows = list(dict.fromkeys(row for row, _ in values))
    found = np.array([[values[row, solver].mean() for solver in SOLVERS] for row in rows])
    behind = found[:, :2].max(axis=1, keepdims=True) - found
    lines = [
        [
            solver,
            f"{each.mean():.4f}",
            f"{each.max():.3f}",
            f"{np.sum(each <= 0.01)} of {len(each)}",
        ]
        for solver, each in zip(SOLVERS, behind.T, strict=True)
    ]
    return table(["", "mean regret", "largest", "within .01"], lines)


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds=f"seeds of each cell, default {SEEDS}",
        only="tables with this in their name",
        quick="1 seed",
        write="replace wide.md",
    )
    arguments = parser.parse_args()
    n_seeds = seeds_asked_for(arguments, usual=SEEDS, quick=1)
    chosen = cases_asked_for(parser, arguments, [*CHOICE, *CHECK], n_seeds=n_seeds, usual=SEEDS)
    ignore_drowned_signal()
    parts = [TITLE.format(n_seeds).rstrip()]
    for title, tables in (("Chosen on", CHOICE), ("Checked on", CHECK)):
        values: Values = {}
        for one in tables:
            if one in chosen:
                own = measured(partial(cells_of, one), n_seeds)
                print(lines_of(own), flush=True)
                values |= own
        if values:
            parts += [f"## {title}", regrets(values), lines_of(values)]
            print(regrets(values), flush=True)
    if arguments.write:
        (HERE / "wide.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
