"""What studies of priors of linear models share: a line for each table, means and counts."""

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.report import Measured, mean_by_case, table

__all__ = ["section"]

#: From this strength on a bad prior has to cost little.
STRONG = 150


def section(
    measure: Callable[[int, tuple[str, ...]], Measured],
    names: tuple[str, ...],
    n_seeds: int,
    columns: Sequence[str],
    epsilons: Sequence[float],
    bad: Sequence[str],
) -> str:
    """Measure tables, and print a line for each, means, and counts; `bad` are columns of priors."""
    means, cases = mean_by_case(lambda seed: measure(seed, names), n_seeds)
    lines = [
        [
            case,
            f"{means[case, 'strength']:.0f}",
            *(f"{means[case, column]:.3f}" for column in columns[1:]),
        ]
        for case in cases
    ]
    counts = []
    for epsilon in epsilons:
        found = {
            column: np.array(
                [means[one, column] for one in cases if one.endswith(f", {epsilon:g}")]
            )
            for column in columns
        }
        public, none, prior = (found[column] for column in ("public", "none", "prior"))
        strong = found["strength"] >= STRONG
        counts.append(
            f"At {epsilon:g} the means are {public.mean():.3f} of public rows alone, "
            f"{none.mean():.3f} without and {prior.mean():.3f} with a prior, on "
            f"{np.sum(prior >= np.maximum(public, none) - 0.01)} of {len(prior)} tables within .01 "
            f"of the better one. What a bad prior costs from a strength of {STRONG} on, and below: "
            + ", ".join(
                f"{one} "
                + " and ".join(
                    f"{np.mean((none - found[one])[where]):.3f}" if where.any() else "-"
                    for where in (strong, ~strong)
                )
                for one in bad
            )
            + "."
        )
    return "\n\n".join([table(["table, epsilon", *columns], lines), *counts])
