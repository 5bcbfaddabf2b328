"""What a call warns of."""

import warnings


def lines_warned_by(call):
    """Return the lines of the texts of all warnings."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        call()
    return [line for one in caught for line in str(one.message).splitlines()]


def warned_by(call):
    """Return the texts of all warnings, in one."""
    return " ".join(lines_warned_by(call))
