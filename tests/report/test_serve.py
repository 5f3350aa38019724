"""The live page: what it answers, what it refuses, and that a reader keeps their place while a study goes on."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from urllib.request import urlopen

import pytest
from browser import HOW
from free_steps import made_study

from deadhead.errors import DeadheadError
from deadhead.report.page import library
from deadhead.report.page.content import content
from deadhead.report.page.serve import Server, served


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return made_study(tmp_path_factory.mktemp("serve") / "study")


@pytest.fixture(scope="module")
def study_folders(tmp_path_factory, study):
    folder = tmp_path_factory.mktemp("studies")
    for name in ("one", "deep/two"):
        shutil.copytree(study, folder / name)
    (folder / "other").mkdir()
    return folder


@contextmanager
def running(folder: Path, **options) -> Iterator[Server]:
    with served(folder, port=0, **options) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(
    server: Server, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    line = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
    line.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        line.putheader(name.replace("_", "-"), value)
    line.endheaders()
    answer = line.getresponse()
    results = answer.status, dict(answer.getheaders()), answer.read()
    line.close()
    return results


def test_the_page_and_its_content(study):
    with running(study) as server:
        status, headers, body = ask(server, "/")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert b"connect-src 'self'" in body
        status, headers, body = ask(server, "/content.json")
        assert status == 200
        assert json.loads(body) == {"studies": [json.loads(json.dumps(content(study)))]}
        assert ask(server, "/content.json", If_None_Match=headers["ETag"])[0] == 304
        assert ask(server, "/content.json", If_None_Match='"other"')[0] == 200
        status, headers, body = ask(server, "/", "HEAD")
        assert (status, body) == (200, b"")
        assert int(headers["Content-Length"]) > 1000


def test_a_new_record_changes_the_content_and_its_mark(tmp_path, monkeypatch):
    monkeypatch.setattr(library, "PATIENCE", 0.0)
    monkeypatch.setattr(library, "SHARE", 0)
    study = made_study(tmp_path / "study")
    with running(study) as server:
        _, before, body = ask(server, "/content.json")
        made_study(study, "seed=[0, 1, 2]")
        status, after, new = ask(server, "/content.json", If_None_Match=before["ETag"])
        assert (status, after["ETag"] != before["ETag"]) == (200, True)
        done = [json.loads(text)["studies"][0]["progress"]["done"] for text in (body, new)]
        assert done == [7, 11]


def test_one_record(study):
    some = next(iter(content(study)["records"]))
    with running(study) as server:
        assert (
            json.loads(ask(server, f"/record.json?id={some}")[2])["trial"]["model"]
            == "nobody/nothing"
        )
        for wrong in ("", "nothing", "../study", "..%2Fstudy", "%2Fetc%2Fpasswd"):
            assert ask(server, f"/record.json?id={wrong}")[0] == 404


def test_a_folder_lists_its_studies_and_compares_them(study_folders):
    with running(study_folders) as server:
        results = json.loads(ask(server, "/content.json")[2])["list"]
        assert [(entry["folder"], entry["done"]) for entry in results] == [
            ("deep/two", 7),
            ("one", 7),
        ]
        both = json.loads(ask(server, "/content.json?study=one&study=deep%2Ftwo")[2])["studies"]
        assert [entry["folder"] for entry in both] == ["one", "deep/two"]
        assert ask(server, "/record.json?id=x")[0] == 404


def test_nothing_outside_the_folder_is_shown(study_folders, study):
    (study_folders / "link").symlink_to(study, target_is_directory=True)
    with running(study_folders) as server:
        assert "link" not in json.dumps(json.loads(ask(server, "/content.json")[2]))
        for name in (
            "link",
            "..",
            f"..%2F{study.parent.name}%2Fstudy",
            str(study),
            ".",
            "other",
            "one%2F..%2Fone",
            "%00",
        ):
            assert ask(server, f"/content.json?study={name}")[0] == 404, name
        for path in (
            "/study.json",
            "/one/study.json",
            "/../study.json",
            "/..%2f..%2fetc%2fpasswd",
            "//etc/passwd",
            "/page.py",
        ):
            assert ask(server, path)[0] == 404, path
    (study_folders / "link").unlink()


def test_it_only_reads(study):
    before = {file: file.stat().st_mtime_ns for file in study.rglob("*")}
    with running(study) as server:
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            assert ask(server, "/", method)[0] == 405
        ask(server, "/")
    assert {file: file.stat().st_mtime_ns for file in study.rglob("*")} == before


def test_another_host_name_is_refused_without_host(study):
    with running(study) as server:
        port = server.server_address[1]
        assert server.server_address[0] == "127.0.0.1"
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
            assert ask(server, "/content.json", Host=host)[0] == 200, host
        for host in (
            f"evil.example:{port}",
            "evil.example",
            f"localhost:{port + 1}",
            "localhost",
            f"localhost.evil.example:{port}",
            "",
            "[",
            "a:b",
        ):
            assert ask(server, "/content.json", Host=host)[0] == 421, host
    with running(study, host="127.0.0.1") as server:
        assert ask(server, "/content.json", Host="my-machine.example")[0] == 200


def test_a_mistake_gets_one_clear_error(tmp_path, study):
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with (
            pytest.raises(
                DeadheadError, match=rf"port {port} of 127.0.0.1 is in use.\n  Hint: .*--port"
            ),
            served(study, port=port),
        ):
            pass
    with (
        pytest.raises(DeadheadError, match=r"not an address of this machine"),
        served(study, host="192.0.2.1", port=0),
    ):
        pass
    for folder, words in (
        (tmp_path / "no", "there is no folder"),
        (tmp_path, "is not a study and contains none"),
    ):
        with pytest.raises(DeadheadError, match=words), served(folder, port=0):
            pass
    (tmp_path / "study.json").write_text("{}")
    with (
        pytest.raises(DeadheadError, match=r"no study\.json that can be read"),
        served(tmp_path, port=0),
    ):
        pass


def test_the_command_says_where_it_is_and_ends_quietly(study):
    command = [sys.executable, "-m", "deadhead", "serve", str(study), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())[0]
            with urlopen(f"{address}content.json", timeout=60) as answer:
                assert json.load(answer)["studies"][0]["progress"]["done"] == 7
            process.terminate()  # not SIGINT, which a job in the background ignores
            text, wrong = process.communicate(timeout=60)
        finally:
            process.kill()  # nothing that fails above leaves a process to wait for
    assert (process.returncode, text, wrong) == (0, "stopped.\n", "")


def test_the_command_says_what_is_wrong(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "deadhead", "serve", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert (
        done.stderr.splitlines()[0] == f"StudyError: {tmp_path} is not a study and contains none."
    )
    assert "Traceback" not in done.stderr


def test_the_page_keeps_its_scroll_position_while_the_study_runs(page, tmp_path, monkeypatch):
    monkeypatch.setattr(library, "PATIENCE", 0.0)
    study = made_study(tmp_path / "study")
    with running(study) as server:
        page.open(server.url)
        page.find("#trial-filter").send_keys("lowest")
        page.click("[data-sort='1']")
        page.run("document.querySelector('.facts details').open = true")
        page.run(
            "document.getElementById('trials').scrollIntoView(); document.getElementById('trial-filter').focus()"
        )
        assert page.run("return scrollY") > 500
        page.settle()
        place = page.run(
            "return document.getElementById('trials').getBoundingClientRect().top"
        )  # more will stand above it
        assert len(page.texts("#trial-rows tr[data-at]")) == 4
        more = "remove=[none, {lowest: [1, 2, 3, 4, 6]}, {highest: [6]}]"  # three more rows of the table
        made_study(study, more)
        page.until("return document.querySelectorAll('#trial-rows tr[data-at]').length === 10")
        assert page.run("return document.getElementById('trial-filter').value") == "lowest"
        assert page.run("return document.activeElement.id") == "trial-filter"
        assert page.run("return document.querySelector('.facts details').open")
        assert (
            page.run(
                "return document.querySelector('[aria-sort=descending] [data-sort]').dataset.sort"
            )
            == "1"
        )
        page.until(
            "return [...document.querySelectorAll('.plot')].every((plot) => plot.dataset.ready)"
        )
        page.until(
            "return Math.abs(document.getElementById('trials').getBoundingClientRect().top - arguments[0]) < 4",
            place,
        )
        page.run("document.querySelector('#trial-rows tr[data-at]').click()")
        page.until("return document.getElementById('sheet').open")
        title = page.find("#sheet-title").text
        made_study(study, more, "seed=[0, 1, 2]")
        page.until("return document.querySelectorAll('#trial-rows tr[data-at]').length === 15")
        assert page.run("return document.getElementById('sheet').open")
        assert page.find("#sheet-title").text == title
        assert page.complaints() == []
    page.until("return document.getElementById('pulse').textContent.startsWith('not connected')")


def test_a_record_that_is_not_in_the_page_is_requested(page, study, monkeypatch):
    facts = content(study)
    monkeypatch.setattr(library.Library, "_content", lambda *_: (1, facts | {"records": {}}))
    some = next(name for name, record in facts["records"].items() if record["removed"])
    with running(study) as server:
        page.open(f"{server.url}#trial={some}")
        page.until("return document.querySelectorAll('#sheet td.gone').length > 0")


def test_the_list_leads_to_a_study_and_to_several(page, study_folders):
    with running(study_folders) as server:
        page.open(server.url)
        assert page.texts("main tbody th") == ["deep/two", "one"]
        page.click("[data-focus='pick/one']")
        page.click("[data-focus='pick/deep/two']")
        page.click("p.key a")
        page.until("return document.getElementById('compare') !== null")
        assert page.texts(".tabs button") == ["one", "deep/two"]
        page.click(".tabs .back")
        page.until(
            "return location.search === '' && document.querySelector('h1').textContent === 'Studies'"
        )
        assert page.complaints() == []


def test_without_a_browser_skipped_tests_are_reported():
    tests = Path(__file__).parent
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        str(tests / "test_page_browser.py"),
    ]
    environment = {**os.environ, "PATH": str(tests), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=tests.parent.parent,
    )
    assert done.returncode == 0
    assert "left out:" in done.stdout
    assert HOW in done.stdout
