"""How many bytes and exchanges a masked fit of several owners takes, and how long.

All owners and the coordinator in one process, with the very messages that they would send. Run

    python -m benchmarks.federated.messages          # some minutes
    python -m benchmarks.federated.messages --quick  # up to 10 owners
    python -m benchmarks.federated.messages --write  # messages.md beside it
"""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from benchmarks.report import ignore_drowned_signal, parser_for, table
from skdp import DPTruncatedSVD
from skdp.datasets import make_spiked
from skdp.federated import Coordinator, Federation, Owner
from skdp.federated._sizes import planned_bytes

HERE = Path(__file__).parent
OWNERS = (3, 10, 50, 200)

TITLE = """\
# Messages of a masked fit

Written by `python -m benchmarks.federated.messages --write`: `DPTruncatedSVD(5)` with the
covariance as solver, at epsilon 1. All parties share one process, on one slow core. "Planned" are
the numbers of all releases, as the printed form of a federation tells them; "sent" and "got" are
all messages of one owner, with keys and signatures. "Keys" is the time until the first answer is
asked for.
"""
PLANNED = """\
## Planned, of single releases

Of one owner, each way: {}.
"""


@dataclass
class Count:
    """What the first owner has sent and got, and when the keys were agreed on."""

    sent: int = 0
    got: int = 0
    exchanges: int = 0
    keys: float = 0.0


def rows_of(n_features: int) -> np.ndarray:
    if n_features == 64:
        return load_digits().data
    return make_spiked(5000, n_features, k=5, random_state=0)[0]


def line_of(n_owners: int, n_features: int) -> list[str]:
    """Run one fit, and count."""
    X = rows_of(n_features)
    svd = DPTruncatedSVD(5, row_norm=60.0, solver="covariance")
    federation = Federation(svd, len(X), n_features, owners=n_owners)
    identities = [Ed25519PrivateKey.generate() for _ in range(n_owners)]
    peers = [identity.public_key() for identity in identities]
    count = Count()
    start = time.perf_counter()
    with ExitStack() as stack:
        owners = [
            stack.enter_context(
                Owner(federation, i, X[i::n_owners], identity=identities[i], peers=peers)
            )
            for i in range(n_owners)
        ]

        def send(messages: dict[int, bytes]) -> dict[int, bytes]:
            if count.exchanges == 2:
                count.keys = time.perf_counter() - start
            answers = {i: owners[i].handle(message) for i, message in messages.items()}
            count.exchanges += 1
            count.got += len(messages[0])
            count.sent += len(answers[0])
            return answers

        Coordinator(federation).run(send)
    seconds = time.perf_counter() - start
    kilobytes = (planned_bytes(federation._agreement), count.sent, count.got)
    return [
        str(n_owners),
        str(n_features),
        str(count.exchanges),
        *(f"{size / 1e3:.1f}" for size in kilobytes),
        f"{count.keys:.2f}",
        f"{seconds:.2f}",
    ]


def planned_of(solver: str, name: str, n_features: int, n_components: int) -> str:
    """Tell how large one release of 10 owners is."""
    svd = DPTruncatedSVD(n_components, row_norm=1.0, solver=solver)
    agreement = Federation(svd, 20_000, n_features, owners=10)._agreement
    release = next(line for line in agreement.plan.releases if line.name == name)
    layout = agreement.shares.planned(agreement.plan.cost, release)
    size = layout.size * layout.words.itemsize
    return f"the {name!r} of {n_features} features, {n_components} components: {size / 1e3:,.0f} kB"


def main() -> None:
    parser = parser_for(__doc__, quick="up to 10 owners", write="replace messages.md")
    arguments = parser.parse_args()
    if arguments.write and arguments.quick:
        parser.error("the committed table has all numbers of owners")
    ignore_drowned_signal()
    cases = [(n_owners, 64) for n_owners in OWNERS] + [(10, 500)]
    lines = []
    for case in cases[:2] if arguments.quick else cases:
        # Each party decomposes a small matrix, where threads get in each other's way.
        with threadpool_limits(1):
            lines.append(line_of(*case))
        print(*lines[-1], sep="  ", flush=True)
    header = ["owners", "features", "exchanges", "planned, kB", "sent, kB", "got, kB"]
    text = table([*header, "keys, s", "all, s"], lines)
    sizes = [
        planned_of("covariance", "second moment", 500, 5),
        planned_of("power", "step 1", 5000, 10),
    ]
    planned = PLANNED.format("; ".join(sizes))
    print(planned)
    if arguments.write:
        parts = [TITLE.rstrip(), text, planned.rstrip()]
        (HERE / "messages.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
