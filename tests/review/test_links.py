"""The gate for links, and the guard that it reads the web by."""

import asyncio
import ipaddress
import time
from collections.abc import Iterator

import pytest

from nightdesk.guard.egress import Egress, Refused, is_listed, is_public
from nightdesk.playbook.gates import Links
from nightdesk.review.links import links
from nightdesk.review.material import Material
from nightdesk.work.draft import Verdict
from tests.review.site import Site, served

HOSTS = ("shop.example", "*.shop.example")


@pytest.fixture(scope="module")
def one_site() -> Iterator[Site]:
    with served() as site:
        yield site


@pytest.fixture
def site(one_site: Site) -> Site:
    one_site.asked.clear()
    one_site.names.clear()
    return one_site


def look(egress: Egress, text: str, **settings: object) -> Verdict:
    gate = Links.model_validate({"hosts": list(HOSTS)} | settings)
    return asyncio.run(links(gate, Material({"body": text}, {}), egress))


def test_links_that_lead_to_pages_pass(site: Site) -> None:
    verdict = look(
        site.egress(), f"See {site.url('/')}, ({site.url('/', 'blog.shop.example')}) and [x]({site.url('/hop/3')})."
    )
    assert (verdict.passed, verdict.value) == (True, "3 of 3 links are good")
    assert len(site.asked) == 7


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/missing", "it answers 404"),
        ("/broken", "it answers 500"),
        ("/soft", "it answers 200, but its title is: Error 404 &#8211; Page not found"),
        ("/loop", "it leads on more than 5 times"),
        ("/hop/6", "it leads on more than 5 times"),
        ("/garbage", "it cannot be read: RemoteProtocolError"),
    ],
)
def test_links_that_do_not_fail_and_say_why(site: Site, path: str, problem: str) -> None:
    verdict = look(site.egress(), f"Look: {site.url(path)}.")
    assert not verdict.passed
    assert list(verdict.evidence) == [f"{site.url(path)}: {problem}"]


@pytest.mark.parametrize("path", ["/hop/4", "/latin", "/host", "/bomb"])
def test_odd_pages_are_pages(site: Site, path: str) -> None:
    assert look(site.egress(), site.url(path)).passed


def test_no_more_is_read_than_allowed_and_no_longer(site: Site) -> None:
    began = time.monotonic()
    page = asyncio.run(site.egress(most_bytes=50_000).read(site.url("/endless"), HOSTS))
    assert len(page.body) == 50_000
    slow = look(site.egress(seconds=0.5), site.url("/drip"))
    assert list(slow.evidence) == [f"{site.url('/drip')}: it did not answer within 0.5 s"]
    assert time.monotonic() - began < 20


def test_the_limits_are_those_of_the_promise() -> None:
    assert (Egress().seconds, Egress().most_bytes, Egress().hops) == (10.0, 2 * 1024 * 1024, 5)
    assert Egress().ports == {80, 443}


def test_the_server_is_asked_by_its_name_at_the_address_that_was_checked(site: Site) -> None:
    page = asyncio.run(site.egress().read(site.url("/host"), HOSTS))
    assert f"shop.example:{site.port}" in page.body.decode()


def test_hosts_that_are_not_listed_are_not_asked(site: Site) -> None:
    verdict = look(site.egress(), f"{site.url('/', 'evil.example')} {site.url('/', 'xshop.example')}")
    assert [fault.rpartition(": ")[2] for fault in verdict.evidence] == [
        "evil.example is not on the list of hosts",
        "xshop.example is not on the list of hosts",
    ]
    assert look(site.egress(), site.url("/", "evil.example"), others="skip").passed
    assert site.asked == []


def test_without_hosts_no_link_is_let_through(site: Site) -> None:
    assert look(site.egress(), "no link at all", hosts=[]).passed
    assert not look(site.egress(), f"one: {site.url('/')}", hosts=[]).passed
    assert site.asked == []


def test_so_many_links_are_looked_at_and_no_more(site: Site) -> None:
    text = " ".join(site.url(f"/?{number}") for number in range(30))
    verdict = look(site.egress(), text, most=3)
    assert "there are 30 links, and at most 3 are looked at" in verdict.evidence
    assert len(site.asked) == 3


@pytest.mark.parametrize(
    "target",
    [
        "http://evil.example/",
        "//evil.example/",
        "http://127.0.0.1/",
        "file:///etc/passwd",
        "gopher://x/",
        "http://a:b@shop.example/",
    ],
)
def test_a_redirect_is_checked_like_the_first_address(site: Site, target: str) -> None:
    verdict = look(site.egress(), site.url(f"/to/{target}"))
    assert not verdict.passed
    assert len(site.asked) == 1


PRIVATE = [
    "127.0.0.1", "127.8.9.1", "0.0.0.0", "10.0.0.1", "172.16.5.5", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "100.100.100.200", "192.0.0.192", "168.63.129.16", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "192.0.2.1", "192.88.99.1", "::1", "::", "fe80::1", "fc00::1", "fec0::1", "ff02::1", "::ffff:127.0.0.1",
    "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:7f00:1::", "2001:db8::1",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_a_listed_name_at_an_address_that_is_not_the_worlds_is_not_asked(site: Site, address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))

    async def resolve(_host: str, _port: int) -> list[str]:
        return ["93.184.215.14", address]  # one good address does not make up for a bad one

    with pytest.raises(Refused, match="not an address of the world's"):
        asyncio.run(Egress(resolve=resolve).read("http://shop.example/", HOSTS))


@pytest.mark.parametrize(
    "address", ["93.184.215.14", "8.8.8.8", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "2a00:1450:4001:828::200e"]
)
def test_addresses_of_the_world_are_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "url",
    ["http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/", "http://127.1/", "http://[::1]/", "http://localhost/",
     "http://localhost./", "http://127.0.0.1:22/"],
)  # fmt: skip
def test_ways_to_write_this_machine_are_seen_through_even_when_listed(url: str) -> None:
    """Resolved as the system does it, with every such host on the list."""
    listed = ("2130706433", "0x7f.1", "0177.0.0.1", "127.1", "::1", "localhost", "127.0.0.1")
    with pytest.raises((Refused, OSError)):
        asyncio.run(Egress().read(url, listed))


@pytest.mark.parametrize(
    "url",
    [
        "ftp://shop.example/",
        "javascript:alert(1)",
        "http://",
        "http://[broken",
        "http://shop.example:8080/",
        "\x00",
        "http://shop.example:99999/",
    ],
)
def test_what_is_no_address_of_the_web_is_refused(url: str) -> None:
    with pytest.raises(Refused):
        asyncio.run(Egress().read(url, HOSTS))


def test_a_name_is_resolved_once_so_that_it_cannot_change_in_between(site: Site) -> None:
    asked = []

    async def turns(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    egress = Egress(ports=frozenset({site.port}), resolve=turns, permits=lambda address: str(address) == "127.0.0.1")
    assert asyncio.run(egress.read(site.url("/"), HOSTS)).status == 200
    assert asked == ["shop.example"]


@pytest.mark.parametrize(
    ("host", "listed"),
    [("shop.example", True), ("SHOP.example.", True), ("a.b.shop.example", True), ("shop.example.evil.org", False),
     ("notshop.example", False), ("", False)],
)  # fmt: skip
def test_the_list_of_hosts(host: str, listed: bool) -> None:
    assert is_listed(host, HOSTS) is listed
    assert not is_listed("shop.example", ("*.shop.example",))
