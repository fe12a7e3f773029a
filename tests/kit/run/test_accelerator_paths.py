"""What runs only where there is an accelerator, with torch's calls to one made up."""

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from impl import checkpoint, data
from spec.hardware import devices, promises
from spec.instruments import timer
from spec.oracles import streams
from spec.run import benchmarks
from tests.benchmarks import test_throughput as rates
from tests.kit.judging import running

CPU, CARD = torch.device("cpu"), torch.device("cuda:1")


@pytest.fixture
def current(monkeypatch):
    """Let torch have accelerators of which one is current, and give the list that holds its index."""
    held = [0]

    @contextmanager
    def device_index(index):
        held.append(index)
        yield
        held.pop()

    monkeypatch.setattr(torch.accelerator, "device_index", device_index)
    return held


def test_torchs_stream_is_seeded_on_the_device_that_was_asked_for(monkeypatch, current):
    """manual_seed of a device's module seeds whichever is current: that is the one, for as long."""
    seeded = []
    module = SimpleNamespace(manual_seed=lambda seed: seeded.append((current[-1], seed)))
    monkeypatch.setattr(torch, "get_device_module", lambda device: module)
    streams.seed_torch(5, CARD)
    assert (seeded, current) == ([(1, 5)], [0])


def test_the_devices_own_stream_is_put_back(monkeypatch):
    """Its state is read before and set after, and no other device's."""
    states = {1: "before"}
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: states[device])
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: states.__setitem__(device, state))
    with streams.restored(CARD):
        states[1] = "drawn from"
    assert states == {1: "before"}


@pytest.mark.parametrize(("kind", "memory"), [("cuda:1", "pinned"), ("xpu", "pinned"), ("mps", "pageable")])
def test_a_batch_is_sent_from_pinned_memory_where_there_is_any(kind, memory):
    """CUDA and XPU copy from pinned memory without waiting; MPS shares the host's."""

    class Batch:
        memory = "pageable"

        def pin_memory(self):
            self.memory = "pinned"
            return self

        def to(self, device, non_blocking):
            return self.memory, str(device), non_blocking

    assert data._sent(Batch(), torch.device(kind)) == (memory, kind, True)


@pytest.mark.parametrize("present", [1, 2, 3])
def test_a_checkpoint_holds_the_stream_of_every_accelerator(monkeypatch, tmp_path, present):
    """Saved on a machine of two, each device's state is set again as far as there are as many."""
    states = {number: torch.tensor([number, 7], dtype=torch.uint8) for number in range(2)}
    module = SimpleNamespace(
        get_rng_state=lambda number: states[number],
        set_rng_state=lambda state, number: states.__setitem__(number, state),
    )
    monkeypatch.setattr(torch, "get_device_module", lambda *device: module)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    checkpoint.save(tmp_path / "file", model, optimizer, 3)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: present)
    states.clear()
    with torch.random.fork_rng(devices=[]):
        assert checkpoint.load(tmp_path / "file", model, optimizer) == 3
    assert {number: state.tolist() for number, state in states.items()} == {n: [n, 7] for n in range(min(present, 2))}


@pytest.mark.parametrize(
    ("hip", "properties", "multiplies"),
    [
        (None, {"major": 9}, True),
        (None, {"major": 7}, False),
        ("7.0", {"gcnArchName": "gfx942:sramecc+:xnack-"}, True),
        ("7.0", {"gcnArchName": "gfx1100"}, True),
        ("7.0", {"gcnArchName": "gfx1030"}, None),
    ],
)
def test_what_multiplies_bfloat16(monkeypatch, hip, properties, multiplies):
    """NVIDIA's from Ampere on, AMD's from CDNA and RDNA 3 on; of older ones of AMD's torch says so too, wrongly."""
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.version, "cuda", None if hip else "12.8")
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(**properties))
    assert devices.multiplies_bfloat16(CARD) is multiplies


class Meter:
    """Times nothing, and keeps the rates, against what an H200 promises."""

    timed, budget = False, 1.0

    def __init__(self):
        self.told = []

    def rate(self, name, work, device):
        timing = timer.once(work.run, CPU)
        peak = promises.Promises().peak(device, work.dtype)
        self.told.append(benchmarks.Rate(name, device, work, timing, peak, None, benchmarks.UNTIMED))
        return self.told[-1]


@pytest.fixture
def h200(monkeypatch):
    """Let the CUDA device be an H200 whose products are the CPU's."""
    monkeypatch.setattr(devices, "name", lambda device: "NVIDIA H200")
    monkeypatch.setattr(devices, "units", lambda device: 132)
    for name in ("multiply", "scaled"):
        made = getattr(rates, name)
        monkeypatch.setattr(rates, name, lambda *sizes, made=made: made(*sizes[:-1], CPU))
    return Meter()


def test_tf32_is_on_for_as_long_as_it_is_timed(h200):
    """The product is held to TF32's dense peak, not to float32's, and the setting is as it was afterwards."""
    before = torch.get_float32_matmul_precision()
    with running() as evidence:
        rates.test_tf32_products_are_held_to_tf32s_promise(evidence, h200, CARD)
        with pytest.raises(pytest.skip.Exception, match="mps has no TF32"):
            rates.test_tf32_products_are_held_to_tf32s_promise(evidence, h200, torch.device("mps"))
    assert [rate.peak.value for rate in h200.told] == [494.7e12]
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize(("dtype", "peak"), [(torch.float32, 66.9e12), (torch.bfloat16, 989.5e12)], ids=str)
def test_the_notes_product_is_held_to_its_dtypes_peak(h200, dtype, peak):
    """Its shape is that of the notes, scaled down: twice as many inputs as points, and half as many outputs."""
    with running() as evidence:
        rates.test_the_notes_product_reaches_a_part_of_what_is_promised(evidence, h200, CARD, dtype)
    (rate,) = h200.told
    assert (rate.peak.value, rate.work.shape) == (peak, (64, 128, 32))


def test_float8_products_are_timed_where_there_are_any(monkeypatch, h200):
    """Sizes are multiples of 16, the second operand lies column by column; a device without them skips, and says so."""
    given = []

    def multiply(a, b, *scales, out_dtype):
        given.append((a.dtype, tuple(a.shape), a.stride(), b.stride(), [(s.dtype, s.numel()) for s in scales]))
        return torch.zeros(len(a), b.shape[1], dtype=out_dtype)

    monkeypatch.setattr(torch, "_scaled_mm", multiply)
    with running() as evidence:
        rates.test_float8_products_are_held_to_float8s_promise(evidence, h200, CARD)
        assert set(map(repr, given)) == {
            repr((torch.float8_e4m3fn, (64, 64), (64, 1), (1, 64), [(torch.float32, 1)] * 2))
        }
        assert [rate.peak.value for rate in h200.told] == [1979e12]

        def refuse(*operands, out_dtype):
            raise RuntimeError("compute capability >= 9.0 or 8.9\nand more")

        monkeypatch.setattr(torch, "_scaled_mm", refuse)
        with pytest.raises(pytest.skip.Exception, match="multiplies no float8: compute capability"):
            rates.test_float8_products_are_held_to_float8s_promise(evidence, h200, CARD)
