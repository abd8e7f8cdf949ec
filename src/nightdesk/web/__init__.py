"""The HTTP API: for programs, the same doors that the command line uses.

Promises: a 202 means that the task is on disk; every refusal is problem+json (RFC 9457) and stored nothing;
a hostile or broken request costs little and never ends in a 500; while the database is away every call says
so at once; the OpenAPI document at /openapi.json is true.

Never: holds a rule. It reads requests, checks who asks, calls the rooms, and writes down what they say.
"""
