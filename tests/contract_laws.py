"""What every estimator promises its users: each law is a function of a family and a cell."""

import copy
import inspect
import itertools
import math
import pickle
import sys
import warnings
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest
from harness import SEED, assert_holds, assert_same_fit, contents_of, fit_with
from in_parts import in_parts, stacked, whole
from noise_records import drawn_noise, noise_of
from recording import RecordingBudget
from scipy import sparse

from skdp import PrivacyWarning, RankOneMatrices, RowBlocks
from skdp.data import reduce
from skdp.privacy import PrivacyBudget
from skdp.privacy.budget import SKIPPED

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
    with drawn_noise() as draws:
        cell().fit(*arguments)
    # Symmetric noise has everything beside the diagonal twice.
    once = np.concatenate([np.unique(np.abs(draw)) for draw in draws])
    assert len(np.unique(once)) == len(once)


def a_seed_repeats_a_fit(family, cell):
    """To the last bit, also where kernels are copies, as in other processes; the record says so."""
    leaf, arguments = reduce._chain_sum, family.arguments(family.ordinary(cell))

    def leaf_of_copies(kernel, blocks):
        return leaf(pickle.loads(pickle.dumps(kernel)), blocks)

    first = cell(random_state=SECRET).fit(*arguments)
    with patch.object(reduce, "_chain_sum", leaf_of_copies):
        assert_same_fit(cell(random_state=SECRET).fit(*arguments), first)
    assert first.privacy_spent_.seeded
    assert "guess" in repr(first.privacy_spent_)


def no_noise_is_shared_by_different_fits(family, cell):
    """Shared noise at two budgets, or on two neighbors, solves for the data exactly."""
    data = family.ordinary(cell)
    arguments, delta = family.arguments(data), cell().delta
    others = [{"epsilon": 2 * cell().epsilon}, {"random_state": SECRET + 1}]
    others += [{"delta": delta / 2}] * (delta > 0)
    others += [{"adjacency": {"replace": "zero_out"}.get(cell.adjacency, "replace")}]
    base = noise_of(cell(random_state=SECRET), *arguments)
    for more in others:
        noise = noise_of(cell(**{"random_state": SECRET, **more}), *arguments)
        assert not np.isin(base, noise).any(), more
    group = next(iter(family.groups(cell, data)))
    datasets = [group.origin or group.datasets[0]]
    for one in group.datasets[:4]:
        if not any(are_equal(one, other) for other in datasets):
            datasets.append(one)
    noises = [noise_of(cell(random_state=SECRET), *one) for one in datasets]
    for one, other in itertools.combinations(noises, 2):
        is_same = family.is_keyed_by_clipped_data and np.array_equal(one, other)
        assert is_same or not np.isin(one, other).any()


def are_equal(one, other):
    """Whether two fits have the same arguments, 0 and -0 being the same."""
    pairs = zip(arrays_of(one), arrays_of(other), strict=True)
    return all(a.shape == b.shape and n_other(a, b) == 0 for a, b in pairs)


def n_other(one, other):
    """Count the entries that differ, NaN being equal to itself."""
    differ = one != other
    return (differ if sparse.issparse(one) else differ & ((one == one) | (other == other))).sum()


def nothing_but_documented_attributes_is_kept(family, cell):
    """Released values and public facts, named in the docstring; parameters stay as they were."""
    for seed in (None, SECRET):
        check_kept(family, cell, cell(random_state=seed))


def check_kept(family, cell, estimator):
    """Fit, and look at all attributes."""
    arguments = family.arguments(family.ordinary(cell))
    parameters = estimator.get_params(deep=False)
    estimator.fit(*arguments)
    after = estimator.get_params(deep=False)
    assert all(after[name] is parameters[name] for name in parameters)
    kept = vars(estimator).keys() - parameters.keys()
    assert kept == family.released(cell) | family.public(cell)
    documented = inspect.getdoc(type(estimator)).splitlines()
    n_units, n_features = family.n_units(arguments), estimator.n_features_in_
    for name in kept | properties_of(type(estimator)):
        if not name.startswith("_"):
            assert any(name in line.split(" : ")[0].split(", ") for line in documented), name
        if name not in family.per_unit and n_units != n_features:
            assert n_units not in np.shape(getattr(estimator, name)), name
        # A view would keep alive what it is a part of.
        base = getattr(getattr(estimator, name), "base", None)
        assert base is None or base.size == getattr(estimator, name).size, name


