"""Owners whose data differ in one unit, and how far that moves the parts that they hand in."""

import numpy as np
from entry_neighbors import interaction_neighbors
from harness import without_row
from owner_cells import N_OWN, hear, of_interactions, retold
from row_cells import adversarial_rows, with_row
from scipy.linalg import null_space

from skdp.federated._agreement import view_of
from skdp.testing._recording import assert_holds, contents_of, farthest_apart

FRACTIONS = (0.05, 0.2, 0.4, 0.5, 1 / np.sqrt(2), 0.9, 1.0)  # of a row that lies in a basis


def attack(cell, server, n_random=3, long=True):
    """Tell neighbors the same story; return how far each release moves, and all they say.

    Movements are in sensitivities, by the names of releases.
    """
    agreement, own = cell.agreement(), cell.rows()[:N_OWN]
    story = hear(agreement, view_of(agreement, cell.contain(own)), server)
    worst, all_heard = {}, [story]
    for rows, origin in neighbors(cell, agreement, story, own, n_random, long):
        heard = [retold(agreement, one, story) for one in rows]
        start = None if origin is None else retold(agreement, origin, story)
        all_heard += [*heard, *([] if start is None else [start])]
        for name, ratio in farthest(story, heard, start).items():
            worst[name] = max(worst.get(name, 0.0), ratio)
    return worst, all_heard


def assert_one_story(all_heard):
    """Check that parties who are told the same say the same, and end with the same model."""
    first = all_heard[0]
    contents = contents_of(first.model)
    for other in all_heard[1:]:
        assert other.layouts == first.layouts
        assert [one.words for one in other.layouts] == [one.words for one in first.layouts]
        assert other.said == first.said
        assert_holds(other.model, contents)


def assert_within_limits(all_heard):
    """Check that no part has to be clipped to the public limit of its counts."""
    for heard in all_heard:
        for layout, part in zip(heard.layouts, heard.parts, strict=True):
            assert np.abs(part).max() <= layout.limit * layout.step, layout.name


def farthest(story, heard, start=None):
    """Largest movement of the parts of each release, in sensitivities."""
    ratios = {}
    for number, (layout, sensitivity) in enumerate(
        zip(story.layouts, sensitivities(story), strict=True)
    ):
        values = np.array([one.parts[number] for one in heard])
        starts = values if start is None else np.array([start.parts[number]])
        assert np.isfinite(values).all(), layout.name
        assert np.isfinite(starts).all(), layout.name
        moved = farthest_apart(layout.mechanism, values, starts)
        ratios[layout.name] = moved / sensitivity
    return ratios


def sensitivities(story):
    """What was booked for each release."""
    return [release.sensitivity for release in story.model.privacy_spent_.releases]


def neighbors(cell, agreement, story, own, n_random, long):
    """Give groups of views, and one that each of its group is a neighbor of, if not of all."""
    if cell.solver == "interaction":
        bases = [basis for basis, _ in story.bases], []
        for group in interaction_neighbors(
            of_interactions(cell), own, bases, np.random.default_rng(0)
        ):
            first, *others = [
                view_of(agreement, cell.contain(X)) for (X,) in (group.origin, *group.datasets)
            ]
            yield others, first
        return
    rows = rows_of(story, own, n_random)
    null = None
    if cell.unit == "row":
        found = [own, *(with_row(own, 0, row) for row in rows)]
        views = [view_of(agreement, cell.contain(X)) for X in found]
        if cell.adjacency == "zero_out":
            null = without_row(views[0], agreement.spec, 0)
    else:
        found = [own, *(row[None] for row in rows), np.array(rows), own[:1]]
        if long:
            found += [np.repeat(row[None], 1000, axis=0) for row in rows[-2:]]
        views = [view_of(agreement, cell.contain(X)) for X in found]
        if cell.adjacency == "zero_out":
            alone = view_of(agreement, cell.contain(own[:1]))
            null = without_row(alone, agreement.spec, 0)
    yield views, null


def rows_of(story, own, n_random):
    """Rows that break what is not careful, aligned with what the server has told."""
    generator, d = np.random.default_rng(1), own.shape[1]
    found = list(adversarial_rows(own, story.model.components_).values())
    found += [10 * generator.normal(size=d) for _ in range(n_random)]
    mean, length = story.model._projection.mean, story.model.row_norm_
    center = np.zeros(d) if mean is None else mean
    for basis, clip in story.bases:
        outside = null_space(basis.T)[:, :1] if basis.shape[1] < d else basis[:, -1:]
        inside = basis[:, 0]
        level = min(clip.keywords["bound"] / length, 1.0)
        for fraction in (level, *FRACTIONS[:: 1 if len(story.bases) < 2 else 3]):
            along = fraction * inside
            across = np.sqrt(max(1 - fraction**2, 0.0)) * outside[:, 0]
            found += [center + length * (along + sign * across) for sign in (1, -1)]
    # Of the other directions, the longest rows.
    found += [center + sign * length * direction for direction in np.eye(d)[:3] for sign in (1, -1)]
    limit = np.finfo(float).max
    return [np.clip(np.nan_to_num(row), -limit, limit) for row in found]
