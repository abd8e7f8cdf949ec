"""The choice of a lane: what settles it, what is compared, and the reason that is written down."""

import dataclasses
from typing import Any

import pytest

from nightdesk.model.router import Question, choose

_PLAIN = Question(
    pinned="auto",
    priority=2,
    canary=False,
    has_flex=True,
    closed={},
    last_call=False,
    returned="",
    seconds_left=None,
    seconds={"batch": 3600, "flex": 900, "live": 30},
    costs={"batch": 0.01, "flex": 0.01, "live": 0.02},
)
_CHEAPEST = "cheapest by estimate: "
_ALL = f"{_CHEAPEST}batch $0.010000, flex $0.010000, live $0.020000"
_NOT_BATCH = f"{_CHEAPEST}flex $0.010000, live $0.020000"
_ONLY_LIVE = f"{_CHEAPEST}live $0.020000"
_PINNED = "the playbook asks for it"
_DEAR_BATCH = {"batch": 0.03, "flex": 0.015, "live": 0.02}

_TABLE: list[tuple[dict[str, Any], str, str]] = [
    ({}, "batch", _ALL),
    ({"priority": 0}, "live", "P0 does not wait"),
    ({"priority": 1, "seconds_left": 30000}, "live", "P1 does not wait"),
    ({"priority": 3}, "batch", _ALL),
    ({"pinned": "live"}, "live", _PINNED),
    ({"pinned": "batch"}, "batch", _PINNED),
    ({"pinned": "batch", "priority": 0}, "batch", _PINNED),
    ({"pinned": "batch", "closed": {"batch": "shut"}}, "batch", _PINNED),
    ({"pinned": "flex"}, "flex", _PINNED),
    ({"pinned": "flex", "canary": True}, "flex", _PINNED),
    ({"pinned": "flex", "has_flex": False}, "live", "the playbook asks for flex, but there is none here"),
    ({"pinned": "flex", "closed": {"flex": "no room"}}, "live", "the playbook asks for flex, but no room"),
    ({"canary": True}, "live", "the first request of this shape goes ahead of its wave"),
    ({"canary": True, "pinned": "batch"}, "live", "the first request of this shape goes ahead of its wave"),
    ({"canary": True, "closed": {"live": "shut"}}, "batch", _ALL),
    ({"has_flex": False}, "batch", f"{_CHEAPEST}batch $0.010000, live $0.020000"),
    ({"costs": _DEAR_BATCH}, "flex", f"{_CHEAPEST}batch $0.030000, flex $0.015000, live $0.020000"),
    ({"costs": _DEAR_BATCH, "has_flex": False}, "live", f"{_CHEAPEST}batch $0.030000, live $0.020000"),
    ({"closed": {"batch": "shut"}}, "flex", f"shut; {_NOT_BATCH}"),
    ({"closed": {"batch": "shut", "flex": "full"}}, "live", f"shut; {_ONLY_LIVE}"),
    ({"closed": {"live": "shut"}}, "batch", _ALL),
    ({"returned": "it came back"}, "flex", f"it came back; {_NOT_BATCH}"),
    ({"returned": "it came back", "pinned": "batch", "has_flex": False}, "live", f"it came back; {_ONLY_LIVE}"),
    ({"seconds_left": 4320}, "batch", _ALL),
    ({"seconds_left": 4319}, "flex", f"72 min left are too few for a batch of 60 min; {_NOT_BATCH}"),
    ({"seconds_left": 899}, "live", f"15 min left are too few for a batch of 60 min; {_ONLY_LIVE}"),
    ({"seconds_left": 3600, "pinned": "batch"}, "flex", f"60 min left are too few for a batch of 60 min; {_NOT_BATCH}"),
    ({"seconds_left": 20000, "last_call": True}, "flex", f"it is last call; {_NOT_BATCH}"),
    ({"seconds_left": 20000, "last_call": True, "pinned": "batch"}, "flex", f"it is last call; {_NOT_BATCH}"),
]


@pytest.mark.parametrize(("changed", "lane", "reason"), _TABLE, ids=[str(row[0]) for row in _TABLE])
def test_the_choice_and_its_reason(changed: dict[str, Any], lane: str, reason: str) -> None:
    route = choose(dataclasses.replace(_PLAIN, **changed))
    assert (route.lane, route.reason) == (lane, reason)
