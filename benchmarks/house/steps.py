"""What each step of `.ci/run` took, from what it printed, of one run or of two.

`python -m benchmarks.house.steps BEFORE.log [AFTER.log]` prints a table.
"""

import re
import sys
from itertools import pairwise
from pathlib import Path

STEP = re.compile(r"^== (?P<name>.+) \[(?P<wall>\d+) s, CPU (?P<cpu>\d+) s\]$", re.MULTILINE)
TESTS = re.compile(r"^(?:=+ )?(\d+ passed.*?) in [\d.]+s", re.MULTILINE)


def steps_of(text):
    """Give the seconds of each step, those of the processor, and how many tests it passed."""
    found = list(STEP.finditer(text))
    steps = {}
    for one, following in pairwise(found):
        tests = TESTS.findall(text[one.end() : following.start()])
        seconds = [int(following[name]) - int(one[name]) for name in ("wall", "cpu")]
        steps[one["name"].partition(":")[0]] = [*seconds, tests[-1].split()[0] if tests else ""]
    if found:
        steps["all"] = [found[-1]["wall"], found[-1]["cpu"], ""]
    return steps


def main():
    runs = [steps_of(Path(name).read_text()) for name in sys.argv[1:]]
    names = list(dict.fromkeys(name for run in runs for name in run))
    print("| step |" + " wall s | CPU s | tests |" * len(runs))
    print("|---|" + "---|---|---|" * len(runs))
    for name in names:
        cells = [cell for run in runs for cell in run.get(name, ["", "", ""])]
        print(f"| {name} | " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    main()
