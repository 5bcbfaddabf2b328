"""`DPLinearRegression` on rows whose columns are unlike each other: every table in one list.

The data of `unlike_data.py`, `unlike_columns.py` and `real_data.py` that have rows of features, and
labels -1 and 1 of two tables. R^2 of held-out rows, or AUC: mean and least of the seeds. Results go
to a file, and are compared with those of another version of the library:

    python -m benchmarks.trace_regression.scales FILE [--against FILE] [--only PART] [--seeds N]
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.data import file_at_hand
from benchmarks.trace_regression.real_data import NAMES, rows_and_responses
from benchmarks.trace_regression.unlike_columns import CASES as COLUMNS
from benchmarks.trace_regression.unlike_data import CASES, N
from skdp import DPLinearRegression

# Public for repeatable tables, and hence good for nothing else.
KEY = 2**100
LABELS = {"adult": "adult", "coil": "coil2000_insurance"}

# Rows and responses of a seed to fit, those to test, and parameters.
Drawn = tuple[Any, np.ndarray, Any, np.ndarray, dict[str, Any]]


def unlike(name: str, seed: int) -> Drawn:
    make, parameters, n_fitted = CASES[name]
    X, y = make(np.random.default_rng(seed), n_fitted + N)
    return X[:n_fitted], y[:n_fitted], X[n_fitted:], y[n_fitted:], parameters


def columns(name: str, seed: int) -> Drawn:
    make, n_fitted = COLUMNS[name]
    X, y = make(seed)
    return X[:n_fitted], y[:n_fitted], X[n_fitted:], y[n_fitted:], {}


@cache
def labeled(name: str) -> tuple[np.ndarray, np.ndarray]:
    path = file_at_hand(f"{LABELS[name]}.npz")
    assert path is not None
    with np.load(path) as arrays:
        X, y = np.nan_to_num(arrays["X"].astype(np.float64)), arrays["y"]
    return X, 2.0 * y - 1


@cache
def real(name: str) -> tuple[np.ndarray, np.ndarray]:
    data = labeled(name) if name in LABELS else rows_and_responses(name)
    assert data is not None
    return data


def split(name: str, bounded: bool, seed: int) -> Drawn:
    X, y = real(name)
    parts = train_test_split(X, y, test_size=0.25, random_state=seed)
    parameters: dict[str, Any] = {"response_bound": 1.0} if name in LABELS else {}
    if bounded:
        low, high = X.min(axis=0), X.max(axis=0)
        parameters["bounds"] = (low, np.where(high > low, high, low + 1))
    return parts[0], parts[2], parts[1], parts[3], parameters


def cases() -> Iterator[tuple[str, Callable[[int], Drawn], tuple[float, ...]]]:
    for name, (_, parameters, _) in CASES.items():
        if "covariance" not in parameters and "privacy_unit" not in parameters:
            yield f"unlike: {name}", partial(unlike, name), (1.0,)
    for name in COLUMNS:
        yield f"columns: {name}", partial(columns, name), (0.5, 1.0, 4.0)
    for name in ("diabetes", *NAMES, *LABELS):
        yield f"real: {name}", partial(split, name, False), (0.25, 1.0, 4.0)
        yield f"real: {name}, bounds", partial(split, name, True), (0.25, 1.0, 4.0)


def measured(drawn: Drawn, epsilon: float, seed: int) -> tuple[float, bool]:
    X, y, held_X, held_y, parameters = drawn
    model = DPLinearRegression(epsilon=epsilon, random_state=KEY + seed, **parameters)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    if set(np.unique(held_y)) == {-1.0, 1.0}:
        return float(roc_auc_score(held_y, model.predict(held_X))), bool(caught)
    return float(model.score(held_X, held_y)), bool(caught)


def told(values: list[float]) -> str:
    return f"{np.median(values):8.3f} {np.sort(values)[0]:9.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=8)
    arguments = parser.parse_args()
    found = json.loads(arguments.file.read_text()) if arguments.file.exists() else {}
    other = json.loads(arguments.against.read_text()) if arguments.against else {}
    for name, draw, epsilons in cases():
        if arguments.only not in name:
            continue
        began = time.process_time()
        results: dict[float, list[Any]] = {epsilon: [] for epsilon in epsilons}
        for seed in range(arguments.seeds):
            drawn = draw(seed)
            for epsilon in epsilons:
                results[epsilon].append(measured(drawn, epsilon, seed))
        for epsilon in epsilons:
            key = f"{name}, {epsilon:g}"
            scores, warned = ([one[i] for one in results[epsilon]] for i in (0, 1))
            found[key] = scores
            line = f"{key:52s}{told(scores)} {np.mean(warned):5.2f}"
            if (before := other.get(key)) is not None:
                before = before[: len(scores)]
                gain = np.median(scores) - np.median(before)
                mark = "+++" if gain > 0.02 else "---" if gain < -0.01 else ""
                line += f"  | {told(before)} | {gain:+.3f} {mark}"
            print(line, f"({(time.process_time() - began):.1f} s)", flush=True)
        arguments.file.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
