"""`make bench`: measure everything, print the table, and say which goals were missed."""

import argparse
import functools
import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import asking, costs, depth, door, machine, speed, start, takeover, trail, waiting
from bench.figures import Figure, Report, write_between_marks
from bench.place import QUICK, Place, Sizes, Tell
from tests.support.postgres import PostgresServer

_WIDTH = 120  # of a table that goes to a file
_README = Path(__file__).parents[1] / "README.md"
_PARTS: dict[str, Callable[[Place, Sizes, Tell], list[Figure]]] = {
    "work": speed.work,
    "intake": speed.intake,
    "steady": door.steady,
    "burst": door.burst,
    "depth": depth.queued,
    "waiting": waiting.parked,
    "takeover": takeover.dead_worker,
    "trail": trail.chain,
    "limited": asking.limited,
    "transport": asking.transport,
    "wave": asking.wave,
    "nights": costs.nights,
}


def main() -> int:
    options = _options()
    server = PostgresServer(durable=True)
    try:
        server.start()
        with tempfile.TemporaryDirectory(prefix="nightdesk-bench-") as folder:
            report = _measure(Path(folder), server, options)
        about = machine.describe(server)
    finally:
        server.remove()
    _show(report, about)
    if options.write:
        write_between_marks(_README, f"\n{report.as_markdown()}\n\n{about}\n")
    return 0 if options.quick or not report.missed else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these parts: {', '.join(_PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small counts: shows that it runs, judges nothing")
    parser.add_argument("--write", action="store_true", help="put the table into the README")
    options = parser.parse_args()
    unknown = set(options.parts) - set(_PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}; known are {', '.join(_PARTS)}")
    if options.write and (options.quick or options.parts):
        parser.error("only a full run of all parts is written into the README")
    return options


def _measure(folder: Path, server: PostgresServer, options: argparse.Namespace) -> Report:
    sizes = QUICK if options.quick else Sizes()
    parts = [part for name, part in _PARTS.items() if not options.parts or name in options.parts]
    places = [Place("SQLite", folder / "sqlite"), Place("Postgres", folder / "postgres", server)]
    report = Report([place.name for place in places])
    with _progress(len(parts) * len(places)) as (tell, advance):
        for part, place in itertools.product(parts, places):
            report.add(place.name, *part(place, sizes, functools.partial(tell, place.name)))
            advance()
        if not options.parts:
            tell("Command line", "nightdesk --help")
            opening = start.help_page()
            for place in places:
                report.add(place.name, opening)
    return report


@contextmanager
def _progress(total: int) -> Iterator[tuple[Callable[[str, str], None], Callable[[], None]]]:
    """What to call when something else is being done, and when a part is done."""
    console = Console(stderr=True, highlight=False)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)

        def tell(where: str, what: str) -> None:
            bar.update(task, description=f"{where}: {what}")
            if not console.is_terminal:
                console.print(f"{where}: {what}")

        yield tell, lambda: bar.advance(task)


def _show(report: Report, about: str) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH)
    console.print(report.as_table())
    console.print(about)
    for sentence in report.missed:
        console.print(f"Missed. {sentence}")


if __name__ == "__main__":
    sys.exit(main())
