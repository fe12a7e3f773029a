"""Checkpoints in processes of their own: the instrument on packages known to fail, and the reference at length."""

import hashlib
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from impl import checkpoint
from spec.implementation import guard
from spec.instruments import checkpoints, processes

ROOT = Path(__file__).parents[3]
KILLS = 200
DAMAGED = 200

OVERWRITES = """
import io, torch

def save(path, model, optimizer, step):
    content = io.BytesIO()
    torch.save([model.state_dict(), optimizer.state_dict(), step], content)
    with open(path, "wb") as file:
        file.write(content.getvalue()[:1000])
        file.flush()
        file.write(content.getvalue()[1000:])

def load(path, model, optimizer):
    weights, state, step = torch.load(path, weights_only=True)
    model.load_state_dict(weights)
    optimizer.load_state_dict(state)
    return step
"""
WRITES_IN_CPP = """
import os, torch

def save(path, model, optimizer, step):
    before = open(path, "rb").read() if os.path.exists(path) else b""
    try:
        torch.save([model.state_dict(), optimizer.state_dict(), step], path)
    except BaseException:
        with open(path, "wb") as file:
            file.write(before)
        raise

def load(path, model, optimizer):
    weights, state, step = torch.load(path, weights_only=True)
    model.load_state_dict(weights)
    optimizer.load_state_dict(state)
    return step
"""
FORGETS_THE_STEP = """
from impl.checkpoint import load as _load, save

def load(path, model, optimizer):
    return 0 * _load(path, model, optimizer)
"""


