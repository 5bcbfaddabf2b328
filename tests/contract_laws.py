"""What every estimator promises its users: each law is a function of a family and a cell."""

import inspect
import pickle
from unittest.mock import patch

import cloudpickle
import numpy as np
from family_case import FamilyCase, of_family, planned, properties_of
from in_parts import in_parts, stacked, whole
from scipy import sparse

from skdp import RowBlocks
from skdp.data import reduce
from skdp.testing import _checks, _recording
from skdp.testing._checks import SECRET


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
    # Texts of warnings, and the public number of units: fits have them, streams do not.
    told = {"_warnings_given", "_n_units"} & kept
    assert kept == family.released(cell) | family.public(cell) | told
    documented = inspect.getdoc(type(estimator)).splitlines()
    n_units, n_features = family.n_units(arguments), estimator.n_features_in_
    for name in kept | properties_of(type(estimator)):
        if not name.startswith("_"):
            assert any(name in line.split(" : ")[0].split(", ") for line in documented), name
        if name not in family.per_unit and n_units != n_features:
            assert n_units not in np.shape(getattr(estimator, name, ())), name
        # A view would keep alive what it is a part of.
        base = getattr(getattr(estimator, name, None), "base", None)
        assert base is None or base.size == getattr(estimator, name).size, name


def without_noise_what_is_released_is_exact(family, cell):
    """`epsilon=inf` switches noise off."""
    arguments = family.arguments(family.ordinary(cell))
    _, budget = _recording.fit_with(cell(epsilon=np.inf), arguments, _recording.RecordingBudget)
    lines = zip(budget.spent().releases, budget.values, budget.released, strict=True)
    for release, value, released in lines:
        exact = np.argmin(value) if release.mechanism == "exponential" else value
        np.testing.assert_array_equal(exact, released)
    assert budget.spent().epsilon == np.inf


def rows_are_transformed_one_by_one(family, cell):
    """A row becomes what it is and what was released make of it; nothing of it is kept."""
    X, *others = family.arguments(family.ordinary(cell))
    estimator = cell(random_state=SECRET).fit(X, *others)
    fitted = _recording.contents_of(estimator)
    every = estimator.transform(X)
    _recording.assert_holds(estimator, fitted)
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


noise_is_fresh_without_a_seed = of_family(_checks.noise_is_fresh_without_a_seed)
no_noise_is_shared_by_different_fits = of_family(_checks.no_noise_is_shared_by_different_fits)
nothing_is_stored_beside_the_estimator = of_family(_checks.nothing_is_stored_beside_the_estimator)
any_finite_data_fit_without_warnings_about_them = of_family(
    _checks.any_finite_data_fit_without_warnings_about_them
)
the_record_is_what_was_planned = of_family(_checks.the_record_is_what_was_planned)


def a_seed_repeats_a_fit(family, cell):
    """To the last bit, also where kernels are copies, as in other processes; the record says so."""
    _checks.a_seed_repeats_a_fit(FamilyCase(family, cell))
    subtree, arguments = reduce._subtree, family.arguments(family.ordinary(cell))

    def subtree_of_copies(lists, source, kernel):
        return subtree(lists, source, pickle.loads(cloudpickle.dumps(kernel)))

    first = cell(random_state=SECRET).fit(*arguments)
    with patch.object(reduce, "_subtree", subtree_of_copies):
        _recording.assert_same_fit(cell(random_state=SECRET).fit(*arguments), first)
    assert "guess" in repr(first.privacy_spent_)


def a_second_fit_does_not_depend_on_the_first(family, cell):
    """What another fit has set is gone, also what only another cell has left over."""
    _checks.a_second_fit_does_not_depend_on_the_first(FamilyCase(family, cell))
    arguments = family.arguments(family.ordinary(cell))
    for one in family.cells:
        if family.released(one) != family.released(cell) and type(one()) is type(cell()):
            once = cell(random_state=SECRET).fit(*arguments)
            estimator = one().fit(*family.arguments(family.ordinary(one)))
            estimator.set_params(**cell(random_state=SECRET).get_params(deep=False))
            _recording.assert_same_fit(estimator.fit(*arguments), once, is_refit=True)
            break


def check_plan(make_estimator, arguments, n_units=None):
    """Compare the plan of an unfitted estimator with what a fit records."""
    n_units = arguments[0].shape[0] if n_units is None else n_units
    # That there is a seed is a public fact, too.
    estimator = make_estimator().set_params(random_state=_recording.SEED)
    spent = _recording.fit_with(make_estimator(), arguments, _recording.RecordingBudget)[1].spent()
    _checks.check_plan(planned(estimator, arguments[0], n_units), spent)


def last_of(family, cell):
    """Give the data that have the most numbers that are one of a kind."""
    return list(family.datasets(cell).values())[-1]


CONTRACT_LAWS = (
    noise_is_fresh_without_a_seed,
    a_seed_repeats_a_fit,
    no_noise_is_shared_by_different_fits,
    nothing_but_documented_attributes_is_kept,
    nothing_is_stored_beside_the_estimator,
    of_family(_checks.a_fitted_pickle_has_neither_seed_nor_data, last_of),
    a_second_fit_does_not_depend_on_the_first,
    of_family(_checks.bad_data_are_refused_before_anything_is_spent),
    without_noise_what_is_released_is_exact,
    any_finite_data_fit_without_warnings_about_them,
    the_record_is_what_was_planned,
    rows_are_transformed_one_by_one,
)


def contract_laws_for(family):
    """Give the laws that say something of a family."""
    return tuple(filter(family.keeps, CONTRACT_LAWS))
