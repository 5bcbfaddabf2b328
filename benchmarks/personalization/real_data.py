"""Personal regressions of real data: digits, where they pay, and places, where they do not.

- Digits, which come with scikit-learn. A person is one image, of which 32 of the 64 pixels, at
  random, are seen; a row is a pixel, with 36 cosine features of its position. The other 32 are
  predicted.
- Gowalla: who went where. A user has as many rows of places that were visited, labeled 1, as of
  others, labeled -1; the features of a place come from the singular vectors of the visits of one
  half of the users, who are taken for public, and the models are those of users of the other half.
  Half of a user's rows are predicted.

"Ridge" is that of each user alone, with an intercept, at the penalty that is best for all users in
hindsight; "mean image" is that of all images, without privacy; "mean model" is what is predicted
for one of whom nothing is known; "pooled" is `n_components=0`, and "no mean" without mean head and
intercept. R^2 is on the rows that were not seen: noise-free functions of the data, which only an
experiment may print. Run

    python -m benchmarks.personalization.real_data                   # digits, half a minute
    SKDP_DATA=... python -m benchmarks.personalization.real_data     # and places, 3 minutes
    SKDP_DATA=... python -m benchmarks.personalization.real_data --write   # real_data.md beside it

Gowalla may not be passed on: it is looked for in the folder that `SKDP_DATA` names.
"""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import svds
from sklearn.datasets import load_digits

from benchmarks.data import at_hand, interactions
from benchmarks.report import (
    Measured,
    Section,
    Values,
    ignore_drowned_signal,
    mean_and_error,
    measured,
    need_two_seeds,
    parser_for,
    section_table,
    titled,
)
from skdp import DPPersonalizedRegressor

HERE = Path(__file__).parent
SEEDS = 5
# Printed here, hence good for repeatable tables and for nothing else.
KEY = 0x71D9A3E5B24C60F88E1C573BD0942AF6
RIDGES = 10.0 ** np.arange(-4, 5.01, 0.25)
SIDE, N_FREQUENCIES, N_SEEN = 8, 6, 32
N_PLACES, N_PLACE_FEATURES, FEWEST_VISITS, MOST_VISITS = 4000, 30, 10, 40

TITLE = """\
# Personal regressions of real data

Written by `python -m benchmarks.personalization.real_data --write`, whose docstring says what is
measured. R^2 of responses that were not seen; mean ± standard error of {} seeds.
"""
FINDINGS = """\
## What the tables say

Of digits, the other people teach what images look like: from epsilon 1 on personal models are
better than the mean of all images without privacy, and twice as good as what a person can do alone.
At epsilon 1 the spectral start alone is as good as steps from there.

Of places they teach nothing that pays. Ridge regression of each alone, with a good penalty, wins by
far at every epsilon, and needs no privacy: users have rows enough, and tastes are not a few
directions. Heads are even worse than a prior that is the same in all directions should be, as the
released noise variance does not fit such data, and at epsilon 1 single fits are no better than a
constant. If your users are like that, do not share anything.
"""


