"""Messages reach a real receiver through Apprise, are sent until they are taken, and keep the secrets of addresses."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.clock import SetClock
from nightdesk.settings import NotifySettings
from nightdesk.store import Database, notices
from nightdesk.watch.apprise import Kind, deliver_messages, post_message
from tests.support.receiver import Receiver, receiving

_SECRET = "hunter2-and-more"  # pragma: allowlist secret


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as opened:
        yield opened


def _url(receiver: Receiver) -> str:
    return receiver.url.replace("http://", f"json://night:{_SECRET}@") + "/hook"


def _post(db: Database, clock: SetClock, notify: NotifySettings, kind: Kind = "alert") -> int:
    with db.write() as conn:
        return post_message(conn, clock.now(), notify, kind, "Heading", "First line\nSecond line")


def _deliver(db: Database, clock: SetClock, notify: NotifySettings, home: Path) -> int:
    return deliver_messages(db, clock, notify, home, timeout=10, longest_pause=3600)


def _notices(db: Database) -> list[Any]:
    with db.read() as conn:
        return list(conn.execute(sa.select(notices).order_by(notices.c.target)).all())


def test_a_message_is_delivered_with_proof(db: Database, clock: SetClock, receiver: Receiver, tmp_path: Path) -> None:
    notify = NotifySettings(urls=(_url(receiver),))
    assert _post(db, clock, notify) == 1
    assert _deliver(db, clock, notify, tmp_path) == 1
    [delivery] = receiver.deliveries
    told = json.loads(delivery.body)
    assert (delivery.path, told["title"], told["message"]) == ("/hook", "Heading", "First line\nSecond line")
    assert told["type"] == "warning"
    [notice] = _notices(db)
    assert (notice.kind, notice.delivered_at, notice.next_at) == ("apprise", clock.now(), None)
    assert notice.proof == {"accepted_by": "JSON", "at": clock.now().isoformat()}
    clock.advance(100_000)
    assert _deliver(db, clock, notify, tmp_path) == 0


def test_what_is_not_taken_is_tried_again_and_nothing_tells_the_secret(
    db: Database, clock: SetClock, receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    statuses = iter((500, 503, 200))
    receiver.answer = lambda _: next(statuses)
    notify = NotifySettings(urls=(_url(receiver),))
    _post(db, clock, notify)
    for tried in (1, 2):
        assert _deliver(db, clock, notify, tmp_path) == 1
        [notice] = _notices(db)
        assert (notice.attempts, notice.delivered_at, notice.last_error) == (tried, None, "JSON did not take it")
        assert _deliver(db, clock, notify, tmp_path) == 0
        assert _SECRET not in str(notice)
        assert notice.target.startswith("json#")
        clock.move_to(notice.next_at)
    assert _deliver(db, clock, notify, tmp_path) == 1
    assert _notices(db)[0].delivered_at == clock.now()
    assert _SECRET not in caplog.text
    assert len(receiver.deliveries) == 3


def test_an_address_may_be_kept_in_the_environment(
    db: Database, clock: SetClock, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notify = NotifySettings(urls=("env:CHAT_URL",))
    _post(db, clock, notify)
    _deliver(db, clock, notify, tmp_path)
    [notice] = _notices(db)
    assert (notice.target, notice.last_error) == ("env:CHAT_URL", "the variable CHAT_URL is not set")
    monkeypatch.setenv("CHAT_URL", _url(receiver))
    clock.move_to(notice.next_at)
    assert _deliver(db, clock, notify, tmp_path) == 1
    assert len(receiver.deliveries) == 1


def test_each_kind_may_have_places_of_its_own(db: Database, clock: SetClock, tmp_path: Path) -> None:
    notify = NotifySettings(urls=("json://a", "json://b"), alert=("json://c",))
    assert (_post(db, clock, notify, "summary"), _post(db, clock, notify, "alert")) == (2, 1)
    assert len(_notices(db)) == 3


def test_an_address_that_is_gone_from_the_settings_is_settled(db: Database, clock: SetClock, tmp_path: Path) -> None:
    _post(db, clock, NotifySettings(urls=("json://gone",)))
    assert _deliver(db, clock, NotifySettings(), tmp_path) == 1
    [notice] = _notices(db)
    assert notice.proof["outcome"] == "its address is not in the settings any more"


def test_an_address_that_nobody_can_read_is_told_of(db: Database, clock: SetClock, tmp_path: Path) -> None:
    notify = NotifySettings(urls=("nosuch://x",))
    _post(db, clock, notify)
    _deliver(db, clock, notify, tmp_path)
    assert "cannot read this address" in _notices(db)[0].last_error


@pytest.mark.parametrize("stated", ["told/summary.txt", "file", None])
def test_a_summary_may_go_to_a_file(db: Database, clock: SetClock, tmp_path: Path, stated: str | None) -> None:
    """Without any place it does so by itself; alerts go to no file."""
    file = tmp_path / (stated or "summary.txt")
    address = {"file": (f"file://{file}",), None: ()}.get(stated, (stated,))
    notify = NotifySettings.model_validate({"urls": address})
    assert _post(db, clock, notify, "alert") == 0
    for _ in range(2):
        clock.advance(1)
        assert _post(db, clock, notify, "summary") == 1
        assert _deliver(db, clock, notify, tmp_path) == 1
    assert file.read_text(encoding="utf-8") == "Heading\n\nFirst line\nSecond line\n"
    assert {kept.name for kept in file.parent.iterdir()} - {"nightdesk.db"} == {file.name}
    assert _notices(db)[0].proof["written_to"] == file.name


def test_a_file_that_cannot_be_written_is_tried_again(db: Database, clock: SetClock, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, where a folder is needed", encoding="utf-8")
    notify = NotifySettings(urls=("taken/summary.txt",))
    _post(db, clock, notify, "summary")
    _deliver(db, clock, notify, tmp_path)
    [notice] = _notices(db)
    assert (notice.delivered_at, notice.attempts) == (None, 1)
    assert notice.last_error.startswith("it could not be sent: ")
