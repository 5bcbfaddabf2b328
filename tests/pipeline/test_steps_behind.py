"""Steps without privacy behind a private one: a closed list, and what it keeps for every row."""

import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, issparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

import skdp
from skdp.model_selection import DPGridSearch
from skdp.pipeline._public_rows import stand_ins
from skdp.pipeline._public_steps import made_of_extremes, transformed
from skdp.privacy import PrivacyBudget

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

X = np.random.default_rng(0).standard_normal((60, 3))
FIRST, LAST = skdp.DPStandardScaler(bounds=(-9, 9)), skdp.DPPCA(1, row_norm=2.0, mean_norm=2.0)


class Subclass(Normalizer):
    """May do anything."""


def columns(*parts, **more):
    return ColumnTransformer([(f"part{i}", *part) for i, part in enumerate(parts)], **more)


def splines(**more):
    return SplineTransformer(**{"knots": np.array([[-1.0] * 3, [0.0] * 3, [2.0] * 3]), **more})


# ------------------------------
# What stands there, and what every finite row becomes.

LISTED = {
    **{f"norm {norm}": Normalizer(norm) for norm in ("l1", "l2", "max")},
    "in place": Normalizer(copy=False),
    "signs": Binarizer(),
    "signs in place": Binarizer(threshold=0.5, copy=False),
    **{
        f"powers {degree} {order} {only}": PolynomialFeatures(degree, order=order, **only)
        for degree, order, only in (
            (2, "C", {}),
            (3, "F", {"interaction_only": True}),
            ((2, 4), "C", {"include_bias": False}),
            (5, "C", {}),
            (0, "C", {}),
        )
    },
    **{
        f"splines {degree} {end} {is_sparse}": splines(
            degree=degree, extrapolation=end, sparse_output=is_sparse
        )
        for degree, end, is_sparse in product(
            (1, 2, 3), ("constant", "linear", "continue", "periodic"), (False, True)
        )
        if (degree, end) != (3, "periodic")
    },
    "splines without bias": splines(include_bias=False, order="F", extrapolation="linear"),
    "huge knots": splines(knots=np.array([[-1e300] * 3, [0.0] * 3, [1e308] * 3])),
    "selection": columns(("passthrough", [0, 2]), ("drop", [1])),
    "columns": columns(
        (Normalizer("l1"), slice(0, 2)), (PolynomialFeatures(3), [2]), remainder=Binarizer()
    ),
    "mask": columns((Normalizer(), [True, False, True]), n_jobs=2),
}
# With the names of those that take sparse rows twice.
OF_ROWS = [(name, False) for name in LISTED]
OF_ROWS += [(name, True) for name in LISTED if "splines" not in name and "knots" not in name]


def odd_rows(dtype, seed):
    """Make finite rows of all sizes, any of which a step might refuse."""
    generator, info = np.random.default_rng(seed), np.finfo(dtype)
    sizes = [0.0, -0.0, 1.0, -1.0, 2.0, -0.5, info.max, info.max / 2, info.tiny, info.eps]
    sizes += [info.smallest_subnormal, np.sqrt(info.max) * 2, np.cbrt(info.max) * 2, 1e-20, 30.0]
    signs = generator.choice([-1, 1], (40, 3))
    return (generator.choice(np.array(sizes, dtype), (40, 3)) * signs).astype(dtype)


def sent(step, rows, *, is_sparse=False):
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        return transformed([("step", step)], csr_array(rows) if is_sparse else rows)


@pytest.mark.covered(at_most=12)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("name", "is_sparse"), OF_ROWS)
def test_no_finite_row_is_an_error_a_warning_or_changes_a_form(name, is_sparse, dtype):
    made = made_of_extremes("step", LISTED[name], 3, np.dtype(dtype), is_sparse=is_sparse)
    fitted = clone(LISTED[name]).fit(csr_array(np.ones((2, 3), dtype)) if is_sparse else X[:2])
    if isinstance(fitted, ColumnTransformer):
        fitted.sparse_output_ = is_sparse
    for seed in range(5):
        rows = odd_rows(dtype, seed)
        given = rows.copy()
        whole = sent(fitted, rows, is_sparse=is_sparse)
        np.testing.assert_array_equal(rows, given)
        facts = type(whole), whole.dtype, whole.shape[1]
        assert facts == (type(made), made.dtype, made.shape[1])
        whole = whole.toarray() if issparse(whole) else whole
        assert np.isfinite(whole).all()
        for row in range(6):
            # With another one beside it, as a single one may take another way.
            alone = sent(fitted, rows[[row, row]], is_sparse=is_sparse)
            assert (type(alone), alone.dtype, alone.shape[1]) == facts
            alone = alone.toarray() if issparse(alone) else alone
            np.testing.assert_allclose(alone[0], whole[row], rtol=1e-6)


