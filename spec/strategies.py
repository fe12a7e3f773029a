"""Every hypothesis strategy of the claims' tests."""

from hypothesis import strategies as st

sizes = st.integers(min_value=1, max_value=8)
