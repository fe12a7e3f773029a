"""Every hypothesis strategy of the claims' tests."""

from hypothesis import strategies as st

# ---- common ----
sizes = st.integers(min_value=1, max_value=8)
sizes_with_zero = st.integers(min_value=0, max_value=5)
