"""What impl.planning promises beyond the claims."""

import pytest

from impl import planning


@pytest.mark.parametrize("mfu", [1.0000001, 50, float("inf")])
def test_an_mfu_above_1_raises(mfu):
    """No device does more than it promises."""
    with pytest.raises(ValueError, match=r"MFU|mfu"):
        planning.training_days(70e9, 15e12, promised_flop_per_second=989.5e12, devices=1024, mfu=mfu)
