"""Labels that are responses, names or code: no error, warning, printed form or pickle tells one."""

import datetime as dt
import pickle
import struct
import traceback
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import skdp
from skdp.display import score_histogram
from skdp.model_selection import DPGridSearch, DPRandomizedSearch, private_score

N, WIDTH = 110, 4
X = np.random.default_rng(0).normal(size=(N, WIDTH)) * [9, 1, 1, 1]
CODES = (X[:, 0] > 0).astype(int)
# Is in each secret.
NEEDLE = "73519"
NORMS = {"row_norm": [3.0, 6.0]}
LOGISTIC, TRACE = skdp.DPLogisticRegression(), skdp.DPTraceClassifier(matrix_shape=(2, 2))
PIPELINE = skdp.make_dp_pipeline(skdp.DPStandardScaler(), skdp.DPLogisticRegression())

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    FITTED = [
        clone(LOGISTIC).set_params(classes=[0, 1]).fit(X, CODES),
        clone(LOGISTIC).set_params(classes=["no", "yes"]).fit(X, np.array(["no", "yes"])[CODES]),
        clone(PIPELINE).set_params(dplogisticregression__classes=[0, 1]).fit(X, CODES),
    ]
    PCA = skdp.DPPCA(2, row_norm=9.0, mean_norm=3.0).fit(X)


class Text(str):
    """A label whose code tells it."""

    def _raise(self, *_):
        raise ValueError(f"Unknown label type: {NEEDLE}. This is it.")

    __hash__ = __eq__ = __lt__ = __str__ = __repr__ = __len__ = _raise


class Number:
    """A number whose code tells it."""

    def _raise(self, *_):
        raise TypeError(f"float() argument must be a string or a number, not '{NEEDLE}'")

    __float__ = __int__ = __index__ = __hash__ = __eq__ = __lt__ = __str__ = __repr__ = _raise


def stray(value):
    return [value if place == 7 else code for place, code in enumerate(CODES.tolist())]


