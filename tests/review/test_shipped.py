"""The shipped playbooks with code: what they read, how they fan out, what they leave out, what their checks catch."""

import dataclasses
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nightdesk.canonical import Json
from nightdesk.model.simulator import Fault
from nightdesk.playbook import Playbook, When, load_registry
from nightdesk.playbook.code import load_module
from nightdesk.work import Verdict
from nightdesk.work.insight import history
from tests.model.asking import AskingHouse

SCAN, SENTIMENT = "competitor-scan", "review-sentiment"
PAGE = "Fig candle 220 g, 28 euros, soy wax\nBurns 40 hours\nDelivery free from 50 euros"


def book(name: str) -> Playbook:
    return load_registry(Path("nowhere")).get(name)


def module(name: str, file: str) -> Any:
    source = book(name).source
    assert source is not None
    path = source.with_name(file)
    return load_module(path, path.read_text(encoding="utf-8"))


@pytest.fixture
def shop(asking: AskingHouse, monkeypatch: pytest.MonkeyPatch) -> AskingHouse:
    """A worker in the house's folder, in which these playbooks start at once and ask in batches."""
    monkeypatch.setenv("NIGHTDESK_HOME", str(asking.house.home))
    asking.set(waves={"canary": False})
    for name in (SCAN, SENTIMENT):
        found = book(name)
        asking.use(dataclasses.replace(found, when=When("now"), asking=dataclasses.replace(found.asking, lane="batch")))
    return asking


def done(shop: AskingHouse, playbook: str, input: Json) -> dict[str, Any]:
    task_id = shop.submit(playbook, input).id
    shop.settle()
    return shop.task(task_id)


def scan(shop: AskingHouse, *pages: dict[str, Any]) -> dict[str, Any]:
    return done(shop, SCAN, {"name": "a", "us": "We sell candles.", "pages": list(pages)})


def test_pages_are_read_side_by_side_in_one_wave_and_summed_up_in_the_next(shop: AskingHouse) -> None:
    task = scan(shop, *({"name": f"Shop {letter}", "text": PAGE + f"\nSince {letter}"} for letter in "ABC"))
    calls = shop.calls(task["id"])
    assert task["state"] == "done"
    assert [call.lane for call in calls] == ["batch"] * 4
    assert len({call.batch_id for call in calls[:3]}) == 1
    assert calls[3].batch_id != calls[0].batch_id
    assert (shop.meter()["repeated"], shop.divergences()) == (0, [])
    assert {finding["competitor"] for finding in task["result"]["findings"]} == {"Shop A", "Shop B", "Shop C"}
    assert all(finding["quote"] in PAGE for finding in task["result"]["findings"])


def test_pages_can_lie_in_the_houses_folder_and_nowhere_else(shop: AskingHouse) -> None:
    pages = shop.house.home / "pages"
    (pages / "deep").mkdir(parents=True)
    (pages / "deep/halo.html").write_bytes(f"<p>{PAGE}</p><p>\xff</p>".encode("latin-1"))
    (shop.house.home / "secret.txt").write_text("the key is 12345", encoding="utf-8")
    (pages / "link.txt").symlink_to(shop.house.home / "secret.txt")
    task = scan(
        shop,
        {"name": "Halo", "file": "deep/halo.html"},
        *(
            {"name": f"Bad {file}", "file": file}
            for file in ("../secret.txt", "link.txt", "/etc/passwd", "none.txt", ".")
        ),
    )
    assert [skipped["page"].split()[0] for skipped in task["result"]["skipped"]] == ["Bad"] * 5
    assert "12345" not in shop.dump()
    assert {finding["competitor"] for finding in task["result"]["findings"]} == {"Halo"}


def test_what_is_new_is_told_from_what_was_there(shop: AskingHouse) -> None:
    old, new = scan_of(shop, "a", PAGE, PAGE), scan_of(shop, "b", "Refill pouch, 19 euros\n" + PAGE, PAGE)
    assert [finding["is_new"] for finding in old["result"]["findings"]] == [False] * len(old["result"]["findings"])
    assert {finding["quote"]: finding["is_new"] for finding in new["result"]["findings"]} == {
        "Refill pouch, 19 euros": True
    }


