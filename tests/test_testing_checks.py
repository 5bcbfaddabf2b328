"""Checks of estimators that are written on `skdp.privacy`: the guide passes, mistakes do not."""

import importlib.util
import inspect
import logging
import os
import re
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import warnings
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import lru_cache, wraps
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import toy
from harness import null_row
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from skdp import DPPCA, DPLogisticRegression, PrivacyLedger, PrivacyWarning, testing
from skdp.privacy import Plan, PrivacyBudget, PrivacyCost
from skdp.privacy.noise import NoiseSource, draw_seed
from skdp.testing._case import Subject

GUIDE = Path(__file__).parents[1] / "docs" / "user_guide" / "private_quantiles.py"
spec = importlib.util.spec_from_file_location("private_quantiles", GUIDE)
guide = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = guide
spec.loader.exec_module(guide)
test_the_guide_passes = guide.test_privacy

Right = guide.PrivateQuantileTransformer
X = guide.X


class TooLarge(Right):
    @staticmethod
    def _change(n):
        return 10.0 * n


class ExactAttribute(Right):
    def _counts(self, X):
        self.largest_ = X.max(axis=0)
        return super()._counts(X)


class EdgesOfTheData(Right):
    def transform(self, X):
        return X

    def fit(self, X, y=None):
        super().fit(X)
        self.edges_ = np.quantile(X, [0.1, 0.9])
        return self


class PrintsData(Right):
    def _counts(self, X):
        print(f"{X.max():.1f}")
        return super()._counts(X)


class KeptRow(Right):
    def _counts(self, X):
        self._rows = X[:1].copy()
        return super()._counts(X)


class SpendsBeforeItChecks(Right):
    def fit(self, X, y=None):
        PrivacyBudget.of(self.plan(*np.shape(X)))
        return super().fit(X)


class ReportsLess(Right):
    def fit(self, X, y=None):
        super().fit(X)
        self.privacy_spent_ = PrivacyBudget.of(self.plan(*X.shape)).spent()
        return self


class FailsOnTheHuge(Right):
    def _counts(self, X):
        if np.abs(X).max() > 1e200:
            raise OverflowError("X is huge")
        return super()._counts(X)


class Sums(BaseEstimator):
    """The sum of rows that are clipped to a norm of 1: no mistake."""

    def __init__(self, *, epsilon=1.0, random_state=None):
        self.epsilon = epsilon
        self.random_state = random_state

    def __getstate__(self):
        is_fitted = hasattr(self, "sum_")
        return {**super().__getstate__(), **({"random_state": None} if is_fitted else {})}

    @staticmethod
    def clip(X):
        """Divide by the largest entry first: norms of huge rows overflow."""
        scales = np.maximum(np.abs(X).max(axis=1, keepdims=True), 1)
        norms = np.linalg.norm(X / scales, axis=1, keepdims=True)
        return X / scales * np.minimum(scales, 1 / np.maximum(norms, 1e-300))

    def value(self, X):
        return self.clip(X).sum(axis=0)

    def more(self, X):
        """Do what is a mistake."""

    def digest(self, X):
        return X.tobytes()

    def fit(self, X, y=None):
        X = check_array(X)
        cost = PrivacyCost(self.epsilon, 1e-6)
        lines = cost.release("sum", "gaussian", 1.0, lambda: 2 + 1e-9, {}, shape=X.shape[1:])
        source = NoiseSource(draw_seed(self.random_state), (self.epsilon, self.digest(X)))
        budget = PrivacyBudget.of(Plan(cost, lines, unit="row", adjacency="replace"), source)
        self.more(X)
        self.sum_ = budget.release(lines, self.value(X)).value
        self.privacy_spent_ = budget.spent()
        return self


class ClipsTheFirstBlock(Sums):
    def value(self, X):
        return self.clip(X[:32]).sum(axis=0) + X[32:].sum(axis=0)


class CentersOnTheSecond(Sums):
    def value(self, X):
        return self.clip(X / 4 - X[1] / 4).sum(axis=0)


class CountsTheLastOften(Sums):
    def value(self, X):
        return super().value(X) + 49 * self.clip(X[-1:])[0]


class ScalesByOthers(Sums):
    def value(self, X):
        return super().value(X) * (2 if np.abs(X[1:]).max() > 100 else 1)


