"""What Nightdesk costs, measured side by side with bare DBOS on this machine: `make bench`.

Promises: the two sides of a ratio are measured in turns, in the same minutes, with processes and databases of
their own, and by the same rule; what is shown is a median. A durable Postgres, SQLite as it ships, settings as they
ship. A goal that is missed is named, and the full run then exits with 1.
"""
