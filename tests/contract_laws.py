"""What every estimator promises its users: each law is a function of a family and a cell."""

import copy
import inspect
import math
import pickle
import warnings

import numpy as np
import pytest
from attack_laws import assert_same_fit
from harness import RecordingBudget, fit_with
from noise_records import noise_of
from scipy import sparse

from skdp import PrivacyWarning, RankOneMatrices
from skdp.privacy import PrivacyBudget

SECRET = 0xD1CE << 100


def noise_is_fresh_without_a_seed(family, cell):
    """Not even numpy's global generator, which `None` means elsewhere, repeats it."""
    arguments, noise = family.arguments(family.ordinary(cell)), []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        estimator = cell()
        noise.append(noise_of(estimator, *arguments))
        assert not estimator.privacy_spent_.seeded
    assert not np.isin(*noise).any()


def a_seed_repeats_a_fit(family, cell):
    """To the last bit, and the record says so."""
    arguments = family.arguments(family.ordinary(cell))
    first, second = (cell(random_state=SECRET).fit(*arguments) for _ in range(2))
    assert_same_fit(first, second)
    assert first.privacy_spent_.seeded
    assert "guess" in repr(first.privacy_spent_)


def no_noise_is_shared_by_different_fits(family, cell):
    """Shared noise at two budgets, or on two neighbours, solves for the data exactly."""
    data = family.ordinary(cell)
    arguments, delta = family.arguments(data), cell().delta
    others = [{"epsilon": 2 * cell().epsilon}, {"random_state": SECRET + 1}]
    others += [{"delta": delta / 2}] * (delta > 0)
    others += [{"adjacency": {"replace": "zero_out"}.get(cell.adjacency, "replace")}]
    base = noise_of(cell(random_state=SECRET), *arguments)
    noises = [noise_of(cell(**{"random_state": SECRET, **more}), *arguments) for more in others]
    # The first may be the same, and odd values may be clipped to what was there before.
    neighbour = next(iter(family.groups(cell, data))).datasets[:2][-1]
    noises.append(noise_of(cell(random_state=SECRET), *neighbour))
    for noise in noises:
        assert not np.isin(base, noise).any()


def nothing_but_documented_attributes_is_kept(family, cell):
    """Released values and public facts, named in the docstring; parameters stay as they were."""
    arguments = family.arguments(family.ordinary(cell))
    estimator = cell()
    parameters = estimator.get_params(deep=False)
    estimator.fit(*arguments)
    after = estimator.get_params(deep=False)
    assert all(after[name] is parameters[name] for name in parameters)
    kept = vars(estimator).keys() - parameters.keys()
    assert kept == family.released(cell) | family.public(cell)
    documented = inspect.getdoc(type(estimator)).splitlines()
    n_units, n_features = len(estimator_rows(arguments)), estimator.n_features_in_
    for name in kept:
        if not name.startswith("_"):
            assert any(name in line.split(" : ")[0].split(", ") for line in documented), name
        if name not in family.per_unit and n_units != n_features:
            assert n_units not in np.shape(getattr(estimator, name)), name


def estimator_rows(arguments):
    """The first argument of a fit, which has a length."""
    X = arguments[0]
    return range(X.shape[0]) if sparse.issparse(X) else X


def a_fitted_pickle_has_neither_seed_nor_data(family, cell):
    """A pickle is as private as the release."""
    arguments = family.arguments(family.ordinary(cell))
    estimator = cell(random_state=SECRET)
    assert pickle.loads(pickle.dumps(estimator)).random_state == SECRET
    estimator.fit(*arguments)
    pickled = pickle.dumps(estimator)
    for restored in (pickle.loads(pickled), copy.deepcopy(estimator)):
        assert restored.random_state is None
        assert_same_fit(restored, estimator)
    assert estimator.random_state == SECRET
    assert SECRET.to_bytes(20, "little").strip(b"\0") not in pickled
    for row in rows_of(arguments):
        assert row.tobytes() not in pickled


def rows_of(arguments):
    """Rows of dense arguments that no release resembles."""
    arrays = []
    for one in arguments:
        arrays += [one.left, one.right] if isinstance(one, RankOneMatrices) else [one]
    for array in arrays:
        if isinstance(array, np.ndarray):
            rows = array.reshape(len(array), -1) if array.ndim > 1 else array[None]
            yield from (row for row in rows if len(np.unique(row)) > 2)


