"""How a model is asked: at the HTTP transport, so that any SDK or framework becomes durable without a change.

Promises: every call is a row in `calls`; a finished one is answered from there and never paid again. Money is
reserved before anything is sent, and the sum of reserved and spent never passes a cap. A call that can wait joins
a wave and goes out as part of a provider's batch; its task is a row meanwhile. Why a call took its lane is written
on it. Before a batch is created a row says so, and after a crash that row is reconciled with the provider.

Never: stores or logs a key, or makes it part of what a request is known by (rows tell keys apart by a fingerprint of
12 digits); guesses what became of a request; decides what a playbook asks.
"""
