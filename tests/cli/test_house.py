"""Switches, status, tokens, the audit trail, playbooks and the doctor, from the terminal."""

import re
from pathlib import Path

from nightdesk.settings import Settings, load_settings
from nightdesk.watch.courier import callback_secret
from tests.cli.conftest import Terminal
from tests.support.playbooks import write_yaml


def _levels(answer: object) -> dict[str, str]:
    assert isinstance(answer, dict)
    return {finding["check"]: finding["level"] for finding in answer["findings"]}


def test_switches(nightdesk_on_either: Terminal) -> None:
    nightdesk = nightdesk_on_either
    said = nightdesk("pause", "--why", "new prices", "--playbook", "drill", "--tenant", "acme").out
    assert said.startswith("Paused: playbook drill, tenant acme.")
    assert nightdesk("stop", "--why", "fire", "--json").json["mode"] == "stop"
    switches = nightdesk("status", "--json").json["switches"]
    assert [(switch["mode"], switch["playbook"], switch["tenant"], switch["why"]) for switch in switches] == [
        ("stop", "", "", "fire"), ("pause", "drill", "acme", "new prices")
    ]  # fmt: skip
    assert "new prices" in nightdesk("status").out
    assert nightdesk("resume", "--why", "it is out").out == "Work goes on for everything.\n"
    nightdesk("resume", "--why", "they are set", "--playbook", "drill", "--tenant", "acme", "--json")
    assert nightdesk("status", "--json").json["switches"] == []


def test_switches_that_are_refused(nightdesk: Terminal) -> None:
    assert "Nothing is switched off for tenant acme." in nightdesk.refuses("resume", "--tenant", "acme", "--why", "x")
    assert 'did you mean "drill"' in nightdesk.refuses("stop", "--why", "x", "--playbook", "dril")
    assert "why: is empty" in nightdesk.refuses("pause", "--why", " ")


def test_status(nightdesk_on_either: Terminal) -> None:
    nightdesk = nightdesk_on_either
    assert nightdesk("status", "--json").json == {"tasks": {}, "workers": [], "switches": []}
    nightdesk("add", "drill", '{"name": "first"}')
    assert nightdesk("status", "--json").json["tasks"] == {"queued": 1}
    assert "queued" in nightdesk("status").out


def test_tokens(nightdesk_on_either: Terminal) -> None:
    nightdesk = nightdesk_on_either
    made = nightdesk("token", "create", "--scopes", "submit,read", "--json").json
    assert set(made) == {"id", "token", "scopes", "tenant", "expires_at"}
    assert (made["scopes"], made["tenant"], made["expires_at"]) == (["submit", "read"], None, None)
    assert made["token"].startswith("nd_")
    other = nightdesk("token", "create", "--scopes", "admin", "--tenant", "acme", "--expires-days", "7", "--name", "ci")
    assert other.out.startswith("nd_")
    listed = nightdesk("token", "list", "--json").json["items"]
    assert [(token["name"], token["tenant"], token["expires_at"] is None) for token in listed] == [
        ("unnamed", None, True), ("ci", "acme", False)
    ]  # fmt: skip
    assert made["token"] not in nightdesk("token", "list").out
    assert nightdesk("token", "revoke", made["id"]).out == f"Token {made['id']} is revoked.\n"
    assert nightdesk("token", "revoke", made["id"], "--json").json["revoked"] is False


def test_tokens_that_are_refused(nightdesk: Terminal) -> None:
    assert 'did you mean "submit"' in nightdesk.refuses("token", "create", "--scopes", "submt,read")
    assert "scopes: is empty" in nightdesk.refuses("token", "create", "--scopes", ",")
    assert "There is no token nothing." in nightdesk.refuses("token", "revoke", "nothing")
    nightdesk.refuses("token", "create", "--scopes", "read", "--expires-days", "0", code=2)


def test_the_audit_trail(nightdesk_on_either: Terminal) -> None:
    nightdesk = nightdesk_on_either
    nightdesk("add", "drill", '{"name": "first"}')
    verdict = nightdesk("audit", "verify", "--json").json
    assert (verdict["ok"], verdict["rows"], verdict["unsealed"]) == (True, 0, 1)
    (nightdesk.home / "audit.head").write_text('{"seq": 5, "seal": "abc", "at": ""}', encoding="utf-8")
    said = nightdesk.refuses("audit", "verify")
    assert said.startswith("The audit trail is broken at row 1 of the chain: the chain was cut")
    assert nightdesk("audit", "verify", "--json", code=1).json["first_bad"] == 1


