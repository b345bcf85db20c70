"""Touches, while it builds its graph, what the option `touch` says."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from toy_voice import claim_of, graph_of

from omni_host.api import PluginInfo, hookimpl

PLUGIN = PluginInfo(name="touching", summary="a tone for each word")
claim_model = claim_of("touching")


@hookimpl
def build_stages(model, options, platform):
    TOUCHES[options["touch"]](model.path)
    return graph_of({})


def open_weights(folder):
    (folder / "model.safetensors").read_bytes()


def open_large(folder):
    (folder / "table.json").read_bytes()


def write(folder):
    (Path(tempfile.gettempdir()) / "written").write_text("")


def connect(folder):
    socket.socket().close()


def start(folder):
    subprocess.run([sys.executable, "-S", "-c", ""], check=True)


def make_folder(folder):
    Path(tempfile.mkdtemp()).rmdir()


def set_variable(folder):
    os.environ["TOY_VOICE"] = "1"


def start_thread(folder):
    threading.Thread(target=threading.Event().wait, daemon=True).start()


TOUCHES = {
    "weights": open_weights,
    "large file": open_large,
    "writing": write,
    "socket": connect,
    "process": start,
    "folder": make_folder,
    "environment": set_variable,
    "thread": start_thread,
}
