"""FFmpeg takes some tenths of a second to import, so whoever needs it imports it."""

import subprocess
import sys


def loads_av(statement: str) -> bool:
    code = f"import sys; {statement}; print('av' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip() == "True"


def test_formats_are_known_without_it():
    assert not loads_av("from omni_host.audio import FORMATS, pcm16; list(FORMATS)")


def test_pcm_and_wav_are_made_without_it():
    make = "FORMATS['{}'].encoder(24_000, whole=False)"
    assert not loads_av(f"from omni_host.audio import FORMATS; {make.format('wav')}")
    assert not loads_av(f"from omni_host.audio import FORMATS; {make.format('pcm')}")
    assert loads_av(f"from omni_host.audio import FORMATS; {make.format('mp3')}")