@pytest.mark.covered(at_most=6)
@pytest.mark.parametrize("output", ["default", "pandas", "polars"])
@pytest.mark.parametrize("name", LISTED)
def test_it_stands_behind_a_private_step_whatever_the_settings(name, output):
    steps = clone(FIRST), clone(LISTED[name]), clone(LAST)
    if name in ("powers 0 C {}",):
        # A column of ones.
        steps = *steps[:2], skdp.DPStandardScaler()
    shares = {"dpstandardscaler-2": 0.5} if len({type(one) for one in steps}) < 3 else None
    model = skdp.make_dp_pipeline(*steps, shares=shares)
    with config_context(transform_output=output):
        plan = model.plan(*X.shape)
        assert model.fit(X).privacy_spent_.mu == pytest.approx(plan.mu, rel=1e-6)
    assert skdp.privacy_spent(model).is_private
    if name.startswith(("norm", "signs", "powers", "splines")):
        assert skdp.privacy_spent(make_pipeline(*map(clone, steps)).fit(X)).is_private


def test_frames_are_not_handed_on():
    inner = columns((Normalizer().set_output(transform="pandas"), [0]), ("passthrough", [1]))
    model = skdp.make_dp_pipeline(clone(FIRST), inner, clone(LAST)).fit(X)
    with config_context(transform_output="pandas"), warnings.catch_warnings(action="error"):
        model.score_samples(X)
    for step in (Normalizer(), clone(LISTED["columns"])):
        step.set_output(transform="pandas")
        with pytest.raises(ValueError, match=r"returns data frames.*set_output"):
            skdp.make_dp_pipeline(clone(FIRST), step, clone(LAST)).fit(X)
        with pytest.raises(ValueError, match="returns data frames"):
            skdp.make_dp_pipeline(clone(FIRST), step).fit(X)


def test_candidates_share_rows_that_a_step_would_change_in_place():
    steps = [("a", clone(FIRST)), ("b", Normalizer(copy=False)), ("c", clone(LAST))]
    grid = {"b__norm": ["max", "l1", "l2"]}
    found = []
    for copy in (False, True):
        model = skdp.DPPipeline(steps).set_params(b__copy=copy)
        search = DPGridSearch(model, grid, epsilon=np.inf, random_state=2**100).fit(X)
        found.append(search.best_estimator_[-1].components_)
    np.testing.assert_array_equal(*found)


# ------------------------------
# What is refused, before anything is spent.

BEFORE = {
    "function": FunctionTransformer(),
    "frozen": FrozenEstimator(StandardScaler().fit(X)),
    "one-hot": OneHotEncoder(categories=[[0.0]] * 3, handle_unknown="ignore"),
    "ordinal": OrdinalEncoder(
        categories=[[0.0]] * 3,
        handle_unknown="use_encoded_value",
        unknown_value=-1,
        encoded_missing_value=-2,
    ),
    "imputer": SimpleImputer(strategy="constant"),
    "hashes": HashingVectorizer(),
    "sampler": AdditiveChi2Sampler(),
    "columns": columns((FunctionTransformer(), [0])),
    "frozen columns": columns((FrozenEstimator(Normalizer().fit(X)), [0])),
    "pipeline in columns": columns((make_pipeline(PolynomialFeatures(), Normalizer()), [0])),
    "columns in columns": columns((columns((Normalizer(), [0])), [0])),
    "remainder": columns((Normalizer(), [0]), remainder=FunctionTransformer()),
    "chosen columns": columns(("passthrough", make_column_selector())),
    "subclass in columns": columns((Subclass(), [0])),
    "private columns": columns((clone(LAST), [0])),
    "union of functions": make_union(Normalizer(), FunctionTransformer()),
}
NOWHERE = {
    "union": make_union(StandardScaler()),
    "pipeline": make_pipeline(Normalizer()),
    "subclass": Subclass(),
    "learned splines": SplineTransformer(),
    "splines that refuse": splines(extrapolation="error"),
}
# By what they make of public rows.
UNFIT = {
    "knots of other columns": splines(knots=np.zeros((3, 2))),
    "equal knots": splines(knots=np.zeros((3, 3))),
    "steps": splines(degree=0),
    "lines of steps": splines(
        degree=0, knots=np.array([[0.0] * 3, [1.0] * 3]), extrapolation="linear"
    ),
    "no such norm": Normalizer("l3"),
    "missing column": columns(("passthrough", [3])),
    "names": columns(("passthrough", ["a"])),
}


