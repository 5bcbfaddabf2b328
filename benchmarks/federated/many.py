"""CPU seconds of a fit of many owners with one row each, all in one process.

What follows from public messages alone is computed once; masks and the fit of each owner are not.
Run

    python -m benchmarks.federated.many                        # 1,000 owners, some five minutes
    python -m benchmarks.federated.many --owners 100 400       # other numbers
"""

import time
import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.report import parser_for, table
from skdp import DPPCA, DPLinearRegression, DPLogisticRegression, PrivacyWarning
from skdp.federated import Federation

N_FEATURES = 5


def cpu_seconds(estimator: Any, target: np.ndarray | None, rows: np.ndarray) -> float:
    n_owners = len(rows)
    targets = None if target is None else list(target[:, None])
    start = time.process_time()
    federation = Federation(estimator, n_owners, N_FEATURES, owners=n_owners)
    federation.fit(list(rows[:, None, :]), targets)
    return time.process_time() - start


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--owners", type=int, nargs="+", default=[1000], help="default 1000")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    lines = []
    for n_owners in arguments.owners:
        rows = np.random.default_rng(0).normal(size=(n_owners, N_FEATURES))
        fits = (
            (DPPCA(2, row_norm=5.0, mean_norm=5.0), None),
            (DPLogisticRegression(classes=[0, 1]), (rows[:, 0] > 0).astype(int)),
            (DPLinearRegression(), rows[:, 0]),
        )
        with threadpool_limits(1):
            seconds = [cpu_seconds(*fit, rows) for fit in fits]
        lines.append([str(n_owners), *(f"{one:.0f}" for one in seconds)])
    print(table(["owners", "DPPCA", "DPLogisticRegression", "DPLinearRegression"], lines))


if __name__ == "__main__":
    main()