def nothing_is_kept_beside_the_estimator(family, cell):
    """Neither by its classes nor by a module."""
    data = family.ordinary(cell)
    # What is made once, whatever the data, is there then.
    cell().fit(*family.strangers(cell, data)[-1])
    before = beside(cell())
    cell().fit(*family.arguments(data))
    assert beside(cell()) == before


def beside(estimator):
    """Identities of what classes and modules hold, and of what is in their containers."""
    owners = {base.__name__: base for base in type(estimator).__mro__}
    owners |= {name: one for name, one in sys.modules.items() if name.startswith("skdp")}
    owners["own module"] = sys.modules[type(estimator).__module__]
    return {
        f"{owner}.{name}": contents(value)
        for owner, one in owners.items()
        for name, value in list(vars(one).items())
        # Python's own: which warnings were shown, and its functions.
        if name not in ("__warningregistry__", "__builtins__")
    }


def contents(value):
    """Identities of an object and of all that it has, if it is a container."""
    if isinstance(value, dict):
        return id(value), *map(id, value.keys()), *map(id, value.values())
    return (id(value), *map(id, value)) if isinstance(value, (list, set)) else id(value)


def a_fitted_pickle_has_neither_seed_nor_data(family, cell):
    """A pickle is as private as the release."""
    # The last dataset has the most numbers that are one of a kind.
    arguments = family.arguments(list(family.datasets(cell).values())[-1])
    estimator = cell(random_state=SECRET)
    assert pickle.loads(pickle.dumps(estimator)).random_state == SECRET
    estimator.fit(*arguments)
    pickled = pickle.dumps(estimator)
    for restored in (pickle.loads(pickled), copy.deepcopy(estimator)):
        assert restored.random_state is None
        assert_same_fit(restored, estimator)
    assert estimator.random_state == SECRET
    # With the zeros below it, which integers and words have, too: three bytes come by chance.
    assert SECRET.to_bytes(20, "little").rstrip(b"\0") not in pickled
    traces = [trace for trace in traces_of(arguments) if trace in pickled]
    assert traces == []


def traces_of(arguments):
    """Give the bytes of any two adjacent numbers that no release has by chance."""
    traces = []
    for array in arrays_of(arguments):
        values = array.data if sparse.issparse(array) else np.ravel(array)
        telling = values != np.round(values)
        places = np.flatnonzero(telling[:-1] & telling[1:] & (values[:-1] != values[1:]))
        traces += [values[place : place + 2].tobytes() for place in places]
    assert traces
    return traces


def arrays_of(arguments):
    """Give the arrays that the arguments of a fit consist of."""
    for one in arguments:
        if isinstance(one, RankOneMatrices):
            yield from (one.left, one.right)
        else:
            yield from whole(one) if isinstance(one, RowBlocks) else (one,)


def a_second_fit_does_not_depend_on_the_first(family, cell):
    """What another fit has set is gone."""
    data = family.ordinary(cell)
    arguments, other = family.arguments(data), family.strangers(cell, data)[-1]
    once = cell(random_state=SECRET).fit(*arguments)
    for first in (other, shortened(arguments)):
        estimator = cell(random_state=SECRET)
        assert_same_fit(estimator.fit(*first).fit(*arguments), once)
    second = cell(random_state=SECRET).fit(*arguments)
    assert_same_fit(second.fit(*other), cell(random_state=SECRET).fit(*other))
    # Nor is what only another cell has left over.
    for one in family.cells:
        if family.released(one) != family.released(cell) and type(one()) is type(cell()):
            estimator = one().fit(*family.arguments(family.ordinary(one)))
            estimator.set_params(**cell(random_state=SECRET).get_params(deep=False))
            assert_same_fit(estimator.fit(*arguments), once)
            break


