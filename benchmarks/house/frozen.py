"""Whether fits are, to the last bit, as they were before a change.

`python -m benchmarks.house.frozen FILE` fits all cells of all families, and writes a hash of every
attribute, of the plan and of the warnings to a new file. If the file exists, the command prints
which hashes differ from it. The noise of a release depends only on its number in the fit and on its
shape, so that parameters may change. Hashes of different kinds of machines differ.
"""

import hashlib
import itertools
import json
import re
import sys
import warnings
from collections import Counter
from pathlib import Path
from unittest.mock import patch

from benchmarks.report import parser_for
from skdp.privacy import PrivacyBudget
from skdp.privacy.budget import SKIPPED
from skdp.privacy.noise import NoiseSource
from skdp.testing._recording import NOT_COMPARED, SEED, all_of

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1] / "tests"), str(HERE.parents[1] / "tests" / "attack")]

from families import FAMILIES  # noqa: E402

N_DATASETS = 2  # that each cell is fitted to
PLANS = []  # of all fits so far


class ScriptedSource(NoiseSource):
    """Keys of noise that follow from the numbers of the releases only."""

    def __init__(self, seed=None, context=()):
        super().__init__(seed)
        self._count = itertools.count()

    def key(self, *release):
        return hashlib.blake2b(repr(next(self._count)).encode(), digest_size=32).digest()


def open_and_keep(plan, *others, of=PrivacyBudget.of, **more):
    """Open the budget of a plan, and add the plan to `PLANS`."""
    PLANS.append(plan)
    return of(plan, *others, **more)


def hashed(value):
    """Hash a value; types of skdp count by their names only, as they may move to other modules."""
    text = re.sub(r"<class 'skdp\.(?:\w+\.)*(\w+)'>", r"<class '\1'>", repr(all_of(value)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def lines_of(path, of_skipped):
    """Yield the planned lines of a branch, and what may be recorded in their place, numbered."""
    for number, line in enumerate(path):
        change = None if line.sensitivity is None else float(line.sensitivity)
        scale = None if line.noise_std is None else float(line.noise_std)
        for name, kind in [(line.name, line.mechanism)] + [of_skipped] * line.may_be_skipped:
            yield str((number, name, kind, float(line.share), change, scale, line.shape))


def held_by(estimator):
    """Hash the attributes of a fitted estimator, its record and its plan."""
    spent = estimator.privacy_spent_
    lines = [(one.mechanism, one.sensitivity, one.noise_std, one.share) for one in spent.releases]
    left_out = estimator.get_params(deep=False).keys() | {"privacy_spent_"} | NOT_COMPARED
    kept = {name: value for name, value in vars(estimator).items() if name not in left_out}
    if hasattr(kept.get("_factors"), "privacy_spent_"):
        kept["_factors"] = {**vars(kept["_factors"]), "privacy_spent_": None}
    found = {name: hashed(value) for name, value in kept.items()}
    of_skipped = SKIPPED, "laplace" if PLANS[-1].cost.is_pure else "gaussian"
    plan = sorted({line for path in PLANS[-1].branches for line in lines_of(path, of_skipped)})
    named = [one.name for one in spent.releases]
    return {
        **found,
        "spent": hashed([lines, spent.mu, spent.delta_tail]),
        "names": hashed(named),
        "plan": hashed([plan, PLANS[-1].mu, PLANS[-1].unit, PLANS[-1].adjacency]),
    }


def fitted(family, cell, data, **more):
    """Fit, and hash the fitted estimator and the warnings."""
    with warnings.catch_warnings(record=True) as told, family.setting(cell):
        warnings.simplefilter("always")
        estimator = cell(random_state=SEED, **more)
        estimator.fit(*family.arguments(data))
    return {**held_by(estimator), "warnings": hashed([str(one.message) for one in told])}


def fits():
    """Yield the name and the hashes of each fit; each cell is also fitted without noise."""
    for family in FAMILIES:
        for cell in family.cells:
            datasets = list(itertools.islice(family.datasets(cell).items(), N_DATASETS))
            for name, data in datasets:
                yield f"{family.name} | {cell} | {name}", fitted(family, cell, data)
            exact = fitted(family, cell, datasets[0][1], epsilon=float("inf"))
            yield f"{family.name} | {cell} | exact", exact


def differences(before, after):
    """Yield lines on what differs, the most frequent difference first."""
    counts, examples = Counter(), {}
    for name in before.keys() & after.keys():
        items = before[name].items() ^ after[name].items()
        if items:
            changed = ", ".join(sorted({key for key, _ in items}))
            counts[changed] += 1
            examples.setdefault(changed, name)
    yield from (f"{n} fits: {what}; as {examples[what]}" for what, n in counts.most_common())
    yield from (f"gone: {name}" for name in sorted(before.keys() - after.keys()))
    yield from (f"new: {name}" for name in sorted(after.keys() - before.keys()))


def main():
    parser = parser_for(__doc__)
    parser.add_argument("file", type=Path, help="hashes to compare with, or to write")
    file = parser.parse_args().file
    with (
        patch("skdp._estimator.NoiseSource", ScriptedSource),
        patch("skdp.privacy.budget.NoiseSource", ScriptedSource),
        patch.object(PrivacyBudget, "of", open_and_keep),
    ):
        found = dict(fits())
    if not file.exists():
        file.write_text(json.dumps(found, indent=0, sort_keys=True))
        print(f"{len(found)} fits written to {file}")
        return
    lines = list(differences(json.loads(file.read_text()), found))
    print("\n".join(lines) or f"All {len(found)} fits are what they were.")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
