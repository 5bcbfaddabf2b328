"""Numbers at module level say what chose them: a study, nobody yet, or no choice of ours."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

import skdp
from benchmarks.house.weight import kind, remarks

ROOT = Path(skdp.__file__).parent
STUDY = re.compile(r"benchmarks/[\w/]+\.\w+")


def wrong(text):
    """Return the lines of numbers that say nothing, or name a study that is not there."""
    return [
        node.lineno
        for node, said in remarks(text).items()
        if kind(said) == "unsaid"
        or not all((ROOT.parent / study).is_file() for study in STUDY.findall(said))
    ]


def test_every_number_says_what_chose_it():
    found = {str(path.relative_to(ROOT)): wrong(path.read_text()) for path in ROOT.rglob("*.py")}
    assert not {path: lines for path, lines in found.items() if lines}


def assigned_twice(text):
    """Return the names that several statements of a module assign."""
    assigned = Counter(
        target.id
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for whole in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for target in ([whole] if isinstance(whole, ast.Name) else getattr(whole, "elts", []))
    )
    return [name for name, count in assigned.items() if count > 1]


def test_no_module_assigns_a_name_twice():
    """The second value would act in functions above it, too, which mean the first."""
    found = {
        str(path.relative_to(ROOT)): assigned_twice(path.read_text()) for path in ROOT.rglob("*.py")
    }
    assert not {path: names for path, names in found.items() if names}
    assert assigned_twice("A, B = 1, 2\nC: int = 3\nA = 4\nC = 5") == ["A", "C"]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("A = 1", {"unsaid": 1}),
        ("A = 1  # not studied", {"not studied": 1}),
        ("# Why it is so.\n# Not tuned.\nA = B = (1, 2)", {"not tuned": 1}),
        ("A = {  # not tuned\n    'b': 1,\n}", {"not tuned": 1}),
        ("# benchmarks/house/constants.md.\nA = 0.5\nB = 2.0", {"studied": 2}),
        ("# Not studied.\n\nA = 0.5", {"unsaid": 1}),
        ("# Not studied.\nA = 0.5\n# Why.\nB = 2", {"not studied": 1, "unsaid": 1}),
        ("A = 'b'\na = 1\n", {}),
    ],
)
def test_a_remark_stands_beside_numbers_or_right_above(text, kinds):
    assert Counter(map(kind, remarks(text).values())) == kinds


def test_a_study_has_to_be_there():
    assert wrong("A = 1  # benchmarks/house/weight.py") == []
    assert wrong("A = 1  # benchmarks/house/no_such_study.md") == [1]