def test_playbooks(nightdesk: Terminal) -> None:
    write_yaml(nightdesk.home, "name: mine\nwhen: now\ninput: {name: string}\n", folder="mine")
    found = {playbook["name"]: playbook for playbook in nightdesk("playbooks", "list", "--json").json["items"]}
    assert found["mine"]["when"] == "now"
    assert found["drill"]["input"]["properties"]["steps"]["type"] == "integer"
    assert "drill" in nightdesk("playbooks", "list").out
    assert nightdesk("playbooks", "check", "--json").json["names"] == ["drill", "mine"]
    write_yaml(nightdesk.home, "name: mine\nwhen: now\ninput: {name: strin}\nrisc: internal\n", folder="mine")
    said = nightdesk.refuses("playbooks", "check")
    assert "playbooks/mine/playbook.yaml line 3" in said
    assert "playbooks/mine/playbook.yaml line 4" in said


def test_a_house_in_order(nightdesk_on_either: Terminal) -> None:
    for file in nightdesk_on_either.home.parent.glob("nightdesk.db"):
        file.chmod(0o600)
    answer = nightdesk_on_either("doctor", "--json").json
    assert answer["ok"] is True
    levels = _levels(answer)
    assert levels["database"] == levels["settings"] == levels["playbooks"] == levels["audit"] == "ok"
    assert levels["workers"] == "warn"
    assert "The house is in order." in nightdesk_on_either("doctor").out


def test_the_doctor_names_what_is_wrong(nightdesk: Terminal) -> None:
    callback_secret(nightdesk.home)
    (nightdesk.home / "callback.secret").chmod(0o644)
    (nightdesk.home.parent / "nightdesk.db").chmod(0o644)
    (nightdesk.home / "audit.head").write_text('{"seq": 5, "seal": "abc", "at": ""}', encoding="utf-8")
    write_yaml(nightdesk.home, "name: mine\nwen: now\n", folder="mine")
    nightdesk("doctor", code=1)
    (nightdesk.home / "playbooks" / "mine" / "playbook.yaml").unlink()
    nightdesk("pause", "--why", "testing")
    answer = nightdesk("doctor", "--json", code=1).json
    bad = {finding["check"]: finding for finding in answer["findings"] if finding["level"] == "bad"}
    assert set(bad) == {"callback secret", "sqlite", "audit"}
    assert all(finding["mend"] for finding in bad.values())
    assert bad["callback secret"]["mend"].startswith("Run: chmod 600 ")
    assert _levels(answer)["switches"] == "warn"


def test_the_doctor_looks_at_a_house_that_cannot_be_opened(nightdesk: Terminal) -> None:
    away = {"NIGHTDESK_DATABASE_URL": "postgresql://postgres:hidden@127.0.0.1:1/none"}  # pragma: allowlist secret
    answer = nightdesk("doctor", "--json", code=1, env=away)
    assert _levels(answer.json)["database"] == "bad"
    assert "hidden" not in answer.out
    nightdesk("doctor", code=1, env={"NIGHTDESK_DATABASE_URL": "nonsense"})
    answer = nightdesk("doctor", "--json", code=1, env={"NIGHTDESK_WORKER_CONCURENCY": "1"})
    assert _levels(answer.json) == {"settings": "bad"}
    (nightdesk.home / "nightdesk.toml").write_text("", encoding="utf-8")
    answer = nightdesk("doctor", "--json")
    assert _levels(answer.json)["database"] == "warn"
    assert not (nightdesk.home / "nightdesk.db").exists()


def test_a_new_house(tmp_path: Path) -> None:
    nightdesk = Terminal(tmp_path)
    said = nightdesk("init", "mine").out
    assert said.splitlines()[1:] == [
        "  cd mine", "  nightdesk add greeting --file sheets/first-tasks.csv", "  nightdesk up"
    ]  # fmt: skip
    inside = Terminal(tmp_path / "mine")
    assert load_settings(inside.home, {}) == Settings()
    assert inside("add", "greeting", "--file", "sheets/first-tasks.csv", "--json").json["added"] == 3
    ignored = (inside.home / ".gitignore").read_text(encoding="utf-8").split()
    assert {"callback.secret", "nightdesk.db*"} <= set(ignored)
    assert "mine has nightdesk.toml, " in nightdesk.refuses("init", "mine")


def test_a_new_house_states_every_setting(tmp_path: Path) -> None:
    Terminal(tmp_path)("init", "--json")
    stated = (tmp_path / "nightdesk.toml").read_text(encoding="utf-8")
    (tmp_path / "nightdesk.toml").write_text(
        re.sub(r"^# (\w+ = )", r"\1", stated, flags=re.MULTILINE), encoding="utf-8"
    )
    assert load_settings(tmp_path, {}) == Settings()
    for section in Settings.model_fields:
        assert f"[{section}]" in stated
