"""The tests that every family takes catch the mistakes that they are for."""

from dataclasses import replace
from pathlib import Path

import pytest
import toy
import toy_leaks
from attack_laws import attack_laws_for
from contract_laws import CONTRACT_LAWS
from families import FAMILIES
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_estimator,
    check_get_feature_names_out_error,
)

from skdp import PrivacyWarning

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore:X has large numbers"),
]

# Of rows most of which are shortened, and of few.
SHORTENED, USUAL = toy.Cell("replace", 0.1, "dense"), toy.Cell("zero_out", 2.0, "csr")
# Others show themselves in both.
ONLY_IN = {
    # A sparse array prints none of its values.
    "error": SHORTENED,
    # Where units are replaced, none is null.
    "null": USUAL,
    "plan": USUAL,
    "way": SHORTENED,
    "skip": SHORTENED,
    "stored": USUAL,
}
(TOY,) = (family for family in FAMILIES if family.name == "toy")
CAUGHT_BY = {
    "sensitivity": {"neighbors_move_no_release_further_than_declared"},
    "attribute": {
        "neighbors_move_no_release_further_than_declared",
        "outputs_follow_the_releases",
        "nothing_but_documented_attributes_is_kept",
    },
    "branch": {"outputs_follow_the_releases"},
    "kept row": {
        "neighbors_move_no_release_further_than_declared",
        "outputs_follow_the_releases",
        "nothing_but_documented_attributes_is_kept",
        "a_fitted_pickle_has_neither_seed_nor_data",
    },
    "class": {"nothing_is_stored_beside_the_estimator"},
    "huge": {"neighbors_move_no_release_further_than_declared"},
    "share": {"the_whole_budget_is_spent_and_no_more"},
    "plan": {"the_record_is_what_was_planned"},
    "last fit": {"a_second_fit_does_not_depend_on_the_first"},
    "error": {"bad_data_are_refused_before_anything_is_spent"},
    "global noise": {"noise_is_fresh_without_a_seed", "a_seed_repeats_a_fit"},
    "shared noise": {"no_noise_is_shared_by_different_fits"},
    "warning": {
        "neighbors_move_no_release_further_than_declared",
        "any_finite_data_fit_without_warnings_about_them",
    },
    "null": {"a_null_unit_contributes_nothing", "neighbors_move_no_release_further_than_declared"},
    "way": {"outputs_follow_the_releases"},
    "skip": {"the_whole_budget_is_spent_and_no_more", "the_record_is_what_was_planned"},
    "tail": {"the_record_is_what_was_planned"},
    "quoted": {"neighbors_move_no_release_further_than_declared", "outputs_follow_the_releases"},
    "stored": {
        "neighbors_move_no_release_further_than_declared",
        "outputs_follow_the_releases",
        # Of an array that stores nothing.
        "any_finite_data_fit_without_warnings_about_them",
    },
    "transformed": {"rows_are_transformed_one_by_one"},
    "compared": {"rows_are_transformed_one_by_one"},
}


def laws_for(cell):
    return {law.__name__: law for law in (*attack_laws_for(TOY, cell), *CONTRACT_LAWS)}


def broken_laws(cell, names):
    """Those of the named laws that an estimator does not keep."""
    broken = set()
    for name, law in laws_for(cell).items():
        if name not in names:
            continue
        try:
            law(TOY, cell)
        except (AssertionError, RuntimeWarning, pytest.fail.Exception):
            broken.add(name)
    return broken


LEAKING = [
    pytest.param(leak, replace(cell, make=toy_leaks.LEAKS[leak]), id=f"{leak}: {cell}")
    for leak in toy_leaks.LEAKS
    for cell in ([ONLY_IN[leak]] if leak in ONLY_IN else [SHORTENED, USUAL])
]


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize(("leak", "cell"), LEAKING)
def test_a_copy_that_leaks_breaks_the_laws_that_are_for_it(leak, cell):
    assert broken_laws(cell, CAUGHT_BY[leak]) == CAUGHT_BY[leak]


@pytest.mark.slow
@pytest.mark.parametrize(("leak", "cell"), LEAKING)
def test_a_copy_that_leaks_breaks_no_other_law(leak, cell):
    assert broken_laws(cell, laws_for(cell).keys() - CAUGHT_BY[leak]) == set()


def test_every_law_is_broken_by_some_copy():
    # Noise that stays at epsilon=inf would be the budget's doing.
    others = {"without_noise_what_is_released_is_exact"}
    assert set.union(*CAUGHT_BY.values(), others) == laws_for(USUAL).keys()


def test_contributors_are_told_of_all_copies():
    page = Path(__file__).parents[1] / "CONTRIBUTING.md"
    assert toy_leaks.LEAKS.keys() == CAUGHT_BY.keys()
    assert f" {len(CAUGHT_BY)} copies that leak" in page.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("cell", toy.CELLS, ids=str)
def test_the_copies_differ_in_their_leaks_alone(cell):
    assert broken_laws(cell, laws_for(cell)) == set()


@pytest.mark.parametrize("leak", ["attribute", "kept row"])
def test_a_leak_that_is_documented_is_one_all_the_same(leak):
    kept = {"attribute": "total_", "kept row": "_first"}[leak]
    family = replace(TOY, public=lambda cell: {*TOY.public(cell), kept})
    cell = replace(SHORTENED, make=toy_leaks.LEAKS[leak])
    with pytest.raises(AssertionError, match=kept):
        laws_for(cell)["outputs_follow_the_releases"](family, cell)


# With so little no number stands out, nor, at .8, a direction; that most rows are long does.
@pytest.mark.parametrize(("epsilon", "word"), [(0.01, "With"), (0.8, "The")])
def test_the_toy_warns_of_public_facts_and_of_released_values(epsilon, word):
    with pytest.warns(PrivacyWarning, match=f"^{word} .* Use more rows"):
        SHORTENED(epsilon=epsilon).fit(TOY.ordinary(SHORTENED))


@pytest.mark.slow
def test_the_toy_keeps_to_the_conventions_of_estimators():
    # Those that are copied from it have to.
    told = check_estimator(toy.ClippedMean(), on_fail=None, on_skip=None)
    assert [one["check_name"] for one in told if one["status"] == "failed"] == []
    for check in (check_dataframe_column_names_consistency, check_get_feature_names_out_error):
        check("ClippedMean", toy.ClippedMean())