class Split(NamedTuple):
    """Rows of users that are seen, and those that are to be predicted."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray
    groups_new: np.ndarray

    def score(self, predictions: np.ndarray) -> float:
        missed = np.square(self.y_new - predictions).sum()
        return float(1 - missed / np.square(self.y_new - self.y_new.mean()).sum())


@dataclass(frozen=True)
class DataSection(Section):
    """A table, and whether its data are elsewhere."""

    needs_folder: bool = False


def ridge(split: Split) -> float:
    """Score ridge of each user, with an intercept, at the best common penalty in hindsight."""
    predictions = np.zeros((len(RIDGES), len(split.y_new)))
    starts, new_starts = (_starts(groups) for groups in (split.groups, split.groups_new))
    for seen, new in zip(starts, new_starts, strict=True):
        X, y, X_new = split.X[seen], split.y[seen], split.X_new[new]
        center, mean = X.mean(axis=0), y.mean()
        values, vectors = np.linalg.eigh((X - center) @ (X - center).T)
        weights = (vectors.T @ (y - mean)) / (np.maximum(values, 0) + RIDGES[:, np.newaxis])
        coefs = weights @ vectors.T @ (X - center)
        predictions[:, new] = mean + coefs @ (X_new - center).T
    return max(map(split.score, predictions))


def _starts(groups: np.ndarray) -> list[slice]:
    """Return where the rows of each user are."""
    ends = [0, *(np.flatnonzero(np.diff(groups)) + 1), len(groups)]
    return [slice(*both) for both in pairwise(ends)]


def ours(split: Split, seed: int, **parameters: Any) -> tuple[float, float]:
    """Score the models of users, and the mean model."""
    estimator = DPPersonalizedRegressor(random_state=KEY + seed, **parameters)
    estimator.fit(split.X, split.y, split.groups)
    support = (split.X, split.y, split.groups)
    predictions = estimator.predict(split.X_new, groups=split.groups_new, support=support)
    return split.score(predictions), split.score(estimator.predict(split.X_new))


def cosine_features() -> np.ndarray:
    """Return the products of cosines along both sides, a row a pixel."""
    waves = np.cos(np.pi * np.outer(np.arange(SIDE) + 0.5, np.arange(N_FREQUENCIES)) / SIDE)
    waves /= np.linalg.norm(waves, axis=0)
    return SIDE * np.kron(waves, waves)


def seen_digits(seed: int) -> tuple[Split, np.ndarray]:
    """Split the pixels of each image; and return which ones are new."""
    images = load_digits().data / 16
    order = np.argsort(np.random.default_rng([KEY, seed]).random(images.shape), axis=1)
    features, parts = cosine_features(), []
    for pixels in (order[:, :N_SEEN], order[:, N_SEEN:]):
        values = np.take_along_axis(images, pixels, axis=1)
        owners = np.repeat(np.arange(len(images)), pixels.shape[1])
        parts += [features[pixels.ravel()], values.ravel(), owners]
    return Split(*parts), order[:, N_SEEN:]


DIGIT_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
FITS: dict[str, dict[str, Any]] = {
    "ours, no whitening": {"decorrelate": False},
    "ours": {},
    "spectral, no whitening": {"decorrelate": False, "n_iter": 0},
}


def digits(seed: int) -> Measured:
    split, pixels = seen_digits(seed)
    local = ridge(split)
    image = split.score((load_digits().data / 16).mean(axis=0)[pixels.ravel()])
    for epsilon in DIGIT_EPSILONS:
        row = f"{epsilon:g}"
        yield (row, "ridge"), local
        yield (row, "mean image"), image
        for name, parameters in FITS.items():
            both = ours(split, seed, n_components=3, epsilon=epsilon, delta=1e-5, **parameters)
            yield (row, name), both[0]
            if name == "ours, no whitening":
                yield (row, "its mean model"), both[1]


@cache
def places() -> tuple[np.ndarray, list[np.ndarray]]:
    """Return features of the places most visited, and who of the private half went where."""
    visits = interactions("gowalla")
    popular = np.argsort(-visits.sum(axis=0), kind="stable")[:N_PLACES]
    visits = visits[:, popular]
    is_public = np.random.default_rng(KEY).random(visits.shape[0]) < 0.5
    known = visits[is_public]
    # Both lengths count: those of busy users and of popular places would rule the rest.
    known = _scaled(_scaled(known).T).T
    _, values, right = svds(known.tocsr(), N_PLACE_FEATURES, random_state=0)
    features = right.T * values
    # All places count alike, and a feature is about 1.
    features *= np.sqrt(N_PLACE_FEATURES) / np.linalg.norm(features, axis=1, keepdims=True)
    private = visits[~is_public].tolil().rows
    return features, [np.array(went) for went in private if len(went) >= FEWEST_VISITS]


def _scaled(visits: Any) -> Any:
    lengths = np.maximum(np.asarray(visits.sum(axis=1)).ravel(), 1)
    return visits.multiply(1 / np.sqrt(lengths)[:, np.newaxis]).tocsr()


def seen_places(seed: int) -> Split:
    features, visited = places()
    random = np.random.default_rng([KEY, seed])
    parts: tuple[list[np.ndarray], ...] = ([], [], [], [], [], [])
    for user, went in enumerate(visited):
        went = random.permutation(went)[:MOST_VISITS]
        others = np.setdiff1d(
            random.choice(N_PLACES, 4 * MOST_VISITS, replace=False), visited[user]
        )
        others = random.permutation(others)[: len(went)]
        half = len(went) // 2
        for first, both in ((0, (went[:half], others[:half])), (3, (went[half:], others[half:]))):
            chosen = np.concatenate(both)
            parts[first].append(features[chosen])
            parts[first + 1].append(np.repeat([1.0, -1.0], [len(each) for each in both]))
            parts[first + 2].append(np.full(len(chosen), user))
    return Split(*map(np.concatenate, parts))


PLACE_EPSILONS = (1.0, 4.0, 16.0)
PLACE_FITS: dict[str, dict[str, Any]] = {
    "ours, k 3": {"n_components": 3},
    "ours, k 8": {"n_components": 8},
    "ours, k 3, no mean": {"n_components": 3, "mean_head": False, "fit_intercept": False},
    "pooled": {"n_components": 0},
}


def visits(seed: int) -> Measured:
    split = seen_places(seed)
    local = ridge(split)
    for epsilon in PLACE_EPSILONS:
        row = f"{epsilon:g}"
        yield (row, "ridge"), local
        for name, parameters in PLACE_FITS.items():
            yield (row, name), ours(split, seed, epsilon=epsilon, delta=1e-6, **parameters)[0]


SECTIONS = [
    DataSection(
        "digits",
        "Digits",
        "1797 images, delta 1e-5, three components.",
        "epsilon",
        [f"{epsilon:g}" for epsilon in DIGIT_EPSILONS],
        ["ridge", "mean image", *FITS, "its mean model"],
        digits,
    ),
    DataSection(
        "gowalla",
        "Gowalla",
        f"{N_PLACES} places of {N_PLACE_FEATURES} features, delta 1e-6.",
        "epsilon",
        [f"{epsilon:g}" for epsilon in PLACE_EPSILONS],
        ["ridge", *PLACE_FITS],
        visits,
        needs_folder=True,
    ),
]


def part(section: DataSection, values: Values) -> str:
    cells = section_table(section, lambda key: mean_and_error(values[key], 3))
    return titled(section, section.text, cells)


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds=f"seeds of each cell, default {SEEDS}",
        only="sections with this in their name",
        write="replace real_data.md",
    )
    parser.set_defaults(seeds=SEEDS)
    arguments = parser.parse_args()
    need_two_seeds(parser, arguments.seeds)
    sections = at_hand([section for section in SECTIONS if arguments.only in section.name])
    if arguments.write and (len(sections) < len(SECTIONS) or arguments.seeds < SEEDS):
        parser.error(f"the committed tables have all sections and at least {SEEDS} seeds")
    ignore_drowned_signal()
    parts = []
    for section in sections:
        parts.append(part(section, measured(section.measure, arguments.seeds)))
        print(parts[-1], flush=True)
    if arguments.write:
        title = TITLE.format(arguments.seeds).rstrip()
        (HERE / "real_data.md").write_text("\n\n".join([title, *parts, FINDINGS]))


if __name__ == "__main__":
    main()
