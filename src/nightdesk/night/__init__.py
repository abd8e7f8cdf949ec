"""When the work of the night runs: its plan, its window, last call, hard stop, and what it came to.

Promises: a night is one row that goes from planned to open to closing to closed, each step once, whichever processes
look at it and whichever of them die; there is no other bookkeeping. Work begins in plan order while the night is open.
At the hard stop nothing is under way: what was begun waits for the next night, what was not is back in the queue, each
with the reason. A night that is closed has its figures.

Never: runs a leg, asks a model or breaks a cap; it says which tasks may begin, and the other rooms do the rest.
"""
