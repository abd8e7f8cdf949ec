"""Masking: personal data and secrets in text give way to a word that says what stood there.

Mail addresses, phone numbers, card and bank account numbers (their checksums are tried, so that ids and moments stay),
keys and tokens by their shape or by the name before them. Masking what is masked changes nothing.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from nightdesk.canonical import Json

SECRET = "[secret]"
MAIL, PHONE, CARD, ACCOUNT = "[mail]", "[phone]", "[card]", "[iban]"

_SHORTEST = 5  # no address, number or secret is shorter

_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_URL_LOGIN = re.compile(r"(?<=://)[^\s/?#@]*+@(?=[^\s])")
_SECRET_NAME = r"passw(?:or)?d|passphrase|secret|api[_-]?key|access[_-]?key|private[_-]?key|authorization|cookie|token"
_PAIR = re.compile(
    rf"""((?:{_SECRET_NAME}|\bpwd)\\?["']?\s*[=:]\s*)(?!\[secret\])"""
    r"""(\\"[^"\n]*\\"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|(?:(?:bearer|basic)\s+)?[^\s,;&"']+)""",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(bearer\s+)[\w.~+/-]{8,}=*", re.IGNORECASE)
_KEY = re.compile(
    r"\b(?:sk|pk|rk)[-_][\w-]{16,}|\b(?:nd|hf|npm|glpat|github_pat|gh[pousr])[_-][\w-]{20,}|\bwhsec_[\w+/-]{16,}=*"
    r"|\bxox[abeoprs]-[\w-]{10,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{30,}"
    r"|\beyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)*"
)
_ADDRESS = re.compile(
    r"""(?:(?<![^\s@"<>(),;:\[\]\\])[^\s@"<>(),;:\[\]\\]++|"[^"\n]{1,64}")@[\w-]+(?:\.[\w-]+)*\.[^\W\d_][\w-]*"""
)
_ACCOUNT = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")
_CARD = re.compile(r"(?<!\w)(?<!\d\.)(?:[2-6]\d{3}(?:[ -]\d{3,7}){2,4}|[2-6]\d{12,18})(?!\w|\.\d)")
_ALONE = r"(?<![\w/+-])(?<!\d[.:])(?:", r")(?!\w|[.:-]\d)"
_PHONE = re.compile(
    r"(?<![\w.+])\+\d(?:[ ./()-]{0,3}\d){6,14}(?!\w)|"  # +49 (30) 123-4567
    + _ALONE[0]
    + r"00[1-9]\d{0,2}[ ./-](?:[ ./()-]{0,3}\d){6,12}"  # 0049 30 1234567
    r"|(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}"  # (555) 123-4567
    r"|(?:\(0[1-9]\d{1,4}\) ?|0[1-9]\d{1,4}[ /-])\d{3,8}(?:[ -]\d{2,5})?"  # 030 1234567
    r"|0[1-9](?:[ .]\d\d){4}"  # 06 12 34 56 78
     + _ALONE[1]
)
_NAMES_SECRET = re.compile(rf"(?:{_SECRET_NAME}|credentials?|pwd)$|passw(?:or)?d|secret", re.IGNORECASE)
_BREAK = re.compile(r"[ -]|$")


def mask(text: str) -> str:
    """The text without personal data and secrets."""
    while (masked := _mask_once(text)) != text:  # what is masked may have hidden its neighbour
        text = masked
    return text


def mask_json(value: Json) -> Json:
    """The same for every text in a JSON value; what stands under the name of a secret is masked whole."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return dict(_mask_item(key, item) for key, item in value.items())
    if isinstance(value, list):
        return [mask_json(item) for item in value]
    return value


def _mask_item(key: str, item: Json) -> tuple[str, Json]:
    shown, names_secret = _mask_key(key)
    return shown, SECRET if names_secret and item not in (None, "") else mask_json(item)


@lru_cache(maxsize=1024)
def _mask_key(key: str) -> tuple[str, bool]:
    """Keys are few and come again with every line of the log."""
    return mask(key), _NAMES_SECRET.search(key) is not None


def _mask_once(text: str) -> str:
    if len(text) < _SHORTEST:
        return text
    if "-----BEGIN" in text:
        text = _PRIVATE_KEY.sub(SECRET, text)
    if "://" in text:
        text = _URL_LOGIN.sub(f"{SECRET}@", text)
    if "=" in text or ":" in text:
        text = _PAIR.sub(rf"\1{SECRET}", text)
    text = _KEY.sub(SECRET, _BEARER.sub(rf"\1{SECRET}", text))
    if "@" in text:
        text = _ADDRESS.sub(MAIL, text)
    return _mask_numbers(text)


def _mask_numbers(text: str) -> str:
    text = _replace_checked(_ACCOUNT, _is_account, ACCOUNT, text)
    text = _replace_checked(_CARD, _is_card, CARD, text)
    return _PHONE.sub(PHONE, text)


def _replace_checked(pattern: re.Pattern[str], check: Callable[[str], bool], word: str, text: str) -> str:
    """Replace what has the pattern and passes the check. What does not may still begin with, or hide, one that does."""
    found = pattern.search(text)
    if found is None:
        return text
    parts, done = [], 0
    while found is not None:
        end = found.start() + _checked_length(found.group(), check)
        if end > found.start():
            parts += [text[done : found.start()], word]
            done = end
        found = pattern.search(text, max(end, found.start() + 1))
    return "".join([*parts, text[done:]])


def _checked_length(candidate: str, check: Callable[[str], bool]) -> int:
    """How much of the candidate, up to a space or dash, passes the check: as much as possible, or nothing."""
    ends = [found.start() for found in _BREAK.finditer(candidate)]
    return next((end for end in reversed(ends) if check(candidate[:end].translate(_JOINED))), 0)


_JOINED = str.maketrans("", "", " -")


def _is_card(digits: str) -> bool:
    """By the length that goes with its first digit, and Luhn's sum."""
    lengths = {"4": (13, 16, 19), "3": (14, 15, 16)}.get(digits[0], (16, 17, 18, 19))
    if len(digits) not in lengths:
        return False
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(doubled) + sum(int(digit) for digit in digits[::-2])) % 10 == 0


def _is_account(text: str) -> bool:
    """By ISO 7064: the country and check digits moved to the end, letters as 10 to 35, the remainder is one."""
    if not 15 <= len(text) <= 34:
        return False
    moved = text[4:] + text[:4]
    return int("".join(str(int(char, 36)) for char in moved)) % 97 == 1