@pytest.mark.parametrize("name", [*BEFORE, *NOWHERE, *UNFIT])
def test_all_else_is_refused_before_anything_is_spent(name, no_budget):
    step = {**BEFORE, **NOWHERE, **UNFIT}[name]
    steps = [("a", clone(FIRST)), ("odd", step), ("c", clone(LAST))]
    text = "odd.*put it before the first private step" if name in BEFORE else "odd"
    model = skdp.DPPipeline(steps)
    refusals = [lambda: model.fit(X), lambda: model.plan(*X.shape)]
    refusals += [lambda: DPGridSearch(model, {"c__whiten": [True, False]}).fit(X)]
    if name != "private columns":
        plain = make_pipeline(*(one for _, one in steps[:1]), step, clone(LAST))
        plain.steps = steps
        refusals += [lambda: DPGridSearch(plain, {"c__whiten": [True, False]}).fit(X)]
    for refuse in refusals:
        with pytest.raises((ValueError, TypeError), match=text) as refused:
            refuse()
        assert refused.value.__context__ is None or name not in BEFORE


@pytest.mark.parametrize("name", ["function", "frozen", "imputer", "ordinal"])
def test_last_steps_are_refused_there_too(name):
    with pytest.raises(ValueError, match="put it before the first private step"):
        skdp.make_dp_pipeline(clone(FIRST), BEFORE[name]).fit(X)


def test_a_sparse_row_below_zero_is_refused_for_all_rows(no_budget):
    first = skdp.DPStandardScaler(with_mean=False)
    with pytest.raises(ValueError, match="threshold < 0"):
        skdp.make_dp_pipeline(first, Binarizer(threshold=-1.0), clone(LAST)).fit(csr_array(X))


@pytest.mark.parametrize("step", [splines(), columns(("passthrough", [1]))])
def test_what_needs_a_number_of_columns_is_refused_behind_a_released_one(step, no_budget):
    with pytest.raises(ValueError, match=rf"Step '{type(step).__name__.lower()}' raises"):
        skdp.make_dp_pipeline(skdp.DPPCA(0.9), step, clone(LAST), shares={"dppca-1": 0.5}).fit(X)


@pytest.mark.parametrize(
    ("first", "odd", "grid"),
    [
        (FIRST, splines(), {"odd__extrapolation": ["constant", "error"]}),
        (FIRST, splines(), {"odd__knots": [splines().knots, "uniform"]}),
        (FIRST, splines(), {"odd__degree": [2, 0]}),
        ("passthrough", splines(), {"odd__knots": ["uniform"]}),
        ("passthrough", BEFORE["one-hot"], {"odd__categories": ["auto"]}),
    ],
)
def test_no_candidate_makes_a_step_refuse_rows_or_learn(first, odd, grid, no_budget):
    pipeline = skdp.DPPipeline([("a", first), ("odd", odd), ("c", clone(LAST))])
    with pytest.raises(ValueError, match=r"may learn|raises"):
        DPGridSearch(pipeline, grid).fit(np.abs(X))


def test_a_function_behind_public_columns_may_refuse_rows_before_anything_is_spent(monkeypatch):
    monkeypatch.setattr(PrivacyBudget, "of", lambda *_: pytest.fail("a budget was opened"))
    steps = columns((FunctionTransformer(np.cbrt), [0, 1])), FunctionTransformer(refuses_seven)
    model = skdp.make_dp_pipeline(*steps, clone(LAST))
    search = DPGridSearch(model, {"dppca__row_norm": [1.0, 2.0]})
    for one in (model, search):
        with pytest.raises(ValueError, match="text may show values"):
            one.fit(np.where(np.arange(60)[:, np.newaxis] == 7, 7.0**3, X))
    monkeypatch.undo()
    assert model.fit(X * 1e300).privacy_spent_.mu > 0


def test_a_verdict_says_so_of_an_ordinary_pipeline():
    for step in (BEFORE["function"], BEFORE["frozen"], BEFORE["columns"]):
        report = skdp.privacy_spent(make_pipeline(clone(FIRST), clone(step), clone(LAST)).fit(X))
        assert not report.is_private
        assert "put it before the first private step" in report.verdict
        before = skdp.privacy_spent(make_pipeline(clone(step), clone(FIRST)).fit(X))
        assert "put it before" not in before.verdict


# ------------------------------
# Before all private steps: what refuses a row is refused, and tells nothing of it.


def refuses_seven(rows):
    if (np.asarray(rows) == 7).any():
        raise ValueError(f"secret {rows}")
    return rows


