"""The examples of the README and of the pages do what the pages say.

Each page is followed from top to bottom in a new house: a block that is introduced by a line ending in the name of a
file and a colon is written to that file; any other block of Python is run as a script; a line behind `$ ` is typed
into a shell and must end with exit code 0, and what is shown below it is what comes out (… stands for anything).
Programs that serve go on running until the next section; models are asked of `nightdesk simulator`, never of others.
"""

import json
import time
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from nightdesk.clock import SystemClock
from nightdesk.playbook import load_registry
from nightdesk.settings import load_settings
from nightdesk.web import schemas
from tests.support.pages import PAGES, blocks, blocks_of, text_of
from tests.support.reader import STAND_IN_FOR_CURL, Reader

_FOLLOWED = ("python", "console")
_SECRET = "whsec_" + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="  # pragma: allowlist secret


def _is_followed(page: str) -> bool:
    return any(block.file or block.language in _FOLLOWED for block in blocks(page))


def _follow(page: str, tmp_path: Path, request: pytest.FixtureRequest, curl: str = "") -> None:
    postgres_url = request.getfixturevalue("postgres_url") if "db.internal" in text_of(page) else ""
    reader = Reader(tmp_path / "reader", postgres_url=postgres_url, curl=curl)
    try:
        for block in blocks(page):
            reader.follow(block)
        reader.stop_servers()
        load_settings(reader.home, {})
        load_registry(reader.home)
    finally:
        reader.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", [page for page in PAGES if _is_followed(page)])
def test_what_the_page_says_can_be_done(page: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    _follow(page, tmp_path, request)


@pytest.mark.timeout(300)
def test_the_http_examples_work_on_a_machine_without_curl(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    _follow("docs/intake.md", tmp_path, request, curl=STAND_IN_FOR_CURL)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page, "yaml")])
def test_parts_of_playbooks_are_valid(page: str, tmp_path: Path) -> None:
    """A block of YAML that is no whole file is a part of a playbook with a page and a town as input."""
    for number, block in enumerate(blocks(page)):
        if block.language == "yaml" and not block.file:
            file = tmp_path / "playbooks" / f"part-{number}" / "playbook.yaml"
            file.parent.mkdir(parents=True)
            known = f'name: part-{number}\ninput: {{page: "string?", town: "string?"}}\n'
            file.write_text(known + block.text, encoding="utf-8")
    load_registry(tmp_path)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page, "json")])
def test_json_is_json(page: str) -> None:
    for text in blocks_of(page, "json"):
        json.loads(text)


def test_the_task_and_the_problem_of_the_api_page_are_such_as_the_api_sends() -> None:
    task, problem = map(json.loads, blocks_of("docs/api.md", "json"))
    assert {name for step in task["steps"] for name in step} == set(schemas.TaskStep.model_fields)
    schemas.Task.model_validate(task)
    schemas.ProblemDocument.model_validate(problem)


def test_the_shown_check_of_a_signature_knows_true_from_false() -> None:
    [code] = [text for text in blocks_of("docs/intake.md", "python") if "def is_genuine" in text]
    page: dict[str, object] = {}
    exec(compile(code, "intake.md", "exec"), page)
    is_genuine = page["is_genuine"]
    assert callable(is_genuine)
    body, now = '{"type":"task.done"}', SystemClock().now()
    headers = {"webhook-id": "notice_1", "webhook-timestamp": str(int(time.time()))}
    headers["webhook-signature"] = "v1,other " + Webhook(_SECRET).sign("notice_1", now, body)
    assert is_genuine(_SECRET, headers, body.encode())
    assert not is_genuine(_SECRET, headers, body.encode() + b" ")
    assert not is_genuine(_SECRET, headers | {"webhook-timestamp": str(int(time.time()) - 301)}, body.encode())
    assert not is_genuine(_SECRET, headers | {"webhook-timestamp": "soon"}, body.encode())
    assert not is_genuine(_SECRET, {}, body.encode())
