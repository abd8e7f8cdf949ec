"""The desk over HTTP: the list, one item, and decisions that are answered 200, 409 with the outcome, or 403."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from nightdesk.clock import SetClock
from nightdesk.house import open_house
from tests.conftest import make_house_folder
from tests.review.morning import Morning
from tests.support.web import WebServer


@pytest.fixture
def desk(tmp_path: Path, sqlite_url: str, clock: SetClock) -> Iterator[Morning]:
    house = open_house(make_house_folder(tmp_path / "house", sqlite_url), clock=clock)
    morning = Morning(house, clock)
    morning.open()
    yield morning
    house.close()


@pytest.fixture
def reviews(desk: Morning) -> Iterator[httpx.Client]:
    """A client that may review, on the house with the playbooks."""
    with WebServer(desk.house) as running, running.client("review") as client:
        yield client


def decide(api: httpx.Client, item: str, verb: str, **said: Any) -> httpx.Response:
    body = {"verb": verb, "hash": api.get(f"/v1/reviews/{item}").json()["hash"], **said}
    return api.post(f"/v1/reviews/{item}/decision", json=body)


def test_the_morning_over_http(desk: Morning, reviews: httpx.Client) -> None:
    first, second = desk.lay("listing", "kettle", "toaster")
    page = reviews.get("/v1/reviews", params={"limit": 1}).json()
    assert page["counts"] == {"left": 2, "total": 2, "minutes_left": 6.0, "later": 0}
    rest = reviews.get("/v1/reviews", params={"cursor": page["next_cursor"]}).json()
    assert {page["items"][0]["id"], rest["items"][0]["id"]} == {first, second}
    card = reviews.get(f"/v1/reviews/{first}").json()
    assert {"payload", "hash", "risk", "gates", "evidence", "impact", "rollback", "deadline"} <= set(card)
    assert card == desk.card(first)
    approved = decide(reviews, first, "approve", note="fine")
    assert (approved.status_code, approved.json()["state"], approved.json()["actor"]) == (200, "approved", "token:test")
    assert decide(reviews, first, "approve").json() == approved.json()
    refused = decide(reviews, first, "reject")
    problem = refused.json()
    assert (refused.status_code, problem["type"], problem["outcome"]) == (
        409, "urn:nightdesk:problem:decided", approved.json()
    )  # fmt: skip
    assert decide(reviews, first, "undo").json()["undone_by"] == "token:test"
    edited = decide(reviews, second, "edit", edits={"title": "Toaster"}, reason="off brand")
    assert edited.json()["diff"] == [{"path": "title", "before": "toaster", "after": "Toaster"}]
    stale = reviews.post(f"/v1/reviews/{first}/decision", json={"verb": "approve", "hash": "0" * 64})
    assert (stale.status_code, stale.json()["outcome"]["state"], stale.json()["outcome"]["verb"]) == (
        409,
        "review",
        None,
    )


def test_to_look_changes_nothing(desk: Morning, reviews: httpx.Client) -> None:
    item = desk.one()
    before = desk.stored(item), desk.rows_of_everything()
    for method in ("GET", "HEAD"):
        for path in ("/v1/reviews", f"/v1/reviews/{item}", f"/v1/reviews/{item}/decision"):
            reviews.request(method, path)
    assert (desk.stored(item), desk.rows_of_everything()) == before


@pytest.mark.parametrize(
    ("scopes", "kind", "right", "says"),
    [
        (("read",), "listing", None, "scope review"),
        (("review",), "payout", "review irreversible", "up to customer"),
    ],
)
def test_who_may_not_is_told_why(
    desk: Morning, scopes: tuple[str, ...], kind: str, right: str | None, says: str
) -> None:
    item = desk.one(kind)
    with WebServer(desk.house) as running, running.client(*scopes) as client:
        body = {"verb": "approve", "hash": desk.card(item)["hash"]}
        refused = client.post(f"/v1/reviews/{item}/decision", json=body)
    assert (refused.status_code, refused.json().get("right")) == (403, right)
    assert says in refused.json()["detail"]
    assert "WWW-Authenticate" in refused.headers


def test_an_admins_token_decides_what_cannot_be_taken_back_where_one_is_alone(desk: Morning) -> None:
    item = desk.one("payout")
    with WebServer(desk.house) as running, running.client() as client:
        assert decide(client, item, "approve").json()["awaits"].startswith("a second look")
        desk.clock.advance(900)
        assert decide(client, item, "approve").json()["state"] == "approved"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"verb": "aprove", "hash": "x"}, "verb"),
        ({"verb": "approve"}, "hash"),
        ({"verb": "approve", "hash": ""}, "hash"),
        ({"verb": "edit", "hash": "x", "edits": []}, "edits"),
        ({"verb": "approve", "hash": "x", "opened": "now"}, "opened"),
    ],
)
def test_what_fits_no_schema_is_refused_by_field(desk: Morning, reviews: httpx.Client, body: Any, path: str) -> None:
    refused = reviews.post(f"/v1/reviews/{'0' * 32}/decision", json=body)
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, path)


def test_an_edit_of_the_wrong_type_names_its_place(desk: Morning, reviews: httpx.Client) -> None:
    refused = decide(reviews, desk.one(), "edit", edits={"bullets": ["a", 1]})
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "bullets[1]")


def test_a_tenant_sees_its_own_desk(desk: Morning) -> None:
    mine, theirs = desk.one(tenant="a"), desk.one(tenant="b")
    with WebServer(desk.house) as running, running.client("review", tenant="a") as client:
        page = client.get("/v1/reviews").json()
        assert ([item["id"] for item in page["items"]], page["counts"]["left"]) == ([mine], 1)
        assert client.get("/v1/reviews", params={"tenant": "b"}).status_code == 404
        seen, unknown = (client.get(f"/v1/reviews/{item}") for item in (theirs, "0" * 32))
        assert (seen.status_code, seen.text.replace(theirs, "0" * 32)) == (404, unknown.text)
        assert (
            client.post(
                f"/v1/reviews/{theirs}/decision", json={"verb": "reject", "hash": desk.card(theirs)["hash"]}
            ).status_code
            == 404
        )
        assert decide(client, mine, "reject").status_code == 200