CONTINUOUS = [73519.25 + place for place in range(N)]
#: Labels, and whether they are labels that a fit may take for classes.
LABELS = {
    "continuous": (CONTINUOUS, False),
    "whole": ([7351900 + place for place in range(N)], False),
    "whole floats": ([7351900.0 + place for place in range(N)], False),
    "names": ([f"{NEEDLE} {place}" for place in range(N)], False),
    "two names": ([f"{NEEDLE} {code}" for code in CODES], True),
    "two numbers": ([7351900 + code for code in CODES.tolist()], True),
    "huge": ([7351900000000000000 + code for code in CODES.tolist()], False),
    "one class": ([NEEDLE] * N, False),
    "stray float": (stray(73519.25), False),
    "stray whole float": (stray(73519.0), False),
    "stray number": (stray(73519), True),
    "stray string": (stray(NEEDLE), False),
    "stray bytes": (stray(NEEDLE.encode()), False),
    "stray date": (stray(dt.date(7351, 9, 1)), False),
    "stray time": (stray(np.datetime64("7351-09-01")), False),
    "stray list": (stray([73519.25]), False),
    "stray array": (stray(np.array([73519.25])), False),
    "stray complex": (stray(73519.25j), False),
    "stray None": ([*CONTINUOUS[:-1], None], False),
    "NaN": ([*CONTINUOUS[:-1], np.nan], False),
    "infinity": ([*CONTINUOUS[:-1], np.inf], False),
    "code of a string": ([Text(NEEDLE), *[NEEDLE] * (N - 2), "73519.5"], True),
    "code of a number": (stray(Number()), False),
    "booleans beside numbers": ([True, *[7351900, 7351901] * (N // 2)][:N], False),
}


def as_objects(labels):
    column = np.empty(len(labels), dtype=object)
    column[:] = labels
    return column


HOLDERS = {
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "objects": as_objects,
    "column": lambda labels: as_objects(labels)[:, np.newaxis],
    "read-only": lambda labels: np.broadcast_to(np.array(labels), N),
    "series": pd.Series,
    "series of objects": lambda labels: pd.Series(as_objects(labels)),
    "frame": lambda labels: pd.DataFrame({"y": as_objects(labels)}),
    "categories": lambda labels: pd.Series(labels).astype("category"),
    "polars": pl.Series,
    "polars objects": lambda labels: pl.Series(labels, dtype=pl.Object),
    "too few": lambda labels: as_objects(labels)[1:],
    "table": lambda labels: np.column_stack([as_objects(labels)] * 2),
    "one": lambda labels: labels[7],
}


def in_parts(make, y):
    cut = [slice(0, 60), slice(60, N)]
    targets = [y[one] if make is None else (lambda one=one: make(y[one])) for one in cut]
    return skdp.RowBlocks.from_partitions(
        [X[one].copy for one in cut], [60, N - 60], WIDTH, y=targets
    )


PARTS = {
    "parts": lambda labels: in_parts(None, as_objects(labels)),
    "loaded parts": lambda labels: in_parts(np.array, labels),
    "parts of series": lambda labels: in_parts(pd.Series, labels),
    "parts of lists": lambda labels: in_parts(None, labels),
}
CLASSES = {
    "none": lambda labels: None,
    "given": lambda labels: [0, 1],
    "strings": lambda labels: ["no", "yes"],
    "those of y": lambda labels: labels,
    "objects of y": as_objects,
    "labels of y": lambda labels: np.unique(labels[:3]),
}


def with_classes(model, classes):
    names = [name for name in model.get_params() if name.rpartition("__")[2] == "classes"]
    return clone(model).set_params(**dict.fromkeys(names, classes))


def fits(model):
    return lambda data, classes: with_classes(model, classes).fit(*data)


def search(kind, model, grid):
    return lambda data, classes: kind(with_classes(model, classes), grid).fit(*data)


CALLS = {
    "logistic": fits(LOGISTIC),
    "trace": fits(TRACE),
    "pipeline": fits(PIPELINE),
    "users": fits(clone(LOGISTIC).set_params(privacy_unit="user")),
    "grid": search(DPGridSearch, LOGISTIC, NORMS),
    "random": lambda data, classes: DPRandomizedSearch(
        with_classes(LOGISTIC, classes), NORMS, n_iter=2
    ).fit(*data),
    "grid of pipelines": search(
        DPGridSearch, PIPELINE, {"dplogisticregression__row_norm": [3.0, 6.0]}
    ),
    "grid of scikit-learn": lambda data, classes: GridSearchCV(
        with_classes(LOGISTIC, classes), NORMS, cv=[(np.arange(90), np.arange(90, N))]
    ).fit(*data),
    "plan": lambda data, classes: with_classes(LOGISTIC, classes).plan(N, WIDTH),
    "plan of a pipeline": lambda data, classes: with_classes(PIPELINE, classes).plan(N, WIDTH),
    "regression": lambda data, classes: skdp.DPLinearRegression().fit(*data),
    "personal": lambda data, classes: skdp.DPPersonalizedRegressor(1).fit(*data),
    **{
        f"score of {number}": lambda data, classes, model=model: model.score(*data)
        for number, model in enumerate(FITTED)
    },
    **{
        f"{scoring} of {number}": lambda data, classes, model=model, scoring=scoring: private_score(
            model, *data, scoring=scoring
        )
        for number, model in enumerate(FITTED)
        for scoring in ("accuracy", "neg_log_loss", "f1")
    },
    "bad grid": search(DPGridSearch, PIPELINE, {"dplogisticregression__nothing": [1, 2]}),
    "epsilon": lambda data, classes: skdp.DPPCA(2, epsilon=data[-1]).fit(X),
    "matrix shape": lambda data, classes: skdp.DPTraceClassifier(matrix_shape=data[-1]).fit(
        X, CODES
    ),
    "bounds": lambda data, classes: skdp.DPStandardScaler(bounds=data[-1]).fit(X),
    "two bounds": lambda data, classes: skdp.DPStandardScaler(bounds=(data[-1], data[-1])).fit(X),
    "steps": lambda data, classes: skdp.DPPipeline(data[-1]).fit(X, CODES),
    "histogram": lambda data, classes: score_histogram(
        PCA, data[0], groups=data[-1], classes=classes
    ),
    "ids": lambda data, classes: (
        clone(LOGISTIC)
        .set_params(privacy_unit="user", classes=[0, 1])
        .fit(X, CODES, users=data[-1])
    ),
}
# Calls that take the labels for a parameter, which a printed form shows.
PARAMETERS = ("grid of scikit-learn", "epsilon", "matrix shape", "bounds", "two bounds", "steps")
_SECRETS = [
    NEEDLE.encode(),
    b"7351-",
    b"7351, ",
    *(struct.pack(order, value) for order in ("<d", ">d") for value in CONTINUOUS[:9]),
]


def texts_of(error):
    """Return all that an error, and what it is chained to, tells."""
    yield "".join(traceback.format_exception(error, limit=0))
    while error is not None:
        yield from (str(error), repr(error), repr(error.args))
        yield repr(getattr(error, "__notes__", ""))
        error = error.__cause__ or error.__context__


def hostile_calls(seed):
    """Yield the names of random calls, and the calls, for ever."""
    generator = np.random.default_rng(seed)
    while True:
        tables = LABELS, {**HOLDERS, **PARTS}, CLASSES, CALLS
        yield tuple(str(generator.choice(list(one))) for one in tables)


def told_by(kind, holder, classes, call):
    """Return the outcome of a call, and all that it tells."""
    labels, told = LABELS[kind][0], []
    if kind.startswith("code") and holder.startswith("polars"):
        return "no data", told  # polars prints errors of such objects itself
    try:
        data = [PARTS[holder](labels)] if holder in PARTS else [X, HOLDERS[holder](labels)]
        given = CLASSES[classes](labels)
    except Exception:  # the holder itself refuses such values
        return "no data", told
    is_own = kind.startswith("code") or holder == "one"
    if (is_own and call in PARAMETERS) or (call == "bad grid" and classes not in ("none", "given")):
        # A number is no column, and scikit-learn prints an estimator with its parameters.
        return "no data", told
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            made, outcome = CALLS[call](data, given), "taken"
        except Exception as error:
            made, outcome = None, "refused"
            told += texts_of(error)
            told.append(pickle.dumps(error))
    told += [str(one.message) for one in caught]
    if outcome == "taken" and classes == "none" and call not in PARAMETERS:
        told.append(repr(made))
    return outcome, [one if isinstance(one, bytes) else one.encode() for one in told]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_calls", "seed"), [(250, 0), pytest.param(3000, 1, marks=pytest.mark.slow)]
)
def test_no_hostile_call_tells_a_label(n_calls, seed):
    outcomes = {"taken": 0, "refused": 0, "no data": 0}
    calls = hostile_calls(seed)
    for _ in range(n_calls):
        names = next(calls)
        outcome, told = told_by(*names)
        outcomes[outcome] += 1
        assert not [one for one in told for secret in _SECRETS if secret in one], names
    assert outcomes["refused"] > n_calls / 3
    assert outcomes["taken"] > n_calls / 20


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
@pytest.mark.covered
@pytest.mark.parametrize("holder", ["list", "objects", "series of objects", "frame", "parts"])
@pytest.mark.parametrize("kind", ["continuous", "stray float", "huge"])
@pytest.mark.parametrize("call", ["logistic", "trace", "pipeline", "grid"])
def test_numbers_are_labels_by_their_values_and_not_by_their_type(call, kind, holder):
    if (call, holder) == ("grid", "parts"):
        return
    labels = LABELS[kind][0]
    data = [PARTS[holder](labels)] if holder in PARTS else [X, HOLDERS[holder](labels)]
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        CALLS[call](data, None)


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
@pytest.mark.parametrize("kind", ["names", "whole"])
@pytest.mark.parametrize("call", ["logistic", "pipeline", "grid"])
def test_many_labels_are_no_classes_unless_they_are_given(call, kind):
    labels = LABELS[kind][0]
    with pytest.raises(ValueError, match="more than 100 different labels") as refused:
        CALLS[call]([X, labels], None)
    assert str(N) not in str(refused.value)
    if call == "logistic":
        assert len(CALLS[call]([X, labels], labels).classes_) == N


@pytest.mark.covered(at_most=1)
@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
@pytest.mark.parametrize("call", ["logistic", "trace", "pipeline", "grid"])
def test_of_equal_labels_the_first_does_not_decide(call):
    zeros = np.where(CODES == 0, 0.0, 1.0)
    signed = np.where(CODES + (np.arange(N) > N // 2) == 0, -0.0, zeros)
    for make in (np.asarray, as_objects, pd.Series):
        for labels in (signed, signed[::-1]):
            rows = X if labels is signed else X[::-1]
            classes = CALLS[call]([rows, make(labels.tolist())], None).classes_
            assert (classes.dtype, classes.tolist()) == (np.float64, [0.0, 1.0])
            assert not np.signbit(classes).any()
    for mixed in ([True, 0, 1], [1, True, 0], [0.0, 1, 0]):
        with pytest.raises(ValueError, match="Unknown label type: mixed"):
            CALLS[call]([X[:3], mixed], None)


def test_a_parameter_that_may_hold_data_is_named_by_its_type():
    for make, name in ((np.array, "ndarray"), (list, "list"), (tuple, "tuple")):
        for call in (
            lambda column: skdp.DPPCA(2, row_norm=column).fit(X),
            lambda column: skdp.DPStandardScaler(bounds=column).fit(X),
            lambda column: skdp.DPTraceRegressor(1, matrix_shape=column).fit(X, CODES),
        ):
            with pytest.raises(ValueError, match=f"<{name}>") as refused:
                call(make(CONTINUOUS[:5]))
            assert refused.value.__context__ is None
            assert NEEDLE not in str(refused.value)
    with pytest.raises(ValueError, match="got <tuple>") as refused:
        skdp.RowBlocks.from_partitions([X.copy], [N], np.array(CONTINUOUS))
    with pytest.raises(ValueError, match="<list> must be an object"):
        skdp.DPStreamingFactorizer(2, shape=(8, 6), privacy_unit=CONTINUOUS)
    with pytest.raises(ValueError, match="Got -1 instead"):
        skdp.DPPCA(2, row_norm=-1).fit(X)
    with pytest.raises(ValueError, match=r"bounds=\(2, 1\) must be"):
        skdp.DPStandardScaler(bounds=(2, 1)).fit(X)


def test_weights_of_other_classes_tell_no_label_of_y():
    labels = np.array([f"{NEEDLE} no", f"{NEEDLE} yes"])[CODES]
    for classes in (None, np.unique(labels).tolist()):
        model = skdp.DPLogisticRegression(classes=classes, class_weight={"maybe": 2.0})
        with pytest.raises(ValueError, match="'maybe', which is not among classes") as refused:
            model.fit(X, labels)
        assert NEEDLE not in str(refused.value)


def test_classes_that_run_code_are_refused_without_its_text():
    for holder in ("list", "objects"):
        outcome, told = told_by("code of a string", holder, "those of y", "plan")
        assert outcome == "refused"
        assert not [one for one in told for secret in _SECRETS if secret in one]
