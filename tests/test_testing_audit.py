"""Checks from outside: they catch what is planted, and say nothing of what is right."""

import array
import contextvars
import io
import logging
import os
import re
import sys
import threading
import weakref
from collections import deque, namedtuple
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib import parallel_config
from scipy import sparse
from scipy.special import ndtri
from scipy.stats import beta

from skdp import DPPCA
from skdp.testing import (
    audit,
    find_data_dependent_attributes,
    find_low_bits,
    find_repeated_noise,
    lower_bound_of_epsilon,
    lower_bound_of_mu,
    mistakes,
)
from skdp.testing._audit import error_bounds

CHECKS = {
    "audit": lambda *pair: audit(*pair, n_fits=1000, confidence=0.999, random_state=0).mu > 1,
    **{
        find.__name__: partial(find, random_state=0)
        for find in (find_repeated_noise, find_low_bits, find_data_dependent_attributes)
    },
}


def rows():
    """Two datasets that differ in the first row, which is long in the first one."""
    X = np.random.default_rng(0).normal(size=(20, 3)) / 10
    other = X.copy()
    X[0], other[0] = (9.0, 9.5, 0.5), (-0.75, -0.625, 0.0)
    return X, other


def fit_of(kind, **parameters):
    return lambda data, seed: kind(random_state=seed, **parameters).fit(data)


def gaussian(mu, n_outputs=1):
    direction = np.ones(n_outputs) / np.sqrt(n_outputs)
    return lambda data, seed: (
        mu * data * direction + np.random.default_rng(seed).normal(size=n_outputs)
    )


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize(
    "check",
    # It starts processes.
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name == "find_repeated_noise"))
        for name in CHECKS
    ],
)
def test_nothing_is_said_of_an_estimator_without_mistakes(check):
    assert not CHECKS[check](fit_of(mistakes.NoisyMean), *rows())


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "check"), mistakes.MISTAKES.items())
def test_planted_mistakes_are_caught(kind, check):
    assert CHECKS[check](fit_of(kind), *rows())


@pytest.mark.slow
@pytest.mark.parametrize("kind", mistakes.MISTAKES)
def test_planted_mistakes_are_caught_by_no_check_that_is_not_for_them(kind):
    others = CHECKS.keys() - {mistakes.MISTAKES[kind], "audit"}
    # The noise of this one follows from the seed alone, too.
    others -= {"find_repeated_noise"} if kind is mistakes.PlainNoise else set()
    assert [name for name in others if CHECKS[name](fit_of(kind), *rows())] == []


def test_every_planted_mistake_is_public():
    names = {kind.__name__ for kind in (mistakes.NoisyMean, *mistakes.MISTAKES)}
    assert names == {*mistakes.__all__} - {"MISTAKES"}


def test_the_guide_names_every_planted_mistake_and_what_catches_it():
    page = Path(__file__).parents[1] / "docs" / "user_guide" / "audit.rst"
    rows = r"^   \* - ``(\w+)``\n     - .*\n     - ``(\w+)``$"
    told = dict(re.findall(rows, page.read_text(), flags=re.MULTILINE))
    assert told == {kind.__name__: check for kind, check in mistakes.MISTAKES.items()}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_nothing_is_said_of_an_estimator_of_skdp():
    # Nearly all fits warn of nothing: warnings that half of them give may differ by chance.
    X = np.random.default_rng(1).normal(size=(300, 4)) * [20, 10, 1, 1]
    other = X.copy()
    other[0] = -30.0
    fewer = {"find_low_bits": {"n_fits": 40}}
    fit = fit_of(DPPCA, n_components=2, epsilon=3.0, row_norm=50.0, mean_norm=20.0)
    pair = fit, X, other
    for check in ("find_repeated_noise", "find_low_bits", "find_data_dependent_attributes"):
        assert CHECKS[check](*pair, **fewer.get(check, {})) == [], check


@pytest.mark.slow
@pytest.mark.parametrize("n_outputs", [1, 10])
@pytest.mark.parametrize(("mu", "least"), [(0.5, 0.1), (1.0, 0.4), (2.0, 0.7)])
def test_bounds_come_near_the_truth_and_stay_below(mu, least, n_outputs):
    # At least .30, .46 and .78 of mu in 50 runs, and at most .95.
    how = {"n_fits": 2000, "confidence": 0.999, "random_state": 3}
    assert least * mu < audit(gaussian(mu, n_outputs), 0.0, 1.0, **how).mu <= mu


def test_too_little_noise_is_refuted():
    assert audit(gaussian(1 / 0.7), 0.0, 1.0, n_fits=2000, random_state=0).mu > 1