FUNCTIONS = {
    "error": (refuses_seven, "text may show values"),
    "complex": (lambda rows: np.emath.sqrt(8 - rows * (rows == 7) * 2), "real numbers"),
    "type": (lambda rows: rows.astype(np.float32 if (rows == 7).any() else float), "whatever"),
    "fewer": (lambda rows: rows[(rows != 7).all(axis=1)], "a row for each"),
    "width": (lambda rows: np.c_[rows, rows] if (rows == 7).any() else rows, "whatever"),
    "density": (lambda rows: csr_array(rows) if (rows == 7).any() else rows, "whatever"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_follows_single_rows_is_refused_before_anything_is_spent(name, monkeypatch):
    function, text = FUNCTIONS[name]
    model = skdp.make_dp_pipeline(FunctionTransformer(function), clone(FIRST))
    clone(model).fit(X)
    odd = X.copy()
    odd[7, 1] = 7
    monkeypatch.setattr(PrivacyBudget, "of", lambda *_: pytest.fail("a budget was opened"))
    for one in (model, DPGridSearch(model, {"dpstandardscaler__clip": [1.0]})):
        with pytest.raises(ValueError, match=text) as refused:
            one.fit(odd)
        assert "secret" not in str(refused.value)
        assert refused.value.__context__ is None


NO_ROWS = {
    "list": (np.ndarray.tolist, "list"),
    "frame": (pd.DataFrame, "DataFrame"),
    "series": (lambda rows: pd.Series(rows[:, 0]), "Series"),
    "masked": (np.ma.masked_array, "MaskedArray"),
    "complex": (lambda rows: rows * 1j, "complex128"),
    "objects": (lambda rows: rows.astype(object), "object"),
    "texts": (lambda rows: rows.astype(str), "<U32.*make_pipeline.SimpleImputer"),
    "1-D": (lambda rows: rows[:, 0], r"shape \(2,\)"),
    "3-D": (lambda rows: rows[:, :, np.newaxis], r"shape \(2, 3, 1\)"),
    "transposed": (np.transpose, r"shape \(3, 2\)"),
    "complex sparse": (lambda rows: csr_array(rows * 1j), "complex128"),
    "number": (np.sum, "float64"),
    "nothing": (lambda rows: None, "NoneType"),
}


@pytest.mark.parametrize("name", NO_ROWS)
def test_a_step_that_makes_no_array_of_real_numbers_is_refused_before_anything_is_spent(
    name, no_budget
):
    function, given = NO_ROWS[name]
    step, scaler = FunctionTransformer(function), skdp.DPStandardScaler()
    told = "returned a" if name == "frame" else "must return a 2-D array or a sparse matrix"
    told = f"^Step 'functiontransformer' {told}.*{given}"
    with pytest.raises(ValueError, match=told):
        skdp.make_dp_pipeline(step, scaler).fit(X)
    with pytest.raises(ValueError, match=told):
        DPGridSearch(make_pipeline(step, skdp.DPPCA(2)), {"dppca__whiten": [True, False]}).fit(X)


def test_a_step_that_returns_frames_is_refused_before_anything_is_spent(monkeypatch):
    monkeypatch.setattr(PrivacyBudget, "of", lambda *_: pytest.fail("a budget was opened"))
    for first in (skdp.DPStandardScaler(), Normalizer()):
        first.set_output(transform="pandas")
        with pytest.raises(ValueError, match=r"returns data frames.*set_output"):
            skdp.make_dp_pipeline(first, skdp.DPPCA(2)).fit(X)
    with pytest.raises(ValueError, match=r"returned a DataFrame.*validate=True"):
        skdp.make_dp_pipeline(FunctionTransformer(), skdp.DPPCA(2)).fit(pd.DataFrame(X))
    frame = pd.DataFrame(X, columns=list("abc"))
    pipeline = skdp.make_dp_pipeline(FunctionTransformer(validate=True), skdp.DPPCA(2))
    monkeypatch.undo()
    pipeline[-1].set_output(transform="pandas")
    assert list(pipeline.fit(frame).transform(frame)) == ["dppca0", "dppca1"]


@pytest.mark.parametrize("dtype", [np.float32, int, np.float64])
def test_what_refuses_all_public_rows_makes_one_type(dtype):
    texts = np.array([["yes" if row[0] > 1 else "no"] for row in X], dtype=object)
    codes = OneHotEncoder(sparse_output=False, dtype=dtype).fit([["no"], ["yes"]])
    assert transformed([("step", FrozenEstimator(codes))], texts).dtype == np.float64


def test_the_width_of_texts_changes_no_public_row():
    made = [[rows.tolist() for rows in stand_ins(np.array([text] * 4))] for text in ("1", "12345")]
    assert made[0] == made[1]
