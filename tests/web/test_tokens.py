"""Who may do what: scopes, tenants, and patience with those who guess."""

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from nightdesk.clock import SetClock
from nightdesk.guard.tokens import create_token, list_tokens, revoke_token
from nightdesk.web.auth import FREE_FAILURES, Throttle
from tests.support.hand import START
from tests.support.web import WebServer

BODY = {"playbook": "drill", "input": {"name": "one"}}
SCOPES = {"submit", "read", "review", "operate"}


def submit(api: httpx.Client, **fields: Any) -> httpx.Response:
    return api.post("/v1/tasks", json=BODY | fields, headers={"Idempotency-Key": uuid.uuid4().hex})


def operations(server: WebServer) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every operation of the document that asks for a token: method, path, and itself."""
    document = httpx.get(f"{server.url}/openapi.json", trust_env=False).json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "security" in operation:
                yield method, path, operation | {"schemas": document["components"]["schemas"]}


def body_for(operation: dict[str, Any]) -> dict[str, str] | None:
    """The least body that fits the operation's schema."""
    if "requestBody" not in operation:
        return None
    name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    schema = operation["schemas"][name]
    return {field: schema["properties"][field].get("enum", ["x"])[0] for field in schema.get("required", [])}


def call(api: httpx.Client, method: str, path: str, operation: dict[str, Any], task_id: str) -> httpx.Response:
    return api.request(method, path.format(task_id=task_id, item_id=task_id), json=body_for(operation))


def test_every_operation_asks_for_a_token(server: WebServer) -> None:
    asked = 0
    for method, path, operation in operations(server):
        for headers in ({}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer nd_wrong"}):
            with httpx.Client(base_url=server.url, headers=headers, trust_env=False) as stranger:
                refused = call(stranger, method, path, operation, "x")
            assert (refused.status_code, refused.json()["status"]) in [(401, 401), (429, 429)]
            assert refused.headers.get("WWW-Authenticate", "Bearer").startswith("Bearer")
        asked += 1
    assert asked >= 6


@pytest.mark.parametrize("held", sorted(SCOPES))
def test_a_scope_opens_what_it_names_and_nothing_else(server: WebServer, held: str) -> None:
    needed = {"/v1/tasks post": "submit", "/v1/tasks get": "read", "/v1/tasks/{task_id} get": "read"}
    with server.client(held) as api:
        for method, path, operation in operations(server):
            answer = call(api, method, path, operation, "x")
            scope = "review" if path.startswith("/v1/reviews") else needed.get(f"{path} {method}", "operate")
            assert (answer.status_code == 403) is (scope != held), (method, path)
            if scope != held:
                assert f"scope {scope}" in answer.json()["detail"]


def test_admin_may_do_everything(api: httpx.Client) -> None:
    made = submit(api)
    assert api.post(f"{made.headers['Location']}/cancel").json()["state"] == "cancelled"


def test_a_token_that_ended_or_was_revoked_opens_nothing(server: WebServer, clock: SetClock) -> None:
    house = server.house
    brief = create_token(house.db, clock, "brief", ["read"], expires_at=clock.now() + timedelta(hours=1), actor="test")
    headers = {"Authorization": f"Bearer {brief.secret}"}
    with server.client("read") as api, httpx.Client(base_url=server.url, headers=headers, trust_env=False) as other:
        assert (api.get("/v1/tasks").status_code, other.get("/v1/tasks").status_code) == (200, 200)
        clock.advance(3600)
        [lasting] = [token.id for token in list_tokens(house.db) if token.name == "test"]
        revoke_token(house.db, clock, lasting, actor="test")
        assert (api.get("/v1/tasks").status_code, other.get("/v1/tasks").status_code) == (401, 401)


def test_another_tenants_tasks_do_not_exist(server: WebServer) -> None:
    """S8: on every operation that takes an id, another's id is answered as one that never was."""
    tried = 0
    with server.client(*SCOPES, tenant="a") as a, server.client(*SCOPES, tenant="b") as b:
        theirs = submit(b).json()["id"]
        for method, path, operation in operations(server):
            if "{" not in path:
                continue
            refused, unknown = (call(a, method, path, operation, task_id) for task_id in (theirs, "0" * 32))
            assert refused.status_code == 404, (method, path)
            assert refused.text.replace(theirs, "0" * 32) == unknown.text
            tried += 1
        assert tried >= 4
        assert a.get("/v1/tasks").json() == {"items": [], "next_cursor": None}
        assert a.get("/v1/tasks", params={"tenant": "b"}).status_code == 404
        assert b.get("/v1/tasks", params={"tenant": "b"}).json()["items"][0]["state"] == "queued"


def test_a_token_of_a_tenant_writes_for_that_tenant_alone(server: WebServer) -> None:
    with server.client("submit", tenant="a") as a:
        assert submit(a).json()["tenant"] == "a"
        assert submit(a, tenant="a").json()["tenant"] == "a"
        assert submit(a, tenant="b").status_code == 404
    with server.client("submit") as anyone:
        assert submit(anyone).json()["tenant"] == "main"
        assert submit(anyone, tenant="b").json()["tenant"] == "b"


def test_ten_wrong_tokens_slow_an_address_down(server: WebServer, clock: SetClock) -> None:
    def get(secret: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {secret}"}
        return httpx.get(f"{server.url}/v1/tasks", headers=headers, trust_env=False)

    known, fresh = server.token("read"), server.token("read")
    assert get(known).status_code == 200
    wrong = [get(f"nd_guess-{number}").status_code for number in range(FREE_FAILURES)]
    assert wrong == [401] * FREE_FAILURES
    slowed = get(fresh)
    assert (slowed.status_code, slowed.headers["Retry-After"]) == (429, "1")
    assert slowed.json()["type"] == "urn:nightdesk:problem:too-many-attempts"
    assert get(known).status_code == 200
    clock.advance(1)
    assert get("nd_guess-again").status_code == 401
    assert get("nd_guess-again").headers["Retry-After"] == "2"
    clock.advance(2)
    assert get(fresh).status_code == 200


def test_pauses_double_up_to_a_minute_and_end() -> None:
    clock = SetClock(START)
    throttle = Throttle(clock)
    pauses = []
    for _ in range(FREE_FAILURES + 10):
        throttle.failed("1.2.3.4")
        pauses.append(throttle.pause("1.2.3.4", "nd_x"))
        clock.advance(pauses[-1])
    assert pauses[FREE_FAILURES - 1 :] == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]
    assert throttle.pause("5.6.7.8", "nd_x") == 0
    clock.advance(15 * 60 + 1)
    throttle.failed("1.2.3.4")
    assert throttle.pause("1.2.3.4", "nd_x") == 0


def test_a_million_addresses_are_not_all_remembered() -> None:
    throttle = Throttle(SetClock(START))
    for number in range(20_000):
        throttle.failed(f"address {number}")
        throttle.passed(f"address {number}", "nd_x")
    assert len(throttle._failures) == len(throttle._known) == 10_000
