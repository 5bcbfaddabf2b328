"""scikit-learn's estimator checks, those it keeps for itself included: no expected failures.

One instance of each class is checked by default, most of them by every fifth check; all else is
checked with the slow tests.
"""

import numpy as np
import public
import pytest
from sklearn.base import clone
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import skdp
from skdp.model_selection import DPGridSearch, DPRandomizedSearch
from skdp.units import Edge, Entry, FrobeniusChange, Interaction, SparseRow, SpectralChange

# The checks fit a few rows with small seeds and mix frames with arrays.
pytestmark = [
    pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore:X has feature names"),
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
]

UNBOUNDED = {"epsilon": np.inf, "row_norm": np.inf, "mean_norm": np.inf}
GENEROUS = {"epsilon": 1000.0, "row_norm": 20.0, "mean_norm": 20.0}
ESTIMATORS = [
    skdp.DPPCA(),
    skdp.DPPCA(**UNBOUNDED),
    skdp.DPPCA(n_components=1, solver="power", whiten=True, **GENEROUS),
    skdp.DPPCA(center=False, adjacency="zero_out", epsilon=1000.0, row_norm=20.0),
    skdp.DPTruncatedSVD(),
    skdp.DPTruncatedSVD(**UNBOUNDED),
    skdp.DPTruncatedSVD(n_components=1, solver="power", **GENEROUS),
    skdp.DPTruncatedSVD(adjacency="zero_out", **GENEROUS),
    skdp.DPTruncatedSVD(solver="covariance", **GENEROUS),
]
# The checks fit a few rows, and square kernels of them for units that need these.
LOOSE = {"n_components": 1, "epsilon": 1000.0}
BOUNDS = (-20, 20)
UNITS = [
    {"privacy_unit": Entry(BOUNDS)},
    {"privacy_unit": Entry(BOUNDS), "solver": "alternating"},
    {"privacy_unit": Entry(BOUNDS), "solver": "alternating", "delta": 0},
    {"privacy_unit": Entry(BOUNDS), "solver": "deflation", "adjacency": "zero_out"},
    {"privacy_unit": Entry(BOUNDS, zero_is_missing=False), "solver": "input"},
    {"privacy_unit": Edge((-1e3, 1e3))},
    {"privacy_unit": Edge(BOUNDS), "solver": "alternating", "delta": 0},
    {"privacy_unit": Edge(BOUNDS), "solver": "alternating", "coherence_bound": 20},
    {"privacy_unit": SparseRow(5, BOUNDS)},
]
NOT_CENTERED = [
    {"privacy_unit": Interaction(degree_floor=3)},
    {"privacy_unit": Edge(BOUNDS), "solver": "deflation"},
    {"privacy_unit": SpectralChange(largest=20)},
    {"privacy_unit": SpectralChange(largest=20), "delta": 0},
]
ESTIMATORS += [skdp.DPTruncatedSVD(**{**LOOSE, **unit}) for unit in UNITS + NOT_CENTERED]
ESTIMATORS += [skdp.DPPCA(**{**LOOSE, **unit}) for unit in UNITS]
ESTIMATORS += [skdp.DPPCA(**{**LOOSE, **unit, "center": False}) for unit in NOT_CENTERED]
ESTIMATORS.append(skdp.DPPCA(privacy_unit=Entry(BOUNDS), epsilon=1000.0))
# Of a few rows no interaction is left, and so no variance.
NOTHING = {"privacy_unit": Interaction(degree_floor=3), "center": False}
ESTIMATORS.append(skdp.DPPCA(1, epsilon=np.inf, **NOTHING))
FACTORIZATIONS = [
    {},
    {"epsilon": np.inf, "row_norm": np.inf},
    {"n_components": 1, "epsilon": 1000.0, "row_norm": 20.0, "adjacency": "zero_out"},
    {**LOOSE, "privacy_unit": Entry(BOUNDS)},
    {**LOOSE, "privacy_unit": Entry(BOUNDS), "solver": "alternating", "delta": 0},
    {**LOOSE, "privacy_unit": Entry(BOUNDS), "missing": "middle"},
    {**LOOSE, "privacy_unit": FrobeniusChange(0.1)},
    {**LOOSE, "privacy_unit": FrobeniusChange(0.1), "solver": "alternating", "n_iter": 3},
]
ESTIMATORS += [skdp.DPLowRankFactorizer(**more) for more in FACTORIZATIONS]

