"""Rules for estimators written on `skdp.privacy`: checks, and ways to run them.

Each check is a function of a case, which raises an AssertionError. Its docstring is the rule.
"""

import copy
import gc
import itertools
import math
import pickle
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from types import FunctionType, ModuleType
from typing import Any
from unittest import TestCase
from unittest.mock import patch

import numpy as np
from scipy.sparse import issparse

from skdp.exceptions import PrivacyWarning
from skdp.privacy import PrivacyBudget
from skdp.privacy.budget import is_skipped
from skdp.privacy.noise import NoiseSource
from skdp.privacy.plan import nodes_of
from skdp.testing import _recording as fits
from skdp.testing._audit import all_of, global_seed
from skdp.testing._case import PrivacyCase, Subject, climb

#: Factor by which rounding may make a movement exceed its sensitivity.
ROUNDING = 1 + 1e-12  # not tuned
# Number of attacks. The weakest kind of attack finds a mistake with probability .4, so that all 24
# attacks miss the mistake with a probability below .00001.
_N_ATTACKS = 24  # not tuned
_N_STEPS = 30  # of a search by random steps; not studied
#: A seed that is easy to find in a pickle.
SECRET = 0xD1CE << 100  # not tuned


def _recorded(case: Subject, **more: Any) -> tuple[Any, fits.RecordingBudget]:
    """Fit with changed parameters; return the model, and the budget with all releases."""
    return fits.fit_with(case.make(**more), case.data, fits.RecordingBudget)


# ------------------------------
# Attacks.


def attacks(case: Subject) -> Iterator[dict[str, float]]:
    """Attack repeatedly; yield how far each release has moved so far, in units of its sensitivity.

    The success of an attack depends on released bases, and so on noise: each attack has new noise.
    """
    worst: dict[str, float] = {}
    for attempt in range(_N_ATTACKS):
        # The number of the attempt is added to the seed of the noise.
        with patch.object(fits, "_attempt", attempt):
            for name, ratio in fits.farthest_of(case.make, case.groups()).items():
                # A skipped release has no value: that it does not move proves nothing.
                if ratio or not is_skipped(name):
                    worst[name] = max(worst.get(name, 0.0), ratio)
        yield worst


def neighbors_move_no_release_further_than_declared(case: Subject) -> None:
    """No neighbor moves a release further than its sensitivity, and the attack comes close."""
    for worst in attacks(case):
        _assert_bounded(worst)
        if case.is_reached(worst):
            return
    # An attack that moves nothing proves nothing.
    least = min(worst, key=worst.__getitem__)
    raise AssertionError(
        f"no attack gets far: {least} moved only {worst[least]:.3g} times its declared "
        "sensitivity. If that is right, write a stronger attack."
    )


def _assert_bounded(worst: dict[str, float]) -> None:
    """Assert that no release moved further than declared."""
    for name, ratio in worst.items():
        assert ratio <= ROUNDING, f"{name} moved {ratio:.15g} times its declared sensitivity"


def climbing_finds_no_worse_neighbor(case: Subject) -> None:
    """Random steps find no neighbor that moves a release further than declared."""

    def _movement(place: int, row: np.ndarray) -> float:
        """Put a row into X; return how far a release moves, in units of its sensitivity."""
        first = np.array(case.data[0])
        first[place] = row.reshape(first.shape[1:])
        group = case.group(place, [(first, *case.data[1:]), case.data])
        worst = fits.farthest_of(case.make, [group])
        _assert_bounded(worst)
        return max(worst.values())

    size = math.prod(np.shape(case.data[0])[1:])
    for place in case.places:
        n_steps = _N_STEPS // 5 if place else _N_STEPS
        climb(partial(_movement, place), size, n_steps, np.random.default_rng(place))


def a_null_unit_contributes_nothing(case: Subject) -> None:
    """No value of a null unit has an effect."""
    groups = [group for group in case.groups() if group.make_null is not fits.Group.make_null]
    assert groups, "no unit of the neighbors can be null"
    for group in groups:
        origin, other = group.origin, group.datasets[-1]
        script = fits.record(case.make, origin).released
        with group.make_null():
            replays = [fits.replay(case.make, one, script) for one in (origin, other)]
        pairs = zip(*(each.values for each in replays), strict=True)
        assert all(np.array_equal(*pair) for pair in pairs), "a null unit contributes to a release"