@pytest.mark.slow
def test_a_difference_in_spread_is_seen():
    def spread(data, seed):
        return np.random.default_rng(seed).normal(scale=data, size=2)

    assert audit(spread, 1.0, 6.0, n_fits=1000, random_state=0).mu > 1.5


@pytest.mark.slow
def test_what_happens_rarely_bounds_epsilon():
    def rarely_exact(data, seed):
        generator = np.random.default_rng(seed)
        return 100 * data if generator.random() < 0.05 else generator.normal()

    # At least 1.09 in 20 runs.
    found = audit(rarely_exact, 0.0, 1.0, n_fits=2000, random_state=0)
    assert found.epsilon > 0.5


@pytest.mark.parametrize("told", [np.inf, np.nan, 1e300])
def test_numbers_without_limits_are_outputs_too(told):
    found = audit(lambda data, _: [data, 1.0], 0.0, told, n_fits=200, random_state=0)
    assert found.errors == (0, 0)
    assert found.mu > 3


def test_outputs_of_other_lengths_are_told_apart():
    assert audit(lambda data, _: np.zeros(data), 2, 3, n_fits=200, random_state=0).mu > 3


def test_a_seed_repeats_an_audit_with_any_number_of_jobs():
    runs = []
    for n_jobs in (None, 2):
        # Processes take seconds to begin, and share nothing that threads do not.
        with parallel_config("threading", n_jobs=n_jobs):
            runs.append(audit(gaussian(1.0), 0.0, 1.0, n_fits=100, random_state=7))
    assert runs[0] == runs[1]


def test_bounds_are_those_of_clopper_and_pearson_with_a_part_of_the_confidence():
    def bound(wrong, n, left):
        return beta.ppf(1 - left, wrong + 1, n - wrong)

    mean = bound(40, 200, 0.005)
    np.testing.assert_allclose(error_bounds([20, 20], 100, 0.99), [mean, mean])
    # Rates that differ: one is bounded by itself, the other by what is left of the mean.
    one, mean = bound(3, 100, 0.0025), bound(43, 200, 0.005)
    for errors, order in (([3, 40], 1), ([40, 3], -1)):
        found = error_bounds(errors, 100, 0.99)
        np.testing.assert_allclose(found, [one, 2 * mean - one][::order])
    # Or each by itself.
    alone = bound(0, 1000, 0.0025), bound(950, 1000, 0.0025)
    np.testing.assert_allclose(error_bounds([0, 950], 1000, 0.99), alone)


@pytest.mark.parametrize("rates", [(0.16, 0.16), (0.02, 0.5), (0.3, 0.01)])
def test_bounds_hold_with_their_confidence(rates):
    n_runs = 20_000
    errors = np.random.default_rng(0).binomial(200, np.repeat([rates], n_runs, axis=0)).T
    proved = -ndtri(error_bounds(errors, 200, 0.95)).sum(axis=0)
    assert np.mean(proved > -ndtri(rates).sum()) < 0.05


def test_what_is_guessed_wrongly_proves_nothing():
    # Rates that are as likely as not to be higher prove nothing.
    assert lower_bound_of_mu([50, 50], 100) == 0
    assert lower_bound_of_mu([100, 0], 100) == 0
    assert lower_bound_of_epsilon([50, 50], 100, delta=0.0) == 0
    # Nor does a delta that allows all of it.
    assert lower_bound_of_epsilon([0, 40], 100, delta=0.7) == 0


@pytest.mark.parametrize(
    "wrong", [{"n_fits": 19}, {"delta": 1.0}, {"delta": -0.1}, {"confidence": 1.0}]
)
def test_what_is_wrong_is_refused_before_fits(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"^{name} == {wrong[name]}, must be"):
        audit(lambda *_: pytest.fail("fitted"), 0, 1, **wrong)


@pytest.mark.parametrize("result", [None, (), [{}, None], int])
def test_a_fit_has_to_return_numbers(result):
    with pytest.raises(ValueError, match="fit must return numbers"):
        audit(lambda *_: result, 0, 1, n_fits=20)


@pytest.mark.covered(at_most=8)
@pytest.mark.parametrize("values", [(0.0, 1.0), (37.25, 36.5), (0.3, 0.31), (1e6, 0.0)])
@pytest.mark.parametrize("seed", range(5))
def test_plain_noise_with_the_seed_is_seen_whatever_the_value(values, seed):
    assert find_low_bits(gaussian(1.0), *values, random_state=seed)


def test_plain_noise_without_the_seed_is_seen_beside_0():
    def as_python(data, _):
        return data + np.random.default_rng().normal(size=3)

    assert find_low_bits(as_python, 0.0, 1.0, n_fits=300)


