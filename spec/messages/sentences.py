"""Values and records as a message, or the report, writes them."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spec import compare

Json = dict[str, Any]
LONGEST = 120  # A message shows at most so many characters of one input or value.
CUT = "…"  # A text that was longer ends like this.


def sentence(record: Json) -> str:
    """Say in one line what a record (as JSON) measured: the message grammar of failures and reports."""
    inputs = given(record["inputs"])
    ending = f" for {inputs}" if inputs else ""
    if record["relation"] == "true":
        return f"it is {'true' if record['measured'] else 'not true'} that {record['what']}{ending}"
    what = f"{record['what']}: " if record["what"] else ""
    unit = f" {record['unit']}" if record["unit"] else ""
    tolerance = "" if record["tolerance"] is None else f" {show(record['tolerance'])}"
    measured, predicted = show(record["measured"]), show(record["predicted"])
    if measured == predicted and record["measured"] != record["predicted"]:  # they differ in a late digit, or in type
        measured, predicted = repr(record["measured"]), repr(record["predicted"])
    bound = {
        "exact": "{} (exact)",
        "within": "{} (within" + tolerance + ")",
        "at most": "at most {}",
        "at least": "at least {}",
        "not": "anything but {}",
        "raises": "{}",
    }[record["relation"]].replace("{}", f"{predicted}{unit}")
    return f"{what}measured {measured}{unit}, predicted {bound}{ending}"


def given(inputs: Mapping[str, str]) -> str:
    """Write inputs as a message does."""
    return ", ".join(f"{name}={value}" for name, value in inputs.items())


def called(call: Callable[[], object]) -> str:
    """Return the public name of what a call without arguments calls, where it has one."""
    function = getattr(call, "func", call)  # within a partial
    if not hasattr(function, "__qualname__"):
        function = type(function)  # a module of torch's, say
    code = getattr(function, "__code__", None)
    if code and function.__name__ == "<lambda>" and "impl" in code.co_freevars:
        return ".".join(code.co_names[:2])  # lambda: impl.throughput.mfu(…)
    module = getattr(function, "__module__", "") or ""
    if module.startswith(("tests.", __name__)) or function.__name__ == "<lambda>":
        return "the call"  # A helper of the test has no public name.
    return f"{module}.{function.__qualname__}".lstrip("._")


def show(value: object) -> str:
    """Write a value for a message: short, on one line."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str) and value.isprintable() and value:
        text = value
    elif isinstance(value, float):
        text = f"{value:.10g}"
    elif isinstance(value, Tensor):
        text = _show_tensor(value)
    elif isinstance(value, torch.dtype):
        text = str(value).removeprefix("torch.")
    else:
        try:
            text = " ".join(repr(value).split())
        except Exception:  # an object of the implementation's, or an integer of thousands of digits
            text = f"<{type(value).__name__}>"
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + CUT


def show_input(value: object) -> str:
    """Write an input for a message, so that its type can be told: 3 from np.int32(3), 2.0 from 2, and '2' from 2."""
    text = show(value)
    if isinstance(value, np.generic):
        return f"np.{type(value).__name__}({text})"
    if isinstance(value, float) and text.lstrip("-").isdigit():
        return f"{text}.0"
    if isinstance(value, str) and re.fullmatch(r"[\d.+-]+(e[+-]?\d+)?|None|True|False", value):
        return repr(value)
    return text


def _show_tensor(value: Tensor) -> str:
    """Write a tensor's kind and, where they are few, its values; evidence takes −0.0 for 0.0, and so shows it."""
    try:
        text = compare.kind(value)
        if 0 < value.numel() <= 12 and value.device.type != "meta":
            values = value.detach().double() + 0.0 if value.is_floating_point() else value
            text = f"{values.tolist()} ({text})"
    except Exception:  # a subclass of the implementation's, say
        text = f"<{type(value).__name__}>"
    return text


def recorded(value: object) -> object:
    """Return what a record keeps of a value: no reference to it, but what JSON shows of it now."""
    return plain(compare.python(value))


def plain(value: object) -> object:
    """Return a value that JSON can carry: finite numbers, booleans and strings as they are, others as text."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | str | None):
        return value
    if isinstance(value, int) and value.bit_length() < 1024:  # beyond that, many a reader has no number for it
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return show(value)
