"""A callback is sent until it is acknowledged, signed, and never by two couriers at once."""

import json
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from standardwebhooks import Webhook

from nightdesk.canonical import Json
from nightdesk.clock import SetClock
from nightdesk.errors import NightdeskError
from nightdesk.store import Database, notices
from nightdesk.watch.courier import callback_secret, deliver_due, post
from tests.support.receiver import Receiver, receiving

_SECRET = "whsec_" + "c2VjcmV0" * 4  # pragma: allowlist secret
_DONE: dict[str, Json] = {"id": "t1", "state": "done", "version": 1, "result": {"price": 1.5, "name": "Käse"}}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as opened:
        yield opened


def _post(db: Database, clock: SetClock, target: str, payload: Json = _DONE, task_id: str | None = "t1") -> str:
    with db.write() as conn:
        return post(conn, clock.now(), "callback", target, payload, task_id)


def _deliver(db: Database, clock: SetClock, *, timeout: float = 5.0, longest_pause: float = 3600.0) -> int:
    return deliver_due(db, clock, _SECRET, timeout=timeout, longest_pause=longest_pause)


def _notices(db: Database) -> list[sa.Row[Any]]:
    with db.read() as conn:
        return list(conn.execute(sa.select(notices).order_by(notices.c.target)).all())


def test_the_same_notice_is_posted_once(db: Database, clock: SetClock) -> None:
    first = _post(db, clock, "http://a")
    clock.advance(5)
    assert _post(db, clock, "http://a", dict(reversed(_DONE.items()))) == first
    assert len(_notices(db)) == 1


@pytest.mark.parametrize(
    ("target", "payload", "task_id"),
    [
        ("http://b", _DONE, "t1"),
        ("http://a", {**_DONE, "state": "dead"}, "t1"),
        ("http://a", {**_DONE, "version": 2}, "t1"),
        ("http://a", _DONE, "t2"),
        ("http://a", _DONE, None),
    ],
)
def test_another_target_payload_or_task_is_another_notice(
    db: Database, clock: SetClock, target: str, payload: Json, task_id: str | None
) -> None:
    _post(db, clock, "http://a")
    _post(db, clock, target, payload, task_id)
    assert len(_notices(db)) == 2


def test_a_notice_vanishes_with_its_transaction(db: Database, clock: SetClock) -> None:
    with db.engine.connect() as conn:
        post(conn, clock.now(), "callback", "http://a", _DONE, "t1")
        conn.rollback()
    assert _notices(db) == []


def test_a_delivery_bears_the_payload_and_a_signature(db: Database, receiver: Receiver) -> None:
    clock = SetClock(datetime.now(UTC))  # the verifier has a clock of its own
    notice_id = _post(db, clock, f"{receiver.url}/hook?x=1")
    assert _deliver(db, clock) == 1
    (delivery,) = receiver.deliveries
    assert delivery.path == "/hook?x=1"
    assert delivery.headers["content-type"] == "application/json"
    assert delivery.headers["webhook-id"] == notice_id
    assert Webhook(_SECRET).verify(delivery.body, delivery.headers) == _DONE


def test_an_acknowledged_notice_has_proof_and_is_not_sent_again(
    db: Database, clock: SetClock, receiver: Receiver
) -> None:
    receiver.answer = lambda _: 202
    _post(db, clock, receiver.url)
    assert _deliver(db, clock) == 1
    (notice,) = _notices(db)
    assert (notice.attempts, notice.delivered_at, notice.next_at) == (1, clock.now(), None)
    assert notice.proof == {"status": 202, "at": clock.now().isoformat()}
    clock.advance(100_000)
    assert _deliver(db, clock) == 0
    assert len(receiver.deliveries) == 1


def test_it_is_tried_again_until_acknowledged(db: Database, clock: SetClock, receiver: Receiver) -> None:
    statuses = iter([500, 404, 200])
    receiver.answer = lambda _: next(statuses)
    notice_id = _post(db, clock, receiver.url)
    for tries, longest in ((1, 5), (2, 10)):
        assert _deliver(db, clock) == 1
        (notice,) = _notices(db)
        assert (notice.attempts, notice.delivered_at) == (tries, None)
        assert timedelta(seconds=longest / 2) <= notice.next_at - clock.now() <= timedelta(seconds=longest)
        assert _deliver(db, clock) == 0
        clock.advance(longest)
    assert _deliver(db, clock) == 1
    (notice,) = _notices(db)
    assert (notice.attempts, notice.proof["status"], notice.last_error) == (3, 200, None)
    assert {delivery.headers["webhook-id"] for delivery in receiver.deliveries} == {notice_id}


def test_the_pause_grows_no_longer_than_the_longest(db: Database, clock: SetClock, receiver: Receiver) -> None:
    receiver.answer = lambda _: 503
    _post(db, clock, receiver.url)
    for _ in range(12):
        assert _deliver(db, clock, longest_pause=20) == 1
        clock.advance(20)
    (notice,) = _notices(db)
    assert (notice.attempts, notice.last_error) == (12, "the receiver answered 503")


