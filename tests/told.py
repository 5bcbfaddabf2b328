"""What a call warns of."""

import warnings


def warned_by(call):
    """Return the texts of all warnings, in one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return " ".join(str(one.message) for one in caught)
