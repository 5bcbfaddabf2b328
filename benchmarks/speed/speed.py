"""Time of private fits against scikit-learn's non-private ones, or the same without privacy.

Both run in one process, in turn, on the same data, with two threads each, or with one where CPU
seconds are compared, as threads that wait count as busy; what counts is the ratio of the medians.
`random_state=None` and public bounds on the private side. Cases and data are in `cases.py`.
Run

    python -m benchmarks.speed.speed               # all cases; about 5 GB of memory, 1.6 GB of disk
    python -m benchmarks.speed.speed --scale 0.1   # a tenth of the rows
    python -m benchmarks.speed.speed --case sparse # cases with this in their name
"""

import time
import warnings
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.report import parser_for
from benchmarks.speed.cases import CASES, THREADS, Case
from benchmarks.speed.probes import PROCESS_STATUS, extra_memory
from skdp import PrivacyWarning


def cost(case: Case, estimator: Any, X: Any) -> float:
    start = case.clock()
    estimator.fit(X)
    return case.clock() - start


def verdict(value: float, aim: float | None, scale: float) -> str:
    if aim is None:
        return "no aim"
    if scale != 1:
        return f"aim {aim:g} at full scale"
    return f"aim {aim:g}: {'met' if value <= aim else 'MISSED'}"


def report_times(case: Case, X: Any, repeats: int, scale: float) -> None:
    ours, theirs = [], []
    for run in range(repeats + 1):
        ours.append(cost(case, case.ours(), X))
        if run == 0 or not case.theirs_once:
            theirs.append(cost(case, case.theirs(), X))
    # The first run warms up, unless it is the only one.
    our_time, their_time = np.median(ours[1:]), np.median(theirs[1:] or theirs)
    unit = "CPU s" if case.clock is time.process_time else "s"
    once = " (one run)" if case.theirs_once else ""
    ratio = our_time / their_time
    print(
        f"    {our_time:.3g} {unit} / {their_time:.3g} {unit}{once} = {ratio:.2f}"
        f"   {verdict(ratio, case.aim, scale)}",
        flush=True,
    )


def report_memory(case: Case, X: Any, scale: float) -> None:
    if not PROCESS_STATUS.exists():
        print("    anonymous memory: measured on Linux only")
        return
    megabytes = extra_memory(case.ours(), X, THREADS)
    print(
        f"    {megabytes:.0f} MB of anonymous memory more than before the fit"
        f"   {verdict(megabytes, case.memory_aim, scale)}",
        flush=True,
    )


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows, default 1")
    parser.add_argument("--repeats", type=int, default=5, help="counted runs of each, default 5")
    parser.add_argument("--case", default="", help="cases with this in their name")
    arguments = parser.parse_args()
    if arguments.repeats < 1:
        parser.error("--repeats must be at least 1")
    cases = [case for case in CASES if arguments.case in case.name]
    if not cases:
        parser.error(f"no case has {arguments.case!r} in its name")
    # The data are not meant to be learned from: that no component stands out is no news.
    warnings.simplefilter("ignore", PrivacyWarning)

    with threadpool_limits(THREADS):
        for make_data, group in groupby(cases, attrgetter("make_data")):
            made = make_data(arguments.scale)
            for case in group:
                print(case.name, flush=True)
                X = made if case.dtype is None else made.astype(case.dtype, copy=False)
                with threadpool_limits(case.threads):
                    report_times(case, X, arguments.repeats, arguments.scale)
                if case.memory_aim is not None:
                    report_memory(case, X, arguments.scale)


if __name__ == "__main__":
    main()
