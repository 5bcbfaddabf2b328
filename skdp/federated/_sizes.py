"""How large the messages of a federated fit are, and how many: known beforehand."""

from skdp.federated._agreement import Agreement


def planned_bytes(agreement: Agreement) -> int:
    """Compute how many bytes of numbers an owner sends on the default path, and gets."""
    plan, shares = agreement.plan, agreement.shares
    layouts = [shares.planned(plan.cost, release) for release in plan.releases]
    return sum(layout.size * layout.words.itemsize for layout in layouts)


def n_exchanges(agreement: Agreement) -> int:
    """Count the exchanges on the longest path: releases, the end, and two for keys."""
    return max(map(len, agreement.plan.paths)) + 1 + 2 * agreement.is_masked


def summary(agreement: Agreement) -> str:
    """Describe the agreement for people."""
    shares = agreement.shares
    n_bytes = planned_bytes(agreement)
    return "\n".join(
        [
            f"Federation of {shares.n_owners} owners, {shares.n_honest} honest "
            f"share{'s' * (shares.n_honest != 1)}:",
            f"  agreement: {agreement.digest.hex()[:16]}, the same for all parties",
            f"  noise std of sums: {shares.excess:.4g} times that of the plan",
            f"  exchanges: {n_exchanges(agreement)} at most",
            f"  an owner sends and gets {n_bytes / 1e3:,.1f} kB of numbers each",
            repr(agreement.plan),
        ]
    )
