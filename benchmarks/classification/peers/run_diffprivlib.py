"""Logistic regression of diffprivlib: reads a file of rows, writes predictions for each epsilon.

Run by an interpreter that need not know skdp.
"""

import sys

import numpy as np
from diffprivlib.models import LogisticRegression

source, target = sys.argv[1:]
with np.load(source) as given:
    train, y, test, norm, seed = (given[name] for name in ("train", "y", "test", "norm", "seed"))
    predictions = [
        LogisticRegression(epsilon=epsilon, data_norm=float(norm), random_state=int(seed))
        .fit(train, y)
        .predict(test)
        for epsilon in given["epsilons"]
    ]
np.save(target, predictions)
