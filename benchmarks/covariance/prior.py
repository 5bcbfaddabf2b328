"""Components of scaled columns, of covariances that are shrunk toward those of public rows.

Tables are looked for in the folder that the environment variable `SKDP_DATA` names. Run

    python -m benchmarks.covariance.prior          # 3 seeds, a minute
    python -m benchmarks.covariance.prior --write  # prior.md beside it
"""

from collections.abc import Iterator

import numpy as np
from sklearn.covariance import EmpiricalCovariance

from benchmarks.report import (
    Key,
    asked_of_tables,
    ignore_drowned_signal,
    mean_by_case,
    publish,
    table,
)
from benchmarks.sweep.tables import load
from skdp import DPCovariance

EPSILONS, N_SEEDS, N_ROWS, N_COMPONENTS = (0.25, 0.5, 1.0, 4.0), 3, 6000, 5
TABLES = (
    *("scorecard", "house8L", "ailerons", "wind", "segment", "teams"),
    *("mammography", "page_blocks"),
)
TITLE = """\
# Covariances with a prior

Written by `python -m benchmarks.covariance.prior --write`. Part of the variance of scaled columns
that five components have, of what the best five have, on at most 6000 rows of a table; delta 1e-6,
means of {} seeds. *public* are components of the covariance of a tenth of the rows, *none* those of
`DPCovariance` of the others, and *prior* the same with that covariance as its prior, whose mean
`prior_weight_` is *weight*. A *permuted* prior has its columns in another order. No constant was
chosen, but that correlations are shrunk, and not covariances, was, on these tables.
"""
COLUMNS = ["public", "none", "prior", "weight", "permuted"]


def measure(seed: int, names: tuple[str, ...]) -> Iterator[tuple[Key, float]]:
    """Fit with priors and without."""
    generator = np.random.default_rng(seed)
    for name in names:
        X = load(name)[0]
        X = X[np.isfinite(X).all(axis=1)][:N_ROWS]
        X = X[:, X.std(axis=0) > 0]
        order, stds = generator.permutation(len(X)), X.std(axis=0)
        public, rows = X[order[: len(X) // 10]], X[order[len(X) // 10 :]]
        true, k = np.corrcoef(X.T), min(N_COMPONENTS, X.shape[1] - 1)
        best = np.linalg.eigvalsh(true)[::-1][:k].sum()

        def captured(covariance, true=true, k=k, best=best):
            scales = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
            basis = np.linalg.eigh(covariance / np.outer(scales, scales))[1][:, ::-1][:, :k]
            return float(np.trace(basis.T @ true @ basis)) / best

        own = EmpiricalCovariance().fit(public)
        turned = generator.permutation(len(stds))
        correlations = np.nan_to_num(np.corrcoef(public.T))[np.ix_(turned, turned)]
        permuted = own.location_, correlations
        for epsilon in EPSILONS:
            case = f"{name}, {epsilon:g}"
            yield (case, "public"), captured(own.covariance_)
            for which, prior in {"none": None, "prior": own, "permuted": permuted}.items():
                model = DPCovariance(epsilon=epsilon, prior=prior, random_state=seed).fit(rows)
                yield (case, which), captured(model.correlation_)
                if which == "prior":
                    yield (case, "weight"), model.prior_weight_


def main() -> None:
    arguments, n_seeds = asked_of_tables(__doc__, N_SEEDS, "prior.md")
    ignore_drowned_signal()
    names = tuple(name for name in TABLES if arguments.only in name)
    means, cases = mean_by_case(lambda seed: measure(seed, names), n_seeds)
    lines = [[case, *(f"{means[case, column]:.3f}" for column in COLUMNS)] for case in cases]
    for epsilon in EPSILONS:
        of = [case for case in cases if case.endswith(f", {epsilon:g}")]
        of_all = (np.mean([means[case, column] for case in of]) for column in COLUMNS)
        lines.append([f"mean, {epsilon:g}", *(f"{mean:.3f}" for mean in of_all)])
    text = f"{TITLE.format(n_seeds)}\n{table(['table, epsilon', *COLUMNS], lines)}\n"
    publish(text, __file__, write=arguments.write)


if __name__ == "__main__":
    main()
