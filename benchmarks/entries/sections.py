"""The tables of `captured.py`."""

from dataclasses import dataclass
from functools import partial

from benchmarks.entries.measures import (
    COHERENCES,
    DIAGNOSTIC,
    EDGE_FITS,
    ENTRY_FITS,
    EPSILONS,
    INTERACTION_FITS,
    RANK_5,
    RANK_5_NAMES,
    RATINGS,
    SIZE_NAMES,
    SIZES,
    SMALL_MATRIX_EPSILONS,
    SMALL_SHAPES,
    SPECTRA,
    centered_digits,
    coherences,
    communities,
    dimension,
    epsilons,
    hubs,
    interactions,
    popular,
    pure,
    rank_5,
    ratings,
    small_matrices,
    small_shapes,
)
from benchmarks.report import Section


@dataclass(frozen=True)
class EntrySection(Section):
    """A table, how many digits its numbers have, and whether its data may not be passed on."""

    digits: int = 3
    needs_folder: bool = False


PAIR_COLUMNS = ["default", "basis_cut=2", "basis_cut=None", "input"]
SECTIONS: list[EntrySection] = [
    EntrySection(
        "dimension",
        "More rows and columns, the same signal",
        "Symmetric n x n matrices with eigenvalues 200, 100, 50 and random eigenvectors; an edge, "
        "epsilon 1.",
        "n",
        [str(n) for n in SIZES],
        [*SIZE_NAMES, "input", DIAGNOSTIC],
        dimension,
    ),
    EntrySection(
        "coherence",
        "Coherence",
        "The same with n 1024, and eigenvectors of given coherence; `coherence_right_` is that of "
        'the vector that "power" has released.',
        "coherence",
        list(COHERENCES),
        [*(name for name in EDGE_FITS if name != "worst"), "input", DIAGNOSTIC],
        coherences,
    ),
    EntrySection(
        "epsilon",
        "Epsilon",
        "The same with random eigenvectors.",
        "epsilon",
        [f"{e:g}" for e in EPSILONS],
        [*SIZE_NAMES, "input", DIAGNOSTIC],
        epsilons,
    ),
    EntrySection(
        "rank 5",
        "Five eigenvalues of either sign",
        "Spectral norm of a 1024 x 1024 matrix less five released factors; epsilon 2, and the best "
        "possible is 40, the sixth eigenvalue.",
        "eigenvalues",
        list(RANK_5),
        [*RANK_5_NAMES, "input"],
        rank_5,
        digits=1,
    ),
    EntrySection(
        "movielens",
        "MovieLens 100k",
        "Who rated which film, 943 x 1682 of 0 and 1; one rating.",
        "",
        [f"k {k}, epsilon {e:g}" for k, e in RATINGS],
        [*ENTRY_FITS, "plain, basis_cut=4", "worst", "figure 2"],
        ratings,
        needs_folder=True,
    ),
    EntrySection(
        "popular",
        "Items of very different popularity",
        "`make_interactions()`, 1000 x 1500; one entry.",
        "",
        [f"k {k}, epsilon {e:g}" for k, e in ((1, 1.0), (5, 1.0), (5, 4.0))],
        list(ENTRY_FITS),
        popular,
    ),
    EntrySection(
        "digits",
        "Digits, centered",
        "`DPPCA` on 1797 x 64 pixels between 0 and 1, with private means; one pixel.",
        "",
        [f"k {k}, epsilon {e:g}" for k, e in ((1, 1.0), (1, 4.0), (3, 4.0))],
        list(ENTRY_FITS),
        centered_digits,
    ),
    EntrySection(
        "communities",
        "Two communities",
        "Share of the nodes of `make_block_graph()` that the second eigenvector puts with their "
        "community; one edge.",
        "epsilon",
        ["1", "2", "4"],
        ["default", "basis_cut=2", "basis_cut=None", "deflation", "input"],
        communities,
    ),
    EntrySection(
        "hubs",
        "Hubs",
        "A graph of 1000 nodes that prefer neighbors of many edges, 10 for each new node; one "
        "edge.",
        "epsilon",
        ["4", "16"],
        PAIR_COLUMNS,
        hubs,
    ),
    EntrySection(
        "pure",
        "Pure differential privacy",
        "Symmetric 1024 x 1024 matrices with eigenvalues 200, 100, 50.",
        "epsilon",
        ["0.5", "1", "2", "4"],
        ["delta 0", "delta 0, basis_cut=4", "delta 0, plain, basis_cut=4", "delta 1e-6"],
        pure,
    ),
    EntrySection(
        "small matrices",
        "Small changes of a whole matrix",
        "Sine of the largest angle to ten eigenvectors of symmetric 1000 x 1000 matrices, the "
        "largest eigenvalue 5000; 0 is perfect. The unit is that of Nicolas et al. "
        "(arXiv:2411.01931), a symmetric change whose sum of squared absolute row sums is at most "
        '1. It charges the largest row norm of a basis. No public unit does: "edge" charges the '
        'two largest, and covers an entry and its mirror image; "spectral" charges 1, and covers '
        "every change of that norm. The whole matrix is released with symmetric noise for a "
        "Frobenius norm of 1.",
        "",
        [f"{name}, epsilon {e:g}" for name in SPECTRA for e in SMALL_MATRIX_EPSILONS],
        [
            "power, small matrix",
            "... 3 steps, no more columns",
            "... and plain",
            "... 20 columns",
            "power, edge",
            "whole matrix",
        ],
        small_matrices,
    ),
    *(
        EntrySection(
            f"interactions, {name}",
            f"Interactions, {name}",
            "Variance of the rows divided by their norms that ten components capture, over that of "
            "the best ten. A whole row is protected, or one interaction, for some floors of the "
            "degree.",
            "epsilon",
            ["0.3", "1", "3"],
            list(INTERACTION_FITS),
            partial(interactions, file),
            needs_folder=True,
        )
        for name, file in (("MovieLens", "movielens_100k"), ("Gowalla", "gowalla"))
    ),
    EntrySection(
        "small shapes",
        "Small matrices: which solver",
        "Random singular vectors whose values fall by .85; the first is 1.5 or 3 times what noise "
        "on every entry reaches. One entry.",
        "",
        [f"{m} × {n}, k {k}" for (m, n), k in SMALL_SHAPES],
        [f"{solver}, {s:g}" for s in (1.5, 3.0) for solver in ("alternating", "input")],
        small_shapes,
    ),
]