def outputs_follow_the_releases(case: Subject) -> None:
    """Other data with the same released values give the same fit and the same output."""
    (original, budget), messages = fits.messages_of(lambda: _recorded(case))
    scripted = fits.scripted_budget(budget.released)

    others = [(fits.Group.make_null, one) for one in case.strangers()]
    others += [(one.make_null, one.origin or one.datasets[0]) for one in case.groups()]
    for make_null, data in others:
        with make_null():
            fit = partial(fits.fit_with, case.make(), data, scripted)
            (again, _), found = fits.messages_of(fit)
        assert found == messages, f"{found} in place of {messages}"
        fits.assert_same_fit(again, original)


def any_finite_data_fit_without_warnings_about_them(case: Subject) -> None:
    """Finite data, however large, cause no warnings about the data, and give finite releases."""
    for data in case.strange():
        with warnings.catch_warnings(action="error"):
            warnings.simplefilter("ignore", PrivacyWarning)
            estimator = case.make(epsilon=1.0).fit(*data)
        for name, value in case.released(estimator).items():
            # Optional attributes may be None.
            assert value is None or np.isfinite(value).all(), f"{name} is not finite"


# ------------------------------
# The record of what a fit has spent.


def the_record_is_that_of_the_releases(case: Subject) -> None:
    """`privacy_spent_` has all releases by name, and spends at most the budget."""
    estimator, budget = _recorded(case, epsilon=0.8)
    spent = estimator.privacy_spent_
    assert spent == budget.spent(), spent
    sizes = ("epsilon", "delta")
    pairs = [(getattr(spent, one), getattr(estimator, one, math.inf)) for one in sizes]
    assert all(one <= asked for one, asked in pairs), f"more was spent than asked for: {pairs}"
    # Only skipped releases share a name.
    names = [line.name for line in spent.releases if not is_skipped(line.name)]
    assert len(set(names)) == len(names), f"two releases have one name: {names}"


def the_record_is_what_was_planned(case: Subject) -> None:
    """Plans, made without data, equal the record of the fit, line by line, at any budget."""
    for more in ({}, {"epsilon": 1.0}, {"epsilon": math.inf}):
        # A plan may depend on whether there is a seed, which is a public fact.
        planned = case.planned(random_state=fits.current_seed(), **more)
        check_plan(planned, _recorded(case, **more)[1].spent())


def check_plan(planned: Any, spent: Any) -> None:
    """Assert that the record of a fit is as planned."""
    for name in ("epsilon", "delta", "unit", "adjacency", "enforced", "delta_tail"):
        one, other = getattr(planned, name), getattr(spent, name)
        assert one == other, f"{name} is {one} in the plan, and {other} in the record"
    # In pure privacy, the unspent share of a skipped release lowers the cost of the record.
    if spent.delta > 0 or not math.isfinite(spent.epsilon):
        # All branches of a plan spend the same, up to rounding.
        np.testing.assert_allclose(planned.mu, spent.mu, rtol=1e-14)
    # For each branch of the plan that begins with the releases so far, the nodes that may follow.
    followers = [nodes_of(planned.parts)]
    for release in spent.releases:
        nodes = itertools.chain.from_iterable(followers)
        followers = [node.following for node in nodes if is_as_planned(node.release, release)]
    n_branches = followers.count(())
    assert n_branches == 1, f"{n_branches} branches of the plan, not 1, have {spent.releases}"


def is_as_planned(line: Any, release: Any) -> bool:
    """Return whether a release is as planned, in all facts that the plan states."""
    may_differ = is_skipped(release.name) and line.may_be_skipped
    has_name = (line.name, line.mechanism) == (release.name, release.mechanism)
    is_same = line.share == release.share and (may_differ or has_name)
    if line.sensitivity is None:
        return is_same and line.noise_std is None and line.follows != ""
    planned, found = ((one.sensitivity, one.noise_std) for one in (line, release))
    return is_same and np.allclose(planned, found, rtol=1e-4, atol=0)


# ------------------------------
# Seeds.


def noise_is_fresh_without_a_seed(case: Subject) -> None:
    """Nothing repeats the noise, not even numpy's global generator."""
    noises: list[np.ndarray] = []
    for _ in range(2):
        estimator = case.make(random_state=None)
        with global_seed(0), fits.drawn_noise() as draws:
            estimator.fit(*case.data)
        assert not estimator.privacy_spent_.seeded, "privacy_spent_ tells of a seed"
        # Symmetric noise has each number off the diagonal twice, which is no repetition.
        noises += [np.unique(np.abs(draw)) for draw in draws]
    once = np.concatenate(noises)
    assert len(np.unique(once)) == len(once), "noise repeats, within a fit or in another one"


def a_seed_repeats_a_fit(case: Subject) -> None:
    """Two fits with one seed are equal to the last bit, and the record says `seeded`."""
    first, second = (case.make(random_state=SECRET).fit(*case.data) for _ in range(2))
    fits.assert_same_fit(second, first)
    assert first.privacy_spent_.seeded, "privacy_spent_ tells of no seed"