def shortened(arguments):
    """Leave units out, but for square matrices, which would lose features, too."""
    n_units, n_features = arguments[0].shape[:2]
    n_kept = n_units if n_units == n_features else n_units - 3
    if isinstance(arguments[0], RowBlocks):
        rows = in_parts(*(one[:n_kept] for one in whole(arguments[0])))
        return [rows, *(one[:n_kept] for one in arguments[1:])]
    return [one[:n_kept] for one in arguments]


def bad_data_are_refused_before_anything_is_spent(family, cell):
    """And leave the estimator as it was; the error tells no value."""
    arguments = family.arguments(family.ordinary(cell))
    estimator = cell().fit(*arguments)
    before = dict(vars(estimator))
    for place, bad in itertools.product(range(len(arguments)), (np.nan, np.inf)):
        if place == 0 and np.isnan(bad) and getattr(cell, "has_gaps", False):
            continue
        others = list(arguments)
        others[place] = spoiled(arguments[place], bad)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PrivacyBudget, "of", lambda *_: pytest.fail("a budget was opened"))
            with pytest.raises(ValueError, match=r"NaN|infinity") as refused:
                estimator.fit(*others)
        after = vars(estimator)
        assert list(after) == list(before)
        assert all(after[name] is before[name] for name in before)
        told = str(refused.value)
        assert refused.value.__context__ is None
        values = np.concatenate([telling_values(one) for one in arrays_of(arguments)])
        assert not any(f"{value:.4f}"[:6] in told for value in values)


def telling_values(array):
    """Give some numbers that a text has hardly by chance."""
    values = array.data if sparse.issparse(array) else np.ravel(array)
    return values[values != np.round(values)][:9]


def spoiled(values, bad):
    """Put what is no number in the place of one."""
    if isinstance(values, RankOneMatrices):
        return RankOneMatrices(spoiled(values.left, bad), values.right)
    if isinstance(values, RowBlocks):
        X, *targets = whole(values)
        return in_parts(spoiled(X, bad), *targets)
    if sparse.issparse(values):
        values = values.copy()
        values.data[0] = bad
        return values
    values = np.array(values, dtype=np.float64)
    values[(0,) * values.ndim] = bad
    return values


def without_noise_what_is_released_is_exact(family, cell):
    """`epsilon=inf` switches noise off."""
    arguments = family.arguments(family.ordinary(cell))
    _, budget = fit_with(cell(epsilon=np.inf), arguments, RecordingBudget)
    lines = zip(budget.spent().releases, budget.values, budget.released, strict=True)
    for release, value, released in lines:
        exact = np.argmin(value) if release.mechanism == "exponential" else value
        np.testing.assert_array_equal(exact, released)
    assert budget.spent().epsilon == np.inf


def any_finite_data_fit_without_warnings_about_them(family, cell):
    """Nor does anything released from them become infinite."""
    for name, data in {**family.datasets(cell), **family.strange(cell)}.items():
        arguments = family.arguments(data)
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", PrivacyWarning)
            estimator = cell(epsilon=1.0).fit(*arguments)
        for attribute in family.released(cell) | properties_of(type(estimator)):
            value = getattr(estimator, attribute)
            # Of what was not asked for there is nothing.
            assert value is None or np.isfinite(value).all(), (name, attribute)
        shares = [line.share for line in estimator.privacy_spent_.releases]
        assert math.fsum(shares) <= 1 + 1e-12


@cache
def properties_of(kind):
    """Name the fitted attributes of a class that are computed from others."""
    return {
        name
        for name, value in inspect.getmembers_static(kind)
        if isinstance(value, property) and name.endswith("_") and not name.startswith("_")
    }


def the_record_is_what_was_planned(family, cell):
    """Line by line, before the data are known, at any budget."""
    arguments = family.arguments(family.ordinary(cell))
    for more in ({}, {"epsilon": 1.0}, {"epsilon": math.inf}):
        check_plan(lambda: cell(**more), arguments, family.n_units(arguments))  # noqa: B023