class FlagOfOthers(Sums):
    def more(self, X):
        self.has_outlier_ = bool(np.abs(X[1:]).max() > 1e6)


class WarnsOfTheHuge(Sums):
    def more(self, X):
        if np.abs(X).max() > 1e6:
            warnings.warn("a row is clipped", PrivacyWarning, stacklevel=1)


class MeanAsId(Sums):
    def more(self, X):
        self._id = X.mean()


class KeyedByTheHead(Sums):
    def digest(self, X):
        return X[:10].tobytes()


class KeyedByARoundedSum(Sums):
    def digest(self, X):
        return repr((X[0], np.round(np.abs(X[1:] / len(X)).sum()))).encode()


class KeptInAParameter(Sums):
    def __init__(self, rows=(), *, epsilon=1.0, random_state=None):
        super().__init__(epsilon=epsilon, random_state=random_state)
        self.rows = rows

    def more(self, X):
        if self.rows:
            self.rows.append(X[0])


CACHE = {"rows": []}
BUFFER = np.zeros(3)
STORE = SimpleNamespace()
OF_THREADS = threading.local()
OF_CONTEXT = ContextVar("a_row_of_skdp")


def write_a_file(X):
    path = Path(tempfile.gettempdir()) / "a_row_of_skdp"
    path.write_text(str(X[0]))
    path.unlink()


def append_to_a_file(X):
    path = os.path.join(tempfile.gettempdir(), "a_row_of_skdp")
    os.close(os.open(path, os.O_CREAT | os.O_APPEND))
    os.remove(path)


def send(X):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.sendto(X[0].tobytes(), ("127.0.0.1", 9))


def write_in_a_thread(X):
    thread = threading.Thread(target=write_a_file, args=(X,))
    thread.start()
    thread.join()


@lru_cache
def cached(data):
    return data[:8]


# What a fit does beside its release, by a name.
BESIDE = {
    "nested cache": lambda _, X: CACHE["rows"].append(X),
    "cache of calls": lambda _, X: cached(X.tobytes()),
    "an object": lambda _, X: setattr(STORE, "X", X),
    "a default": lambda _, X, rows=[]: rows.append(X[0]),
    "an array": lambda _, X: np.copyto(BUFFER, X[0]),
    "its thread": lambda _, X: setattr(OF_THREADS, "X", X),
    "a file": lambda _, X: write_a_file(X),
    "an opened file": lambda _, X: append_to_a_file(X),
    "a variable": lambda _, X: os.environ.update(A_ROW_OF_SKDP=str(X[0])),
    "a socket": lambda _, X: send(X),
    "a database": lambda _, X: sqlite3.connect(":memory:").close(),
    "a process": lambda _, X: subprocess.run([sys.executable, "-S", "-c", "", str(X[0])]),
    "a file of a thread": lambda _, X: write_in_a_thread(X),
    "a context": lambda _, X: OF_CONTEXT.set(X[0]),
    "numpy's errors": lambda _, X: np.seterr(over="print" if is_ignored() else "ignore"),
}


def is_ignored():
    return np.geterr()["over"] == "ignore"


def of_logger(X):
    logger = logging.getLogger("of skdp's tests")
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    logger.warning("%s", X[0])


class OtherSums(Sums):
    """Sums of another class."""


# What a fit tells beside its release, by a name.
SAYS = {
    "logger": lambda _, X: of_logger(X),
    "write": lambda _, X: os.write(1, X[0].tobytes()),
    "stdout": lambda _, X: sys.__stdout__.write(str(X[0])),
    "series": lambda self, X: setattr(self, "series_", pd.Series(X[0])),
    "generator": lambda self, X: setattr(self, "rows_", (row for row in X)),
    "class": lambda self, X: setattr(self, "__class__", (OtherSums, Sums)[int(X[0, 0] > 0)]),
    "order": lambda self, X: vars(self).update(dict.fromkeys(("ab", "ba")[int(X[0, 0] > 0)])),
    "layout": lambda self, X: setattr(self, "ones_", np.ones((2, 2), order="CF"[int(X[0, 0] > 0)])),
}
SAID = {name: type(name, (Sums,), {"more": more}) for name, more in SAYS.items()}
KINDS = {name: type(name, (Sums,), {"more": more}) for name, more in BESIDE.items()}


