"""`nightdesk init`: a new house, ready to be tried."""

import json as json_text
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from nightdesk.cli.terminal import JsonOption, say, show_json
from nightdesk.errors import NightdeskError

_STARTER = Path(__file__).with_name("starter")
_COPIED = ("playbooks/greeting/playbook.yaml", "playbooks/greeting/run.py", "sheets/first-tasks.csv")
_NOT_TO_COMMIT = "nightdesk.db*\naudit.head\ncallback.secret\n__pycache__/\n"


def init(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where; it is made if need be.")] = Path(),
    json: JsonOption = False,
) -> None:
    """Make a new house: settings, a playbook, a sheet of tasks."""
    files = _files()
    taken = [name for name in files if (folder / name).exists()]
    if taken:
        problem = f"{folder.absolute()} has {', '.join(taken)} already; nothing was written."
        raise NightdeskError(problem, "Name another folder, as in: nightdesk init my-house")
    for name, text in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    if json:
        show_json({"home": str(folder.absolute()), "files": list(files)})
        return
    say(f"{folder.absolute()} is a house now. Next:")
    go_there = [f"cd {folder}"] if folder != Path() else ["nightdesk doctor"]
    for command in [*go_there, "nightdesk add greeting --file sheets/first-tasks.csv", "nightdesk up"]:
        say(f"  {command}")


def _files() -> dict[str, str]:
    copied = {name: (_STARTER / name).read_text(encoding="utf-8") for name in _COPIED}
    return {"nightdesk.toml": "\n".join(_settings()), **copied, ".gitignore": _NOT_TO_COMMIT}


def _settings() -> Iterator[str]:
    """Every setting with its default, commented out, so that the file says what there is to set."""
    from nightdesk.settings import Settings

    yield "# The settings of this house, with their defaults. Remove the # before a line to change it."
    for section, part in Settings():
        yield f"\n[{section}]"
        for name, field in type(part).model_fields.items():
            yield f"# {field.description}"
            yield f"# {name} = {json_text.dumps(field.get_default(call_default_factory=True))}"
    yield ""