def work(name, **arguments):
    """Do one of the works in a fresh process."""
    return processes.fresh().run(checkpoints.saving_and_loading, work=name, arguments=arguments)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that makes a package with this module `checkpoint`."""

    def made(name, source):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        (tmp_path / name / "checkpoint.py").write_text(source)
        monkeypatch.syspath_prepend(str(tmp_path))
        (tmp_path / "checkpoints").mkdir(exist_ok=True)
        return {"package": name, "folder": str(tmp_path / "checkpoints")}

    return made


def test_kills_find_the_moment_at_which_both_are_lost(package):
    """Of a package that overwrites its file some kills leave neither, and none does of the reference."""
    wrong = work("kill_saves", last=8, parts=0, timed=0, **package("overwriting", OVERWRITES))
    lost = [found for _, found in wrong["found"] if found not in ("the old one", "the new one")]
    assert lost
    assert wrong["order"] == []
    right = work("kill_saves", last=8, parts=0, timed=0, **package("right", "from impl.checkpoint import load, save"))
    assert {found for _, found in right["found"]} <= {"the old one", "the new one"}
    assert right["left"] == []


def test_kills_reach_what_is_written_in_cpp(package):
    """torch.save straight to the path is killed in the middle at every part of the file, and the reference too."""
    wrong = work("kill_saves", last=0, parts=4, timed=0, **package("cpp", WRITES_IN_CPP))
    assert {found for _, found in wrong["found"]}.isdisjoint({"the old one", "the new one"})
    assert [moment.split()[0] for moment, _ in wrong["found"]] == ["byte"] * 4
    right = work("kill_saves", last=0, parts=4, timed=0, **package("right", "from impl.checkpoint import load, save"))
    assert [found for _, found in right["found"]] == ["the old one"] * 4
    assert right["left"] == []


def test_a_full_disk_is_met_at_every_part(package):
    """A package that overwrites its file loses it at once, and the reference keeps it to the end."""
    told = work("fill_the_disk", parts=3, **package("overwriting", OVERWRITES))
    assert told.count("an error") == 3
    assert "step 1" not in told
    told = work("fill_the_disk", parts=3, **package("right", "from impl.checkpoint import load, save"))
    assert told == ["an error", "step 1", "checkpoint"] * 3


def test_stages_end_where_whole_runs_do_only_with_all_states(package):
    """Plain checkpoints with all states go on; without, and with a package that forgets the step, they do not."""
    there = {"device": "cpu", "optimizers": ["SGD", "Adam"]}
    stages = [(0, 6), (0, 3), (3, 6, "nothing"), (3, 6, "step"), (3, 6, "random states")]
    arguments = package("forgetful", FORGETS_THE_STEP)
    whole, first, *rest = work("train", stages=stages, **there, **arguments | {"package": ""})
    forgetful = work("train", stages=[(0, 3), (3, 6)], **there, **arguments)[1]
    for name in there["optimizers"]:
        assert first[name]["losses"] + rest[0][name]["losses"] == whole[name]["losses"]
        ends = [end[name]["state"] == whole[name]["state"] for end in (*rest, forgetful)]
        assert ends == [True, False, False, False]


def test_stages_are_what_a_process_started_by_hand_computes(tmp_path):
    """A new interpreter, not a fork, ends at the same numbers."""
    arguments = {"package": "", "folder": str(tmp_path), "device": "cpu", "optimizers": ["Adagrad"], "stages": [(0, 3)]}
    code = f"from spec.instruments import checkpoints as c; print(c.saving_and_loading('train', {arguments!r}))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert eval(ran.stdout) == work("train", **arguments)


def test_a_save_killed_200_times_is_whole_200_times(tmp_path):
    """Killed at random moments of its duration, the file is the complete old or new one, and nothing else remains."""
    ended = work("kill_saves", package="impl", folder=str(tmp_path), last=20, parts=0, timed=KILLS)
    timed = [found for moment, found in ended["found"] if moment == "a while"]
    assert len(timed) == KILLS
    assert {found for _, found in ended["found"]} == {"the old one", "the new one"}
    assert ended["left"] == []


def test_200_damaged_files_are_refused_and_run_nothing(tmp_path):
    """Cut anywhere, with a bit flipped or with code for data, each raises an error that names the file."""
    drawn = random.Random(20261129)
    model = nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters())
    path, run = tmp_path / "checkpoint", tmp_path / "has run"
    checkpoint.save(path, model, optimizer, 3)
    content = path.read_bytes()
    damaged = []
    for _ in range(DAMAGED // 4):
        at = drawn.randrange(len(content))
        damaged.append(content[:at])
        damaged += [flipped(content, drawn.randrange(len(content)), drawn.randrange(8)) for _ in range(2)]
        damaged.append(code_in_place(run, drawn))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for number, bytes_of_it in enumerate(damaged):
        (tmp_path / f"damaged{number}").write_bytes(bytes_of_it)
        with guard.watched() as left, pytest.raises(ValueError, match=f"damaged{number} "):
            checkpoint.load(tmp_path / f"damaged{number}", model, optimizer)
        assert left == []
    assert len(damaged) == DAMAGED
    assert not run.exists()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def flipped(content, at, bit):
    """Return the bytes with one bit flipped."""
    return bytes([*content[:at], content[at] ^ 1 << bit, *content[at + 1 :]])


class Code:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.mkdir, (self.path,)


def code_in_place(run, drawn):
    """Return a checkpoint in one part of which there is code, under a digest that is right."""
    part = drawn.choice(sorted(checkpoint.PARTS))
    parts = dict.fromkeys(checkpoint.PARTS, 0) | {part: Code(run)}
    path = run.with_name("written")
    torch.save(parts, path, _use_new_zipfile_serialization=drawn.random() < 0.5)
    content = path.read_bytes()
    return content + hashlib.sha256(content).digest()


def pair(value, optimizer="Adam", dtype=torch.float32, order=1):
    """Return a small network filled with a value, and an optimizer that has made a step."""
    model = nn.Sequential(*[nn.utils.skip_init(nn.Linear, 2, 2) for _ in range(2)]).to(dtype)
    for parameter in model.parameters():
        nn.init.constant_(parameter, value)
        parameter.grad = torch.ones_like(parameter)
    made = getattr(torch.optim, optimizer)([*model.parameters()][::order], lr=0.5)
    made.step()
    return model, made


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"dtype": torch.float64}, ["0.weight"]),
        ({"optimizer": "SGD"}, ["Adam", "SGD"]),
        ({"optimizer": "AdamW"}, ["Adam", "AdamW"]),
        ({"order": -1}, []),
    ],
    ids=["dtype", "SGD", "AdamW", "order"],
)
def test_what_torch_would_let_pass_is_refused(tmp_path, other, words):
    """Another dtype, optimizer or order of parameters raises, by name, and nothing is changed."""
    path = tmp_path / "checkpoint-7"
    checkpoint.save(path, *pair(1.0), 3)
    model, optimizer = pair(2.0, **other)
    before = [parameter.clone() for parameter in model.parameters()], str(optimizer.state_dict())
    with guard.watched() as left, pytest.raises(ValueError, match="checkpoint-7") as raised:
        checkpoint.load(path, model, optimizer)
    assert all(word in str(raised.value) for word in words), raised.value
    assert all(map(torch.equal, model.parameters(), before[0]))
    assert str(optimizer.state_dict()) == before[1]
    assert left == []


@pytest.mark.parametrize(
    ("difference", "word"),
    [("a buffer less", "average"), ("a buffer more", "variance"), ("another shape", "1.weight"), ("no file", "")],
)
def test_an_error_names_file_and_parameter(tmp_path, difference, word):
    """A name that only one of file and model has, and another shape, are in the message, and so is the file."""
    path = tmp_path / "checkpoint-7"
    saved, (model, optimizer) = pair(1.0), pair(2.0)
    saved[0].register_buffer("average", torch.zeros(3))
    if difference != "a buffer less":
        model.register_buffer("average", torch.zeros(3))
    if difference == "a buffer more":
        model.register_buffer("variance", torch.zeros(3))
    if difference == "another shape":
        model[1] = nn.utils.skip_init(nn.Linear, 2, 3)
    if difference != "no file":
        checkpoint.save(path, *saved, 3)
    with pytest.raises(FileNotFoundError if difference == "no file" else ValueError, match="checkpoint-7") as raised:
        checkpoint.load(path, model, optimizer)
    assert word in str(raised.value)


def test_files_that_save_did_not_write_are_refused_by_name(tmp_path):
    """torch's own files, a list and a folder."""
    model, optimizer = pair(1.0)
    torch.save(model.state_dict(), tmp_path / "weights-7")
    torch.save([], tmp_path / "list-7")
    (tmp_path / "folder-7").mkdir()
    for name in ("weights-7", "list-7", "folder-7"):
        with pytest.raises((ValueError, OSError), match=name):
            checkpoint.load(tmp_path / name, model, optimizer)