# A mistake, and the check that one would expect to fail; `toy_leaks.py` has others.
MISTAKES = {
    TooLarge: "neighbors_move_no_release_further_than_declared",
    ExactAttribute: "outputs_follow_the_releases",
    EdgesOfTheData: "outputs_follow_the_releases",
    PrintsData: "outputs_follow_the_releases",
    KeptRow: "a_fitted_pickle_has_neither_seed_nor_data",
    SpendsBeforeItChecks: "bad_data_are_refused_before_anything_is_spent",
    ReportsLess: "the_record_is_that_of_the_releases",
    FailsOnTheHuge: "any_finite_data_fit_without_warnings_about_them",
    **dict.fromkeys(
        [
            *(ClipsTheFirstBlock, CentersOnTheSecond, CountsTheLastOften, ScalesByOthers),
            *(FlagOfOthers, WarnsOfTheHuge),
        ],
        "neighbors_move_no_release_further_than_declared",
    ),
    **dict.fromkeys((MeanAsId, *SAID.values()), "outputs_follow_the_releases"),
    **dict.fromkeys((KeyedByTheHead, KeyedByARoundedSum), "no_noise_is_shared_by_different_fits"),
    **dict.fromkeys(KINDS.values(), "nothing_is_stored_beside_the_estimator"),
}


# What is told of it, in words.
WORDS = {
    CountsTheLastOften: r"AssertionError: sum moved \d+\.?\d* times its declared sensitivity$",
    TooLarge: r"far: counts moved only 0\.\d+ times its declared sensitivity\.",
    MeanAsId: r": _id differs in two fits that have to be the same$",
    KINDS["nested cache"]: rf": a fit has changed {__name__}\.CACHE$",
    KINDS["cache of calls"]: rf": a fit has changed {__name__}\.cached$",
    KINDS["a context"]: r": a fit has changed <ContextVar name='a_row_of_skdp' at \w+>$",
    SAID["generator"]: r": rows_ is a generator, which has no pickle: no check can read it$",
    SAID["class"]: r": __class__ differs in two fits that have to be the same$",
    SAID["layout"]: r": ones_ differs in two fits that have to be the same$",
    SAID["order"]: r": the order of attributes differs in two fits that have to be the same$",
    KINDS["a variable"]: r": out of a fit leads os\.putenv b?'A_ROW_OF_SKDP'$",
    WarnsOfTheHuge: r": a neighbor has \['a row is clipped', ''\] in place of \[''\]$",
}


def case_of(kind, **more):
    return testing.PrivacyCase(kind(epsilon=100.0), (X,), **more)


def run_alone(case, name):
    """Run one check, without all others."""
    own = {check: need for check, need in testing._checks.CHECKS.items() if check.__name__ == name}
    with patch.object(testing._checks, "CHECKS", own):
        assert testing.check_privacy(case) == [name]


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize(("kind", "check"), MISTAKES.items())
def test_a_mistake_fails_the_check_that_one_would_expect(kind, check):
    with np.errstate(), pytest.raises(AssertionError, match=f"(?m)^{check}: ") as caught:
        copy_context().run(run_alone, case_of(kind), check)
    assert re.search(f"(?m){WORDS.get(kind, '')}", str(caught.value))


def test_what_is_right_passes():
    testing.check_privacy(case_of(Sums))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_a_ledger_is_no_way_out_and_reading_is_none(tmp_path):
    facts = {"dataset": "x", "epsilon": 1e9, "delta": 0.1, "unit": "row"}
    ledger = PrivacyLedger.create(tmp_path / "x.skdp", **facts)
    check = testing._checks.nothing_is_stored_beside_the_estimator
    check(Subject(testing.PrivacyCase(DPPCA(1, epsilon=1.0, ledger=ledger), (X,))))
    assert ledger.entries()
    other = PrivacyLedger.create(tmp_path / "y.skdp", **facts)
    with testing._recording.leaving(ledger) as left:
        Path(__file__).read_text()
        assert not left
        DPPCA(1, ledger=other).fit(X)
    assert left
    assert all("y.skdp" in one for one in left)
    # Nobody listens any more.
    n_before = len(left)
    DPPCA(1, ledger=other).fit(X)
    assert len(left) == n_before