def no_noise_is_shared_by_different_fits(case: Subject) -> None:
    """Noise differs with data and parameters, as common noise would reveal the data."""
    given, seeded = case.parameters, {"random_state": SECRET}
    changes: list[dict[str, Any]] = [{"random_state": SECRET + 1}]
    changes += [{name: given[name] / 2} for name in ("epsilon", "delta") if given.get(name)]
    if "adjacency" in given:
        changes += [{"adjacency": {"replace": "zero_out"}.get(given["adjacency"], "replace")}]
    base = fits.noise_of(case.make(**seeded), *case.data)
    for change in changes:
        noise = fits.noise_of(case.make(**seeded | change), *case.data)
        assert not np.isin(base, noise).any(), f"fits share noise, one of which has {change}"
    groups = case.groups()
    datasets = [groups[0].origin or groups[0].datasets[0]]
    datasets += itertools.chain.from_iterable(group.datasets[:4] for group in groups)
    distinct = {}
    for data in datasets:
        arrays = [x.toarray() if issparse(x) else x for x in case.arrays(data)]
        # -0 becomes 0, so that equal numbers have equal bytes.
        distinct[all_of([np.where(x == 0, 0, x) for x in arrays])] = data
    noises = [fits.noise_of(case.make(**seeded), *one) for one in distinct.values()]
    for first, second in itertools.combinations(noises, 2):
        assert case.may_share_noise(first, second), "neighbors share noise"


# ------------------------------
# What fits store outside and inside the estimator.


def nothing_is_stored_beside_the_estimator(case: Subject) -> None:
    """Classes, modules, files, the environment, processes and sockets get nothing of a fit."""
    # The first fit of a process fills caches and imports modules, whatever the data.
    with fits.leaving():
        case.make().fit(*case.strangers()[-1])
    before = beside(case.make())
    with fits.leaving(case.parameters.get("ledger")) as left:
        case.make().fit(*case.unseen())
    after = beside(case.make())
    assert not left, f"out of a fit leads {', '.join(left)}"
    changed = [name for name in before | after if before.get(name) != after.get(name)]
    assert not changed, f"a fit has changed {', '.join(changed)}"


# Attributes of modules that Python itself changes: shown warnings, builtins, and the loader.
_CHANGED_BY_PYTHON = ("__warningregistry__", "__builtins__", "__loader__", "__spec__")


def beside(estimator: Any) -> dict[str, Any]:
    """Return what the classes of an estimator, modules and context variables hold, by name."""
    owners: dict[str, Any] = {base.__name__: base for base in type(estimator).__mro__}
    own = type(estimator).__module__
    owners |= {n: one for n, one in sys.modules.items() if n.startswith("skdp") or n == own}
    ends = {id(getattr(one, "__dict__", None)) for one in list(sys.modules.values())}
    held: dict[str, Any] = {"np.geterr": np.geterr()}
    held |= {str(one): _referents_of(value, ends) for one, value in copy_context().items()}
    for owner, one in owners.items():
        for name, value in list(vars(one).items()):
            # Imported classes and functions are left out: other libraries fill their caches, too.
            is_imported = isinstance(value, type | FunctionType) and value.__module__ not in owners
            if name not in _CHANGED_BY_PYTHON and not is_imported:
                held[f"{owner}.{name}"] = _referents_of(value, ends)
    return held


def _referents_of(value: Any, ends: set[int]) -> dict[int, Any]:
    """Return all objects that an object refers to, at any depth, by ``id``.

    Classes, modules and objects in `ends` are left out; the ids of all others are added to `ends`.
    A value is a pair: the object itself, as otherwise another object could get its id, and the hash
    of an array or the ids of the objects that it refers to.
    """
    todo, found = [value], dict[int, Any]()
    while todo:
        one = todo.pop()
        # A thread-local object counts with its values in this thread, as other threads may end.
        referents = [vars(one)] if isinstance(one, threading.local) else gc.get_referents(one)
        # Audit hooks make calls of `id` slow, so that it is called once for each object.
        ids = list(map(id, referents))
        found[id(one)] = one, hash(one.tobytes()) if isinstance(one, np.ndarray) else ids
        for number, other in zip(ids, referents, strict=True):
            if number not in ends and not isinstance(other, type | ModuleType):
                todo.append(other)
                ends.add(number)
    return found


