"""The three providers as one local server: the real wire protocols, live and in batches, with a bill and with faults.

Promises: the official SDKs work with it unchanged; the same request gets the same answer; every answer is marked as
simulated; every billed execution is on the meter, exactly once. Never: talks to a real provider, or keeps anything
after its process has ended.

What the model answers can be prescribed by the prompt: the last text of the user may hold a script, as in
`Compare Lund and Malmö. sim:{"turns": 2, "parallel": 2}`. Its keys, each of which may be left out:
- `turns`: in how many turns it calls tools before it answers; 1 without it, or "forever".
- `parallel`: how many tools it calls at once in each of them. `ids`: true for ids on Gemini's function calls, which
  have none otherwise.
- `text`: the answer itself. `length`: how many tokens the answer has. `empty`: true for none at all.
- `wrong_schema`: true for an answer that does not satisfy the schema which it was given.
- `status`: the HTTP status of the error that it gives instead.

It holds no conversations: a request that goes on from an earlier one by its id is refused, as by the provider.
"""

from nightdesk.model.simulator.behaviour import Behaviour, Fault
from nightdesk.model.simulator.serving import Running, Simulator, environment, running

__all__ = ["Behaviour", "Fault", "Running", "Simulator", "environment", "running"]