def test_a_redirect_is_not_followed(db: Database, clock: SetClock, receiver: Receiver) -> None:
    receiver.answer = lambda _: 307
    _post(db, clock, f"{receiver.url}/hook")
    assert _deliver(db, clock) == 1
    assert [delivery.path for delivery in receiver.deliveries] == ["/hook"]
    assert _notices(db)[0].last_error == "the receiver answered 307"


def test_gone_is_a_refusal_for_good(db: Database, clock: SetClock, receiver: Receiver) -> None:
    receiver.answer = lambda _: 410
    _post(db, clock, receiver.url)
    assert _deliver(db, clock) == 1
    (notice,) = _notices(db)
    assert notice.delivered_at == clock.now()
    assert notice.proof == {"status": 410, "at": clock.now().isoformat(), "outcome": "refused for good"}


def test_an_endless_answer_is_not_read(db: Database, clock: SetClock, receiver: Receiver) -> None:
    receiver.endless = True
    _post(db, clock, receiver.url)
    assert _deliver(db, clock) == 1
    assert _notices(db)[0].proof["status"] == 200


def test_a_slow_receiver_is_given_up_and_keeps_nobody_else_waiting(
    db: Database, clock: SetClock, receiver: Receiver
) -> None:
    receiver.answer = lambda delivery: None if delivery.path == "/slow" else 200
    _post(db, clock, f"{receiver.url}/quick")
    _post(db, clock, f"{receiver.url}/slow")
    assert _deliver(db, clock, timeout=0.5) == 2
    quick, slow = _notices(db)
    assert quick.proof["status"] == 200
    assert slow.delivered_at is None
    assert "Timeout" in slow.last_error


@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:1/closed", "http://", "ftp://127.0.0.1/x", "http://[::1", "no address", "http://\x7f/"]
)
def test_what_cannot_be_reached_is_noted_and_tried_again(db: Database, clock: SetClock, target: str) -> None:
    _post(db, clock, target)
    assert _deliver(db, clock) == 1
    (notice,) = _notices(db)
    assert notice.last_error
    assert notice.next_at > clock.now()


def test_two_couriers_never_send_the_same_notice(db: Database, clock: SetClock, receiver: Receiver) -> None:
    for number in range(40):
        _post(db, clock, receiver.url, task_id=f"t{number}")
    barrier = threading.Barrier(4)

    def courier(_: int) -> int:
        barrier.wait()
        return deliver_due(db, clock, _SECRET, timeout=5, longest_pause=60, limit=15)

    with ThreadPoolExecutor(4) as pool:
        tried = sum(pool.map(courier, range(4)))
    tried += deliver_due(db, clock, _SECRET, timeout=5, longest_pause=60)  # what a lock hid from all four
    assert tried == 40
    assert len({delivery.headers["webhook-id"] for delivery in receiver.deliveries}) == 40
    assert len(receiver.deliveries) == 40


def test_what_a_vanished_courier_had_claimed_is_sent_later(db: Database, clock: SetClock, receiver: Receiver) -> None:
    _post(db, clock, receiver.url)
    with pytest.raises(Exception, match="secret"):  # it claims, and then cannot sign
        deliver_due(db, clock, "whsec_", timeout=5, longest_pause=60)
    assert _deliver(db, clock) == 0
    clock.advance(40)
    assert _deliver(db, clock) == 1
    assert _notices(db)[0].attempts == 2


def test_other_kinds_are_left_to_others(db: Database, clock: SetClock, receiver: Receiver) -> None:
    with db.write() as conn:
        post(conn, clock.now(), "mail", receiver.url, {"text": "good morning"})
    assert _deliver(db, clock) == 0
    assert receiver.deliveries == []


def test_the_secret_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    barrier = threading.Barrier(8)

    def ask(_: int) -> str:
        barrier.wait()
        return callback_secret(tmp_path)

    with ThreadPoolExecutor(8) as pool:
        (secret,) = set(pool.map(ask, range(8)))
    (file,) = tmp_path.iterdir()
    assert file.name == "callback.secret"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert secret.startswith("whsec_")
    assert json.loads(json.dumps(secret)) == callback_secret(tmp_path)


def test_the_environment_may_state_the_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTDESK_CALLBACK_SECRET", _SECRET)
    assert callback_secret(tmp_path) == _SECRET
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", ["whsec_", "whsec_a", "\u00e4"])
def test_a_secret_that_cannot_sign_is_refused(tmp_path: Path, wrong: str) -> None:
    (tmp_path / "callback.secret").write_text(wrong, encoding="utf-8")
    with pytest.raises(NightdeskError, match=r"callback\.secret"):
        callback_secret(tmp_path)