# With so large an epsilon the checks expect a good score of the regressors.
REGRESSIONS = [
    {},
    {"covariance": "identity"},
    {"init": "spectral", "adjacency": "zero_out", "covariance": "identity", "fit_intercept": False},
    {"privacy_unit": "response", "response_bound": 1e3},
]
GENEROUS_REGRESSORS = [skdp.DPTraceRegressor(epsilon=1000.0, **more) for more in REGRESSIONS]
PERSONAL = [
    {},
    {"adjacency": "zero_out", "decorrelate": False},
    {"solver": "altmin", "max_rows_per_user": 5},
    {"n_components": 0},
    {"n_iter": 0},
]
GENEROUS_REGRESSORS += [skdp.DPPersonalizedRegressor(epsilon=1000.0, **more) for more in PERSONAL]
GENEROUS_CLASSIFIERS = [
    skdp.DPLogisticRegression(epsilon=1000.0),
    skdp.DPLogisticRegression(epsilon=1000.0, adjacency="zero_out", row_norm=10.0),
    skdp.DPTraceClassifier(epsilon=1000.0),
    skdp.DPTraceClassifier(epsilon=1000.0, adjacency="zero_out", row_norm=10.0),
]
ESTIMATORS += [skdp.DPLinearRegression(), skdp.DPLinearRegression(epsilon=1000.0, bounds=(-10, 10))]
ESTIMATORS += [skdp.DPTraceRegressor(), skdp.DPTraceRegressor(epsilon=np.inf), *GENEROUS_REGRESSORS]
ESTIMATORS += [
    skdp.DPLogisticRegression(),
    skdp.DPLogisticRegression(epsilon=np.inf),
    *GENEROUS_CLASSIFIERS,
]
ESTIMATORS += [skdp.DPTraceClassifier(), skdp.DPTraceClassifier(epsilon=np.inf)]
ESTIMATORS += [skdp.DPPersonalizedRegressor(), skdp.DPPersonalizedRegressor(epsilon=np.inf)]
# The choice among sparse and single rows, too.
SEARCHED = {"n_components": [1, 2]}
ESTIMATORS += [
    DPGridSearch(skdp.DPTruncatedSVD(row_norm=3), SEARCHED),
    DPGridSearch(skdp.DPPCA(mean_norm=3, row_norm=3), SEARCHED),
    DPGridSearch(skdp.DPTraceRegressor(), {"n_iter": [2, 3]}),
    DPRandomizedSearch(skdp.DPPCA(mean_norm=3, row_norm=3), SEARCHED, n_iter=2),
]
ESTIMATORS += [
    skdp.DPStandardScaler(**more)
    for more in (
        {},
        {"epsilon": np.inf, "clip": None},
        {"bounds": BOUNDS, "adjacency": "zero_out"},
        {"with_mean": False},
    )
]
ESTIMATORS += [
    skdp.DPCovariance(**more)
    for more in (
        {},
        {"epsilon": np.inf},
        {"bounds": BOUNDS, "adjacency": "zero_out", "assume_centered": True},
        {"missing": "mean"},
        {"bounds": BOUNDS, "marginals": True},
        {"bounds": BOUNDS, "scales": "bounds"},
    )
]
# With so large an epsilon the checks expect a good score.
PIPELINES = [
    skdp.make_dp_pipeline(skdp.DPStandardScaler(), skdp.DPLogisticRegression(), epsilon=1000.0),
    skdp.make_dp_pipeline(skdp.DPStandardScaler(), skdp.DPPCA(1)),
    skdp.make_dp_pipeline(skdp.DPPCA(1), skdp.DPTraceRegressor(), epsilon=1000.0),
]
ESTIMATORS += PIPELINES
# Both searches have all methods from one base.
FIRST_OF_CLASS = list(
    {type(one): one for one in reversed(ESTIMATORS) if type(one) is not DPRandomizedSearch}.values()
)
OTHERS = [one for one in ESTIMATORS if one not in FIRST_OF_CLASS]
EACH = [
    pytest.param(one, id=repr(one), marks=[pytest.mark.slow] * (one in OTHERS))
    for one in ESTIMATORS
]
# Searches leave the output to what they hold, and not all pipelines end with a transformer.
EACH_TRANSFORMER = [
    param
    for param in EACH
    if hasattr(param.values[0], "set_output") and hasattr(param.values[0], "transform")
]

KEPT_BACK = [
    "check_dataframe_column_names_consistency",
    "check_inplace_ensure_writeable",
    "check_param_validation",
]
KEPT_BACK_OF_TRANSFORMERS = [
    "check_get_feature_names_out_error",
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
]


def test_every_estimator_is_checked():
    assert set(public.ESTIMATORS) <= set(map(type, ESTIMATORS))


def in_turns(estimators):
    """Give every check of every estimator: all by default of a few, of the others every fifth."""
    mark = parametrize_with_checks(estimators).mark
    pairs = [
        pytest.param(*pair, marks=[pytest.mark.slow] * (number % 5 > 0 and not is_in_full(pair[0])))
        for number, pair in enumerate(mark.args[1])
    ]
    return pytest.mark.parametrize(mark.args[0], pairs, **mark.kwargs)


def is_in_full(estimator):
    """Whether it is one of the few, of which each is of another of scikit-learn's kinds."""
    return type(estimator) in (skdp.DPPCA, skdp.DPLinearRegression, skdp.DPLogisticRegression)


@in_turns(FIRST_OF_CLASS)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", OTHERS, ids=repr)
def test_scikit_learn_checks_of_other_settings(estimator, monkeypatch):
    # The hundreds of steps to an exact optimum are all alike.
    monkeypatch.setattr("skdp.linear_model.personal.fit._MOST_EXACT_STEPS", 20)
    estimator_checks.check_estimator(estimator)


@pytest.mark.covered
@pytest.mark.parametrize("name", KEPT_BACK)
@pytest.mark.parametrize("estimator", EACH)
def test_check_that_scikit_learn_keeps_for_itself(estimator, name):
    getattr(estimator_checks, name)(type(estimator).__name__, clone(estimator))


@pytest.mark.covered(at_most=14)
@pytest.mark.parametrize("name", KEPT_BACK_OF_TRANSFORMERS)
@pytest.mark.parametrize("estimator", EACH_TRANSFORMER)
def test_check_of_transformers_that_scikit_learn_keeps_for_itself(estimator, name):
    getattr(estimator_checks, name)(type(estimator).__name__, clone(estimator))


@pytest.mark.parametrize("estimator", GENEROUS_REGRESSORS + GENEROUS_CLASSIFIERS, ids=repr)
def test_a_good_score_is_expected_of_generous_ones(estimator):
    # Otherwise scikit-learn's check of the score passes whatever is fitted.
    for one, is_poor in ((estimator, False), (clone(estimator).set_params(epsilon=1.0), True)):
        tags = one.__sklearn_tags__()
        assert (tags.regressor_tags or tags.classifier_tags).poor_score == is_poor
