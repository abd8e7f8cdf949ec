"""Links between the pages lead somewhere, and every page can be reached from the README."""

import re

import pytest

from tests.support.pages import PAGES, ROOT, headings, text_of

_LINK = re.compile(r"\]\(([^)\s]+)\)")


def _links(page: str) -> list[str]:
    return [link for link in _LINK.findall(text_of(page)) if "://" not in link]


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _target(page: str, link: str) -> str:
    path = link.partition("#")[0]
    return (ROOT / page).parent.joinpath(path).resolve().relative_to(ROOT).as_posix() if path else page


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for link in _links(page):
        target = _target(page, link)
        assert (ROOT / target).exists(), link
        anchor = link.partition("#")[2]
        assert not anchor or anchor in map(_anchor, headings(target)), link


def test_every_page_is_linked_from_the_readme() -> None:
    linked = {_target("README.md", link) for link in _links("README.md")}
    assert set(PAGES) - linked == {"README.md"}
