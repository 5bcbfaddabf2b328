r"""Personal regressions with user-level privacy: the risk against epsilon, users and rows.

`DPPersonalizedRegressor` beside ridge regression of each user by itself, an oracle that knows the
representation, one model for all users, and its other solvers, on users drawn by
`make_personalized_regression`. Run

    python -m benchmarks.personalization.personalization               # 5 seeds, some 10 minutes
    python -m benchmarks.personalization.personalization --quick       # 2 seeds
    python -m benchmarks.personalization.personalization --only rows   # sections so named
    python -m benchmarks.personalization.personalization --write       # its .md and .png beside it

`real_data.py` has images of digits, and places that people go to.
"""

from pathlib import Path

from benchmarks.personalization.sections import SECTIONS, part
from benchmarks.report import (
    Values,
    ignore_drowned_signal,
    measured,
    need_two_seeds,
    parser_for,
    seeds_asked_for,
)

HERE = Path(__file__).parent
SEEDS = 5

TITLE = """\
# Personal regressions with user-level privacy

Written by `python -m benchmarks.personalization.personalization --write`; `personalization.png`
draws some of it, in bands of two standard errors. A cell is mean ± standard error of {} seeds,
unless it is said otherwise. Delta is 1e-6, and one user may be replaced by any other.

Users have m labeled rows of d features each, and coefficients in a space of k dimensions that they
share (`make_personalized_regression`; y has noise s):

| | d | k | m | s | |
| --- | --- | --- | --- | --- | --- |
| A | 20 | 2 | 10 | .5 | |
| B | 50 | 3 | 20 | 1 | |
| C | 100 | 5 | 25 | 1 | |
| D | 30 | 3 | 20 | .5 | components of standard deviation 2, 1 and .5, elsewhere 1 |
| E | 20 | 2 | 4 | .5 | few rows |
| F | 20 | 2 | 20 | .5 | responses of one user in 20 are 100 times as large; the risk is of others |
| G | 20 | 2 | 20 | .5 | neighboring features have correlation .6 or .9 |
| H | 20 | 2 | 20 | .5 | the first component has mean 2 |
| S | 20 | 2 | 20 | .1 | |
| S0 | 20 | 2 | 20 | 0 | |

What is measured is the excess risk over the true coefficients, on new rows of the users: the mean
of (t - t*)' S (t - t*) + b², with S the covariance of the features, and b the error of the
intercept. Heads are fitted with the released prior.

"Zero" predicts 0. "Ridge" is that of each user alone, which needs no privacy from others, at the
penalty that is best for all users together in hindsight. "Oracle" knows the mean and covariance of
the coefficients, and the noise. "Pooled" is `n_components=0`, one private model for all; "spectral"
is `n_iter=0`; "altmin" the other solver; "ours" the defaults. "No mean" is without mean head and
intercept, "no whitening" has `decorrelate=False`, and "neither" none of these.
"""
FINDINGS = """\
## What the tables say

Where users are enough for the dimensions, the shared model is worth much: at epsilon 1 the risk is
between a third and a fiftieth of that of ridge in all regimes of 1000 users and more, but for B
with 1000, C with 2000 and S0. It comes near the oracle with 3000 users of 20 features, or 5000 of
50. Where they are too few the fallback keeps it near ridge, up to 1.25 times its risk, and the
price of that is what one pays for having tried; in S with 500 users at epsilon .5 it is 1.5 times,
for there ridge has next to no error. Without noise in the responses nobody needs others: in S0
ridge has the smaller risk.

Steps beat the spectral start alone almost everywhere, and "altmin" by far. One model for all is no
better than zero: users have nothing in common but the space, and in H, where they do have a mean,
20 times the risk of personal models is left.

Mean head and intercept cost some of the budget, which shows where there are few users or few rows.
In H they pay at epsilon .5 only: a mean within the representation is learned as part of it, and
with a mean head the risk rises again beyond epsilon 2. Whitening costs up to a fifth where features
are uncorrelated, more in S, and is what makes the difference where they are not.

More rows help the heads, more users the representation. Some of what is left over the oracle does
not go away with epsilon: whole users are clipped, and the prior is taken from clipped statistics.

Levels are found from two rows a user on: with exact sums the released variance is within 1.3 times
that of the intercepts, or its inverse, and with no spread it is at most .07; epsilon 1 adds noise
to that. Where users have levels the risk is higher, with five rows up to three times. Two rows are
few for 20 features: at epsilon 1 there is nothing to gain beside zero or, with levels far apart,
beside the mean of the user. With two rows and no spread epsilon inf does worse than 8, which is not
understood.
"""


def write(text: str, results: dict[str, Values]) -> None:
    # Needs matplotlib, which nothing else here does.
    from benchmarks.personalization.figure import draw

    (HERE / "personalization.md").write_text(text)
    draw(results, HERE / "personalization.png")


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds=f"seeds of each cell, default {SEEDS}",
        only="sections with this in their name",
        quick="2 seeds",
        write="replace personalization.md and .png",
    )
    arguments = parser.parse_args()
    n_seeds = seeds_asked_for(arguments, usual=SEEDS, quick=2)
    need_two_seeds(parser, n_seeds)
    sections = [section for section in SECTIONS if arguments.only in section.name]
    complete = len(sections) == len(SECTIONS) and n_seeds >= SEEDS
    if arguments.write and not complete:
        parser.error(f"the committed table has all sections and at least {SEEDS} seeds")
    ignore_drowned_signal()

    parts, results = [], {}
    for section in sections:
        print(f"{section.name} ...", flush=True)
        least = 0 if arguments.quick else section.n_seeds or 0
        results[section.name] = measured(section.measure, max(n_seeds, least))
        parts.append(part(section, results[section.name]))
        print(parts[-1], flush=True)
    if arguments.write:
        write("\n\n".join([TITLE.format(n_seeds).rstrip(), *parts, FINDINGS]), results)


if __name__ == "__main__":
    main()
