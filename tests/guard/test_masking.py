"""What names a person or opens a door never passes; everything else passes unchanged."""

import base64
import json
import secrets
import string

import pytest
from hypothesis import given, strategies as st

from nightdesk.guard.masking import mask, mask_json

_DIGITS = "0123456789"
_KEY_CHARACTERS = string.ascii_letters + string.digits


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("write to jo.doe+x@ex-ample.co.uk, please", "write to [mail], please"),
        ('"jo doe"@example.org', "[mail]"),
        ("jörg@bücher.example", "[mail]"),
        ("call +49 (30) 123-4567.", "call [phone]."),
        ("tel:+15551234567", "tel:[phone]"),
        ("0049 30 1234567", "[phone]"),
        ("phone: (555) 123-4567", "phone: [phone]"),
        ("555-123-4567.", "[phone]."),
        ("030 1234567", "[phone]"),
        ("0171/1234567", "[phone]"),
        ("06 12 34 56 78", "[phone]"),
        ("020 7946 0958", "[phone]"),
        ("paid with 4111 1111 1111 1111 123", "paid with [card] 123"),
        ("22 4111-1111-1111-1111", "22 [card]"),
        ("378282246310005", "[card]"),
        ("6011 0009 9013 9424", "[card]"),
        ("DE89 3704 0044 0532 0130 00 EUR", "[iban] EUR"),
        ("to GB82WEST12345698765432", "to [iban]"),
        ("Bearer abcdefgh.12345678", "Bearer [secret]"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: [secret]"),
        ("password=hunter2&user=jo", "password=[secret]&user=jo"),
        ("PGPASSWORD='a b' psql", "PGPASSWORD=[secret] psql"),  # pragma: allowlist secret
        ('{"api_key": "a \\"b\\" c", "n": 1}', '{"api_key": [secret], "n": 1}'),  # pragma: allowlist secret
        (
            r"{\"client_secret\": \"abc\", \"n\": 1}",
            r"{\"client_secret\": [secret], \"n\": 1}",
        ),  # pragma: allowlist secret
        ("postgresql://bob:s3cret@db.example/x", "postgresql://[secret]@db.example/x"),  # pragma: allowlist secret
        ("?access_token=abc123#top", "?access_token=[secret]"),
        ("-----BEGIN EC PRIVATE KEY-----\nMI\n-----END EC PRIVATE KEY-----", "[secret]"),  # pragma: allowlist secret
    ],
)
def test_what_is_personal_or_secret_is_masked(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-18T21:44:51.225Z",
        "2026-11-18 21:44:51,225 in 0.125 s",
        "2026-11-18T10:00:00+02:00",
        "02/03/2026 and 02.03.2026",
        "1234567",
        "1763500000000 ms, 1763500000000000000 ns",
        "123e4567-e89b-12d3-a456-426614174000",
        "deadbeef" * 8,
        "0306406152",
        "192.168.100.200:54321",
        "1.23456789012345678",
        "$1,234,567.89",
        "input_tokens=1234, max_tokens: 5",
        "lodash@4.17.21 and @decorator",
        "4111 1111 1111 1112 is no card",
        "DE88370400440532013000 is no account",
        "sk-learn and risk-assessment",
        "The tokens of the day: none.",
    ],
)
def test_everything_else_passes_unchanged(text: str) -> None:
    assert mask(text) == text


@given(
    st.emails(), st.sampled_from(["", "to ", "<", "mailto:", '{"a":"']), st.sampled_from(["", " x", ">", ", b", '"}'])
)
def test_no_mail_address_survives(address: str, before: str, after: str) -> None:
    assert address not in mask(before + address + after)


@given(st.sampled_from("3456"), st.text(_DIGITS, min_size=14, max_size=14), st.sampled_from(["", " ", "-"]))
def test_no_card_number_survives(first: str, rest: str, separator: str) -> None:
    digits = first + rest
    digits += _luhn_digit(digits)
    number = separator.join(digits[i : i + 4] for i in range(0, 16, 4))
    assert mask(f"card {number}, thanks") == "card [card], thanks"


