"""Logs are JSON lines on stderr, masked, whoever writes them, and nothing written there can raise."""

import asyncio
import io
import json
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr
from decimal import Decimal
from typing import Any

import pytest
import structlog
from hypothesis import given, strategies as st

from nightdesk.guard.masking import mask_json
from nightdesk.watch.logs import bound, configure, get_logger

log = get_logger("nightdesk.trial")


class _Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.fixture(autouse=True)
def _restored_root() -> Iterator[None]:
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    logging.captureWarnings(False)


class Written:
    """The lines written to stderr so far."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._seen = ""

    def lines(self) -> list[dict[str, Any]]:
        self._seen += self._capsys.readouterr().err
        return [json.loads(line) for line in self._seen.splitlines()]


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str]) -> Written:
    configure("INFO", mask_json)
    return Written(capsys)


def test_a_line_has_its_fields(written: Written) -> None:
    log.info("The step is done.", action="step_done", job_id="ab" * 32, duration_ms=12, cost_usd=Decimal("0.10"))
    (line,) = written.lines()
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "nightdesk.trial",
        "action": "step_done",
        "message": "The step is done.",
        "job_id": "ab" * 32,
        "duration_ms": 12,
        "cost_usd": "0.10",
    }


def test_what_is_bound_is_on_every_line_inside(written: Written) -> None:
    with bound(job_id="t1"), bound(step="research"):
        log.info("inner")
        logging.getLogger("asyncio").warning("other")
    log.info("outer")
    inner, other, outer = written.lines()
    assert (inner["job_id"], inner["step"]) == ("t1", "research")
    assert (other["job_id"], other["step"]) == ("t1", "research")
    assert "job_id" not in outer


def test_what_is_bound_stays_in_its_task(written: Written) -> None:
    async def leg(job_id: str) -> None:
        with bound(job_id=job_id):
            await asyncio.sleep(0)
            log.info(job_id)

    async def legs() -> None:
        await asyncio.gather(leg("t1"), leg("t2"), leg("t3"))

    asyncio.run(legs())
    assert [line["job_id"] == line["message"] for line in written.lines()] == [True] * 3


def test_lower_levels_are_left_out(written: Written) -> None:
    log.debug("no")
    logging.getLogger("other").debug("no")
    logging.getLogger("other").info("yes")
    log.warning("yes")
    assert [line["message"] for line in written.lines()] == ["yes", "yes"]
    configure("ERROR", mask_json)
    log.warning("no more")
    assert len(written.lines()) == 2


def test_personal_data_and_secrets_are_masked(written: Written) -> None:
    log.info("mail from a@b.example", token="abc", note={"call": "+49 30 1234567"})
    logging.getLogger("other").warning("paid with %s", "4111 1111 1111 1111")
    ours, other = written.lines()
    assert (ours["message"], ours["token"], ours["note"]) == ("mail from [mail]", "[secret]", {"call": "[phone]"})
    assert other["message"] == "paid with [card]"


def test_a_traceback_is_written_and_masked(written: Written) -> None:
    try:
        raise ValueError("a@b.example is taken")
    except ValueError as error:
        log.exception("It failed.", action="failed")
        log.error("It failed.", exc_info=error)
        logging.getLogger("other").exception("It failed.")
    for line in written.lines():
        assert line["level"] == "error"
        assert line["traceback"].startswith("Traceback")
        assert "ValueError: [mail] is taken" in line["traceback"]


@pytest.mark.parametrize("name", ["uvicorn", "uvicorn.error", "dbos", "alembic.runtime", "asyncio"])
def test_other_libraries_write_the_same_lines(written: Written, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.NOTSET, logger=name)  # a server that ran here may have set another
    logging.getLogger(name).warning("It is %s.", "late")
    (line,) = written.lines()
    assert (line["logger"], line["message"], line["level"]) == (name, "It is late.", "warning")


@pytest.mark.parametrize("name", ["uvicorn", "dbos"])
def test_handlers_of_their_own_are_taken_from_them(written: Written, name: str) -> None:
    logger = logging.getLogger(name)
    logger.addHandler(logging.StreamHandler())
    logger.propagate = False
    configure("INFO", mask_json)
    logger.warning("once")
    assert [line["message"] for line in written.lines()] == ["once"]


def test_structlogs_own_loggers_write_the_same_lines(written: Written) -> None:
    structlog.get_logger("a.playbook").bind(job_id="t1").info("mail from a@b.example")
    (line,) = written.lines()
    assert (line["logger"], line["job_id"], line["message"]) == ("a.playbook", "t1", "mail from [mail]")


def test_warnings_become_lines(written: Written) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old way", stacklevel=1)
    (line,) = written.lines()
    assert line["logger"] == "py.warnings"
    assert "old way" in line["message"]


_cycle: list[object] = []
_cycle.append(_cycle)


@pytest.mark.parametrize(
    "value",
    [
        _Unshowable(),
        _cycle,
        float("nan"),
        "\ud800",
        b"\xff",
        {1: {(2, 3): 4}},
        {"a", 1},
        object(),
        ValueError("x"),
        range(3),
    ],
)
def test_an_odd_value_does_not_raise(written: Written, value: object) -> None:
    log.info("odd", value=value, kept="yes")
    (line,) = written.lines()
    assert line["kept"] == "yes"
    assert "value" in line


def test_an_odd_value_does_not_unmask_the_others(written: Written) -> None:
    log.info("odd", value=_Unshowable(), token="abc", mail="a@b.example")
    (line,) = written.lines()
    assert (line["token"], line["mail"]) == ("[secret]", "[mail]")


def test_arguments_that_do_not_fit_are_shown(written: Written) -> None:
    configure("INFO", mask_json)  # again, to be rid of pytest's handler, which does raise
    logging.getLogger("other").warning("%d of %d", "one")
    assert "one" in written.lines()[0]["message"]


def test_reserved_names_are_ours(written: Written) -> None:
    log.info("text", ts="never", level="high")
    (line,) = written.lines()
    assert line["level"] == "info"
    assert line["ts"] != "never"


def test_a_closed_stderr_ends_nothing(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", closed)
        log.info("to nobody")
        logging.getLogger("other").warning("to nobody")
    log.info("to all")
    assert [line["message"] for line in written.lines()] == ["to all"]


@given(st.text(), st.dictionaries(st.text(min_size=1), st.text() | st.integers() | st.floats() | st.binary()))
def test_any_text_is_one_json_line(text: str, value: dict[str, Any]) -> None:
    stream = io.StringIO()
    configure("INFO", mask_json)
    with redirect_stderr(stream):
        log.info(text, value=value)
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["level"] == "info"
