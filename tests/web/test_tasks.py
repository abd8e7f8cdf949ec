"""Looking at tasks, and changing them."""

from typing import Any

import httpx
import pytest

from nightdesk.clock import SetClock
from nightdesk.house import House
from nightdesk.store.tables import STATES, WAITS
from nightdesk.web import schemas
from nightdesk.work import Desk
from tests.support.hand import Hand


@pytest.fixture
def hand(timed_house: House, clock: SetClock) -> Hand:
    return Hand(timed_house, clock)


def ids(page: httpx.Response) -> list[str]:
    assert page.status_code == 200, page.text
    return [item["id"] for item in page.json()["items"]]


def test_a_done_task_shows_its_steps_and_result(api: httpx.Client, hand: Hand) -> None:
    task_id = hand.submit("drill", {"name": "one", "steps": 2}).id
    hand.run_all()
    task = api.get(f"/v1/tasks/{task_id}").json()
    assert (task["state"], task["result"]) == ("done", {"steps": 2})
    shown = [(step["step"], step["occurrence"], step["status"], step["attempt"]) for step in task["steps"]]
    assert shown == [("step-1", 1, "done", 1), ("step-2", 1, "done", 1)]


def test_pages_hold_every_task_once_newest_first(api: httpx.Client, hand: Hand, clock: SetClock) -> None:
    made = []
    for number in range(7):
        made.append(hand.submit("drill", {"name": f"n{number}"}).id)
        clock.advance(number % 2)
    seen, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        page = api.get("/v1/tasks", params={"limit": 3} | ({"cursor": cursor} if cursor else {}))
        seen += ids(page)
        cursor = page.json()["next_cursor"]
        pages += 1
    assert pages == 3
    assert sorted(seen) == sorted(made)
    assert seen[0] == made[-1]
    assert "steps" not in page.json()["items"][0]


def test_filters_choose(api: httpx.Client, hand: Hand) -> None:
    first = hand.submit("drill", {"name": "one"}).id
    hand.run_all()
    second = hand.submit("drill", {"name": "two"}, tenant="b").id
    assert ids(api.get("/v1/tasks", params={"state": "done"})) == [first]
    assert ids(api.get("/v1/tasks", params={"tenant": "b"})) == [second]
    assert ids(api.get("/v1/tasks", params={"playbook": "other"})) == []
    assert ids(api.get("/v1/tasks", params={"waiting_for": "person"})) == []


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=x", "limit"),
        ("state=dne", "state"),
        ("waiting_for=rain", "waiting_for"),
        ("tenant=%00", "tenant"),
        ("playbook=%ff%fe%00", "playbook"),
        ("cursor=%20", "cursor"),
        ("staet=done", "staet"),
    ],
)
def test_a_wrong_filter_is_refused_by_name(api: httpx.Client, query: str, path: str) -> None:
    refused = api.get(f"/v1/tasks?{query}")
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, path)


@pytest.mark.parametrize("cursor", ["AAAA", "bnVsbA", "WyJ4IiwgMV0", "_-_-", "W10"])
def test_a_cursor_that_is_not_ours_leads_nowhere(api: httpx.Client, cursor: str) -> None:
    assert api.get("/v1/tasks", params={"cursor": cursor}).status_code == 404


def test_cancelling_is_final_and_may_be_repeated(api: httpx.Client, hand: Hand) -> None:
    path = f"/v1/tasks/{hand.submit('drill', {'name': 'one'}).id}"
    assert api.post(f"{path}/cancel", json={"why": "not needed"}).json()["state"] == "cancelled"
    assert api.post(f"{path}/cancel").json()["state"] == "cancelled"
    hand.run_all()
    assert api.get(path).json()["state"] == "cancelled"


def test_what_is_done_cannot_be_cancelled(api: httpx.Client, hand: Hand) -> None:
    task_id = hand.submit("drill", {"name": "one"}).id
    hand.run_all()
    refused = api.post(f"/v1/tasks/{task_id}/cancel")
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:nightdesk:problem:conflict")


def test_a_dead_letter_is_replayed_and_others_are_not(api: httpx.Client, hand: Hand) -> None:
    path = f"/v1/tasks/{hand.submit('drill', {'name': 'one', 'fail': 'bug', 'fail_at': 2, 'fail_times': 4}).id}"
    assert api.post(f"{path}/replay").status_code == 409
    hand.settle()
    dead = api.get(path).json()
    assert dead["state"] == "dead"
    assert "traceback" not in str(dead)
    assert api.post(f"{path}/replay", json={"why": "mended"}).json()["state"] == "queued"
    hand.settle()
    assert api.get(path).json()["state"] == "done"


def test_a_question_is_answered(api: httpx.Client, hand: Hand) -> None:
    async def asks(order: Any, desk: Desk) -> dict[str, Any]:
        return {"said": await desk.ask("Which?", ["left", "right"])}

    hand.have(asks)
    path = f"/v1/tasks/{hand.submit('job', {'name': 'one'}).id}"
    assert api.post(f"{path}/answer", json={"choice": "left"}).status_code == 409
    hand.run_all()
    assert api.get(path).json()["waiting_for"] == "person"
    refused = api.post(f"{path}/answer", json={"choice": "up"})
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "choice")
    assert api.post(f"{path}/answer", json={"choice": "right"}).status_code == 200
    hand.run_all()
    assert api.get(path).json()["result"] == {"said": "right"}


def test_the_api_knows_the_states_of_the_store() -> None:
    assert schemas.State.__args__ == STATES  # type: ignore[attr-defined]
    assert schemas.Wait.__args__ == WAITS  # type: ignore[attr-defined]


def test_unknown_paths_and_methods_are_problems(api: httpx.Client) -> None:
    unknown = api.get("/v1/nothing")
    assert (unknown.status_code, unknown.headers["Content-Type"]) == (404, "application/problem+json")
    wrong = api.put("/v1/tasks", json={})
    assert (wrong.status_code, wrong.headers["Allow"]) == (405, "GET, POST")
    assert wrong.headers["Content-Type"] == "application/problem+json"
    for page in ("/docs", "/redoc", "/v1/tasks/"):
        assert api.get(page).status_code == 404


def test_requests_and_submissions_are_counted_by_route(api: httpx.Client, server: Any) -> None:
    body = {"playbook": "drill", "input": {"name": "one"}}
    task_id = api.post("/v1/tasks", json=body, headers={"Idempotency-Key": "k"}).json()["id"]
    api.get(f"/v1/tasks/{task_id}")
    api.get("/nowhere/at/all")
    counted = httpx.get(f"{server.url}/metrics", trust_env=False)
    assert counted.headers["Content-Type"].startswith("text/plain")
    assert 'nightdesk_submissions_total{outcome="new",playbook="drill"} 1.0' in counted.text
    assert 'requests_total{method="GET",route="/v1/tasks/{task_id}",status="200"} 1.0' in counted.text
    assert 'requests_total{method="GET",route="none",status="404"} 1.0' in counted.text
    assert 'nightdesk_tasks{state="queued"} 1.0' in counted.text
