"""What a newcomer's Python brings or lacks: set-up's commands, the line that says what is missing, and the wheel."""

import functools
import glob
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
import zipfile
from pathlib import Path

import pytest

from spec import needs

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SITE_PACKAGES = [folder for folder in sys.path if folder.endswith("-packages")]
ABSENT = "import sys\nsys.modules['torch'] = None\n"
BROKEN = "raise OSError('libcublas.so.12: cannot open shared object file')\n"


def run(command, folder, **environment):
    """Run a shell command, without what pytest and another environment have set."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "VIRTUAL_"))}
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=inherited | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def vendors(tmp_path):
    """Give a Python like a vendor's container: torch, pytest and the rest are there already, and none of it is ours."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "vendor"], check=True)
    python = tmp_path / "vendor" / "bin" / "python"
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    (folder,) = subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True).stdout.splitlines()
    Path(folder, "vendor.pth").write_text("\n".join([str(ROOT), *SITE_PACKAGES]))  # as in another checkout's .venv
    return python


def test_set_up_beside_a_pytest_makes_its_own_commands(copy, vendors, tmp_path):
    """Once .venv is active its pytest and torchrun are found first, and a package elsewhere is checked from there."""
    setup = run(f"make setup PYTHON='{vendors}'", copy)
    assert setup.returncode == 0, setup.stdout + setup.stderr
    there = tmp_path / "home work"
    there.mkdir()
    active = f". '{copy}/.venv/bin/activate' && "
    for command in ("pytest", "torchrun", "mypy"):
        found = run(f"{active}command -v {command} && {command} --help", there)
        assert found.stdout.splitlines()[0] == f"{copy}/.venv/bin/{command}", found.stderr
        assert found.returncode == 0, found.stderr
    assert run(f"{active}python -c 'import spec; print(spec.__path__[0])'", there).stdout.strip() == f"{copy}/spec"
    checked = run(f"{active}python -m spec new mine && pytest ../'my notes'/kit -k planning --spec-impl=mine", there)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "implementation: mine; " in checked.stdout
    assert "not implemented: mine.planning.training_days" in checked.stdout


@pytest.fixture
def index(tmp_path):
    """Serve a folder as an index of packages: one that answers, and has nothing in it."""
    (tmp_path / "index" / "torch").mkdir(parents=True)
    handler = functools.partial(Quiet, directory=str(tmp_path / "index"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Does not print what it is asked for."""

    def log_message(self, *words):
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere pip's torch has no CUDA in it")
@pytest.mark.skipif(bool(glob.glob("/dev/nvidia[0-9]*") or shutil.which("nvidia-smi")), reason="a GPU is here")
@pytest.mark.parametrize("answers", [True, False])
def test_without_a_gpu_the_cpu_build_is_fetched(copy, tmp_path, index, answers):
    """Set-up says what it fetches and how much that is; where nothing can be fetched, one line follows pip's own."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    nothing = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull, "no_proxy": "*"}
    where = index if answers else "http://127.0.0.1:9/nobody"
    done = run(f"make setup PYTHON='{tmp_path}/bare/bin/python'", copy, TORCH_CPU_INDEX=where, **nothing)
    told = {
        True: "here is no GPU: installing the CPU build of torch==2.13.0 (about 200 MB)",
        False: f"as pip finds it (up to a few GB, for {where}, which has the smaller CPU build, does not answer)",
    }
    assert told[answers] in done.stdout
    assert "setup: torch==2.13.0 could not be installed: see above" in done.stderr.splitlines()
    assert done.returncode == 2


def test_a_checkout_that_moved_is_set_up_anew(copy, vendors):
    """Its commands name the folder they were made in; where nothing has changed, set-up does nothing."""
    for _ in range(2):
        done = run(f"make setup PYTHON='{vendors}'", copy)
    assert "nothing to do" in done.stdout
    moved = copy.rename(copy.with_name("moved"))
    assert run(f"make setup PYTHON='{vendors}'", moved).returncode == 0
    assert run(".venv/bin/pytest --version", moved).returncode == 0


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("sitecustomize.py", ABSENT, "has no torch"),
        ("torch.py", BROKEN, "cannot import torch: libcublas.so.12: cannot open shared object file"),
        ("torch.py", "__version__ = '2.9.1+cu126'\n", "has torch 2.9.1+cu126, and 2.10 or newer is needed"),
    ],
    ids=["absent", "broken", "old"],
)
@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("-m pytest", 4),
        ("-m pytest --spec-impl=mine tests/claims", 4),
        ("-m pytest tests/kit/test_claim.py", 4),
        ("-m spec new homework", 2),
    ],
)
def test_a_python_that_lacks_something_says_so(tmp_path, file, text, line, command, status):
    """One line says what it lacks and how to go on, instead of a traceback."""
    (tmp_path / file).write_text(text)
    done = run(f"'{sys.executable}' {command}", ROOT, PYTHONPATH=str(tmp_path))
    said = f"{sys.executable} {line}: {needs.REMEDY}"
    assert (done.returncode, done.stdout) == (status, "")
    assert [text.split(": ", 1)[1] for text in done.stderr.strip().splitlines()] == [said]


def test_a_python_that_is_too_old_says_so(monkeypatch):
    """Before anything else is looked at."""
    monkeypatch.setattr(needs, "PYTHON", (99, 1))
    assert f" is Python {sys.version_info[0]}." in needs.missing()
    assert ", and 99.1 or newer is needed: " in needs.missing()


def test_what_is_needed_is_what_the_project_names():
    """The oldest Python and torch, and the modules, are those of pyproject.toml and of set-up."""
    project = PROJECT["project"]
    python, torch = (".".join(map(str, version)) for version in (needs.PYTHON, needs.TORCH))
    assert project["requires-python"] == f">={python}"
    assert f"torch>={torch}" in project["dependencies"]
    names = [re.match(r"[\w-]+", need)[0].replace("-", "_") for need in project["dependencies"]]
    assert sorted(names) == sorted(needs.MODULES)
    assert f"< [{torch.replace('.', ', ')}])" in (ROOT / ".ci" / "setup").read_text(encoding="utf-8")


def test_a_wheel_has_no_module(copy):
    """`pip install .` brings what the kit needs, and no spec or impl that could check nothing without its tests."""
    assert PROJECT["tool"]["setuptools"] == {"packages": [], "py-modules": []}
    pytest.importorskip("setuptools")
    build = "from setuptools.build_meta import build_wheel; build_wheel('dist')"
    done = run(f'mkdir dist; "{sys.executable}" -c "{build}"', copy)
    assert done.returncode == 0, done.stderr
    (wheel,) = (copy / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].rpartition(".")[2] for name in names} == {"dist-info"}


@pytest.mark.parametrize("where", [".", "elsewhere"])
@pytest.mark.parametrize("named", ["", "tests"])
def test_a_folder_above_the_kits_tests_leaves_them_out(tmp_path, where, named):
    """`pytest .`, `pytest tests` and `pytest path/to/kit` collect what plain pytest does: claims and benchmarks."""
    plain = run(f"'{sys.executable}' -m pytest --co -q", ROOT)
    folder, path = (ROOT, Path()) if where == "." else (tmp_path, ROOT)
    above = run(f"'{sys.executable}' -m pytest --co -q '{path / named}'", folder)
    count = re.compile(r"\d+ tests collected")
    assert count.search(above.stdout)[0] == count.search(plain.stdout)[0]
    assert "tests/kit" not in above.stdout
