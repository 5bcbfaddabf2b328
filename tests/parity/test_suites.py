"""What is known of scikit-learn's own tests is compared with what they are."""

import pytest
from sklearn.decomposition import PCA
from suites import Suite

# One for each entry of the list.
CASES = [
    "test_sparse_pca_solver_error[42-csr_array-full]",
    "test_pca_score3",
    "test_pca_validation[arpack-0-data0]",
    "test_pca_validation[randomized-0-data0]",
    "test_pca_validation[auto-3-data0]",
    "test_pca_svd_solver_auto[10-50-5-full]",
    "test_pca_score[full]",
]


@pytest.fixture
def suite():
    return Suite("test_pca", PCA)


def test_what_is_known_is_accepted(suite):
    suite.check(CASES)
    assert all(suite.reason_to_fail(case) for case in CASES)


def test_another_version_is_an_error():
    with pytest.raises(AssertionError, match=r"knows nothing of scikit-learn 99\.0"):
        Suite("test_pca", PCA, version="99.0").check(CASES)


@pytest.mark.parametrize(
    ("name", "cases", "change"),
    [
        ("test_gone", 2, "'test_gone': '2 known, 0 found'"),
        ("test_pca", 0, "'test_pca': '0 known, 15 found'"),
    ],
)
def test_other_cases_are_an_error(suite, name, cases, change):
    suite.known[name] = cases
    with pytest.raises(AssertionError, match=change):
        suite.check(CASES)


def test_a_listed_case_that_does_not_exist_is_an_error(suite):
    with pytest.raises(AssertionError, match=r"do not exist: \['test_pca_score'\]"):
        suite.check(CASES[:-1])


@pytest.mark.parametrize("case", ["test_pca_scores", "test_pca[0-1]", "test_pca_validation[arp-0]"])
def test_other_names_are_not_on_the_list(suite, case):
    assert suite.reason_to_fail(case) is None
