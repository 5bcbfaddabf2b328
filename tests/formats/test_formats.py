"""Models that were handed over, in formats that are no pickles: ONNX and skops."""

import importlib.util
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
from families import FAMILIES
from sklearn.pipeline import make_pipeline
from twins import CELLS, fitted, public_rows, size_of_terms

import skdp

if not all(map(importlib.util.find_spec, ("onnxruntime", "skl2onnx", "skops"))):
    pytest.skip("needs the extra `formats`", allow_module_level=True)

import skops.io
from onnxruntime import InferenceSession
from skl2onnx import to_onnx

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(400, 4)) * [1, 10, 0.1, 1] + [0, 5, 0, 3]
LABELS = np.digitize(X[:, 1], [0, 10])
ENDS = (np.array([-3.0, -30, -1, 0]), np.array([3.0, 40, 1, 6]))
# Beyond the clips, too.
ROWS = np.concatenate([X[:50], 20 * X[:50]]).astype(np.float32)
CLASSES = {"classes": [0, 1, 2], "row_norm": 3.0}


def scaler(**more):
    return skdp.DPStandardScaler(bounds=ENDS, **more)


MODELS = {
    "scaler": scaler(),
    "scaler without clip": scaler(clip=None),
    "gaps": scaler(missing="mean"),
    "components": skdp.DPPCA(2, row_norm=30.0, whiten=True),
    "components without centering": skdp.DPTruncatedSVD(2, row_norm=30.0),
    "numbers": skdp.DPLinearRegression(),
    "classes": skdp.DPLogisticRegression(**CLASSES),
    "two classes": make_pipeline(scaler(), skdp.DPLogisticRegression(classes=[False, True])),
    "pipeline": skdp.make_dp_pipeline(
        scaler(), skdp.DPPCA(3), skdp.DPLogisticRegression(**CLASSES), epsilon=9.0
    ),
}


@pytest.fixture(params=MODELS)
def model(request):
    is_binary = request.param == "two classes"
    return MODELS[request.param].fit(X, LABELS > 0 if is_binary else LABELS)


def results(model, rows):
    names = ("predict", "predict_proba") if hasattr(model, "predict") else ("transform",)
    return [getattr(model, name)(rows) for name in names if hasattr(model, name)]


def assert_same_in_onnx(model, rows, size=1.0, precision=1e-5):
    """Compare the twin of a model with what a runtime makes of it."""
    twin, options = skdp.to_sklearn(model), None
    if hasattr(model, "classes_"):
        options = {"zipmap": False}
    with warnings.catch_warnings(action="ignore"):
        onnx = to_onnx(twin, rows[:1], options=options)
    session = InferenceSession(onnx.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {session.get_inputs()[0].name: rows})
    for ours, other in zip(results(twin, rows.astype(np.float64)), found, strict=True):
        atol = precision * max(np.nanmax(np.abs(ours)), size)
        np.testing.assert_allclose(other.reshape(ours.shape), ours, rtol=precision, atol=atol)


def test_onnx_gives_the_same(model):
    assert_same_in_onnx(model, ROWS)
    if getattr(model, "missing", "refuse") == "refuse":
        # The runtime fills no gaps in double precision.
        assert_same_in_onnx(model, ROWS.astype(np.float64), precision=1e-12)


@pytest.mark.parametrize(
    ("family", "cell"),
    [
        pytest.param(family, cell, id=f"{family.name}: {cell}")
        for family in FAMILIES
        for cell in CELLS.get(family.name, ())
        # Single precision has no such number.
        if (getattr(cell, "prior", None) or 0) < 1e30
    ],
)
def test_every_cell_with_a_twin_is_the_same_in_onnx(family, cell):
    model = fitted(family, cell)
    rows = public_rows(model).astype(np.float32)
    size = size_of_terms(model, rows)
    if hasattr(model, "scale_"):
        # A column that is narrow beside its distance from 0 loses digits.
        size = np.max(np.abs(model.mean_) / model.scale_)
    assert_same_in_onnx(model, rows, size)


def test_the_recipe_with_columns_works_as_pasted():
    """From numbers and texts in a data frame to a runtime; it ends with a comparison."""
    pytest.importorskip("pandas")
    page = Path(__file__).parents[2] / "docs" / "recipes" / "publish.rst"
    _, _, after = page.read_text().partition("From private rows to probabilities of a runtime::\n")
    lines = after.split("\n\nA twin carries")[0]
    with warnings.catch_warnings(action="ignore"):
        exec(textwrap.dedent(lines), {})


def test_skops_trusts_what_is_handed_over(model):
    twin = skdp.to_sklearn(model)
    written = skops.io.dumps(twin)
    # An imputer keeps the type of its numbers.
    assert {*skops.io.get_untrusted_types(data=written)} <= {"numpy.dtype"}
    again = skops.io.loads(written, trusted=["numpy.dtype"])
    for ours, other in zip(results(twin, X), results(again, X), strict=True):
        np.testing.assert_array_equal(other, ours)