@pytest.mark.parametrize("round_to", [lambda x: np.round(x, 2), lambda x: np.rint(32 * x) / 32])
def test_a_public_lattice_of_any_step_is_right(round_to):
    assert not find_low_bits(lambda *given: round_to(gaussian(1.0)(*given)), 0.3, 1.0)


@pytest.mark.parametrize(
    ("told", "what"),
    [
        (lambda X: {"mean": X.mean(axis=0)}, "differs between .*; it is the mean of columns"),
        (lambda X: {"least": X.min(axis=0)}, "is the min of columns, to the last bit"),
        (lambda X: {"some": np.array([0, X[0, 0]])}, "differs between .* in 1 of 2 numbers"),
        (lambda X: {"big": X.max() > 5}, "differs"),
        (lambda X: {"wide": np.ones(1 + (X.max() > 5))}, r"of shape \(2,\) with one .*\(1,\) with"),
        (lambda X: {"kind": X.astype("f4" if X.max() > 5 else "f8")}, "of float32"),
        (lambda X: {"one": X} if X.max() > 5 else {}, "missing with the other"),
        (lambda X: 1 / (X.max() < 5) if X.max() > 5 else {}, "missing"),
    ],
)
def test_what_data_tell_exactly_is_named(told, what):
    X, other = rows()
    X[3], other[3] = (-5.5, -6.5, -7.5), (-5.5, -6.5, -7.5)
    with np.errstate(divide="raise"):
        found = find_data_dependent_attributes(lambda data, _: told(data), X, other)
    assert found
    assert any(re.search(what, str(one)) for one in found)


def test_an_error_of_one_dataset_is_told():
    def fails(data, _):
        raise ValueError(f"too large: {data.max():.3f}")

    (found,) = find_data_dependent_attributes(fails, *rows())
    assert found.where == "error"


class Holder:
    def __init__(self, row):
        self.row = row

    def __call__(self):
        return self.row

    def __getstate__(self):
        return {}


class Slots:
    __slots__ = ("row",)

    def __init__(self, row):
        self.row = row


class SubArray(np.ndarray):
    pass


Pair = namedtuple("Pair", "name row")


@dataclass
class Record:
    row: object


def nested(row, depth=2000):
    for _ in range(depth):
        row = [row]
    return row


def cycle(row):
    found = [row]
    found.append(found)
    return found


def with_attribute(row):
    found = np.zeros(2).view(SubArray)
    found.row = row
    return found


def masked(row):
    return np.ma.array(np.zeros(3), mask=row > 9)


def with_default(row):
    return lambda value=row: value


def negative_zero(row):
    return -0.0 if row[0] > 5 else 0.0


def payload(row):
    return np.array([0x7FF8000000000001 + (row[0] > 5)], dtype=np.int64).view(float)


# Where a row, or what only it decides, may be hidden so that checks can read it.
HIDING = {
    "series": pd.Series,
    "frame": lambda row: pd.DataFrame({"a": row, "b": "x"}),
    "index": lambda row: pd.DataFrame({"a": np.zeros(3)}, index=row),
    "columns": lambda row: pd.DataFrame(np.zeros((1, 3)), columns=row),
    "attributes of a frame": lambda row: pd.DataFrame({"a": [0]}).pipe(
        lambda frame: frame.attrs.update(row=row) or frame
    ),
    "categories": lambda row: pd.Series(
        ["a"] * 3, dtype=pd.CategoricalDtype([*"a", *map(str, row)])
    ),
    "polars": lambda row: pl.DataFrame({"a": row}),
    "sparse": sparse.csr_array,
    "set": lambda row: {*row.tolist()},
    "keys": lambda row: dict.fromkeys(row.tolist()),
    "deque": deque,
    "bytes": lambda row: row.tobytes(),
    "array.array": lambda row: array.array("d", row),
    "closure": lambda row: lambda: row,
    "default": with_default,
    "partial": lambda row: partial(print, row),
    "bound method": lambda row: Holder(row).__call__,
    "slots": Slots,
    "named tuple": lambda row: Pair("row", row),
    "data class": Record,
    "iterator": lambda row: iter([row]),
    "class": lambda row: type("Local", (), {"row": row}),
    "depth": nested,
    "cycle": cycle,
    "objects": lambda row: np.array([None, row.tolist()], dtype=object),
    "masked": masked,
    "subclass of arrays": with_attribute,
    "strings": lambda row: row.astype(str),
    "complex": lambda row: row * 1j,
    "generator of numbers": lambda row: np.random.default_rng(int(row[0] > 5)),
    "bytes of a file": lambda row: io.BytesIO(row.tobytes()),
    "error": lambda row: ValueError(row),
    "negative zero": negative_zero,
    "payload of NaN": payload,
    "order of names": lambda row: dict.fromkeys(("ab", "ba")[int(row[0] > 5)]),
    "layout": lambda row: np.zeros((2, 2), order="CF"[int(row[0] > 5)]),
    "type": lambda row: (list, tuple)[int(row[0] > 5)](),
    "none": lambda row: None if row[0] > 5 else (),
}


