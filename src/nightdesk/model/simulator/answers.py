"""What the simulated model answers: text, JSON or tool calls, the same for the same prompt, and always marked."""

import json
from dataclasses import dataclass, field
from typing import Literal

from nightdesk.canonical import Json
from nightdesk.model.simulator.prompts import ANY, CHARACTERS_PER_TOKEN, Prompt, Tool, joined, tokens
from nightdesk.model.simulator.schemas import filled
from nightdesk.model.simulator.words import MARK, Words

Finish = Literal["stop", "length", "tools"]
# Pydantic AI lets a model hand in its result by calling a tool of this name.
OUTPUT_TOOL = "final_result"
_WORDS_PER_ANSWER = 40
_SCRIPT = "sim:{"
# Ordered to write, it writes, whatever form is asked of it.
_PROSE = {"text", "length"}
_MOST_CALLS = 100
_MOST_TOKENS = 300_000


@dataclass(frozen=True, slots=True)
class Call:
    tool: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class Reply:
    text: str = ""
    calls: list[Call] = field(default_factory=list)
    finish: Finish = "stop"
    with_ids: bool = False

    @property
    def output_tokens(self) -> int:
        written = len(self.text) + sum(len(call.tool) + len(json.dumps(call.arguments)) for call in self.calls)
        return max(1, tokens(written))


def script(prompt: Prompt) -> dict[str, Json]:
    """What the last text of the user prescribes by `sim:{...}`; it may stand inside a JSON string."""
    start = prompt.asked.rfind(_SCRIPT)
    if start < 0:
        return {}
    written = prompt.asked[start + len(_SCRIPT) - 1 :]
    for text in (written, written.replace('\\"', '"')):
        try:
            found = json.JSONDecoder().raw_decode(text)[0]
        except ValueError:
            continue
        return found if isinstance(found, dict) else {}
    return {}


def reply(prompt: Prompt, orders: dict[str, Json]) -> Reply:
    """The answer to the prompt. `orders` are what its script prescribes."""
    words = Words(joined([prompt.asked.partition(_SCRIPT)[0], prompt.material]))
    if orders.get("empty"):
        return Reply()
    called = [] if orders.keys() & _PROSE else _tools_to_call(prompt, orders)
    if called:
        wrong = bool(orders.get("wrong_schema")) and called[0].name.startswith(OUTPUT_TOOL)
        calls = [Call(tool.name, _arguments(tool, words, index, wrong)) for index, tool in enumerate(called)]
        return Reply(calls=calls, finish="tools", with_ids=bool(orders.get("ids")))
    return _cut(_text(prompt, orders, words), prompt.most_tokens)


def _tools_to_call(prompt: Prompt, orders: dict[str, Json]) -> list[Tool]:
    """None: the answer is text."""
    by_name = {tool.name: tool for tool in prompt.tools}
    if prompt.forced and prompt.forced != ANY:
        return [by_name[prompt.forced]] if prompt.forced in by_name else []
    output = [tool for tool in prompt.tools if tool.name.startswith(OUTPUT_TOOL)]
    work = [tool for tool in prompt.tools if tool not in output]
    turns = orders.get("turns", 1)
    wanted = turns == "forever" or prompt.tool_turns < turns
    if work and (wanted or (prompt.forced and not output)):
        at_once = min(int(orders.get("parallel", 1)), _MOST_CALLS)
        return [work[(prompt.tool_turns + index) % len(work)] for index in range(at_once)]
    return output[:1]


def _arguments(tool: Tool, words: Words, index: int, wrong: bool) -> Json:
    if wrong:
        return {"wrong": MARK}
    # Calls beside each other must differ, or they would be the same call.
    own = words if index == 0 else Words(words.sentence(_WORDS_PER_ANSWER, index))
    return filled({"type": "object", **tool.schema}, own, marked=tool.name.startswith(OUTPUT_TOOL))


def _text(prompt: Prompt, orders: dict[str, Json], words: Words) -> str:
    if "text" in orders:
        return str(orders["text"])
    if "length" in orders:
        return _long(words, min(int(orders["length"]), _MOST_TOKENS) * CHARACTERS_PER_TOKEN)
    if prompt.schema is not None:
        wanted = {"wrong": MARK} if orders.get("wrong_schema") else filled(prompt.schema, words)
        return json.dumps(wanted, ensure_ascii=False)
    return f"{MARK} {words.sentence(_WORDS_PER_ANSWER)}"


def _long(words: Words, characters: int) -> str:
    once = words.sentence(_WORDS_PER_ANSWER) + " "
    return f"{MARK} {once * (characters // len(once) + 1)}"[:characters]


def _cut(text: str, most_tokens: int | None) -> Reply:
    if most_tokens is None or tokens(len(text)) <= most_tokens:
        return Reply(text)
    return Reply(text[: most_tokens * CHARACTERS_PER_TOKEN], finish="length")
