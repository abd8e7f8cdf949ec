"""The launch bar: a playbook that has golden cases is for a night only once its present version has passed them."""

import sqlalchemy as sa

from nightdesk.house import House
from nightdesk.playbook import Playbook
from nightdesk.store import trials

_NOT_PASSED = "its launch test is not passed"


def launch_refusal(conn: sa.Connection, playbook: Playbook) -> str | None:
    """Why the playbook is not for a night yet; None if it is, or if there is nothing that it could be tested with."""
    if not _is_tested(playbook):
        return None
    present = (trials.c.playbook == playbook.name) & (trials.c.playbook_version == playbook.version)
    latest = sa.select(trials.c.cases, trials.c.passed).where(present).order_by(trials.c.at.desc(), trials.c.id.desc())
    trial = conn.execute(latest.limit(1)).first()
    if trial is None:
        return f"{_NOT_PASSED}: this version of {playbook.name} was never tested; run nightdesk test {playbook.name}"
    if trial.cases < playbook.bar.cases:
        return f"{_NOT_PASSED}: {playbook.name} was tested with {trial.cases} cases, its bar is {playbook.bar.cases}"
    if trial.passed < playbook.bar.rate * trial.cases:
        passed = f"{playbook.name} passed {trial.passed} of {trial.cases} cases"
        return f"{_NOT_PASSED}: {passed}, its bar is {playbook.bar.rate:.0%}"
    return None


def barred(house: House, conn: sa.Connection) -> dict[str, str]:
    """The playbooks that are for no night yet, each with the reason."""
    found = {playbook.name: launch_refusal(conn, playbook) for playbook in house.registry if playbook.when.is_nightly}
    return {name: why for name, why in found.items() if why}


def _is_tested(playbook: Playbook) -> bool:
    """One that stays in the house and asks no model cannot surprise anybody."""
    is_harmless = playbook.risk == "internal" and playbook.asking.use is None
    return bool(playbook.definition.get("golden")) and not is_harmless
