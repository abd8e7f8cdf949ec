"""The house from the terminal: one module per family of commands, each calling the rooms.

Promises: `nightdesk --help` opens at once, for nothing heavy is imported before a command needs it. Whatever
prints data prints JSON with `--json`. A refusal is one sentence and a next step on standard error, with exit
code 1 (2 for a wrong use of the command line).

Never: holds a rule. What may happen is decided in the rooms, so that the terminal and the web agree.
"""


def main() -> int:
    from nightdesk.cli.app import run

    return run()
