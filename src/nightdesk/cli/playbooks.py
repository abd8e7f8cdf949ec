"""`nightdesk playbooks`: what kinds of work the house knows, and whether their definitions are right."""

import typer

from nightdesk.cli.rooms import home_folder
from nightdesk.cli.terminal import JsonOption, say, show_json, show_table

app = typer.Typer(help="The kinds of work that the house knows.", no_args_is_help=True)

_COLUMNS = ("name", "title", "when", "priority", "risk", "version", "source")


@app.command("list")
def list_(json: JsonOption = False) -> None:
    """All playbooks, those that ship with Nightdesk and those of this house."""
    found = _load()
    show_json({"items": found}) if json else show_table(_COLUMNS, found, "No playbooks.")


@app.command("check")
def check(json: JsonOption = False) -> None:
    """Whether every playbook loads; each fault is named with file and line."""
    found = _load()
    if json:
        show_json({"valid": len(found), "names": [playbook["name"] for playbook in found]})
    else:
        say(f"{len(found)} playbooks are valid.")


def _load() -> list[dict[str, object]]:
    from nightdesk.playbook import load_registry

    return [
        {
            "name": playbook.name,
            "title": playbook.title,
            "when": playbook.when.kind,
            "priority": f"P{playbook.priority}",
            "risk": playbook.risk,
            "version": playbook.version,
            "source": str(playbook.source or ""),
            "input": playbook.input.model_json_schema(),
        }
        for playbook in load_registry(home_folder())
    ]