def a_fitted_pickle_has_neither_seed_nor_data(case: Subject) -> None:
    """Fitted pickles show no seed and no data; the pickle of an unfitted estimator has its seed."""
    estimator = case.make(random_state=SECRET)
    if "random_state" in case.parameters:
        assert pickle.loads(pickle.dumps(estimator)).random_state == SECRET, "the seed is lost"
    estimator.fit(*case.data)
    pickled = pickle.dumps(estimator)
    for restored in (pickle.loads(pickled), copy.deepcopy(estimator)):
        assert getattr(restored, "random_state", None) is None, "a copy has random_state"
        fits.assert_same_fit(restored, estimator)
    # The zero bytes before the last three make the pattern too long to occur by chance.
    assert SECRET.to_bytes(20, "little").rstrip(b"\0") not in pickled, "a pickle has the seed"
    # The bytes of two adjacent numbers of the data, different fractions, occur nowhere by chance.
    traces = []
    for values in _numbers_in(case):
        is_fraction, differs = values != np.round(values), values[:-1] != values[1:]
        places = np.flatnonzero(is_fraction[:-1] & is_fraction[1:] & differs)
        traces += [values[place : place + 2].tobytes() for place in places]
    assert traces, "data need numbers beside each other that are not whole"
    assert not any(trace in pickled for trace in traces), "a pickle has numbers of data"


def _numbers_in(case: Subject) -> list[np.ndarray]:
    """Return the numbers in the data, a flat array for each argument of a fit."""
    return [one.data if issparse(one) else np.ravel(one) for one in case.arrays(case.data)]


def a_second_fit_does_not_depend_on_the_first(case: Subject) -> None:
    """Second fits replace all results of the first, and leave parameters as they were."""
    once, budget = _recorded(case)
    for first in (case.strangers()[-1], case.shortened()):
        estimator = case.make(random_state=SECRET)
        before = all_of(estimator.get_params(deep=False))
        estimator.fit(*first)
        after = all_of(estimator.get_params(deep=False))
        assert after == before, "a fit has changed what a parameter holds"
        again, _ = fits.fit_with(estimator, case.data, fits.scripted_budget(budget.released))
        fits.assert_same_fit(again, once, is_refit=True)


def fits_in_threads_do_not_disturb_each_other(case: Subject) -> None:
    """Two fits in threads, with the same released values, have the results of a fit alone."""
    once, budget = _recorded(case)
    scripted = fits.scripted_budget(budget.released)
    models = [case.make(random_state=fits.current_seed()) for _ in range(4)]
    source = NoiseSource(fits.current_seed())
    with fits.budgets_of(lambda _: scripted, source), ThreadPoolExecutor(2) as pool:
        datasets = [case.data, case.strangers()[-1]] * 2
        for fitted in pool.map(lambda model, data: model.fit(*data), models, datasets):
            fits.assert_same_fit(fitted, once)


# ------------------------------
# Bad input.


def bad_data_are_refused_before_anything_is_spent(case: Subject) -> None:
    """Refused data leave the estimator as it was, and the error shows no value."""
    estimator = case.make().fit(*case.data)
    before = all_of(vars(estimator))
    # Digits of the data that an error is unlikely to contain by chance.
    digits = [f"{x:.4f}"[:6] for one in _numbers_in(case) for x in one[:99] if x % 1]
    for place, bad in itertools.product(range(len(case.data)), (np.nan, np.inf)):
        data = case.spoiled(place, bad)
        if data is not None:
            text = _refusal(estimator, data)
            assert "NaN" in text or "inf" in text, f"the error does not say what is wrong: {text}"
            assert not any(one in text for one in digits), f"the error tells of data: {text}"
            assert all_of(vars(estimator)) == before, "a refused fit has left something"


def _refusal(estimator: Any, data: Any) -> str:
    """Fit, and assert that the fit is refused before it opens a budget; return the error's text."""
    opened = AssertionError("a budget was opened")
    refused = TestCase().assertRaises(ValueError)  # noqa: PT027, as pytest may be missing
    with patch.object(PrivacyBudget, "_begin", side_effect=opened), refused as caught:
        estimator.fit(*data)
    # An error that is raised while another error is handled refers to it, and to its values.
    assert caught.exception.__context__ is None, "the error holds another one"
    return str(caught.exception)


# ------------------------------
# All checks, and ways to run them.

