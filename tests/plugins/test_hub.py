"""The real `huggingface_hub` against a hub on this machine, in processes of their own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from omni_host.errors import ModelError

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "config.json": b'{"architectures": ["ToneModel"]}',
    "model.safetensors": b"weights" * 100,
}
SCRIPT = """
import json, sys
from omni_host.errors import OmniError
from omni_host.plugins import Plugins, discover
reference, revision, weights, *path = json.loads(sys.argv[1])
plugins = Plugins.load(discover(path))
try:
    found = plugins.resolve_model(reference, revision, weights=weights)
    files = sorted(file.name for file in found.model.path.iterdir())
    print(json.dumps({"owner": found.owner, "files": files, "commit": found.model.path.name}))
except OmniError as error:
    print(json.dumps({"error": type(error).__name__, "message": error.message, "hint": error.hint}))
"""


class Hub(BaseHTTPRequestHandler):
    """As much of the hub's protocol as a download needs."""

    asked: list[str]

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        self.asked.append(f"{self.command} {path}")
        if path.startswith("/acme/tone/resolve/"):
            _, _, _, _, revision, name = path.split("/")
            if revision not in {"main", COMMIT}:
                self.send(404, b"", {"X-Error-Code": "RevisionNotFound"}, body=body)
            elif name in FILES:
                etag = hashlib.sha256(FILES[name]).hexdigest()
                headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{etag}"'}
                self.send(200, FILES[name], headers, body=body)
            else:
                headers = {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}
                self.send(404, b"", headers, body=body)
        elif path.startswith("/api/models/acme/tone/tree/"):
            tree = [
                {"type": "file", "path": name, "size": len(data), "oid": "0" * 40}
                for name, data in FILES.items()
            ]
            self.send(200, json.dumps(tree).encode(), {}, body=body)
        else:
            self.send(404, b"", {"X-Error-Code": "RepoNotFound"}, body=body)

    def send(self, status: int, data: bytes, headers: dict[str, str], *, body: bool) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(key, value)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - http.server's
        """Keep the output of tests clean."""


@pytest.fixture
def hub() -> Iterator[ThreadingHTTPServer]:
    Hub.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def resolve(site, hub, tmp_path):
    pytest.importorskip("huggingface_hub")
    site.family("tone", "ToneModel")

    def run(
        reference: str = "acme/tone",
        revision: str | None = None,
        *,
        weights: bool = True,
        offline: bool = False,
    ) -> dict[str, object]:
        arguments = [reference, revision, weights, *map(str, site.folders)]
        environment = {
            **os.environ,
            "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_address[1]}",
            "HF_HOME": str(tmp_path / "hf"),
            "HF_HUB_OFFLINE": "1" if offline else "0",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_XET": "1",
            "PYTHONPATH": os.pathsep.join(map(str, site.folders)),
        }
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, json.dumps(arguments)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_the_config_comes_first_and_then_everything_of_the_same_commit(resolve):
    assert resolve() == {"owner": "tone", "files": sorted(FILES), "commit": COMMIT}
    downloads = [line for line in Hub.asked if line.startswith("GET") and "resolve" in line]
    assert downloads[0].endswith("/config.json")
    assert downloads[1].endswith(f"/{COMMIT}/model.safetensors")


def test_without_weights_the_config_is_all_that_is_fetched(resolve):
    assert resolve(weights=False)["files"] == ["config.json"]
    assert not any("safetensors" in line for line in Hub.asked)


def test_the_local_cache_is_asked_before_the_hub(resolve):
    resolve()
    Hub.asked.clear()
    assert resolve(offline=True)["files"] == sorted(FILES)
    assert resolve(revision=COMMIT)["owner"] == "tone"
    assert Hub.asked == []


def test_a_model_that_nobody_claims_costs_no_weights(site, resolve):
    site.folders.clear()
    assert resolve()["error"] == "UnclaimedError"
    assert not any("safetensors" in line for line in Hub.asked)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"reference": "acme/nothing"}, "The hub has no model 'acme/nothing' that you may read."),
        ({"revision": "v9"}, "'acme/tone' has no revision 'v9'."),
        (
            {"offline": True},
            "'acme/tone' is not whole in the local cache, and the hub cannot be reached",
        ),
        ({"reference": "acme/to..ne"}, "'acme/to..ne' cannot be fetched: "),
    ],
)
def test_what_cannot_be_fetched_is_a_model_error(resolve, named, message):
    answer = resolve(**named)
    assert answer["error"] == "ModelError"
    assert message in str(answer["message"])


def test_a_hub_model_without_a_config_is_refused(resolve, monkeypatch):
    monkeypatch.delitem(FILES, "config.json")
    assert resolve()["message"] == "'acme/tone' has no config.json."


def test_a_config_alone_is_not_taken_for_a_model(resolve):
    resolve(weights=False)
    answer = resolve(offline=True)
    assert answer["error"] == "ModelError"
    assert "is not whole in the local cache" in str(answer["message"])


def test_a_download_that_stopped_is_not_taken_for_a_model(resolve, tmp_path):
    resolve()
    (weights,) = tmp_path.glob("hf/hub/*/snapshots/*/model.safetensors")
    weights.unlink()
    answer = resolve(offline=True)
    assert answer["error"] == "ModelError"
    assert "is not whole in the local cache" in str(answer["message"])
    assert resolve()["files"] == sorted(FILES)


def test_without_the_library_the_extra_is_named(site, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModelError) as caught:
        site.load().resolve_model("acme/tone")
    assert caught.value.hint == "pip install 'omni-host[hub]'"


def test_a_folder_of_that_name_goes_before_the_hub(site, monkeypatch):
    site.family("tone", "ToneModel")
    folder: Path = site.model("acme/tone", FILES["config.json"].decode())
    monkeypatch.chdir(folder.parents[1])
    assert site.load().resolve_model("acme/tone").model.path == folder
