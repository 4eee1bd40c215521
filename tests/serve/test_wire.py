"""Messages come back as they were, and bytes that are none are refused."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from geonew.errors import InputError
from geonew.serve.wire import ALIGNMENT, TYPES, pack, unpack

ARRAYS = st.sampled_from(TYPES).flatmap(lambda t: arrays(t, array_shapes(min_side=0)))


@given(
    st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3),
    st.lists(
        st.sampled_from(TYPES).flatmap(lambda t: arrays(t, array_shapes(min_side=0))), max_size=4
    ),
)
def test_round_trip(head, values):
    head.pop("arrays", None)
    named = {f"a{k}": v for k, v in enumerate(values)}
    data = pack(head, named)
    again, found = unpack(data)
    assert again == head
    assert list(found) == list(named)
    for name, value in named.items():
        assert found[name].dtype.str == value.dtype.str
        np.testing.assert_array_equal(found[name], value)


def test_arrays_lie_where_a_browser_can_use_them():
    data = pack({"word": "x"}, {"a": np.ones(3, "|u1"), "b": np.ones(2, "<f8")})
    start = 4 + int(np.frombuffer(data[:4], "<u4")[0])
    assert start % ALIGNMENT == 0
    assert np.frombuffer(data, "<f8", 2, start + ALIGNMENT).tolist() == [1.0, 1.0]


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data):
    try:
        unpack(data)
    except InputError:
        return
    assert pack(*unpack(data))


@given(st.integers(0, 300), st.binary(min_size=1, max_size=3))
def test_damaged_messages_are_read_or_refused(at, junk):
    data = pack({"word": "x"}, {"a": np.arange(6.0).reshape(2, 3)})
    damaged = data[: at % len(data)] + junk + data[at % len(data) + len(junk) :]
    with suppress(InputError):
        unpack(damaged)


def test_what_no_browser_can_read_is_not_written():
    with pytest.raises(InputError, match="complex128"):
        pack({}, {"a": np.zeros(2, complex)})
    with pytest.raises(ValueError):
        pack({"number": float("nan")})
