"""POST /v1/tasks: what is accepted, and how what is not accepted is refused."""

import uuid
from datetime import timedelta
from typing import Any

import httpx
import pytest

from nightdesk.work.insight import count_states
from tests.support.hand import START
from tests.support.web import WebServer


def post(api: httpx.Client, body: Any, **headers: str) -> httpx.Response:
    return api.post("/v1/tasks", json=body, headers={"Idempotency-Key": uuid.uuid4().hex} | headers)


def drill(name: str = "one", **fields: Any) -> dict[str, Any]:
    return {"playbook": "drill", "input": {"name": name}} | fields


def test_a_task_is_accepted_and_found_where_the_answer_says(api: httpx.Client) -> None:
    answer = post(api, drill(priority="P1", key="k", not_before="2026-02-01T00:30:00+02:00"))
    assert answer.status_code == 202
    task = answer.json()
    assert answer.headers["Location"] == f"/v1/tasks/{task['id']}"
    expected: dict[str, Any] = {
        "playbook": "drill", "tenant": "main", "key": "k", "state": "queued", "waiting_for": None, "version": 1,
        "priority": "P1", "created_at": "2026-01-31T22:00:00Z", "not_before": "2026-01-31T22:30:00Z",
        "cost_usd": "0.000000", "result": None, "error": None, "steps": [],
    }  # fmt: skip
    assert task | expected == task
    assert api.get(answer.headers["Location"]).json() == task


def test_the_same_task_again_is_the_same_task(api: httpx.Client, server: WebServer) -> None:
    first, again = post(api, drill()), post(api, drill())
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json()["id"] == again.json()["id"]
    assert count_states(server.house) == {"queued": 1}


def test_the_same_task_with_another_input_says_what_differs(api: httpx.Client) -> None:
    post(api, drill())
    refused = post(api, {"playbook": "drill", "input": {"name": "one", "steps": 4}})
    assert refused.status_code == 409
    assert refused.headers["Content-Type"] == "application/problem+json"
    problem = refused.json()
    assert (problem["type"], problem["differs"]) == ("urn:nightdesk:problem:conflict", ["input.steps"])
    assert problem["next_step"]


REFUSED = {
    "an unknown field": (drill(prioritty="P1"), 422, "prioritty", 'did you mean "priority"?'),
    "an unknown field of the input": (
        {"playbook": "drill", "input": {"name": "a", "step": 1}}, 422, "input.step", 'did you mean "steps"?',
    ),
    "a missing field": ({"playbook": "drill"}, 422, "input", "is missing"),
    "a wrong type": ({"playbook": "drill", "input": {"name": 1}}, 422, "input.name", "string"),
    "a number out of bounds": ({"playbook": "drill", "input": {"name": "a", "steps": 0}}, 422, "input.steps", "1"),
    "a priority that is none": (drill(priority="P9"), 422, "priority", ""),
    "a priority that is a boolean": (drill(priority=True), 422, "priority", ""),
    "a time without a zone": (drill(not_before="2026-01-31T22:00:00"), 422, "not_before", "zone"),
    "a time that is a number": (drill(not_before=1769900400), 422, "not_before", "zone"),
    "a day that is none": (drill(not_before="2026-02-30T22:00:00Z"), 422, "not_before", "day"),
    "a time that has passed": (drill(expires_at="2026-01-31T21:59:59Z"), 409, "expires_at", "later than now"),
    "an address that is none": (drill(callback_url="ftp://example.com"), 422, "callback_url", ""),
    "a key with a control character": (drill(key="a\nb"), 422, "key", ""),
    "a tenant of blanks that cannot be seen": (drill(tenant="\u2003"), 422, "tenant", ""),
    "a body that is a list": ([], 422, "", "must be an object"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_fault_is_named_with_its_path_and_nothing_is_stored(api: httpx.Client, server: WebServer, name: str) -> None:
    body, status, path, words = REFUSED[name]
    refused = post(api, body)
    assert refused.status_code == status, refused.text
    assert refused.headers["Content-Type"] == "application/problem+json"
    messages = [error["message"] for error in refused.json()["errors"] if error["path"] == path]
    assert len(messages) == 1
    assert words in messages[0]
    assert count_states(server.house) == {}


def test_every_fault_is_named_at_once(api: httpx.Client) -> None:
    refused = post(api, {"playbook": "drill", "input": {"nam": "a", "steps": "3"}})
    assert {error["path"] for error in refused.json()["errors"]} == {"input.nam", "input.name", "input.steps"}


def test_an_unknown_playbook_is_not_found_and_the_nearest_is_named(api: httpx.Client) -> None:
    refused = post(api, {"playbook": "dril", "input": {}})
    assert refused.status_code == 404
    assert "drill" in refused.json()["detail"]


def test_times_at_the_edge_of_the_calendar_are_taken(api: httpx.Client) -> None:
    edges = {"not_before": "0001-01-01T00:00:00+14:00", "expires_at": "9999-12-31T23:59:59.999999-14:00"}
    answer = post(api, drill(**edges))
    assert answer.status_code == 202, answer.text
    shown = api.get(answer.headers["Location"]).json()
    assert (shown["not_before"][:5], shown["expires_at"][:5]) == ("0001-", "9999-")


def test_the_callback_address_and_the_expiry_are_kept(api: httpx.Client) -> None:
    expires = (START + timedelta(hours=1)).isoformat()
    answer = post(api, drill(callback_url="https://example.com/done?x=1", expires_at=expires))
    assert answer.json()["expires_at"] == "2026-01-31T23:00:00Z"


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/json; charset=latin-1", "multipart/form-data", "application/jsonx"]
)
def test_only_json_in_utf8_is_read(api: httpx.Client, content_type: str) -> None:
    headers = {"Idempotency-Key": "k", "Content-Type": content_type}
    refused = api.post("/v1/tasks", content=b'{"playbook":"drill","input":{"name":"a"}}', headers=headers)
    assert (refused.status_code, refused.json()["type"]) == (415, "urn:nightdesk:problem:unsupported-media-type")


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; Charset=UTF-8"])
def test_json_in_utf8_is_read_however_it_is_spelt(api: httpx.Client, content_type: str) -> None:
    headers = {"Idempotency-Key": "k", "Content-Type": content_type}
    answer = api.post("/v1/tasks", content=b'{"playbook":"drill","input":{"name":"a"}}', headers=headers)
    assert answer.status_code == 202