def scan_of(shop: AskingHouse, name: str, text: str, was: str) -> dict[str, Any]:
    page = {"name": "Halo", "text": text, "was": was}
    return done(shop, SCAN, {"name": name, "us": "We sell candles.", "pages": [page]})


def test_a_page_that_the_model_cannot_read_does_not_take_the_others_with_it(shop: AskingHouse) -> None:
    orders = 'sim:{"wrong_schema": true}'
    task = scan(shop, {"name": "Lumen", "text": f"{PAGE}\n{orders}"}, {"name": "Halo", "text": PAGE})
    assert task["state"] == "done"
    assert [skipped["page"] for skipped in task["result"]["skipped"]] == ["Lumen"]
    assert {finding["competitor"] for finding in task["result"]["findings"]} == {"Halo"}


def test_html_is_read_as_a_person_sees_it() -> None:
    read = module(SCAN, "scan.py").read_pages
    html = (
        "<!doctype html><head><title>t</title><style>p{}</style></head><body><nav>Menu 1</nav><script>var a = 5;"
        "</script><h1>One&nbsp;&amp; two</h1><p>Three <b>four</b></p><ul><li>five<li>six</ul><footer>Imprint</footer>"
    )
    [page] = read([{"name": "x", "text": html, "file": None, "was": None}])
    assert page["text"].split() == ["One", "&", "two", "Three", "four", "five", "six"]


@pytest.mark.parametrize(
    "page", ["<" * 200_000, "<div>" * 50_000, "x " * 1_000_000, "&#x0;" * 10_000, "<!--" + "x" * 99_999]
)
def test_hostile_pages_are_cut_and_read(page: str) -> None:
    found = module(SCAN, "scan.py")
    [read] = found.read_pages([{"name": "x", "text": page, "file": None, "was": None}])
    assert len(found.passages_of(read["text"])) <= 80


def test_passages_are_short_and_come_once() -> None:
    passages = module(SCAN, "scan.py").passages_of(
        "Menu\n" + f"{PAGE}\n" * 50 + "One sentence here. Two sentences here.\n" + "y" * 999
    )
    assert passages[:5] == [*PAGE.split("\n"), "One sentence here.", "Two sentences here."]
    assert max(len(passage) for passage in passages) == 400


def reviews(count: int, seed: int = 1) -> list[dict[str, Any]]:
    drawn, said = (
        random.Random(seed),
        ["warm", "soft", "zip", "broke", "late", "kind", "strap", "rain", "wool", "large", "small", "dear"],
    )
    return [
        {
            "id": f"rv{number}",
            "rating": drawn.randint(1, 5),
            "text": " ".join(drawn.choices(said, k=12)) + f" {number}.",
        }
        for number in range(count)
    ]


def test_five_hundred_reviews_are_one_task_of_two_waves(shop: AskingHouse) -> None:
    given = reviews(500)
    task = done(shop, SENTIMENT, {"name": "a", "product": "City pack", "reviews": given})
    calls, result = shop.calls(task["id"]), task["result"]
    assert (task["state"], len(calls), {call.lane for call in calls}) == ("done", 11, {"batch"})
    assert len({call.batch_id for call in calls}) == 2
    assert (shop.meter()["repeated"], shop.divergences()) == (0, [])
    assert (result["reviews"], result["unread"], sum(result["sentiment"].values())) == (500, 0, 500)
    texts = {review["id"]: review["text"] for review in given}
    quotes = [quote for theme in result["themes"] for quote in theme["quotes"]]
    assert quotes
    assert all(quote["text"] == texts[quote["review"]] for quote in quotes)


def test_what_the_model_cannot_sort_is_counted_and_too_much_of_it_is_for_a_person(shop: AskingHouse) -> None:
    bad = {"text": 'sim:{"wrong_schema": true}', "rating": 3}
    some = done(shop, SENTIMENT, {"name": "some", "product": "p", "reviews": [*reviews(300), bad]})
    most = done(shop, SENTIMENT, {"name": "most", "product": "p", "reviews": [*reviews(20), bad]})
    assert (some["state"], some["result"]["unread"]) == ("done", 1)
    assert (most["state"], most["result"]) == ("review", None)
    assert "no usable answer for 21 of 21 reviews" in history(shop.house, most["id"])[-1]["cause"]