@given(st.sampled_from(["DE", "FR", "NL", "GB"]), st.text(string.ascii_uppercase + _DIGITS, min_size=12, max_size=26))
def test_no_account_number_survives(country: str, rest: str) -> None:
    check = 98 - int("".join(str(int(char, 36)) for char in f"{rest}{country}00")) % 97
    account = f"{country}{check:02}{rest}"
    grouped = " ".join(account[i : i + 4] for i in range(0, len(account), 4))
    assert "[iban]" in mask(f"pay {account}")
    assert rest not in mask(f"pay {account}")
    assert "[iban]" in mask(f"pay {grouped}.")


@given(st.text(_DIGITS, min_size=7, max_size=12), st.integers(1, 99), st.sampled_from(["", " ", "-", "."]))
def test_no_international_phone_number_survives(digits: str, country: int, separator: str) -> None:
    number = f"+{country} {separator.join([digits[:3], digits[3:]])}"
    assert mask(f"call {number} now") == "call [phone] now"


@given(
    st.sampled_from(["sk-", "sk_live_", "nd_", "ghp_", "github_pat_", "xoxb-", "hf_", "glpat-"]),
    st.text(_KEY_CHARACTERS, min_size=32, max_size=48),
    st.sampled_from(["", "key ", "key=", '"', "(", "https://x.example/?k="]),
)
def test_no_key_survives(prefix: str, rest: str, before: str) -> None:
    assert rest not in mask(f"{before}{prefix}{rest} is it")


def test_no_secret_of_ours_survives() -> None:
    ours = "nd_" + secrets.token_urlsafe(32)
    signing = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    token = ".".join(["eyJ" + "hbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxIn0", "c2lnbmF0dXJl"])
    access = "AKIA" + "ABCD1234" * 2
    assert mask(f"{ours} {signing} {token} {access}") == "[secret] [secret] [secret] [secret]"


@given(
    st.lists(
        st.sampled_from(
            ["a@b.example", "+49 30 1234567", "4111 1111 1111 1111", "password=", '"', " ", ":", "x", "://", "@"]
        )
    )
)
def test_masking_twice_is_masking_once(parts: list[str]) -> None:
    once = mask("".join(parts))
    assert mask(once) == once


@given(st.text())
def test_any_text_can_be_masked_and_twice_is_once(text: str) -> None:
    assert mask(mask(text)) == mask(text)


@given(st.text(string.ascii_letters + " .,!?'()", max_size=200))
def test_plain_words_pass_unchanged(text: str) -> None:
    assert mask(text) == text or "earer " in text.lower()


def test_json_is_masked_in_depth() -> None:
    value = {"user": {"mail": "a@b.example", "ids": [1234567, "call +49 30 1234567"]}, "a@b.example": 1.5, "n": None}
    assert mask_json(value) == {"user": {"mail": "[mail]", "ids": [1234567, "call [phone]"]}, "[mail]": 1.5, "n": None}


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "db_password",
        "passwordHash",
        "apiKey",
        "api-key",
        "Authorization",
        "client_secret",
        "token",
        "cookie",
    ],
)
def test_what_stands_under_the_name_of_a_secret_is_masked_whole(key: str) -> None:
    assert mask_json({key: ["x", {"y": 1}]}) == {key: "[secret]"}
    assert mask_json({key: None}) == {key: None}


@pytest.mark.parametrize("key", ["key", "input_tokens", "tokenizer", "author", "id"])
def test_other_names_are_not_taken_for_secrets(key: str) -> None:
    assert mask_json({key: "plain"}) == {key: "plain"}


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(_json)
def test_any_json_stays_json(value: object) -> None:
    once = mask_json(value)
    json.dumps(once)
    assert mask_json(once) == once


def _luhn_digit(digits: str) -> str:
    doubled = [sum(divmod(2 * int(digit), 10)) for digit in digits[::-2]]
    return str(-(sum(doubled) + sum(int(digit) for digit in digits[-2::-2])) % 10)
