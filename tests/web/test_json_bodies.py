"""Strict JSON: what is read is what every other reader would read, and the rest is a 400, quickly."""

import contextlib
import json
import time

import pytest
from hypothesis import given, strategies as st

from nightdesk.web.body import MAX_INTEGER, MAX_MEMBERS, MAX_NODES, parse_json
from nightdesk.web.problems import Problem

DEPTH = 64
MEBIBYTE = 1 << 20

REFUSED = {
    "nothing": (b"", "not JSON"),
    "a BOM": (b"\xef\xbb\xbf{}", "not JSON"),
    "UTF-16": ('{"a":1}'.encode("utf-16"), "not UTF-8"),
    "a stray byte": (b'{"a":"\xff"}', "not UTF-8: byte 6"),
    "an encoded surrogate": (b'{"a":"\xed\xa0\x80"}', "not UTF-8"),
    "an overlong slash": (b'{"a":"\xc0\xaf"}', "not UTF-8"),
    "half a surrogate pair": (b'{"a":["\\ud800"]}', "a[0] holds a NUL character or half"),
    "half a surrogate pair in a key": (b'{"\\udc00":1}', "half of a surrogate pair"),
    "an escaped NUL": (b'{"a":{"b":"x\\u0000"}}', "a.b holds a NUL"),
    "a raw NUL": (b'{"a":"\x00"}', "not JSON"),
    "NaN": (b'{"a":NaN}', "NaN"),
    "Infinity": (b'{"a":-Infinity}', "Infinity"),
    "a float that overflows": (b'{"a":1e999}', "too large"),
    "a float with a million digits": (b'{"a":1.%s}' % (b"7" * 1_000_000), "too long"),
    "an integer that JavaScript would round": (b'{"a":%d}' % (MAX_INTEGER + 1), "integer beyond"),
    "the same on the other side": (b'{"a":%d}' % -(MAX_INTEGER + 1), "integer beyond"),
    "an integer with a million digits": (b'{"a":%s}' % (b"9" * 1_000_000), "integer beyond"),
    "the same key twice": (b'{"a":1,"b":{"c":1,"c":1}}', "same key twice"),
    "keys that are the same once unescaped": (b'{"a":1,"\\u0061":2}', "same key twice"),
    "nesting": (b"[" * (DEPTH + 1) + b"]" * (DEPTH + 1), "more than 64 deep"),
    "nesting in objects": (b'{"a":' * 100_000, "more than 64 deep"),
    "too many members": (b"{%s}" % b",".join(b'"%d":1' % i for i in range(MAX_MEMBERS + 1)), "members"),
    "too many values": (b"[%s]" % b",".join([b"1"] * (MAX_NODES + 1)), "values"),
    "a comma too many": (b'{"a":1,}', "not JSON"),
    "two values": (b"{}{}", "not JSON"),
    "single quotes": (b"{'a':1}", "not JSON"),
    "a control character": (b'{"a":"\x1f"}', "not JSON"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_readers_could_read_differently_is_refused(name: str) -> None:
    raw, why = REFUSED[name]
    with pytest.raises(Problem) as refused:
        parse_json(raw, DEPTH)
    assert (refused.value.status, refused.value.kind) == (400, "bad-json")
    assert why in refused.value.detail
    assert len(refused.value.detail) < 300


SLOW = {
    "an open string of escaped quotes": b'"' + b'\\"' * (MEBIBYTE // 2),
    "many empty strings": b'""' * (MEBIBYTE // 2),
    "many brackets": b"[" + b"[]," * (MEBIBYTE // 3) + b"[]]",
    "many keys": b"{%s}" % b",".join(b'"%d":1' % i for i in range(100_000)),
    "blanks": b" " * MEBIBYTE,
    "many bad escapes": b'"' + b"\\u00" * (MEBIBYTE // 4) + b'"',
}


@pytest.mark.parametrize("name", SLOW)
def test_a_body_made_to_be_slow_is_refused_fast(name: str) -> None:
    began = time.process_time()
    with pytest.raises(Problem):
        parse_json(SLOW[name], DEPTH)
    assert time.process_time() - began < 0.5


def test_what_is_at_the_limits_is_read() -> None:
    assert parse_json(b"[" * DEPTH + b"]" * DEPTH, DEPTH)
    assert parse_json(b"[%d,-%d]" % (MAX_INTEGER, MAX_INTEGER), DEPTH) == [MAX_INTEGER, -MAX_INTEGER]
    assert parse_json(b'"\\ud83d\\ude00 \\\\u0000"', DEPTH) == "\N{GRINNING FACE} \\u0000"
    assert len(parse_json(b"{%s}" % b",".join(b'"%d":1' % i for i in range(MAX_MEMBERS)), DEPTH)) == MAX_MEMBERS


_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
)
_KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(st.recursive(_LEAVES, lambda inner: st.lists(inner) | st.dictionaries(_KEYS, inner)), st.booleans())
def test_all_other_json_is_read_as_it_was_meant(value: object, ascii_only: bool) -> None:
    assert parse_json(json.dumps(value, ensure_ascii=ascii_only).encode(), DEPTH) == value


@given(st.binary() | st.text('{}[]",:\\u0d8 1e-9N').map(str.encode))
def test_any_bytes_are_read_or_refused_with_a_400(raw: bytes) -> None:
    with contextlib.suppress(Problem):
        parse_json(raw, DEPTH)
