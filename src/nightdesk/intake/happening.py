"""Something has happened outside: the playbooks with `when: {event: name}` each get a task of what is told of it."""

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.errors import NotFound
from nightdesk.house import House
from nightdesk.intake.submit import Receipt, Submission, submit_in
from nightdesk.settings import nearest


def tell_of(house: House, event: str, told: Json, *, actor: str) -> list[Receipt]:
    """A task for each, or for none of them: what one refuses, all refuse. The same again hands in nothing new."""
    listening = [playbook.name for playbook in house.registry if playbook.when.event == event]
    if not listening:
        known = sorted({playbook.when.event for playbook in house.registry} - {""})
        hint = nearest(event, known) if known else ""
        raise NotFound(f'No playbook waits for the event "{event[:64]}"{hint}.', "State it: when: {event: name}")
    with house.db.write() as conn:
        return [_submit(house, conn, name, told, actor) for name in listening]


def _submit(house: House, conn: sa.Connection, playbook: str, told: Json, actor: str) -> Receipt:
    return submit_in(house, conn, Submission(playbook, told), actor=actor)
