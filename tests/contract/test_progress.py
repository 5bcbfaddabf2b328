"""Callbacks of scikit-learn see how far a fit is, and nothing else."""

import subprocess
import sys
import threading
from unittest.mock import patch

import numpy as np
import pytest
import sklearn
from families import FAMILIES
from joblib import parallel_config
from packaging.version import Version
from public import ESTIMATORS
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from watched import watched

import skdp
from skdp.data.sources import Source
from skdp.model_selection import DPGridSearch, DPRandomizedSearch
from skdp.privacy.budget import SKIPPED
from skdp.testing._recording import assert_same_fit

HAS_CALLBACKS = Version(sklearn.__version__) >= Version("1.9")
pytestmark = [
    pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning"),
    pytest.mark.skipif(not HAS_CALLBACKS, reason="scikit-learn has callbacks from 1.9 on"),
]

SEED = 2**100 + 7
MANY = np.random.default_rng(0).normal(size=(9000, 6))
X = MANY[:300]
Y = X[:, 0] > 0
BOUNDS = {"row_norm": 3.0, "mean_norm": 3.0}


class Recorder:
    """Writes down all that it is told; every hook asks to stop."""

    max_propagation_depth = None

    def __init__(self, error_at=None):
        self.told, self.error_at, self.is_set_up, self.threads = [], error_at, False, set()
        self.announced = None

    def setup(self, estimator, context):
        self.told.append(("setup", context))
        self.is_set_up = True

    def teardown(self, estimator, context):
        self.is_set_up = False

    def on_fit_task_begin(self, estimator, context, **more):
        assert not more
        if context.parent is None:
            self.announced = context.max_subtasks
        self.add("begin", context)
        return True

    def on_fit_task_end(self, estimator, context, **more):
        assert not more
        self.add("end", context)
        return True

    def add(self, what, context):
        self.told.append((what, context))
        self.threads.add(threading.get_ident())
        if context.task_name == self.error_at:
            raise RuntimeError("of the callback")

    @property
    def root(self):
        return self.told[0][1]

    def check_all_ended(self):
        """Every task that begins ends, within the one that it is a part of."""
        running = []
        for what, context in self.told[1:]:
            if what == "begin":
                assert context.parent is (running[-1] if running else None)
                running.append(context)
            else:
                assert running.pop() is context
        assert not running
        assert not self.is_set_up


def subtasks(context):
    return list(context._children_map.values())


def names(context):
    return [one.task_name for one in subtasks(context)]


def recorded(estimator, *arguments, callback=None):
    recorder = callback or Recorder()
    estimator.set_callbacks(recorder).fit(*arguments)
    recorder.check_all_ended()
    assert recorder.threads == {threading.get_ident()}
    return recorder


def followed(estimator, *arguments):
    return recorded(estimator, *arguments).root


