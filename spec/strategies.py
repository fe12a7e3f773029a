"""Every hypothesis strategy of the claims' tests."""

import re
from typing import NamedTuple

import torch
from hypothesis import strategies as st

from spec.layouts import VIEWS, layout

# ---- common ----
sizes = st.integers(min_value=1, max_value=8)
sizes_with_zero = st.integers(min_value=0, max_value=5)

# ---- storage ----
shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)

_WHOLE_BYTES = re.compile(r"torch\.(bool|(b?float|complex|u?int)(8|16|32|64|128)(_e\w+)?)")  # not packed, not quantized
dtypes = st.sampled_from(
    sorted(
        {
            dtype
            for dtype in vars(torch).values()
            if isinstance(dtype, torch.dtype) and _WHOLE_BYTES.fullmatch(str(dtype))
        },
        key=str,
    )
)

_dimensions = st.lists(
    st.tuples(
        st.sampled_from((2, 3, 1, 4, 6, 0)),
        st.sampled_from(("packed",) * 5 + ("gap", 0, 1, 2, 7)),
        st.integers(0, 2),
    ),
    max_size=5,
)
layouts = st.builds(layout, _dimensions, st.integers(0, 3))
view_chains = st.lists(st.tuples(st.sampled_from(sorted(VIEWS)), st.integers(0, 3), st.integers(0, 3)), max_size=6)
