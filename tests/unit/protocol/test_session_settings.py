"""No setting of Delta's is passed over in silence: each does what Delta says, is named in a warning, or is refused by name (I9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowlock.exceptions import InvalidInput, UnsupportedFeature
from rowlock.protocol.session_settings import DEFAULTS, PREFIX, SETTINGS, Setting, Settings
from tools import settings_page

SOURCE = Path(__file__).resolve().parents[3] / "src" / "rowlock"
BY_EFFECT = {effect: [s for s in SETTINGS.values() if s.effect == effect] for effect in ("works", "idle", "refused")}


def other_than(setting: Setting) -> str:
    """A value that is not the setting's default."""
    if setting.kind == "boolean":
        return "false" if setting.default == "true" else "true"
    return "other" if setting.kind == "text" else "17"


def test_the_page_is_that_of_the_list() -> None:
    assert settings_page.PAGE.read_text() == settings_page.page(), "run `make settings`"


@pytest.mark.parametrize("one", BY_EFFECT["refused"], ids=lambda s: s.name)
def test_what_would_change_a_statement_is_refused_there_by_name(one: Setting) -> None:
    assert one.at
    given = Settings({one.name: other_than(one)})
    for work in one.at:
        with pytest.raises(UnsupportedFeature, match=f"{one.whole_name} = "):
            given.check(work)
    for same in (str(one.default).upper(), *one.alike):
        Settings({one.name: same}).check(one.at[0])
    assert not given.without_effect()


@pytest.mark.parametrize("one", BY_EFFECT["idle"], ids=lambda s: s.name)
def test_what_changes_no_result_is_named(one: Setting) -> None:
    assert not one.at
    assert list(Settings({one.name: other_than(one)}).without_effect()) == [one.whole_name]
    if one.default is not None:
        assert not Settings({one.name: one.default}).without_effect()


@pytest.mark.parametrize("one", [s for s in BY_EFFECT["works"] if not s.name.startswith(DEFAULTS)], ids=lambda s: s.name)
def test_what_works_is_read_somewhere(one: Setting) -> None:
    assert not Settings({one.name: other_than(one)}).without_effect()
    readers = [f for f in SOURCE.rglob("*.py") if f'"{one.name}"' in f.read_text()]
    assert len(readers) > 1 or f'"{one.name}"' in (SOURCE / "protocol" / "session_settings.py").read_text().split("class Settings:")[1]


@pytest.mark.parametrize("one", [s for s in SETTINGS.values() if s.kind != "text"], ids=lambda s: s.name)
def test_a_value_of_another_type_is_an_error_that_names_the_setting(one: Setting) -> None:
    given = Settings({one.name: "some"})
    with pytest.raises(InvalidInput, match=f"The setting {one.whole_name} is .*, not 'some'"):
        given.text(one.name)
    for work in one.at:
        with pytest.raises(InvalidInput, match=one.name):
            given.check(work)


def test_names_that_are_none_are_named_with_what_may_be_meant() -> None:
    said = Settings({"schema.automerge.enabled": "true", "zzz": "1"}).without_effect()
    assert "is schema.autoMerge.enabled meant?" in said[f"{PREFIX}schema.automerge.enabled"] and "meant" not in said[f"{PREFIX}zzz"]
    with pytest.raises(InvalidInput, match=r"properties\.defaults\.appendonly.*is delta\.appendOnly meant"):
        Settings({f"{DEFAULTS}appendonly": "true"}).table_defaults({})


def test_a_step_of_an_application_needs_both_settings() -> None:
    assert Settings({"write.txnAppId": "a", "write.txnVersion": "3"}).application is not None
    for alone in ("write.txnAppId", "write.txnVersion"):
        with pytest.raises(InvalidInput, match="go together"):
            _ = Settings({alone: "3"}).application


def test_what_a_statement_sets_wins_over_the_defaults_of_the_session() -> None:
    given = Settings({f"{DEFAULTS}appendOnly": "true", f"{DEFAULTS}minWriterVersion": "7", f"{DEFAULTS}feature.deletionVectors": "supported"})
    assert given.table_defaults({"delta.appendOnly": "false"}) == {
        "delta.appendOnly": "false",
        "delta.minWriterVersion": "7",
        "delta.feature.deletionVectors": "supported",
    }
    assert given.table_defaults({"delta.ignoreProtocolDefaults": "true"}) == {"delta.appendOnly": "true", "delta.ignoreProtocolDefaults": "true"}
    assert Settings({f"{DEFAULTS}minReaderVersion": "1", f"{DEFAULTS}minWriterVersion": "2"}).table_defaults({}) == {}
    with pytest.raises(InvalidInput, match=f"{DEFAULTS}appendOnly = 'maybe' is not possible: allowed are true, false"):
        Settings({f"{DEFAULTS}appendOnly": "maybe"}).table_defaults({})


@pytest.mark.parametrize("size", ["64", "64m", "1GB"])
def test_the_size_of_optimized_writes_may_have_a_unit(size: str) -> None:
    """As Delta has it, which counts in MB where there is none: one with a unit was refused."""
    assert Settings({"optimizeWrite.binSize": size}).text("optimizeWrite.binSize") == size
