"""How much Python has to do: calls counted, which are as many on every machine, where seconds are not."""

import sys
from collections.abc import Callable


def calls(work: Callable[[], object]) -> int:
    """Return how many functions are called by the work, those of C included."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    work()  # what is imported and remembered at the first time does not count
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count - 1  # the end of the profile is a call itself