def test_what_ends_with_another_thread_is_no_change():
    is_kept, may_end = threading.Event(), threading.Event()

    def keep():
        OF_THREADS.X = X
        is_kept.set()
        may_end.wait()

    thread = threading.Thread(target=keep)
    thread.start()
    is_kept.wait()
    before = testing._checks.beside(Sums())
    may_end.set()
    thread.join()
    assert testing._checks.beside(Sums()) == before


def test_what_is_put_into_a_parameter_is_seen():
    case = testing.PrivacyCase(KeptInAParameter([0], epsilon=100.0), (X,))
    with pytest.raises(AssertionError, match=r"first: .*changed what a parameter holds"):
        run_alone(case, "a_second_fit_does_not_depend_on_the_first")


class NoNumberOfTheNull(Sums):
    is_null = False

    def value(self, X):
        return super().value(X) + (np.nan if self.is_null else 0.0)


@pytest.mark.parametrize("kind", [ClipsTheFirstBlock, CountsTheLastOften, NoNumberOfTheNull])
def test_where_units_may_be_null_others_than_the_first_are_exchanged(kind):
    class Null(kind):
        is_null = False

        def value(self, X):
            return super().value(np.concatenate([0 * X[:1] if self.is_null else X[:1], X[1:]]))

    @contextmanager
    def null():
        Null.is_null = True
        yield
        Null.is_null = False

    flaw = "is not finite" if kind is NoNumberOfTheNull else ""
    with pytest.raises(AssertionError, match=rf"(?m)^neighbors_move_no_release_further.*{flaw}"):
        run_alone(case_of(Null, null=null), "neighbors_move_no_release_further_than_declared")


def test_what_is_expected_to_fail_is_declared_and_has_to_fail():
    names = (
        "outputs_follow_the_releases",
        "neighbors_move_no_release_further_than_declared",
        "climbing_finds_no_worse_neighbor",
        "fits_in_threads_do_not_disturb_each_other",
    )
    reasons = dict.fromkeys(names, "the maximum is public")
    checks = testing._checks.CHECKS
    chosen = (*names, "the_record_is_that_of_the_releases")
    few = {check: need for check, need in checks.items() if check.__name__ in chosen}
    with patch.object(testing._checks, "CHECKS", few):
        run = testing.check_privacy(case_of(ExactAttribute, expected_failures=reasons))
        assert set(names) < set(run)
        with pytest.raises(AssertionError, match="outputs_follow_the_releases passes, and is exp"):
            testing.check_privacy(case_of(Right, expected_failures=reasons))
    with pytest.raises(ValueError, match=r"must name privacy_checks\(\), got \['a_typo'\]"):
        testing.check_privacy(case_of(Right, expected_failures={"a_typo": ""}))
    with pytest.raises(TypeError, match=r"data must be an instance of tuple, not"):
        testing.PrivacyCase(Right(), X)


def test_pytest_is_told_what_is_expected_to_fail():
    case = case_of(Right, expected_failures={"the_record_is_what_was_planned": "no plan"})
    (mark,) = [testing.parametrize_with_privacy_checks([case]).mark]
    marked = [one.marks for one in mark.args[1] if one.marks]
    ((only,),) = marked
    assert only.kwargs == {"reason": "no plan", "strict": True}


def test_checks_that_need_a_parameter_are_run_where_it_is(monkeypatch):
    cases = {
        "seeds": testing.PrivacyCase(toy.ClippedMean(epsilon=100.0), (X / 4,)),
        "null": testing.PrivacyCase(
            toy.ClippedMean(epsilon=100.0, adjacency="zero_out"), (X / 4,), null=lambda: null_row(0)
        ),
        "records": testing.PrivacyCase(
            DPLogisticRegression(epsilon=100.0, row_norm=2.0, classes=[0, 1]),
            (X, (X[:, 0] > 0).astype(int)),
        ),
    }
    # Families keep these checks, and the toys here; which are run is asked alone.
    checks = {
        wraps(check)(lambda case: None): need for check, need in testing._checks.CHECKS.items()
    }
    monkeypatch.setattr(testing._checks, "CHECKS", checks)
    run = {name: set(testing.check_privacy(case)) for name, case in cases.items()}
    every = testing.privacy_checks().keys()
    assert run["null"] == every
    assert run["seeds"] == run["records"] == every - {"a_null_unit_contributes_nothing"}
    seeds = {"a_seed_repeats_a_fit", "no_noise_is_shared_by_different_fits"}
    assert set(testing.check_privacy(case_of(Right))) == run["seeds"] - seeds