def without_values(X):
    """What can be shown of data to come: the same container, of NaN."""
    if isinstance(X, RankOneMatrices):
        # Its factors are checked when it is made.
        hidden = RankOneMatrices(X.left, X.right)
        hidden.left, hidden.right = map(without_values, (X.left, X.right))
        return hidden
    if isinstance(X, RowBlocks):
        rows, *targets = whole(X)
        return in_parts(without_values(rows), *targets)
    if sparse.issparse(X):
        return sparse.csr_array((X.data * np.nan, X.indices, X.indptr), shape=X.shape)
    return X * np.nan


def check_plan(make_estimator, arguments, n_units=None):
    """Compare the plan of an unfitted estimator with what a fit records."""
    X = arguments[0]
    n_units = X.shape[0] if n_units is None else n_units
    like = without_values(X)
    # That there is a seed is a public fact, too.
    estimator = make_estimator().set_params(random_state=SEED)
    planned = estimator.plan(n_units, math.prod(X.shape[1:]), like=like)
    record = fit_with(make_estimator(), arguments, RecordingBudget)[1].spent()
    for name in ("epsilon", "delta", "unit", "adjacency", "enforced", "delta_tail"):
        assert getattr(planned, name) == getattr(record, name), name
    # A share that is spent on nothing costs pure differential privacy less than one that is used.
    if record.delta > 0 or not math.isfinite(record.epsilon):
        # Ways of a plan spend the same, but for the rounding of their sums.
        np.testing.assert_allclose(planned.mu, record.mu, rtol=1e-14)
    names = [release.name for release in record.releases]
    taken = [path for path in planned.paths if is_path(path, names)]
    assert len(taken) == 1, names
    for line, release in zip(taken[0], record.releases, strict=True):
        assert line.mechanism == release.mechanism or release.name == SKIPPED, (line, release)
        assert line.share == release.share, line
        if line.sensitivity is not None:
            np.testing.assert_allclose(line.sensitivity, release.sensitivity, rtol=1e-4)
            np.testing.assert_allclose(line.noise_std, release.noise_std, rtol=1e-4)
        else:
            assert line.noise_std is None
            assert line.follows


def is_path(path, names):
    """Whether a way through a plan has releases of these names, or may skip them."""
    pairs = zip(path, names, strict=False)
    return len(path) == len(names) and all(
        name == line.name or (name == SKIPPED and line.may_be_skipped) for line, name in pairs
    )


def rows_are_transformed_one_by_one(family, cell):
    """A row becomes what it is and what was released make of it; nothing of it is kept."""
    X, *others = family.arguments(family.ordinary(cell))
    estimator = cell(random_state=SECRET).fit(X, *others)
    fitted = contents_of(estimator)
    every = estimator.transform(X)
    assert_holds(estimator, fitted)
    is_blocks = isinstance(X, RowBlocks)
    some = in_parts(whole(X)[0][2:5], cuts=(1,)) if is_blocks else X[2:5]
    part = estimator.transform(some)
    if is_blocks:
        every, part = stacked(every), stacked(part)
    if sparse.issparse(every):
        every, part = every.toarray(), part.toarray()
    # Sums of fewer rows may round otherwise.
    tolerance = 1e-5 * np.abs(every).max(initial=0.0)
    np.testing.assert_allclose(part, every[2:5], rtol=0, atol=tolerance)


CONTRACT_LAWS = (
    noise_is_fresh_without_a_seed,
    a_seed_repeats_a_fit,
    no_noise_is_shared_by_different_fits,
    nothing_but_documented_attributes_is_kept,
    nothing_is_kept_beside_the_estimator,
    a_fitted_pickle_has_neither_seed_nor_data,
    a_second_fit_does_not_depend_on_the_first,
    bad_data_are_refused_before_anything_is_spent,
    without_noise_what_is_released_is_exact,
    any_finite_data_fit_without_warnings_about_them,
    the_record_is_what_was_planned,
    rows_are_transformed_one_by_one,
)


def contract_laws_for(family):
    """Give the laws that say something of a family."""
    return tuple(filter(family.keeps, CONTRACT_LAWS))
