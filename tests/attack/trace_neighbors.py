"""Records that break what is not careful, and how far they move the releases of a regression."""

import dataclasses

import numpy as np
from harness import group, null_record, watched_looks, watched_points
from scipy.linalg import sqrtm
from trace_cells import COL_COV, ROW_COV

from skdp.testing._recording import farthest_of, record

LARGEST = np.finfo(float).max
# Beyond any clip level, and yet no product of it overflows.
HUGE = 1e50
RESPONSES = (HUGE, -HUGE, 0.0, -0.0, 5e-324, -1e-200, 1e200, 1e300, -LARGEST)


def attack(cell, data):
    """Largest movement of every release when one record is exchanged, in declared sensitivities."""
    return farthest_of(cell, groups(cell, data))


def groups(cell, data):
    """Records that break what is not careful, in the place of one."""
    with watched_points() as points, watched_looks() as looks:
        record(cell, data.arguments)
    return [group_of(cell, data, candidates(cell, data, frames(cell, data, points), looks))]


def group_of(cell, data, records):
    """Put records in the place of one, or beside data without that one."""
    index = place(cell, data)
    found = [data.arguments, *(data.with_record(index, *one).arguments for one in records)]
    return group(cell, found, data.arguments, lambda: null_record(index))


def place(cell, data):
    """Index of the record to exchange: if only its response is, one that has a say."""
    if cell.unit == "record":
        return 0
    sizes = [np.abs(part).reshape(len(part), -1).sum(axis=1) for part in data.parts]
    return int(np.argmax(np.prod(sizes, axis=0)))


def frames(cell, data, points):
    """Two vectors of either side in a point and two outside; of a start alone, those of its sum.

    What is in comes before what is out. Of points there are the last one and, where responses are
    bounded, the first: no such response outweighs what a long record has in common with a point.
    """
    chosen = points[-1:] if cell.response_bound is None else points[:1] + points[-1:]
    found = [
        (point.left[:, -1], point.right[:, -1], outside(point.left), outside(point.right))
        for point in chosen
    ]
    if found:
        return found
    measured = data.parts[0]
    if not cell.is_written_out:
        measured = measured[:, :, None] * data.parts[1][:, None, :]
    left, _, right = np.linalg.svd(np.tensordot(data.responses, measured, 1))
    # Beyond the last one there is the first one, which is as good as any.
    last, beyond = cell.rank - 1, cell.rank
    beyond_left, beyond_right = beyond % len(left), beyond % len(right)
    return [(left[:, last], right[last], left[:, beyond_left], right[beyond_right])]


def outside(basis):
    alternating = (-1.0) ** np.arange(len(basis)) * np.arange(1, len(basis) + 1)
    rest = alternating - basis @ (basis.T @ alternating)
    return rest / max(np.linalg.norm(rest), 1e-3)


def candidates(cell, data, vectors, looks):
    """Records as pairs of parts and a response; only responses if only these are protected."""
    if cell.unit == "response":
        return [(None, response) for response in RESPONSES]
    found = [([part[1] for part in data.parts], response) for response in (HUGE, -HUGE)]
    # Closer looks count nothing outside of their intervals.
    inside = [one.middle + side * one.half for one in looks for side in (-0.5, 0.5)]
    found += [([row.reshape(cell.shape)], 0.0) for row in inside]
    make = written_out if cell.is_written_out else factors
    for frame in vectors:
        parts = make(frame)
        long = [[1e9 * one[0], *one[1:]] for one in parts[:2]]
        found += [(one, HUGE) for one in [*parts, *long]]
        found += [(one, -HUGE) for one in [*long, *parts[6:]]]
    found += zip(odd_scales(cell, parts), RESPONSES * 4, strict=False)
    found += [(parts[0], response) for response in RESPONSES[4:]]
    # The square of a norm underflows, the product with the response does not.
    found.append(([1e-170 * parts[0][0], *parts[0][1:]], 1e200))
    return [(scaled_back(cell, one), response) for one, response in found]


def factors(frame):
    """Factors in and out of the bases, and in between."""
    left, right, left_out, right_out = frame
    return [
        [left, right],
        [left, right_out],
        [left_out, right],
        [left_out, right_out],
        [left + left_out, right + right_out],
        [left_out + 1e-9 * left, right_out + 1e-9 * right],
    ]


def written_out(frame):
    """Products of these, and sums that turn both bases."""
    outer = [np.outer(*pair) for pair in factors(frame)]
    return [[matrix] for matrix in [*outer, outer[1] + outer[2], outer[0] - outer[3]]]


def odd_scales(cell, records):
    """Records of all scales, in and out of the bases."""
    aligned, off = records[0], records[3]
    n_rows, n_columns = cell.shape
    if not cell.is_written_out:
        pairs = [
            (1e300, 1),
            (1, LARGEST),
            (1e300, 1e99),
            (1e99, 1e99),
            (1e-99, 1e99),
            (1e-101, 1e99),
        ]
        pairs += [(5e-324, 1e99), (1, 1e-310), (0, 1), (1, 0), (1, -1e20), (1e-170, 1)]
        found = [[s * aligned[0], t * off[1]] for s, t in pairs]
        wild = 10.0 ** np.linspace(-300, 300, n_rows)
        return [*found, [wild, off[1]], [off[0], np.full(n_columns, 1e99)]]
    ones = np.ones((n_rows, n_columns))
    signs = (-1.0) ** np.add.outer(np.arange(n_rows), np.arange(n_columns))
    wild = 10.0 ** np.linspace(-300, 300, ones.size).reshape(ones.shape)
    found = [scale * off[0] for scale in (1e20, 1e150, 1e300)]
    found += [scale * aligned[0] for scale in (1e30, 1e-170, 1e-310)]
    found += [0 * ones, 1e300 * ones, LARGEST * signs, 5e-324 * ones, wild, wild[::-1] * signs]
    found += [1e20 * off[0] + aligned[0], 1e8 * ones + aligned[0], -1e300 * ones]
    return [[matrix] for matrix in found]


def scaled_back(cell, parts):
    """Undo what known covariances do to a record."""
    if cell.scale not in ("covariances", "row covariance"):
        return parts
    row_root = sqrtm(ROW_COV)
    col_root = sqrtm(COL_COV) if cell.scale == "covariances" else np.eye(len(COL_COV))
    with np.errstate(over="ignore", invalid="ignore"):
        if cell.is_written_out:
            back = [row_root @ parts[0] @ col_root]
        else:
            back = [row_root @ parts[0], col_root @ parts[1]]
    return [np.nan_to_num(part, posinf=LARGEST, neginf=-LARGEST) for part in back]


def strangers(cell, data):
    """Records without anything in common, but for public matrices."""
    zeros, reversed_ = 0 * data.responses, -3 * data.responses[::-1] + 1e4
    if cell.unit == "response":
        changed = [dataclasses.replace(data, responses=each) for each in (zeros, reversed_)]
        return [each.arguments for each in changed]
    parts = tuple(-3 * part[::-1] + 1e4 for part in data.parts)
    nothing = tuple(np.zeros_like(part) for part in data.parts)
    return [
        dataclasses.replace(data, parts=nothing, responses=zeros).arguments,
        dataclasses.replace(data, parts=parts, responses=reversed_).arguments,
    ]
