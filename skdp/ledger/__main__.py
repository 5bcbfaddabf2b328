"""``python -m skdp.ledger show FILE``: check a ledger, and print its charges."""

import sys

from skdp.exceptions import LedgerError
from skdp.ledger import PrivacyLedger


def main(arguments: list[str]) -> int:
    """Check and print the ledger in a file."""
    if len(arguments) != 2 or arguments[0] != "show":
        print("usage: python -m skdp.ledger show FILE", file=sys.stderr)
        return 2
    try:
        ledger = PrivacyLedger(arguments[1])
        ledger.verify()
        print(ledger.report())
    except LedgerError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
