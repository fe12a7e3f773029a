"""Functions run in fresh processes: no state of this process reaches them, and they can be killed at any moment.

An interpreter that has imported torch and NumPy, and done nothing else, waits in the background. Each call runs in a
fork of that interpreter, so that the imports are paid for once.
"""

import contextlib
import functools
import importlib
import inspect
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE = 300.0  # A process that has not answered after so many seconds is taken to hang.
PRELUDE: list[str] = []  # Every process runs these statements first.
PRELOAD = ["numpy", "torch"]  # The interpreter imports these modules once, for all processes.


class ProcessError(Exception):
    """A function raised an exception in its fresh process; `kind` is the exception's type, `trace` its traceback."""

    def __init__(self, kind: str, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.kind, self.trace = kind, trace


class Process:
    """One function at work in a process of its own."""

    def __init__(self, connection: socket.socket, request: dict[str, Any]) -> None:
        self._lines = connection.makefile("rw", encoding="utf-8")
        connection.close()  # The file object keeps the connection open.
        self._name = request["name"]
        self._lines.write(json.dumps(request) + "\n")
        self._lines.flush()
        self.pid = int(self._read())

    def kill(self) -> None:
        """End the process at once, with SIGKILL; return when it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self._lines.read()  # The process closes its end of the connection when it ends.
        self._lines.close()

    def wait(self) -> Any:
        """Return what the function returned; ProcessError if it raised, or if the process died."""
        line = self._read()
        self._lines.close()
        if not line:
            raise ProcessError("death", f"the fresh process that ran {self._name} died")
        reply = json.loads(line)
        if "error" in reply:
            message = f"{self._name}, in a fresh process, raises {reply['error']}"
            raise ProcessError(reply["kind"], message, reply["trace"])
        return reply["result"]

    def _read(self) -> str:
        try:
            return self._lines.readline()
        except TimeoutError:
            self.kill()
            raise ProcessError("timeout", f"{self._name} did not end within {PATIENCE:.0f} s") from None


class Fresh:
    """Starts functions in fresh processes.

    A function is sent as source code. So it stands at module level, does its own imports and uses nothing else of its
    module. Its arguments are passed by name; they and the result are values that JSON can carry.
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._folder = Path(tempfile.mkdtemp(prefix="spec-"))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._folder / "socket"))
        listener.listen()
        code = "import sys; sys.path[:] = eval(sys.argv[1]); from spec.instruments import processes; processes.serve"
        # The interpreter lives as long as its standard input is open, that is as long as we do.
        self._server = subprocess.Popen(
            [sys.executable, "-c", f"{code}({PRELOAD!r})", repr(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"SPEC_LISTENER": str(listener.fileno())},
            pass_fds=[listener.fileno()],
        )
        listener.close()  # If the interpreter dies, a call then fails instead of waiting.

    def start(self, function: Callable[..., Any], **arguments: Any) -> Process:
        """Start `function(**arguments)` in a fresh process."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE)
        connection.connect(str(self._folder / "socket"))
        request = {
            "source": textwrap.dedent(inspect.getsource(function)),
            "name": function.__name__,
            "arguments": arguments,
            "path": sys.path,
            "folder": os.getcwd(),
            "prelude": PRELUDE,
        }
        return Process(connection, request)

    def close(self) -> None:
        """End the waiting interpreter, unless it belongs to the process that this one was forked from."""
        if os.getpid() != self._owner:
            return
        self._server.kill()
        self._server.communicate()
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, function: Callable[..., Any], **arguments: Any) -> Any:
        """Run `function(**arguments)` in a fresh process and return its result."""
        return self.start(function, **arguments).wait()


@functools.cache
def fresh() -> Fresh:
    """Return this run's source of fresh processes. The first call starts the interpreter and does not wait for it."""
    return Fresh()


def serve(modules: list[str]) -> None:
    """Import what takes long, then fork a process for each request until standard input closes."""
    for module in modules:
        importlib.import_module(module)
    listener = socket.socket(fileno=int(os.environ.pop("SPEC_LISTENER")))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # The kernel then removes ended children by itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            break
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            with contextlib.suppress(BrokenPipeError):  # The caller may have ended before its answer came.
                _answer(connection)
            os._exit(0)
        connection.close()
    path = Path(listener.getsockname())
    path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        path.parent.rmdir()


def _answer(connection: socket.socket) -> None:
    """Run the requested function, send its result, and end this process."""
    lines = connection.makefile("rw", encoding="utf-8")
    request = json.loads(lines.readline())
    lines.write(f"{os.getpid()}\n")
    lines.flush()
    try:
        os.chdir(request["folder"])
        sys.path[:] = request["path"]
        for statement in request["prelude"]:
            exec(statement, {})
        names: dict[str, Any] = {"__name__": "fresh"}
        exec(compile(request["source"], "<fresh process>", "exec"), names)
        reply = {"result": names[request["name"]](**request["arguments"])}
        answer = json.dumps(reply)
    except BaseException as error:
        message = " ".join(f"{type(error).__name__}: {error}".split())
        answer = json.dumps({"kind": type(error).__name__, "error": message, "trace": traceback.format_exc().rstrip()})
    lines.write(answer + "\n")
    lines.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
