"""An Evidence to try, and what it says."""

from contextlib import contextmanager

from spec.evidence import Evidence, EvidenceError
from spec.messages.sentences import show


@contextmanager
def running():
    """Give an Evidence that is running a test of flops.matmul."""
    made = Evidence()
    with made.running("flops.matmul", "pytest that::test", {}):
        yield made


def message(check, *args, **kwargs):
    """Return the first line of the failure that a check ends in; None where it passes."""
    try:
        check(*args, **kwargs)
    except EvidenceError as error:
        return str(error).splitlines()[0]
    return None


def name(value):
    """Return a short test id for a value."""
    return show(value)[:24]
