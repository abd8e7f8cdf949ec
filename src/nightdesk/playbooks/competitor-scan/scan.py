"""A scan of competitors' pages: each page is read by itself, and what nothing on it says is left out.

The model names the passage that a finding rests on; the quotation is taken from there, so that none is made up.
"""

import asyncio
import json
import re
from html.parser import HTMLParser
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints

from nightdesk.errors import AskPerson
from nightdesk.house import home_folder

_FOLDER = "pages"
_MOST_BYTES = 2 * 1024 * 1024
_MOST_PASSAGES = 80
_LONGEST_PASSAGE = 400
_SHORTEST_PASSAGE = 12
_MOST_TOLD = 60
_MOST_MOVES = 5
_UNSEEN = {"script", "style", "noscript", "template", "svg", "head", "nav", "footer"}
_BLOCKS = {"p", "div", "li", "tr", "br", "h1", "h2", "h3", "h4", "h5", "h6", "section", "article", "dd", "dt", "td"}

PassageId = Annotated[str, StringConstraints(pattern=r"^p\d{1,3}$")]
FindingId = Annotated[str, StringConstraints(pattern=r"^f\d{1,3}$")]
Topic = Literal["price", "assortment", "materials", "delivery", "returns", "promotion", "claims", "service"]


class Seen(BaseModel):
    passage: PassageId
    topic: Topic
    what: str = Field(min_length=1)


class PageSeen(BaseModel):
    findings: list[Seen]


class Move(BaseModel):
    move: str
    because: str
    finding: FindingId


class Overview(BaseModel):
    summary: str = Field(min_length=1)
    moves: list[Move]


async def scan(order: Any, desk: Any) -> dict[str, Any]:
    texts = await desk.step("read", read_pages, [page.model_dump() for page in order.pages])
    pages = [page | {"passages": passages_of(page["text"])} for page in texts if page["text"]]
    if not pages:
        raise AskPerson(f"None of the pages can be read: {'; '.join(page['why'] for page in texts)}")
    seen = await asyncio.gather(*(_read_by_model(order, desk, page) for page in pages))
    skipped = [{"page": page["name"], "why": page["why"]} for page in texts if page["why"]]
    skipped += [{"page": page["name"], "why": why} for page, (_, why) in zip(pages, seen, strict=True) if why]
    told = [finding for page, (found, _) in zip(pages, seen, strict=True) for finding in _supported(page, found)]
    findings = [finding for finding in told if finding is not None]
    overview = await _sum_up(order, desk, findings[:_MOST_TOLD])
    return {**overview, "findings": findings, "skipped": skipped, "unsupported": len(told) - len(findings)}


def read_pages(pages: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Each page as text, or why there is none."""
    return [_read_page(page) for page in pages]


def passages_of(text: str) -> list[str]:
    """The page in passages that can be quoted whole; what comes again is left out, as menus do."""
    found: dict[str, None] = {}
    for line in text.splitlines():
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z0-9À-Þ])", " ".join(line.split())):
            if len(sentence) >= _SHORTEST_PASSAGE or re.search(r"\d", sentence):
                found.setdefault(sentence[:_LONGEST_PASSAGE])
    return list(found)[:_MOST_PASSAGES]


async def _read_by_model(order: Any, desk: Any, page: dict[str, Any]) -> tuple[list[Seen], str]:
    """What the model reports of the page, or why it reports nothing."""
    from pydantic_ai.exceptions import UnexpectedModelBehavior

    passages = [{"passage": f"p{number}", "text": text} for number, text in enumerate(page["passages"], 1)]
    material = {"competitor": page["name"], "topics": list(order.topics), "page": passages}
    try:
        seen: PageSeen = await _ask(desk, PageSeen, "read a page", material)
    except UnexpectedModelBehavior as error:
        return [], f"the model could not read it: {error.__cause__ or error}"[:300]
    return seen.findings, ""


async def _ask(desk: Any, output: type[BaseModel], job: str, material: dict[str, Any]) -> Any:
    from pydantic_ai import Agent

    agent = Agent(desk.model(), output_type=output, instructions=desk.instructions, retries={"output": 1})
    shown = json.dumps(material, ensure_ascii=False)
    return (await agent.run(f"Your job: {job}. The material, as JSON:\n{shown}")).output


def _supported(page: dict[str, Any], seen: list[Seen]) -> list[dict[str, Any] | None]:
    """The findings with the passages that they rest on; None for one that names a passage that is not there."""
    passages: list[str] = page["passages"]
    before = set(passages_of(page["was"]))
    found: dict[tuple[str, str], dict[str, Any] | None] = {}
    for finding in seen:
        number = int(finding.passage[1:])
        quote = passages[number - 1] if 1 <= number <= len(passages) else ""
        found.setdefault((finding.passage, finding.topic), _told(page, finding, quote, before) if quote else None)
    return list(found.values())


def _told(page: dict[str, Any], finding: Seen, quote: str, before: set[str]) -> dict[str, Any]:
    return {
        "competitor": page["name"],
        "topic": finding.topic,
        "what": finding.what,
        "quote": quote,
        "source": page["name"],
        "is_new": bool(before) and quote not in before,
    }


async def _sum_up(order: Any, desk: Any, findings: list[dict[str, Any]]) -> dict[str, Any]:
    if not findings:
        return {"summary": "The pages say nothing of the topics that were asked for.", "moves": []}
    numbered = {f"f{number}": finding for number, finding in enumerate(findings, 1)}
    material = {"us": order.us, "findings": [{"finding": name} | found for name, found in numbered.items()]}
    overview: Overview = await _ask(desk, Overview, "sum up", material)
    moves = [
        {"move": move.move, "because": move.because, "source": numbered[move.finding]["source"]}
        for move in overview.moves[:_MOST_MOVES]
        if move.finding in numbered
    ]
    return {"summary": overview.summary, "moves": moves}


def _read_page(page: dict[str, Any]) -> dict[str, str]:
    text, why = (page["text"], "") if page["text"] is not None else _from_file(page["file"])
    told = _as_text(text) if text else ""
    if not told.strip() and not why:
        why = "there is no text on it"
    return {"name": page["name"], "text": "" if why else told, "was": _as_text(page["was"] or ""), "why": why}


def _from_file(name: str | None) -> tuple[str, str]:
    """The text of a file in the house's folder `pages`, and of no other; or why there is none."""
    if name is None:
        return "", "it has neither `text` nor `file`"
    folder = (home_folder() / _FOLDER).resolve()
    file = (folder / name).resolve()
    if not file.is_relative_to(folder) or not file.is_file():
        return "", f"there is no file {name} in the house's folder {_FOLDER}"
    with file.open("rb") as opened:
        return opened.read(_MOST_BYTES).decode("utf-8", "replace").replace("\0", ""), ""


def _as_text(page: str) -> str:
    if not re.search(r"<[a-zA-Z!/][^>]*>", page[:10_000]):
        return page[:_MOST_BYTES]
    parser = _Text()
    parser.feed(page[:_MOST_BYTES])
    parser.close()
    return "".join(parser.parts)


class _Text(HTMLParser):
    """What a person sees of a page, roughly: a line for each block, nothing of scripts, styles and menus."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _UNSEEN:
            self._inside.append(tag)
        elif tag in _BLOCKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            del self._inside[self._inside.index(tag) :]
        elif tag in _BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.parts.append(data)
