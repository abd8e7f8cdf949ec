"""The gate for links: each must lead to a page that is there, on a host that the gate lists."""

import asyncio
import re
from typing import Any

from nightdesk.guard.egress import Egress, Page, Refused, is_listed
from nightdesk.playbook.gates import Links
from nightdesk.review.material import Material, cut, verdict
from nightdesk.review.words import addresses
from nightdesk.work.draft import Verdict

_AT_ONCE = 5
_TITLE = re.compile(rb"<title[^>]{0,500}>(.{0,500}?)</title", re.IGNORECASE | re.DOTALL)
_GONE = re.compile(r"\b(404|not found|page unavailable|no longer exists|seite nicht gefunden)\b", re.IGNORECASE)


async def links(settings: Links, material: Material, egress: Egress) -> Verdict:
    found = list(dict.fromkeys(addresses(material.whole(settings.field))))
    asked = [url for url in found if settings.others == "refuse" or _is_of(settings, url)]
    too_many = f"there are {len(asked)} links, and at most {settings.most} are looked at"
    wrong = [too_many] if len(asked) > settings.most else []
    turns = asyncio.Semaphore(_AT_ONCE)

    async def look(url: str) -> str:
        async with turns:
            return await _problem(egress, settings, url)

    problems = await asyncio.gather(*(look(url) for url in asked[: settings.most]))
    wrong += [f"{cut(url)}: {problem}" for url, problem in zip(asked, problems, strict=False) if problem]
    return verdict(
        settings,
        passed=not wrong,
        value=f"{len(asked) - len(wrong)} of {len(asked)} links are good" if asked else "no links",
        threshold="every link leads to a page",
        evidence=wrong,
    )


async def _problem(egress: Egress, settings: Links, url: str) -> str:
    try:
        page = await egress.read(url, tuple(settings.hosts))
    except Refused as refusal:
        return str(refusal)
    except TimeoutError:
        return f"it did not answer within {egress.seconds:g} s"
    except Exception as error:  # whatever a hostile page does to the client, it is no page
        return f"it cannot be read: {type(error).__name__}"
    return _problem_of(page)


def _problem_of(page: Page) -> str:
    if not 200 <= page.status < 300:
        return f"it answers {page.status}"
    title = _TITLE.search(page.body)
    shown = title[1].decode("utf-8", "replace") if title else ""
    return f"it answers {page.status}, but its title is: {cut(shown)}" if _GONE.search(shown) else ""


def _is_of(settings: Links, url: str) -> bool:
    host: Any = re.sub(r"^https?://(?:[^/@]*@)?", "", url, flags=re.IGNORECASE)
    return is_listed(re.split(r"[/?#:]", host)[0], tuple(settings.hosts))
