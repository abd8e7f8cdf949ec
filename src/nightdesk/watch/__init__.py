"""How anyone knows what happened: events (the audit trail), logs, metrics, notices.

Promises: every change of state has one event row, written in the transaction of the change; the rows are
chained so that later tampering shows; logs carry no personal data or secrets.

Never: changes a task.
"""