def raised(row):
    try:
        raise ValueError
    except ValueError as error:
        return error


def context(row):
    found = contextvars.ContextVar("found")
    found.set(row)
    return found


def thread_local(row):
    found = threading.local()
    found.row = row
    return found


# And where no check can.
REFUSED = {
    "generator": lambda row: (one for one in row),
    "weak reference": lambda row: weakref.ref(row),
    "traceback": raised,
    "context variable": context,
    "local to a thread": thread_local,
    "file": lambda row: open(os.devnull),  # noqa: SIM115
    "property": lambda row: property(lambda self: row),
}


class Hides(mistakes.NoisyMean):
    """Hides something of rows; of the noisy mean, if it is honest."""

    def __init__(self, hide, is_honest=False, random_state=None):
        super().__init__(random_state=random_state)
        self.hide = hide
        self.is_honest = is_honest

    def fit(self, X):
        super().fit(X)
        self.coef_ = self.hide(self.mean_ if self.is_honest else X[0].copy())
        return self


def found_in(hide, is_honest=False):
    def fit(data, seed):
        return Hides(hide, is_honest, random_state=seed).fit(data)

    return find_data_dependent_attributes(fit, *rows(), random_state=0)


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("hide", HIDING.values(), ids=HIDING)
def test_a_row_is_seen_wherever_it_is_hidden_and_noise_is_not(hide):
    # An error of it would be the same for all data.
    hide(rows()[0][0])
    assert any(one.where.startswith("coef_") for one in found_in(hide))
    assert found_in(hide, is_honest=True) == []


@pytest.mark.parametrize("hide", REFUSED.values(), ids=REFUSED)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_no_check_can_read_is_refused_by_its_name(hide):
    told = r"coef_.* is a \w+, which has no pickle: no check can read it"
    assert any(re.fullmatch(told, str(one)) for one in found_in(hide))
    with pytest.raises(TypeError, match=told):
        audit(fit_of(partial(Hides, hide)), *rows(), n_fits=20)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "series",
        "frame",
        "polars",
        "set",
        "deque",
        "array.array",
        "bytes",
        "strings",
        "complex",
        "slots",
    ],
)
def test_an_audit_sees_rows_in_any_form(name):
    def result(data, seed):
        return HIDING[name](data[0])

    for fit in (fit_of(partial(Hides, HIDING[name])), result):
        assert audit(fit, *rows(), n_fits=60, random_state=0).mu > 3


@pytest.mark.slow
def test_an_audit_sees_too_little_noise_in_any_form():
    class InFrames(mistakes.TooLittleNoise):
        def fit(self, X):
            self.coef_ = pd.DataFrame({"mean": super().fit(X).mean_})
            del self.mean_
            return self

    assert CHECKS["audit"](fit_of(InFrames), *rows())


@pytest.mark.parametrize(
    "keep",
    [
        lambda self, X: setattr(type(self), "_row", X[0]),
        lambda self, X: self._rows.append(X[0]),
        lambda self, X: self._default(X[0]),
        lambda self, X: setattr(type(self), "row_", X[0]),
    ],
)
def test_what_the_class_keeps_is_seen(keep):
    class Kept(mistakes.NoisyMean):
        _rows = []  # noqa: RUF012

        def _default(self, row, rows=[]):  # noqa: B006
            rows.append(row)

        _before_release = keep

    found = find_data_dependent_attributes(fit_of(Kept), *rows(), random_state=0)
    assert any(one.where.startswith("class") for one in found)


def of_logger(X):
    logger = logging.getLogger("a logger of its own")
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    logger.warning("%s", X[0])


@pytest.mark.parametrize(
    "say",
    [
        of_logger,
        lambda X: os.write(1, X[0].tobytes()),
        lambda X: sys.__stdout__.write(str(X[0])),
        lambda X: logging.getLogger().log(10 + 10 * int(X[0, 0] > 5), ""),
    ],
)
def test_what_is_said_is_seen_whoever_hears_it(say):
    kind = type("Says", (mistakes.NoisyMean,), {"_before_release": lambda self, X: say(X)})
    (found,) = find_data_dependent_attributes(fit_of(kind), *rows(), random_state=0)
    assert found.where == "printed text"