def test_a_null_unit_that_counts_is_seen():
    @contextmanager
    def nothing():
        yield

    mean = toy.ClippedMean(epsilon=100.0, adjacency="zero_out")
    with pytest.raises(AssertionError, match=r"(?m)^a_null_unit_contributes_nothing: "):
        run_alone(
            testing.PrivacyCase(mean, (X / 4,), null=nothing), "a_null_unit_contributes_nothing"
        )


def test_neighbors_differ_in_one_unit():
    y, users = np.arange(60) % 3, np.repeat(np.arange(20), 3)
    for place in (0, 1, 30, 59):
        for rows, labels in testing.replaced_rows(X, y, place=place):
            differs = (rows != X).any(axis=1) | (labels != y)
            assert set(np.flatnonzero(differs)) <= {place}
            assert set(labels) <= {0, 1, 2}
            assert rows.dtype == X.dtype
        own = users[place]
        for rows, ids in testing.replaced_users(X, users, place=place):
            np.testing.assert_array_equal(rows[ids != own], X[users != own])
            np.testing.assert_array_equal(np.unique(ids), np.unique(users))
            assert (np.diff(ids) >= 0).all()
            assert np.sum(ids == own) in (1, 30)


class UserMean(BaseEstimator):
    """The mean over users of the means of their rows, in [-1, 1]; or of sums, by mistake."""

    def __init__(self, epsilon=100.0, reduce=np.mean):
        self.epsilon = epsilon
        self.reduce = reduce

    def fit(self, X, users):
        rows, names = np.clip(check_array(X), -1, 1), np.unique(users)
        each = [self.reduce(rows[users == name, 0]) for name in names]
        budget = PrivacyBudget(self.epsilon, 1e-6, unit="user", adjacency="replace")
        self.mean_ = budget.gaussian(
            "mean", np.mean(each), sensitivity=(2 + 1e-9) / len(names), share=1.0
        ).value
        self.privacy_spent_ = budget.spent()
        return self


class ByName(UserMean):
    def fit(self, X, y=None, *, users):
        return super().fit(X, users)


class ByPosition(ByName):
    def fit(self, X, users):
        return super().fit(X, users=users)


def test_an_argument_that_fit_takes_by_name_only_is_handed_on_by_a_subclass():
    data = X, np.repeat(np.arange(20), 3)
    with pytest.raises(TypeError, match=r"data must be what fit takes by position, got other: .*"):
        testing.PrivacyCase(ByName(), data)
    case = testing.PrivacyCase(ByPosition(), data, neighbours=testing.replaced_users)
    run_alone(case, "neighbors_move_no_release_further_than_declared")


@pytest.mark.slow
def test_users_are_exchanged_with_all_their_rows():
    data = X, np.repeat(np.arange(20), 3)
    testing.check_privacy(testing.PrivacyCase(UserMean(), data, neighbours=testing.replaced_users))
    wrong = testing.PrivacyCase(UserMean(reduce=np.sum), data, neighbours=testing.replaced_users)
    with pytest.raises(AssertionError, match=r"(?m)^neighbors_move_no_release_further"):
        run_alone(wrong, "neighbors_move_no_release_further_than_declared")


def test_at_most_five_fields_are_required():
    parameters = inspect.signature(testing.PrivacyCase).parameters.values()
    assert sum(one.default is one.empty for one in parameters) == 2


def test_every_check_has_a_reason():
    assert all(reason.endswith(".") for reason in testing.privacy_checks().values())
    assert [check.__name__ for check in testing._checks.CHECKS] == list(testing.privacy_checks())


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_an_estimator_has_one_budget():
    class Twice(DPPCA):
        def fit(self, X, y=None):
            DPPCA(1).fit(X)
            return super().fit(X)

    with pytest.raises(AssertionError, match="with one budget, not with 2"):
        run_alone(
            testing.PrivacyCase(Twice(2, epsilon=100.0), (X,)), "the_record_is_that_of_the_releases"
        )
