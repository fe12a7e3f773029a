"""The report folder: claims.json, rewritten whole after each test, so that an interrupted run leaves a readable one."""

import contextlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from spec.hardware.ranks import Rank
from spec.report.verdicts import Finding

CLAIMS = "claims.json"
JUNIT = "junit.xml"
SCHEMA = Path(__file__).with_name("claims.schema.json")


def name(file: str, rank: Rank | None) -> str:
    """Return the name of a report's file: each rank has its own, claims.rank0.json and so on."""
    stem, suffix = file.split(".")
    return f"{stem}.rank{rank.index}.{suffix}" if rank else file


def prepare(folder: Path) -> str:
    """Make the folder; return one line that says why it cannot be written, or an empty string."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{CLAIMS}.{os.getpid()}"
        probe.write_text("")
        probe.unlink()
        for name in (CLAIMS, JUNIT):
            if (folder / name).is_dir():
                raise IsADirectoryError(f"{name} is a folder")
    except FileExistsError:
        return f"--spec-report={folder}: something that is no folder is in the way; name another folder"
    except OSError as error:
        return f"--spec-report={folder}: cannot be written: {error.strerror or error}; name another folder"
    return ""


def leave_out_host(junit: Path, root: Path) -> None:
    """Take out of pytest's XML the host's name, and from its paths what lies above the kit: a user's name, say."""
    text = junit.read_text(encoding="utf-8")
    text = re.sub(r' hostname="[^"]*"', "", text, count=1).replace(f"{root}{os.sep}", "")
    _replace(junit, text)


def write(
    path: Path,
    environment: dict[str, object],
    findings: Iterable[Finding],
    complete: bool,
    rates: Sequence[dict[str, object]] = (),
) -> None:
    """Replace the report in one step: a reader never sees half of it."""
    report = {
        "environment": environment,
        "complete": complete,
        "claims": [finding.json() for finding in findings],
        "rates": list(rates),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace(path, json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False))


def _replace(path: Path, text: str) -> None:
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # Half a surrogate pair is written as JSON escapes it.
        scratch.write_text(text, encoding="utf-8", errors="backslashreplace")
        os.replace(scratch, path)
    except OSError:
        remove(scratch)  # on a full disk, say
        raise


def remove(path: Path) -> None:
    """Delete a file, where there is one and it can be; a device, such as /dev/full, is none."""
    with contextlib.suppress(OSError):
        if path.is_file():
            path.unlink()
