"""`nightdesk status`: how many tasks are in which state, who works, what is switched off."""

from dataclasses import asdict

from nightdesk.cli.rooms import opened
from nightdesk.cli.terminal import JsonOption, say, show_json, show_table


def status(json: JsonOption = False) -> None:
    """Tasks by state, workers, and switches."""
    with opened(asks=True) as house:
        from nightdesk.guard.switches import active_switches
        from nightdesk.work.insight import count_states, list_workers

        tasks = count_states(house)
        workers = list_workers(house)
        switches = [asdict(switch) for switch in active_switches(house.db)]
    if json:
        show_json({"tasks": tasks, "workers": workers, "switches": switches})
        return
    counts = [{"state": state, "tasks": count} for state, count in tasks.items()]
    show_table(("state", "tasks"), counts, "No tasks yet.")
    show_table(("name", "host", "pid", "started_at", "alive"), workers, "No worker is running. Start one: nightdesk up")
    if switches:
        say("Switched off:")
        columns = ("mode", "playbook", "tenant", "connector", "why", "set_by", "set_at")
        show_table(columns, switches, "")
