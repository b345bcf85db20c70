"""Every setting is described, and the page about them is up to date."""

from pathlib import Path

from omni_host.config.reference import described_settings, reference_page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"


def test_every_setting_says_what_it_means():
    assert [setting.key for setting in described_settings() if not setting.description] == []


def test_the_page_is_what_the_tables_say():
    assert PAGE.read_text() == reference_page(), (
        "python -m omni_host.config.reference >docs/settings.md"
    )