#: Checks, each with the parameter or method of an estimator, or the field of a case, that it needs.
CHECKS: dict[Callable[[Subject], None], str] = {
    neighbors_move_no_release_further_than_declared: "fit",
    climbing_finds_no_worse_neighbor: "fit",
    a_null_unit_contributes_nothing: "null",
    outputs_follow_the_releases: "fit",
    any_finite_data_fit_without_warnings_about_them: "fit",
    the_record_is_that_of_the_releases: "fit",
    the_record_is_what_was_planned: "plan",
    noise_is_fresh_without_a_seed: "fit",
    a_seed_repeats_a_fit: "random_state",
    no_noise_is_shared_by_different_fits: "random_state",
    nothing_is_stored_beside_the_estimator: "fit",
    a_fitted_pickle_has_neither_seed_nor_data: "fit",
    a_second_fit_does_not_depend_on_the_first: "fit",
    fits_in_threads_do_not_disturb_each_other: "fit",
    bad_data_are_refused_before_anything_is_spent: "fit",
}


def privacy_checks() -> dict[str, str]:
    """List the checks that estimators built with `skdp.privacy` must pass.

    Returns
    -------
    dict
        Names of checks, each with the rule that it tests.

    Examples
    --------
    >>> from skdp.testing import privacy_checks
    >>> privacy_checks()["a_null_unit_contributes_nothing"]
    'No value of a null unit has an effect.'
    """
    return {check.__name__: str(check.__doc__).partition("\n")[0] for check in CHECKS}


def _checks_of(case: PrivacyCase) -> list[Callable[[Subject], None]]:
    """Return the checks that apply to a case."""
    if not isinstance(case, PrivacyCase):
        raise TypeError(
            "Pass PrivacyCase(estimator, (X,)), or with (X, y), one to check_privacy, a list to "
            f"parametrize_with_privacy_checks; got {type(case).__name__}."
        )
    if unknown := case.expected_failures.keys() - privacy_checks().keys():
        raise ValueError(f"expected_failures must name privacy_checks(), got {sorted(unknown)}.")
    estimator, given = case.estimator, case.estimator.get_params(deep=False)
    return [
        check
        for check, need in CHECKS.items()
        if need in given or callable(getattr(estimator, need, None)) or getattr(case, need, None)
    ]


def check_privacy(case: PrivacyCase) -> list[str]:
    """Run all checks of an estimator that is written on ``skdp.privacy``.

    Parameters
    ----------
    case : PrivacyCase
        The estimator, and the facts that the checks need.

    Returns
    -------
    list of str
        Names of the checks that were run.

    Raises
    ------
    TypeError
        If `case` is no PrivacyCase.
    AssertionError
        If checks fail, or pass although they are expected to fail. The error names all of them,
        each with its reason.
    ValueError
        If `expected_failures` names no check.

    Notes
    -----
    **Privacy.** Errors quote data: check with made-up data. The checks see releases that are made
    by a :class:`skdp.privacy.PrivacyBudget`, and all other outputs. No check proves that
    a sensitivity is right: an attack can only refute a wrong one.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPTruncatedSVD
    >>> from skdp.testing import PrivacyCase, check_privacy
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> case = PrivacyCase(DPTruncatedSVD(2, row_norm=2.0, epsilon=100.0), (X,))
    >>> len(check_privacy(case))
    14
    """
    checks = _checks_of(case)
    faults = [fault for check in checks if (fault := _fault(check, case))]
    assert not faults, "\n".join(faults)
    return [check.__name__ for check in checks]


def _fault(check: Callable[[Subject], None], case: PrivacyCase) -> str:
    """Run a check; return how it has failed, or "" if it has passed or has failed as expected."""
    name, fault = check.__name__, ""
    try:
        check(Subject(case))
    # An error of the estimator is a failure, too.
    except Exception as error:
        fault = f"{name}: {privacy_checks()[name]} {type(error).__name__}: {error}"
    if name in case.expected_failures:
        return "" if fault else f"{name} passes, and is expected to fail"
    return fault


def parametrize_with_privacy_checks(cases: Iterable[PrivacyCase]) -> Any:
    """Decorate a test of pytest, which gets `case` and `check`: a test for each check of each case.

    Parameters
    ----------
    cases : iterable of PrivacyCase
        The cases to check.

    Returns
    -------
    pytest.MarkDecorator
        The test calls ``check(case)``. Expected failures are marked, and must fail.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPPCA
    >>> from skdp.testing import PrivacyCase, parametrize_with_privacy_checks
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> @parametrize_with_privacy_checks([PrivacyCase(DPPCA(2, epsilon=100.0), (X,))])
    ... def test_privacy(case, check):
    ...     check(case)
    """
    import pytest

    parameters = []
    for case in cases:
        for check in _checks_of(case):
            reason = case.expected_failures.get(check.__name__)
            marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
            label = f"{type(case.estimator).__name__}: {check.__name__}"
            parameters.append(pytest.param(Subject(case), check, marks=marks, id=label))
    return pytest.mark.parametrize(("case", "check"), parameters)