def test_a_link_stays_a_link(tmp_path):
    """What it points to is replaced."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "checkpoint")
    for step in (1, 2):
        checkpoint.save(tmp_path / "link", *pair(1.0), step)
        assert (tmp_path / "link").is_symlink()
        with guard.watched():
            assert checkpoint.load(tmp_path / "real" / "checkpoint", *pair(2.0)) == step
    assert [each.name for each in (tmp_path / "real").iterdir()] == ["checkpoint"]


EVERY = sorted(
    name
    for name, kind in vars(torch.optim).items()
    if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and name not in ("Optimizer", "SparseAdam")
)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("rate", ["number", "tensor"])
def test_every_optimizer_of_torchs_goes_on(tmp_path, name, rate):
    """Two steps, a save, a load and two steps more are four steps, to the last bit; a rate may be a tensor."""

    def made():
        weight = nn.Parameter(torch.arange(6.0).reshape(2, 3) / 8)
        options = {"lr": torch.tensor(0.125) if rate == "tensor" else 0.125}
        return nn.ParameterList([weight]), getattr(torch.optim, name)([weight], **options)

    def steps(model, optimizer):
        def loss():
            optimizer.zero_grad()
            value = (model[0] - 1).square().sum()
            value.backward()
            return value

        for _ in range(2):
            optimizer.step(loss)

    try:
        whole = made()
        steps(*whole)
    except (ValueError, RuntimeError, TypeError) as error:
        pytest.skip(f"{name} takes no {rate} as its rate: {error}")
    with guard.watched():
        checkpoint.save(tmp_path / "checkpoint", *whole, 2)
        later = made()
        checkpoint.load(tmp_path / "checkpoint", *later)
    assert str(later[1].state_dict()) == str(whole[1].state_dict())
    for each in (whole, later):
        steps(*each)
    assert torch.equal(whole[0][0], later[0][0])


class WithCopy(torch.optim.Optimizer):
    """Steps a float32 copy of each parameter, and rounds that."""

    def __init__(self, params):
        super().__init__(params, {"lr": 2.0**-10})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                copy = self.state[p].setdefault("copy", p.float())
                p.copy_(copy.sub_(p.grad, alpha=group["lr"]))


def test_float32_state_of_bfloat16_parameters_stays_float32(tmp_path):
    """Steps of 2⁻¹⁰, which bfloat16 loses beside 1, go on adding up after a load."""

    def made():
        weight = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
        weight.grad = torch.ones_like(weight)
        return nn.ParameterList([weight]), WithCopy([weight])

    model, optimizer = made()
    optimizer.step()
    checkpoint.save(tmp_path / "checkpoint", model, optimizer, 1)
    other, to = made()
    with guard.watched():
        checkpoint.load(tmp_path / "checkpoint", other, to)
    for _ in range(7):
        to.step()
    assert to.state[other[0]]["copy"].tolist() == [1 - 2.0**-7] * 3
    assert other[0].tolist() == [1 - 2.0**-7] * 3


def test_an_average_of_a_model_goes_along(tmp_path):
    """torch's AveragedModel has its number of models, and its own copy of the parameters."""
    model, optimizer = pair(1.0)
    average = torch.optim.swa_utils.AveragedModel(model)
    for _ in range(3):
        average.update_parameters(model)
    checkpoint.save(tmp_path / "checkpoint", average, optimizer, 3)
    other = torch.optim.swa_utils.AveragedModel(pair(2.0)[0])
    with guard.watched():
        checkpoint.load(tmp_path / "checkpoint", other, torch.optim.Adam(pair(2.0)[0].parameters()))
    assert other.n_averaged.item() == 3
    assert all(map(torch.equal, other.parameters(), average.parameters()))


def test_what_load_would_refuse_is_refused_by_save(tmp_path):
    """A NumPy number as learning rate, and a function in a group: nothing is left in the folder."""
    for value in (np.float64(0.25), print):
        model, optimizer = pair(1.0)
        optimizer.param_groups[0]["lr"] = value
        with pytest.raises(Exception, match=r"plain data|pickle"):
            checkpoint.save(tmp_path / "checkpoint", model, optimizer, 1)
        assert list(tmp_path.iterdir()) == []