def test_a_provider_that_is_away_costs_no_review_twice(shop: AskingHouse) -> None:
    shop.simulator.faults.add(Fault("create_refused", "anthropic", times=1))
    task = done(shop, SENTIMENT, {"name": "a", "product": "p", "reviews": reviews(120)})
    assert (task["state"], shop.meter()["repeated"]) == ("done", 0)


def _quoting(review: str, text: str) -> dict[str, Any]:
    quotes = [{"review": review, "text": text}]
    return {"themes": [{"theme": "price", "praised": 1, "criticised": 0, "summary": "s", "quotes": quotes}]}


def _draft(**changed: Any) -> Any:
    theme = {
        "theme": "price",
        "praised": 2,
        "criticised": 1,
        "summary": "Fair, said 2.",
        "quotes": [{"review": "r1", "text": "fair"}],
    }
    draft = {
        "product": "Pack 28 l", "reviews": 3, "unread": 0, "average_rating": 4.5, "headline": "2 like the price.",
        "sentiment": {"positive": 2, "mixed": 0, "negative": 1, "unknown": 0}, "themes": [theme],
    } | changed  # fmt: skip
    output = book(SENTIMENT).output
    assert output is not None
    return output.model_validate(draft)


ORDER = SimpleNamespace(
    product="Pack 28 l",
    themes=["price"],
    reviews=[
        SimpleNamespace(id=name, text=text) for name, text in (("r1", "Very  fair"), (None, "dear"), ("r3", "ok"))
    ],
)


@pytest.mark.parametrize(
    ("check", "changed", "passed"),
    [
        ("counts_add_up", {}, True),
        ("counts_add_up", {"reviews": 4}, False),
        ("counts_add_up", {"unread": 1}, False),
        ("counts_add_up", {"sentiment": {"positive": 9, "mixed": 0, "negative": 1, "unknown": 0}}, False),
        ("quotes_are_reviews", {}, True),
        ("quotes_are_reviews", _quoting("2", "dear"), True),
        ("quotes_are_reviews", _quoting("r1", "made up"), False),
        ("numbers_are_counts", {}, True),
        ("numbers_are_counts", {"headline": "4.5 stars for the 28 l pack"}, True),
        ("numbers_are_counts", {"headline": "73% like it"}, False),
    ],
)  # fmt: skip
def test_the_checks_of_a_summary_catch_what_is_made_up(check: str, changed: dict[str, Any], passed: bool) -> None:
    verdict: Verdict = getattr(module(SENTIMENT, "sentiment_checks.py"), check)(_draft(**changed), ORDER)
    assert verdict.passed is passed


@pytest.mark.parametrize(
    ("check", "changed", "passed"),
    [
        ("quotes_are_there", {}, True),
        ("quotes_are_there", {"quote": "Fig candle, gold edition"}, False),
        ("numbers_are_quoted", {}, True),
        ("numbers_are_quoted", {"what": "28 euros for 220 g"}, True),
        ("numbers_are_quoted", {"what": "12 euros cheaper than us"}, False),
    ],
)
def test_the_checks_of_a_scan_catch_what_is_made_up(check: str, changed: dict[str, Any], passed: bool) -> None:
    found = book(SCAN)
    order = found.load_input(
        found.check_input({"name": "a", "us": "We sell.", "pages": [{"name": "Halo", "text": PAGE}]})
    )
    finding = {
        "competitor": "Halo",
        "topic": "price",
        "what": "x",
        "quote": "Burns 40 hours",
        "source": "Halo",
        "is_new": False,
    }
    draft = found.load_output(
        {"summary": "s", "findings": [finding | changed], "moves": [], "skipped": [], "unsupported": 0}
    )
    if "what" in changed:
        draft.findings[0].__dict__["quote"] = PAGE
    verdict: Verdict = getattr(module(SCAN, "scan_checks.py"), check)(draft, order)
    assert verdict.passed is passed
