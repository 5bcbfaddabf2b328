"""Cells whose estimators have a twin in scikit-learn, and rows that tell them apart."""

import numpy as np
from families import FAMILIES
from scipy.special import softmax

from skdp import DPPCA, DPLinearRegression, DPLogisticRegression, DPStandardScaler, DPTruncatedSVD
from skdp.linear_model.logistic.plan import of_classes

TWINS = (DPPCA, DPTruncatedSVD, DPLinearRegression, DPLogisticRegression, DPStandardScaler)
METHODS = ("transform", "predict", "predict_proba", "decision_function")


def has_twin(cell):
    """Whether scikit-learn can do what the estimator of a cell does."""
    return isinstance(cell(), TWINS) and getattr(cell, "unit", None) != "interaction"


CELLS = {family.name: tuple(filter(has_twin, family.cells)) for family in FAMILIES}
CELLS = {name: cells for name, cells in CELLS.items() if cells}


def fitted(family, cell):
    """Fit a cell; cells of people have classes of their own, which take users by place."""
    with family.setting(cell):
        model = cell()
        if not getattr(model, "with_mean", True):
            model.set_params(clip=None)
        model.fit(*family.arguments(family.ordinary(cell)))
    model.__class__ = next(kind for kind in type(model).__mro__ if kind in TWINS)
    return model


def public_rows(model):
    """Rows around what a model has released, many of them far outside."""
    generator = np.random.default_rng(0)
    d = model.n_features_in_
    center = getattr(model, "mean_", np.zeros(d)).astype(np.float64)
    spread = getattr(model, "scale_", np.ones(d))
    if getattr(model, "feature_bounds_", None) is not None:
        low, high = model.feature_bounds_.astype(np.float64)
        center, spread = (low + high) / 2, (high - low) / 4
    rows = center + spread * generator.normal(size=(40, d)) * 10.0 ** generator.uniform(-1, 2, d)
    if getattr(model, "missing", "refuse") == "mean":
        rows[generator.random(rows.shape) < 0.2] = np.nan
    return rows


def size_of_terms(model, rows):
    """Return the largest sum of sizes of terms, of the sums that a model makes of rows."""
    weights = getattr(model, "coef_", getattr(model, "components_", None))
    if weights is None:
        return 1.0
    terms = np.abs(weights) @ np.abs(np.nan_to_num(rows)).max(axis=0)
    return float(np.max(terms + np.abs(getattr(model, "intercept_", 0.0))))


def results(model, rows):
    """What all methods of a model return, and how large the terms of the sums are."""
    size = size_of_terms(model, rows)
    found = {name: getattr(model, name)(rows) for name in METHODS if hasattr(model, name)}
    if "decision_function" in found:
        # Twins make probabilities of unclipped scores.
        scores = found["decision_function"].reshape(len(rows), -1)
        found["predict_proba"] = softmax(of_classes(scores), axis=1)
    return {
        name: (one, size if one.dtype.kind == "f" and name != "predict_proba" else 1.0)
        for name, one in found.items()
    }
