"""When nights are: over midnight, through both changes of the clocks, on the days and holidays of the house."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st

from nightdesk.calendar import Window, next_night, next_window, running_nights, window_of
from nightdesk.settings import NightSettings

_BERLIN, _NEW_YORK = "Europe/Berlin", "America/New_York"


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _night(**stated: Any) -> NightSettings:
    return NightSettings.model_validate(stated)


def _moments(window: Window) -> list[str]:
    return [f"{moment:%d %H:%M}" for moment in (window.cutoff, window.start, window.stop, window.summary)]


@pytest.mark.parametrize(
    ("stated", "evening", "moments"),
    [
        pytest.param({}, "2026-01-31", ["31 17:00", "01 01:00", "01 05:00", "01 07:30"], id="as shipped"),
        pytest.param(
            {"start": "21:00"}, "2026-01-31", ["31 17:00", "31 21:00", "01 05:00", "01 07:30"], id="before midnight"
        ),
        pytest.param(
            {"cutoff": "08:00", "start": "09:00", "stop": "12:00", "summary": "12:00"},
            "2026-01-31", ["31 08:00", "31 09:00", "31 12:00", "31 12:00"], id="within a day",
        ),
        pytest.param(
            {"cutoff": "22:00", "start": "22:00", "stop": "00:00", "summary": "00:30"},
            "2026-01-31", ["31 22:00", "31 22:00", "01 00:00", "01 00:30"], id="until midnight, without a pause",
        ),
        pytest.param(
            {"start": "03:00", "stop": "03:00"}, "2026-01-31",
            ["31 17:00", "01 03:00", "02 03:00", "02 07:30"], id="a day long",
        ),
        pytest.param(
            {"zone": _BERLIN}, "2026-01-31", ["31 16:00", "01 00:00", "01 04:00", "01 06:30"], id="Berlin in winter"
        ),
        pytest.param(
            {"zone": _BERLIN}, "2026-03-28", ["28 16:00", "29 00:00", "29 03:00", "29 05:30"], id="Berlin loses an hour"
        ),
        pytest.param(
            {"zone": _BERLIN}, "2026-10-24", ["24 15:00", "24 23:00", "25 04:00", "25 06:30"], id="Berlin gains an hour"
        ),
        pytest.param(
            {"zone": _NEW_YORK}, "2026-03-07", ["07 22:00", "08 06:00", "08 09:00", "08 11:30"],
            id="New York loses an hour",
        ),
        pytest.param(
            {"zone": _NEW_YORK}, "2026-10-31", ["31 21:00", "01 05:00", "01 10:00", "01 12:30"],
            id="New York gains an hour",
        ),
        pytest.param(
            {"zone": _BERLIN, "start": "02:30"}, "2026-03-28", ["28 16:00", "29 01:30", "29 03:00", "29 05:30"],
            id="a start that the clock skips is an hour later",
        ),
        pytest.param(
            {"zone": _BERLIN, "start": "02:10", "stop": "02:50", "summary": "03:00"}, "2026-03-28",
            ["28 16:00", "29 01:10", "29 01:50", "29 01:50"], id="a window that the clock skips is moved",
        ),
        pytest.param(
            {"zone": _BERLIN, "start": "02:30", "stop": "03:00"}, "2026-03-28",
            ["28 16:00", "29 01:30", "29 01:30", "29 05:30"], id="a window that the clock cuts short is empty",
        ),
        pytest.param(
            {"zone": _BERLIN, "start": "02:30", "stop": "02:45"}, "2026-10-24",
            ["24 15:00", "25 00:30", "25 00:45", "25 06:30"], id="of an hour shown twice the first is meant",
        ),
    ],
)  # fmt: skip
def test_the_moments_of_a_night(stated: dict[str, Any], evening: str, moments: list[str]) -> None:
    window = window_of(_night(**stated), date.fromisoformat(evening))
    assert (window.name, _moments(window)) == (evening, moments)


@pytest.mark.parametrize(
    ("at", "of_now", "running"),
    [
        pytest.param("2026-01-31T16:59:59", "2026-01-31", [], id="before the cut-off"),
        pytest.param("2026-01-31T17:00:00", "2026-02-01", ["2026-01-31"], id="at the cut-off"),
        pytest.param("2026-02-01T04:59:59", "2026-02-01", ["2026-01-31"], id="at the end"),
        pytest.param("2026-02-01T05:00:00", "2026-02-01", [], id="at the hard stop"),
    ],
)
def test_the_night_that_work_is_for_and_the_one_that_runs(at: str, of_now: str, running: list[str]) -> None:
    night, now = _night(), _utc(at)
    following = next_night(night, now)
    assert following is not None
    assert (following.name, [window.name for window in running_nights(night, now)]) == (of_now, running)


def test_a_window_is_open_from_its_start_to_its_stop() -> None:
    window = window_of(_night(), date(2026, 1, 31))
    moments = [window.cutoff, window.start, window.stop - timedelta(microseconds=1), window.stop]
    assert [window.is_open(moment) for moment in moments] == [False, True, True, False]


def test_nights_begin_on_the_days_that_are_named_and_on_no_holiday() -> None:
    night = _night(days=["mon", "tue", "wed", "thu", "fri"], holidays=["2026-01-01", "2026-12-25"])
    assert _evenings(night, _utc("2025-12-31T12:00"), 4) == ["2025-12-31", "2026-01-02", "2026-01-05", "2026-01-06"]
    # The night of Friday ends on a Saturday, which is no night's day.
    saturday = _utc("2026-01-03T03:00")
    assert [window.name for window in running_nights(night, saturday)] == ["2026-01-02"]
    following = next_window(night, saturday)
    assert following is not None
    assert following.name == "2026-01-05"


def test_without_days_there_are_no_nights() -> None:
    night, now = _night(days=[]), _utc("2026-01-31T12:00")
    assert next_night(night, now) is None
    assert next_window(night, now) is None
    assert running_nights(night, now) == []


def test_nights_longer_than_a_day_run_side_by_side() -> None:
    night = _night(start="16:00", stop="15:00")
    assert [window.name for window in running_nights(night, _utc("2026-02-02T12:00"))] == ["2026-01-31", "2026-02-01"]


def _evenings(night: NightSettings, at: datetime, count: int) -> list[str]:
    found = []
    for _ in range(count):
        window = next_night(night, at)
        assert window is not None
        found.append(window.name)
        at = window.cutoff
    return found


_WALLS = st.times().map(lambda time: f"{time:%H:%M}")
_ZONES = st.sampled_from([_BERLIN, _NEW_YORK, "UTC", "Australia/Lord_Howe", "America/Havana", "Asia/Kathmandu"])


@hypothesis_settings(max_examples=150, deadline=None)
@given(zone=_ZONES, walls=st.tuples(_WALLS, _WALLS, _WALLS, _WALLS), day=st.dates(date(2024, 1, 1), date(2030, 1, 1)))
def test_whatever_is_stated_the_moments_follow_each_other(zone: str, walls: tuple[str, ...], day: date) -> None:
    cutoff, start, stop, summary = walls
    night = _night(zone=zone, cutoff=cutoff, start=start, stop=stop, summary=summary)
    window = window_of(night, day)
    assert window.cutoff <= window.start <= window.stop <= window.summary
    assert window.stop - window.start <= timedelta(hours=25)
    following = next_night(night, window.cutoff - timedelta(seconds=1))
    assert following is not None
    assert following.cutoff <= window.cutoff
    if window.start < window.stop:
        assert window in running_nights(night, max(window.cutoff, window.stop - timedelta(seconds=1)))