def watched_cells():
    for family in FAMILIES:
        # Streams do not fit.
        if family.name != "streams":
            yield from ((family, cell) for cell in family.cells[:: len(family.cells) // 4])


@pytest.mark.covered(at_most=30)
@pytest.mark.parametrize(
    ("family", "cell"), list(watched_cells()), ids=lambda one: getattr(one, "name", str(one))
)
@pytest.mark.parametrize("seed", [None, SEED], ids=["fresh", "seeded"])
def test_each_pass_is_a_task_and_the_plan_tells_how_many_there_are_at_most(family, cell, seed):
    arguments = family.arguments(family.ordinary(cell))
    with family.setting(cell):
        estimator = cell(random_state=seed)
        recorder = recorded(estimator, *arguments)
    root = recorder.root
    # A progress bar is told how many passes to expect; only a fit without noise does not know.
    # How many rows a user has is private. With public matrices, steps read these once more.
    if (unit := estimator.privacy_spent_.unit) == "user":
        assert recorder.announced is None
    elif unit != "response":
        assert recorder.announced >= len(names(root))
    lines = {line.name.partition(", counts")[0] for line in estimator.privacy_spent_.releases}
    # After the last release public matrices are read once more, for the length of the step.
    named = [one for one in names(root) if one not in ("opening", "closing")]
    assert all(lines & {SKIPPED, *one.split(" or ")} for one in named)
    assert named
    if seed is not None:
        with family.setting(cell):
            again = cell(random_state=seed).fit(*arguments)
        assert_same_fit(again, estimator.set_callbacks())


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (skdp.DPPCA(2, solver="covariance", **BOUNDS), ["opening", "second moment"]),
        (
            skdp.DPPCA(2, solver="covariance"),
            ["opening", "mean", "row norm", "second moment or mean again"],
        ),
        (skdp.DPTruncatedSVD(2, solver="covariance", row_norm=3.0), ["opening", "second moment"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_passes_are_the_readings_and_named_after_what_is_released(estimator, expected, n_jobs):
    read, blocks = [], Source.blocks

    def counted(source, group):
        for rows, block in blocks(source, group):
            read.append(len(block))
            yield rows, block

    with patch.object(Source, "blocks", counted):
        root = followed(clone(estimator).set_params(n_jobs=n_jobs), MANY)
    assert names(root) == expected
    assert root.max_subtasks >= len(expected) == sum(read) / len(MANY)


def classifier(**more):
    return skdp.DPLogisticRegression(classes=[False, True], **more)


def pipeline(**more):
    steps = skdp.DPStandardScaler(bounds=(-3, 3)), skdp.DPPCA(2), classifier()
    return skdp.make_dp_pipeline(*steps, epsilon=20.0, **more)


def search(**more):
    return DPGridSearch(classifier(), {"row_norm": [1.0, 2.0]}, epsilon=20.0, **more)


def test_the_fits_of_steps_are_tasks_of_that_of_a_pipeline():
    root = followed(fitted := pipeline(), X, Y)
    assert names(root) == [name for name, _ in fitted.steps]
    assert root.max_subtasks == 3
    # Without a subtask a progress bar would leave the task out.
    assert [names(step) for step in subtasks(root)] == 3 * [["rows"]]


def test_the_fits_of_candidates_are_tasks_of_that_of_a_search():
    root = followed(search(), X, Y)
    assert root.max_subtasks == 3
    assert names(root) == ["fit 1", "fit 2", "last fit 1"]


@pytest.mark.parametrize("make", [pipeline, search])
def test_fitted_steps_keep_no_trace_of_callbacks(make):
    fitted = make(random_state=SEED).set_callbacks(Recorder()).fit(X, Y)
    steps = fitted.pipeline_.steps if make is pipeline else [("", fitted.best_estimator_)]
    assert not any("callback" in name for _, step in steps for name in vars(step))
    assert [name for name in vars(fitted) if "callback" in name] == ["_skl_callbacks"]
    again = make(random_state=SEED).fit(X, Y)
    np.testing.assert_array_equal(fitted.predict_proba(X), again.predict_proba(X))


def asking(what):
    """Make a hook that asks for all that a hook can ask for."""

    def hook(self, _, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        assert X is y is metadata is fitted_estimator is None
        self.add(what, context)

    return hook


class Nosy(Recorder):
    on_fit_task_begin, on_fit_task_end = asking("begin"), asking("end")


@pytest.mark.parametrize("make", [skdp.DPPCA, pipeline, search])
def test_hooks_get_no_data(make):
    nosy, estimator = Nosy(), make()
    with pytest.raises(TypeError, match="Nosy asks for X, fitted_estimator, metadata, y"):
        estimator.set_callbacks(nosy)
    # As if it had not been refused; it is not passed on to steps.
    nosy.__class__ = type("Hidden", (Nosy,), {"max_propagation_depth": 0})
    estimator._skl_callbacks = [nosy]
    estimator.fit(X, Y)
    nosy.check_all_ended()


@pytest.mark.parametrize("kind", [*ESTIMATORS, skdp.DPPipeline, DPGridSearch, DPRandomizedSearch])
def test_nothing_else_sets_callbacks(kind):
    # Wherever scikit-learn puts a method of its own, which refuses nothing.
    setting = [name for name in dir(kind) if "callback" in name and not name.startswith("_")]
    assert setting == ["set_callbacks"]
    assert kind.set_callbacks.__module__ == "skdp._estimator"


@pytest.mark.parametrize("make", [skdp.DPPCA, pipeline, search])
def test_scores_are_refused(make):
    from sklearn.callback import ScoringMonitor

    with pytest.raises(TypeError, match=r"ScoringMonitor asks for .*no budget pays"):
        make().set_callbacks(ScoringMonitor(scoring=None))
    with pytest.raises(TypeError, match="protocol"):
        make().set_callbacks("no callback")


@pytest.mark.parametrize(
    "make",
    [
        lambda inner: skdp.make_dp_pipeline(skdp.DPStandardScaler(bounds=(-3, 3)), inner),
        lambda inner: DPGridSearch(inner, {"row_norm": [1.0, 2.0]}),
        lambda inner: DPGridSearch(make_pipeline(inner), {}),
        lambda inner: DPGridSearch(
            skdp.make_dp_pipeline(classifier()).set_callbacks(Recorder()), {}
        ),
    ],
)
def test_steps_have_no_callbacks_of_their_own(make):
    inner = classifier().set_callbacks(Recorder())
    with pytest.raises(TypeError, match="callbacks of its own"):
        make(inner).fit(X, Y)


@pytest.mark.parametrize(
    ("make", "error_at", "is_charged"),
    [
        (skdp.DPPCA, "fit", False),
        (skdp.DPPCA, "opening", False),
        (skdp.DPPCA, "mean", True),
        (pipeline, "fit", False),
        (pipeline, "dpstandardscaler", False),
        (pipeline, "dppca", True),
        (search, "fit", False),
        (search, "fit 2", True),
    ],
)
def test_an_error_of_a_callback_ends_the_fit_and_publishes_nothing(
    make, error_at, is_charged, tmp_path
):
    unit = "row" if make is skdp.DPPCA else "record"
    ledger = skdp.PrivacyLedger.create(
        tmp_path / "one.skdp", dataset="one", unit=unit, epsilon=100.0, delta=1e-3
    )
    estimator = make(ledger=ledger).set_callbacks(recorder := Recorder(error_at))
    before = dict(vars(estimator))
    with pytest.raises(RuntimeError, match="of the callback"):
        estimator.fit(X, Y)
    assert vars(estimator) == before
    assert len(ledger.entries()) == is_charged
    assert not recorder.is_set_up


@pytest.mark.parametrize("make", [skdp.DPPCA, pipeline, search])
def test_a_refused_fit_tears_down_what_was_set_up(make):
    recorder = Recorder()
    estimator = make().set_callbacks(recorder)
    before = dict(vars(estimator))
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        estimator.fit(np.full_like(X, np.nan), Y)
    assert [what for what, _ in recorder.told][:1] == ["setup"]
    assert vars(estimator) == before
    assert not recorder.is_set_up


def test_an_error_of_a_teardown_leaves_the_fit_that_was_paid_for():
    class Torn(Recorder):
        def teardown(self, estimator, context):
            raise RuntimeError("torn")

    estimator = skdp.DPPCA(2).set_callbacks(Torn())
    with pytest.raises(RuntimeError, match="torn"):
        estimator.fit(X)
    assert estimator.privacy_spent_.releases


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_callback_at_the_end_is_as_silent_as_the_fit_and_its_passes_are_not_reported():
    class Scores(Recorder):
        def on_fit_task_end(self, estimator, context, **more):
            super().on_fit_task_end(estimator, context, **more)
            if context.parent is None:
                np.exp(np.full(2, 1e3))
                skdp.DPPCA(2).fit(X)

    recorder = recorded(skdp.DPPCA(2), X, callback=Scores())
    assert recorder.told[-1] == ("end", recorder.root)
    assert recorder.told[-2][1].parent is recorder.root


BARS = """
import warnings
import numpy as np
from sklearn.callback import ProgressBar
from sklearn.model_selection import GridSearchCV
from skdp import DPPCA

warnings.simplefilter("ignore")
X = np.random.default_rng(0).normal(size=(500, 4))
if __name__ == "__main__":
    pca = DPPCA(2, row_norm=3.0, mean_norm=3.0)
    search = GridSearchCV(pca, {"n_components": [1, 2]}, cv=2, n_jobs=2)
    bar = ProgressBar(max_propagation_depth=None)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("then", "code", "printed"),
    [
        ("pca.set_callbacks(bar).fit(X).fit(X * np.nan)", 1, "DPPCA - second moment #1"),
        ("search.set_callbacks(bar).fit(X)", 0, "evaluation | DPPCA - fit #3"),
    ],
    ids=["fitted and then refused", "fitted in processes"],
)
def test_python_exits_after_progress_bars(then, code, printed, tmp_path):
    pytest.importorskip("rich", reason="ProgressBar needs rich, of the extra `test`")
    script = tmp_path / "script.py"
    script.write_text(f"{BARS}    {then}")
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    assert ("ValueError: Input X contains NaN" in done.stderr) == bool(code)
    assert printed in done.stdout


@pytest.mark.parametrize(
    "family", [one for one in FAMILIES if one.name != "streams"], ids=lambda one: one.name
)
def test_a_progress_bar_shows_each_family(family, capsys, monkeypatch):
    pytest.importorskip("rich", reason="ProgressBar needs rich, of the extra `test`")
    monkeypatch.setenv("COLUMNS", "200")  # so that no text is cut
    from sklearn.callback import ProgressBar

    cell = family.cells[0]
    with family.setting(cell):
        estimator = cell().set_callbacks(ProgressBar())
        estimator.fit(*family.arguments(family.ordinary(cell)))
    printed = capsys.readouterr().out
    assert f"{type(estimator).__name__} - fit" in printed
    assert "#0 " in printed  # the first pass
    assert "100%" in printed


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_search_of_scikit_learn_passes_its_callbacks_on(n_jobs):
    recorder = Recorder()
    grid = {"n_components": [1, 2]}
    search = GridSearchCV(skdp.DPPCA(**BOUNDS), grid, cv=2, n_jobs=n_jobs).set_callbacks(recorder)
    # Other processes would have copies of the recorder.
    with parallel_config("threading"):
        search.fit(X)
    assert not recorder.is_set_up
    passes = [one for one in recorder.root if one.task_name == "second moment"]
    # Two candidates on two splits, and the best of them.
    assert len(passes) == 2 * 2 + 1


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("kind", ["svd", "scaler", "classifier", "regression", "pipeline"])
def test_callbacks_do_not_see_how_many_rows_people_have(kind):
    n_people, told, scripts = 50, [], None
    for n_rows in (n_people, len(MANY)):
        model = {
            "svd": skdp.DPTruncatedSVD(2, privacy_unit="user", n_jobs=2),
            "scaler": skdp.DPStandardScaler(privacy_unit="user", n_jobs=2),
            "classifier": skdp.DPLogisticRegression(classes=[0, 1], privacy_unit="user", n_jobs=2),
            "regression": skdp.DPLinearRegression(privacy_unit="user", n_jobs=2),
            "pipeline": skdp.make_dp_pipeline(
                skdp.DPStandardScaler(privacy_unit="user"),
                skdp.DPLogisticRegression(classes=[0, 1], privacy_unit="user"),
            ),
        }[kind]
        recorder, rows = Recorder(), MANY[:n_rows] if n_rows < len(MANY) else np.vstack([MANY] * 2)
        targets = () if kind in ("svd", "scaler") else (rows[:, 0] > 0,)
        # What is told may follow what is released: the second fit releases what the first did.
        with watched(scripts) as budgets:
            model.set_callbacks(recorder).fit(rows, *targets, users=np.arange(len(rows)) % n_people)
        scripts = [budget.released for budget in budgets]
        told.append([(what, one.task_name, one.max_subtasks) for what, one in recorder.told])
    assert told[0] == told[1]
    assert len(told[0]) > 4
