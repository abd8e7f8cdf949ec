"""When the answers that are still out are called back, so that there is time to ask live before the night ends."""

from datetime import datetime, timedelta

from nightdesk.settings import NightSettings

# Why a call is not to be put into another batch of the same night.
CALLED_BACK = "last call: it was called back from the batch lane"
# A provider may take ten minutes to cancel a batch, and seldom does.
_CANCEL_SECONDS = 300.0
_SLACK = 1.2


def last_call(night: NightSettings, deadline: datetime, seconds_live: float = 0.0) -> datetime:
    """When what is out is called back: as long before the deadline as the settings say, or as long as it takes to
    cancel it and to ask the rest live, if that is longer."""
    needed = max(night.last_call_minutes * 60, _CANCEL_SECONDS + seconds_live * _SLACK)
    return deadline - timedelta(seconds=needed)
