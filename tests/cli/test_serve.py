"""`omni serve`: ready with an address, drained by a signal, clean in the end."""

import http.client
import json
import re
import signal
import socket
import threading
import time
from contextlib import closing, suppress
from urllib.parse import urlsplit

import pytest

from omni_host.audio import decode

SLOW_LOAD = ["--set", "stages.words.server_args.load_s=600"]
SLOW_SPEECH = ["--set", "stages.tones.server_args.chunk_s=0.4"]


def serving(shell, *arguments):
    """Start a server and wait until it says where it listens."""
    process = shell.start("serve", "toy", "--port", "0", *arguments)
    line, seen = b"", b""
    while not line.startswith(b"ready: "):
        line = process.stderr.readline()
        seen += line
        assert line, seen.decode()
    return process, re.search(r"http://\S+", line.decode())[0]


def wait_for(process, sign):
    """Read what the process tells until it tells this."""
    lines = iter(process.stderr.readline, b"")
    assert any(sign in line for line in lines), f"it ended without {sign!r}"


def ask(url, method, path, body=None):
    """One HTTP exchange: the status and the body."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    with closing(connection):
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()


def speak(url, text="one"):
    body = json.dumps({"model": "toy", "input": text, "response_format": "pcm"})
    status, audio = ask(url, "POST", "/v1/audio/speech", body)
    assert status == 200, audio
    return audio


def wait_until_running(url):
    """Poll until the server has one request inside."""
    while json.loads(ask(url, "GET", "/health")[1])["running"] != 1:
        time.sleep(0.01)


def test_it_tells_the_stages_the_address_and_a_command_that_works(toy):
    process = toy.start("serve", "toy", "--port", "0")
    lines = []
    while not (lines and lines[-1].startswith("try: ")):
        lines.append(process.stderr.readline().decode())
        assert lines[-1], lines
    assert "words: reading the dictionary\n" in lines
    assert "words: ready\n" in lines
    assert re.match(r"ready: http://127\.0\.0\.1:\d+ serves toy\n", lines[-2])
    command = lines[-1].removeprefix("try: ").strip()
    done = toy.python(f"import subprocess; subprocess.check_call({command!r}, shell=True)")
    assert done.returncode == 0, done.stderr
    assert len(decode((toy.folder / "out.mp3").read_bytes(), 24_000))
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_running_requests_end(toy, number):
    process, url = serving(toy, *SLOW_SPEECH)
    heard = []
    client = threading.Thread(target=lambda: heard.append(speak(url, "one two three")))
    client.start()
    wait_until_running(url)
    process.send_signal(number)
    client.join(60)
    out, errors = process.communicate()
    assert [len(audio) for audio in heard] == [3 * 1600]
    assert process.returncode == 0
    assert out == b""
    assert errors.startswith(b"try: ")
    assert b"stopping: requests that run have 30 s" in errors
    assert b"Traceback" not in errors


def test_a_second_ctrl_c_does_not_wait(toy):
    process, url = serving(toy, "--set", "stages.tones.server_args.chunk_s=600")
    body = json.dumps({"model": "toy", "input": "one"})

    def cut_off():
        with suppress(OSError, http.client.HTTPException):
            ask(url, "POST", "/v1/audio/speech", body)

    client = threading.Thread(target=cut_off)
    client.start()
    wait_until_running(url)
    process.send_signal(signal.SIGINT)
    wait_for(process, b"stopping")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    client.join(60)
    assert not client.is_alive()
    assert process.returncode == 0
    assert b"Traceback" not in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_loads_ends_it_at_once(toy, number):
    process = toy.start("serve", "toy", "--port", "0", *SLOW_LOAD)
    wait_for(process, b"words: reading")
    process.send_signal(number)
    _, errors = process.communicate()
    assert process.returncode == 0
    assert b"Traceback" not in errors
    assert b"ready:" not in errors


def test_a_port_in_use_is_a_usage_error_with_another_to_try(toy):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = toy.run("serve", "toy", "--port", str(port))
    assert done.returncode == 2
    assert f"error: Port {port} of 127.0.0.1 is in use." in done.stderr
    assert f"hint: --port {port + 1}" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "key"),
    [(["--port", "70000"], "server.port = 70000 (from --port)"), (["--port", "x"], "'--port'")],
)
def test_a_bad_port_is_named(toy, arguments, key):
    done = toy.run("serve", "toy", *arguments)
    assert done.returncode == 2
    assert key in done.stderr


def test_a_stage_that_does_not_start_ends_it_with_its_name(toy):
    (toy.site / "toy_stages.py").write_text("raise RuntimeError('no such chip')")
    done = toy.run("serve", "toy", "--port", "0")
    assert done.returncode == 5
    assert "no such chip" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_terminal_that_goes_away_does_not_end_it(toy):
    process, url = serving(toy)
    process.stderr.close()
    assert len(speak(url)) == 1600
    process.send_signal(signal.SIGTERM)
    process.stdout.close()
    assert process.wait() == 0


@pytest.mark.parametrize("placement", ["graph", "fused"])
def test_the_host_never_imports_what_belongs_to_stages(toy, placement):
    done = toy.python(
        f"""
        import asyncio, json, os, signal, sys, threading, urllib.request
        from omni_host.cli import main
        from omni_host.serve import Server

        run = Server.run

        async def observed(server):
            def ready(url):
                threading.Thread(target=use, args=(url,)).start()
            server._on_ready = ready
            await run(server)

        def use(url):
            body = json.dumps({{"model": "toy", "input": "one"}}).encode()
            urllib.request.urlopen(urllib.request.Request(
                url + "/v1/audio/speech", body, {{"Content-Type": "application/json"}})).read()
            heavy = {{"torch", "transformers", "sglang", "toy_stages"}} & set(sys.modules)
            print("heavy", sorted(heavy))
            os.kill(os.getpid(), signal.SIGTERM)

        Server.run = observed
        code = main(["serve", "toy", "--port", "0", "--set", "placement={placement}"])
        print("exit", code)
        """
    )
    assert done.stdout == "heavy []\nexit 0\n", done.stderr
