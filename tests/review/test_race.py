"""A thousand decisions race for a hundred drafts by three ways in: each is decided once, and the paper trail holds."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from nightdesk.guard.users import User
from nightdesk.review.asked import Actor, Asked, Decided
from nightdesk.review.decisions import decide
from nightdesk.store import tasks
from nightdesk.watch import audit
from tests.review.morning import TERMINAL, Morning
from tests.support.web import WebServer

ITEMS, EACH = 100, 10
THREADS = 12
VERBS = ("approve", "edit", "send_back", "reject")
LEAVES = {"approve": "approved", "edit": "approved", "send_back": "queued", "reject": "rejected"}

# (item, verb, hash) -> whether it was decided so, or what was in the way
Way = Callable[[str, str, str], str]


def said(verb: str) -> dict[str, Any]:
    return {"edits": {"title": "x"} if verb == "edit" else None, "reason": "x"}


def by_python(morning: Morning, actor: Actor) -> Way:
    def way(item: str, verb: str, hash_: str) -> str:
        try:
            return decide(morning.house, Asked(item, verb, hash_, actor, **said(verb))).state
        except Decided as error:
            return f"409 {error.outcome.verb}"

    return way


def by_api(api: httpx.Client) -> Way:
    def way(item: str, verb: str, hash_: str) -> str:
        answer = api.post(f"/v1/reviews/{item}/decision", json={"verb": verb, "hash": hash_, **said(verb)})
        if answer.status_code == 200:
            return str(answer.json()["state"])
        assert answer.status_code == 409, answer.text
        return f"409 {answer.json()['outcome']['verb']}"

    return way


def test_a_hundred_drafts_are_decided_a_hundred_times(morning: Morning) -> None:
    items = morning.lay("advert", *(f"n{number:03}" for number in range(ITEMS)))
    hashes = {item: morning.card(item)["hash"] for item in items}
    person = Actor.of(User("user-ana", "ana", "reviewer", "customer"), "link", "link")
    links = [Actor(**{**vars(person), "name": f"user:{number}"}) for number in range(5)]
    with WebServer(morning.house, patience_seconds=60) as server, server.client("review") as api:
        ways = [by_python(morning, TERMINAL), by_api(api), *(by_python(morning, link) for link in links)]
        answers = _race(_asked(items, hashes, ways))
    assert sum(answers.values()) == ITEMS * EACH
    rows = morning.decisions()
    assert Counter(row["task_id"] for row in rows) == dict.fromkeys(items, 1)
    assert all(row["final"] and row["undone_at"] is None for row in rows)
    assert {row["channel"] for row in rows} == {"terminal", "api", "link"}
    assert {row["id"]: row["state"] for row in morning.rows(tasks)} == {
        row["task_id"]: LEAVES[row["verb"]] for row in rows
    }
    # Whoever was not first has heard so, or has said the same as was decided already.
    assert sum(count for answer, count in answers.items() if answer.startswith("409")) >= ITEMS * (EACH - 4)
    _check_trail(morning)


def _asked(items: list[str], hashes: dict[str, str], ways: list[Way]) -> Iterator[tuple[Way, str, str, str]]:
    """Ten for each draft, so spread that the ways meet each other at every one of them."""
    for turn in range(EACH):
        for place, item in enumerate(items):
            three = (ways[0], ways[1], ways[2 + place % (len(ways) - 2)])
            yield three[(turn + place) % 3], item, VERBS[(turn + place // 3) % len(VERBS)], hashes[item]


def _race(asked: Iterator[tuple[Way, str, str, str]]) -> Counter[str]:
    start = threading.Barrier(THREADS)
    calls = list(asked)

    def run(number: int) -> Counter[str]:
        start.wait(timeout=60)
        return Counter(way(item, verb, hash_) for way, item, verb, hash_ in calls[number::THREADS])

    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(run, range(THREADS)), Counter())


def _check_trail(morning: Morning) -> None:
    head = morning.house.home / "audit.head"
    while audit.seal(morning.house.db, morning.clock, head):
        pass
    verdict = audit.verify(morning.house.db, head)
    assert (verdict.ok, verdict.unsealed) == (True, 0)
