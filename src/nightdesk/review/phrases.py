"""Gates for phrases: those that must be there, those that must not, and those that a model's workings leave behind."""

from collections.abc import Iterator

from nightdesk.playbook.gates import Forbidden, NoPromptLeak, Phrases, Required
from nightdesk.review.material import Material, cut, verdict
from nightdesk.review.places import texts_at
from nightdesk.review.words import plain, words
from nightdesk.work.draft import Verdict

# What models say of themselves and to whoever asks, and what they leave to be filled in. As `plain` gives it.
_TALK = (
    "as an ai", "as a language model", "as a large language model", "i am an ai", "i'm an ai", "my training data",
    "my knowledge cutoff", "i cannot fulfill", "i can't fulfill", "i cannot assist with", "i'm sorry, but i",
    "system prompt", "my instructions", "the instructions say", "according to my instructions",
    "here is the rewritten", "here is the revised", "here's the rewritten", "sure, here", "sure! here",
    "certainly! here",     "would you like me to",
    "lorem ipsum", "[insert", "[your ", "{{", "}}", "<placeholder", "[placeholder", "[todo", "<|",
)  # fmt: skip


def required(settings: Required, material: Material) -> Verdict:
    asked = list(_asked(settings, material))
    text = f" {plain(material.whole(settings.field))} "
    missing = [phrase for phrase in asked if not _is_in(phrase, text)]
    enough = len(missing) < len(asked) if settings.any else not missing
    return verdict(
        settings,
        passed=enough or not asked,
        value=len(asked) - len(missing),
        threshold=f"one of {len(asked)} phrases" if settings.any else f"all of {len(asked)} phrases",
        evidence=[] if enough else [f"it does not say: {cut(phrase)}" for phrase in missing],
    )


def forbidden(settings: Forbidden, material: Material) -> Verdict:
    asked = list(_asked(settings, material))
    said = list(_said(asked, material, settings.field))
    return verdict(settings, passed=not said, value=len(said), threshold=f"none of {len(asked)} phrases", evidence=said)


def no_prompt_leak(settings: NoPromptLeak, material: Material) -> Verdict:
    """Neither the talk of a model nor a run of words out of its instructions, unless the input has it too."""
    given = f" {plain(' '.join(str(found.value) for found in texts_at(material.input, [None])))} "
    asked = [phrase for phrase in (*_TALK, *settings.also) if not _is_in(phrase, given)]
    evidence = [*_said(asked, material, settings.field), *_runs(settings, material, given)]
    return verdict(
        settings, passed=not evidence, value=len(evidence), threshold="nothing of the kind", evidence=evidence
    )


def _asked(settings: Phrases, material: Material) -> Iterator[str]:
    given = texts_at(material.input, [settings.from_]) if settings.from_ is not None else ()
    yield from (phrase for phrase in (*settings.phrases, *(str(found.value) for found in given)) if plain(phrase))


def _said(phrases: list[str], material: Material, field: str | None) -> Iterator[str]:
    for found in material.texts(field):
        text = f" {plain(found.value)} "
        yield from (f"{found.place or 'it'} says: {cut(phrase)}" for phrase in phrases if _is_in(phrase, text))


def _is_in(phrase: str, text: str) -> bool:
    """Whether the phrase is in the text as words of its own: `cure` is not in `secure`."""
    wanted = plain(phrase)
    start = text.find(wanted)
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(wanted) : start + len(wanted) + 1]
        if not (wanted[:1].isalnum() and before.isalnum()) and not (wanted[-1:].isalnum() and after.isalnum()):
            return True
        start = text.find(wanted, start + 1)
    return False


def _runs(settings: NoPromptLeak, material: Material, given: str) -> Iterator[str]:
    """Where so many words of the draft follow each other as they do in the instructions."""
    count = settings.words
    own = {tuple(run) for run in _windows(words(plain(material.instructions)), count)}
    known = words(given)
    own -= {tuple(run) for run in _windows(known, count)}
    for found in material.texts(settings.field):
        run = next((run for run in _windows(words(plain(found.value)), count) if tuple(run) in own), None)
        if run is not None:
            yield f"{found.place or 'it'} has words of the instructions: {cut(' '.join(run))}"


def _windows(said: list[str], count: int) -> Iterator[list[str]]:
    return (said[start : start + count] for start in range(len(said) - count + 1))
