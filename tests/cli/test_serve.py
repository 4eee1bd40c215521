"""``geonew serve``: how it starts, ends and fails."""

from __future__ import annotations

import os
import signal
import socket

import httpx
import psutil
import pytest

from geonew.cli import main
from geonew.data.families import family
from geonew.serve.server import limits_of, sources
from serve_runs import running, untrained


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("model") / "poisson.safetensors"
    return str(untrained(path, family("poly-poisson").problem))


def test_a_port_in_use(checkpoint, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["serve", checkpoint, "--port", port, "--no-browser"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert f"port {port} of 127.0.0.1 is in use" in err
    assert "--port" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing.safetensors"], "there is no model 'nothing.safetensors'"),
        (["MODEL", "--host", "no.such.host.invalid"], "is no address here"),
        (["MODEL", "--port", "99999"], "port 99999"),
    ],
)
def test_what_cannot_be_served(checkpoint, arguments, words, capsys):
    arguments = [checkpoint if a == "MODEL" else a for a in arguments]
    assert main(["serve", *arguments, "--no-browser"]) == 1
    err = capsys.readouterr().err
    assert words in err
    assert "Traceback" not in err


def test_a_damaged_model(tmp_path, capsys):
    (tmp_path / "bad.safetensors").write_bytes(b"nonsense")
    code = main(["serve", str(tmp_path / "bad.safetensors"), "--no-browser", "--port", "0"])
    assert code == 1
    err = capsys.readouterr().err
    assert "bad.safetensors" in err
    assert "Traceback" not in err


def test_nothing_to_serve(monkeypatch, capsys):
    monkeypatch.setattr("geonew.weights.names", lambda: ())
    assert main(["serve", "--no-browser", "--port", "0"]) == 1
    assert "no model to serve" in capsys.readouterr().err


def test_paths_are_found_from_anywhere(checkpoint, monkeypatch, tmp_path):
    monkeypatch.chdir(os.path.dirname(checkpoint))
    assert sources([os.path.basename(checkpoint)]) == [checkpoint]


@pytest.mark.parametrize(
    "how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_an_interrupted_server_ends_with_all_its_workers(checkpoint, tmp_path, how, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    with running(tmp_path, checkpoint) as server:
        assert httpx.get(f"{server.address}api/health", trust_env=False).json()["workers"] == 3
        workers = psutil.Process(server.process.pid).children(recursive=True)
        assert len(workers) >= 3
        server.process.send_signal(how)
        code = server.process.wait(timeout=30)
        _, left = psutil.wait_procs(workers, timeout=30)
    assert left == []
    assert list((tmp_path / "tmp").iterdir()) == []
    assert code == 128 + how
    assert "Traceback" not in "".join(server.said)
    if how == signal.SIGINT:
        assert "".join(server.said).strip() == "geonew: interrupted"


def test_it_answers_to_its_own_names_unless_told_otherwise():
    assert "127.0.0.1" in limits_of("127.0.0.1").hosts
    assert "192.0.2.7" in limits_of("192.0.2.7").hosts
    assert limits_of("0.0.0.0").hosts == ()