def a_second_fit_does_not_depend_on_the_first(family, cell):
    """What another fit has set is gone."""
    data = family.ordinary(cell)
    arguments, other = family.arguments(data), family.unlike(cell, data)[-1]
    estimator = cell(random_state=SECRET)
    once = cell(random_state=SECRET).fit(*arguments)
    assert_same_fit(estimator.fit(*other).fit(*arguments), once)


def bad_data_are_refused_before_anything_is_spent(family, cell):
    """And leave the estimator as it was; the error tells no value."""
    arguments = family.arguments(family.ordinary(cell))
    estimator = cell().fit(*arguments)
    before = dict(vars(estimator))
    for bad in (np.nan, np.inf):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PrivacyBudget, "of", lambda *_: pytest.fail("a budget was opened"))
            with pytest.raises(ValueError, match=r"NaN|infinity") as refused:
                estimator.fit(*arguments[:-1], spoiled(arguments[-1], bad))
        after = vars(estimator)
        assert list(after) == list(before)
        assert all(after[name] is before[name] for name in before)
        told = str(refused.value)
        assert not any(f"{value:.4f}"[:6] in told for value in np.ravel(arguments[-1])[:9])


def spoiled(values, bad):
    """Put what is no number into an array."""
    values = np.array(values, dtype=np.float64)
    values[(0,) * values.ndim] = bad
    return values


def without_noise_what_is_released_is_exact(family, cell):
    """`epsilon=inf` switches noise off."""
    arguments = family.arguments(family.ordinary(cell))
    _, budget = fit_with(cell(epsilon=np.inf), arguments, RecordingBudget)
    for value, released in zip(budget.values, budget.released, strict=True):
        np.testing.assert_array_equal(value, released)
    assert budget.spent().epsilon == np.inf


def any_finite_data_fit_without_warnings_about_them(family, cell):
    """Nor does anything released from them become infinite."""
    for name, data in {**family.datasets(cell), **family.strange(cell)}.items():
        arguments = family.arguments(data)
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", PrivacyWarning)
            estimator = cell(epsilon=1.0).fit(*arguments)
        for attribute in family.released(cell):
            assert np.isfinite(getattr(estimator, attribute)).all(), (name, attribute)


def the_record_is_what_was_planned(family, cell):
    """Line by line, before the data are known, at any budget."""
    arguments = family.arguments(family.ordinary(cell))
    for more in ({}, {"epsilon": 1.0}, {"epsilon": math.inf}):
        check_plan(lambda: cell(**more), arguments)  # noqa: B023


def without_values(X):
    """What can be shown of data to come: the same container, of NaN."""
    if isinstance(X, RankOneMatrices):
        # Its factors are checked when it is made.
        hidden = RankOneMatrices(X.left, X.right)
        hidden.left, hidden.right = map(without_values, (X.left, X.right))
        return hidden
    if sparse.issparse(X):
        return sparse.csr_array((X.data * np.nan, X.indices, X.indptr), shape=X.shape)
    return X * np.nan


def check_plan(make_estimator, arguments):
    """Compare the plan of an unfitted estimator with what a fit records."""
    X = arguments[0]
    like = without_values(X)
    planned = make_estimator().plan(X.shape[0], math.prod(X.shape[1:]), like=like)
    record = fit_with(make_estimator(), arguments, RecordingBudget)[1].spent()
    for name in ("epsilon", "delta", "unit", "adjacency", "enforced", "delta_tail"):
        assert getattr(planned, name) == getattr(record, name), name
    # A share that is spent on nothing costs pure differential privacy less than one that is used.
    if record.delta > 0 or not math.isfinite(record.epsilon):
        assert planned.mu == record.mu
    for line, release in zip(planned.releases, record.releases, strict=True):
        assert line.is_for(release.name, release.mechanism), (line, release)
        assert line.share == release.share, line
        if line.sensitivity is not None:
            np.testing.assert_allclose(line.sensitivity, release.sensitivity, rtol=1e-4)
            np.testing.assert_allclose(line.noise_scale, release.noise_scale, rtol=1e-4)
        else:
            assert line.noise_scale is None
            assert line.follows


CONTRACT_LAWS = (
    noise_is_fresh_without_a_seed,
    a_seed_repeats_a_fit,
    no_noise_is_shared_by_different_fits,
    nothing_but_documented_attributes_is_kept,
    a_fitted_pickle_has_neither_seed_nor_data,
    a_second_fit_does_not_depend_on_the_first,
    bad_data_are_refused_before_anything_is_spent,
    without_noise_what_is_released_is_exact,
    any_finite_data_fit_without_warnings_about_them,
    the_record_is_what_was_planned,
)
