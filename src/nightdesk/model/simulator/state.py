"""All that a running simulator remembers. It lives in memory and ends with its process."""

from nightdesk.model.simulator.batches import Shelf
from nightdesk.model.simulator.behaviour import Behaviour
from nightdesk.model.simulator.files import Files
from nightdesk.model.simulator.limits import Buckets
from nightdesk.model.simulator.model import Model


class State(Model):
    def __init__(self, behaviour: Behaviour | None = None) -> None:
        super().__init__(behaviour)
        self.buckets = Buckets()
        self.files = Files()
        self.shelf = Shelf(self)
