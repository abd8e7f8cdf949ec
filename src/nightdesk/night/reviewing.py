"""Reviewers' minutes: how many there are in a morning. How long a draft takes them is known in `review.minutes`."""

from nightdesk.settings import NightSettings


def minutes_in_a_morning(night: NightSettings) -> float:
    """Of all reviewers together."""
    stated = night.reviewer_minutes
    return sum(stated.values()) if isinstance(stated, dict) else stated
