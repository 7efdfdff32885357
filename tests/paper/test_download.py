"""Downloads against a small server on loopback: whole, wrong, cut, retried, impossible."""

import hashlib
import http.server
import io
import os
import subprocess
import sys
import tarfile
import threading
from dataclasses import replace

import pytest
from paper.data import _files, _registry, nhanes
from paper.data._files import File, checked, data_folder, is_here
from paper.data.errors import DownloadError

import made_up
from gpec.errors import CorruptFileError, MissingExtraError
from paper import data

CONTENT = b"1,2,3\n" * 50_000


def digest(content):
    return hashlib.sha256(content).hexdigest()


class Server:
    """Answers with the next of ``answers``, then the last for ever.

    An answer is bytes, a status code, ``("cut", bytes)`` for half of them, or ``("stall", bytes)`` to pause
    after half.
    """

    def __init__(self):
        self.answers, self.requests = [CONTENT], []
        self.stalled, self.go_on = threading.Event(), threading.Event()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                answer = server.answers[min(len(server.requests), len(server.answers) - 1)]
                server.requests.append(self.path)
                if isinstance(answer, int):
                    self.send_error(answer)
                    return
                how, promised = answer if isinstance(answer, tuple) else ("whole", answer)
                answer = promised if how == "whole" else promised[: len(promised) // 2]
                self.send_response(200)
                self.send_header("Content-Length", str(len(promised)))
                self.end_headers()
                self.wfile.write(answer)
                if how == "stall":
                    server.stalled.set()
                    server.go_on.wait(60)

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()


@pytest.fixture
def given_folder():
    """The folder of the real files, read before ``cache`` takes its name away."""
    return data_folder()[0]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder, and no waiting between tries."""
    pytest.importorskip("pooch")
    monkeypatch.delenv("GPEC_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("time.sleep", lambda _: None)
    return tmp_path / "gpec"


def left(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


SUM = digest(CONTENT)


def a_file(server, sha256=SUM):
    return File("set/table.csv", f"{server.url}/table.csv", len(CONTENT), sha256)


def test_first_use_downloads_and_the_second_does_not(server, cache):
    file = a_file(server)
    assert not is_here(file)
    path = checked(file)
    assert path == cache / "set" / "table.csv"
    assert path.read_bytes() == CONTENT
    assert is_here(file)
    assert checked(file) == path
    assert server.requests == ["/table.csv"]
    assert left(cache) == ["set/table.csv"]


def test_nothing_is_said_when_nobody_watches(server, cache, capsys):
    checked(a_file(server))
    said = capsys.readouterr()
    assert said.out == said.err == ""


def test_a_wrong_sum_is_refused_and_not_kept(server, cache):
    server.answers = [CONTENT + b"4"]
    with pytest.raises(CorruptFileError, match=r"table\.csv as downloaded from http.* not have the sha256 .* not kept"):
        checked(a_file(server))
    assert left(cache) == []
    assert len(server.requests) == 3


def test_a_cut_download_is_tried_again(server, cache):
    server.answers = [("cut", CONTENT), CONTENT]
    assert checked(a_file(server)).read_bytes() == CONTENT
    assert len(server.requests) == 2
    assert left(cache) == ["set/table.csv"]


def test_a_server_error_is_tried_again(server, cache):
    server.answers = [503, 503, CONTENT]
    assert checked(a_file(server)).read_bytes() == CONTENT
    assert len(server.requests) == 3


@pytest.mark.parametrize("sha256", [digest(CONTENT), None], ids=["known sum", "unknown sum"])
def test_a_download_that_always_breaks_off_leaves_nothing(server, cache, sha256):
    server.answers = [("cut", CONTENT)]
    with pytest.raises(DownloadError, match=r"the connection broke off\); try again, or set GPEC_DATA"):
        checked(a_file(server, sha256))
    assert left(cache) == []


def test_a_missing_page_names_the_answer(server, cache):
    server.answers = [404]
    with pytest.raises(DownloadError, match="the server answered 404"):
        checked(a_file(server))
    assert left(cache) == []


def test_no_network_is_one_sentence(server, cache):
    file = a_file(server)
    server.http.shutdown()
    server.http.server_close()
    with pytest.raises(DownloadError, match=r"could not be downloaded from .* \(no connection\)") as caught:
        checked(file)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, OSError)
    assert left(cache) == []


def test_a_process_killed_while_downloading_leaves_no_file_that_is_used(server, cache, one_process_environment):
    server.answers = [("stall", CONTENT), CONTENT]
    environment = {**one_process_environment, "XDG_CACHE_HOME": str(cache.parent)}
    environment.pop("GPEC_DATA", None)
    code = f"from paper.data._files import *; checked(File('set/table.csv', '{server.url}/table.csv', 1, '{SUM}'))"
    process = subprocess.Popen([sys.executable, "-c", code], env=environment)  # noqa: S603
    assert server.stalled.wait(60)
    process.kill()
    process.wait()
    server.go_on.set()
    assert not (cache / "set" / "table.csv").exists()
    assert checked(a_file(server)).read_bytes() == CONTENT


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_cache_is_one_sentence(server, cache):
    cache.mkdir()
    cache.chmod(0o500)
    with pytest.raises(DownloadError, match=r"cannot be written \(Permission denied\); set XDG_CACHE_HOME"):
        checked(a_file(server))
    assert server.requests == []


def test_a_cache_that_is_no_folder_is_one_sentence(server, cache):
    cache.write_text("")
    with pytest.raises(DownloadError, match=r"The cache folder .* cannot be written .*; set XDG_CACHE_HOME"):
        checked(a_file(server))
    assert server.requests == []


def test_a_full_disk_is_one_sentence(server, cache, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.move", full)
    with pytest.raises(DownloadError, match=r"table\.csv cannot be written \(No space left on device\)"):
        checked(a_file(server))
    assert left(cache) == []


def test_a_file_damaged_later_is_noticed(server, cache):
    path = checked(a_file(server))
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(CorruptFileError, match=r"is damaged or another edition.*delete it"):
        checked(a_file(server))


class TestUnknownSum:
    def test_it_is_kept_at_the_first_download_and_checked_afterwards(self, server, cache):
        file = a_file(server, None)
        seen = []
        path = checked(file, seen.append)
        assert seen == [path]
        assert (cache / "set" / "table.csv.sha256").read_text() == f"{digest(CONTENT)}  table.csv\n"
        assert checked(file, seen.append) == path
        assert seen == [path]
        path.write_bytes(CONTENT + b"4")
        with pytest.raises(CorruptFileError, match=f"expected {digest(CONTENT)}"):
            checked(file)

    @pytest.mark.parametrize("error", [CorruptFileError, KeyboardInterrupt])
    def test_a_file_that_is_not_what_it_should_be_is_not_kept(self, server, cache, error):
        def refuse(path):
            raise error("no table")

        with pytest.raises(error, match="no table"):
            checked(a_file(server, None), refuse)
        assert left(cache) == []


class TestArchive:
    @staticmethod
    def archive(names, content=b"batch"):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        return buffer.getvalue()

    @staticmethod
    def members(server, archive):
        return [
            File(f"images/{name}", f"{server.url}/all.tar.gz", 0, digest(b"batch"), digest(archive)) for name in "ab"
        ]

    def test_one_download_gives_all_members_and_drops_the_archive(self, server, cache):
        archive = self.archive(["inner/a", "inner/b"])
        server.answers = [archive]
        for file in self.members(server, archive):
            assert checked(file).read_bytes() == b"batch"
        assert len(server.requests) == 1
        assert left(cache) == ["images/a", "images/b"]

    def test_members_stay_inside_the_folder(self, server, cache):
        archive = self.archive(["../../../a", "/b"])
        server.answers = [archive]
        checked(self.members(server, archive)[0])
        assert left(cache.parent) == ["gpec/images/a", "gpec/images/b"]

    def test_a_member_that_is_not_there(self, server, cache):
        archive = self.archive(["inner/b"])
        server.answers = [archive]
        with pytest.raises(CorruptFileError, match="has no member a"):
            checked(self.members(server, archive)[0])

    def test_an_archive_that_is_none(self, server, cache):
        server.answers = [b"no archive"]
        with pytest.raises(CorruptFileError, match="cannot be unpacked"):
            checked(self.members(server, b"no archive")[0])
        assert left(cache) == []


class TestGivenFolder:
    @pytest.fixture
    def folder(self, tmp_path, monkeypatch):
        monkeypatch.setenv("GPEC_DATA", str(tmp_path))
        (tmp_path / "set").mkdir()
        return tmp_path

    def test_its_files_are_used_without_pooch_and_without_network(self, folder, server, monkeypatch):
        monkeypatch.setitem(sys.modules, "pooch", None)
        (folder / "set" / "table.csv").write_bytes(CONTENT)
        assert data_folder() == (folder, False)
        assert checked(a_file(server)) == folder / "set" / "table.csv"
        assert server.requests == []

    def test_a_missing_file_is_named_and_nothing_is_downloaded(self, folder, server):
        with pytest.raises(DownloadError, match=r"GPEC_DATA names the folder .* which has no set/table\.csv"):
            checked(a_file(server))
        assert server.requests == []
        assert left(folder) == []

    def test_a_wrong_sum_names_the_origin(self, folder, server):
        (folder / "set" / "table.csv").write_bytes(b"other")
        with pytest.raises(CorruptFileError, match=r"expected .*; get it anew from http"):
            checked(a_file(server))


def test_without_pooch_the_pip_command_is_named(server, cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingExtraError, match="pip install pooch requests"):
        checked(a_file(server))


def test_the_home_folder_has_the_cache_when_nothing_is_set(monkeypatch):
    for name in ("GPEC_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    assert data_folder() == (_files.Path.home() / ".cache" / "gpec", True)


class TestWholeLoaders:
    """A loader from an empty cache to its rows, over the wire."""

    def test_a_table(self, server, cache, monkeypatch):
        (table,) = made_up.contents()["census"]
        server.answers = [table]
        file = replace(_registry.FILES["census"][0], url=f"{server.url}/adult.data", sha256=digest(table))
        monkeypatch.setitem(_registry.FILES, "census", (file,))
        assert not data.available().loc["census", "cached"]
        assert data.census().X.shape == (made_up.N, 12)
        assert data.available().loc["census", "cached"]
        assert left(cache) == ["adult/adult.data"]

    @pytest.mark.data
    def test_a_transport_file(self, server, given_folder, cache):
        file = replace(_registry.FILES["nhanes_diabetes"][0], url=f"{server.url}/DEMO_H.XPT")
        server.answers = [(given_folder / file.path).read_bytes()]
        assert nhanes._read(file, "DEMO_H")["RIDAGEYR"].max() == 80
        assert left(cache) == ["nhanes_2013_2014/DEMO_H.XPT", "nhanes_2013_2014/DEMO_H.XPT.sha256"]
        assert nhanes._read(file, "DEMO_H").shape == (10_175, 46)
        assert len(server.requests) == 1

    def test_a_page_in_place_of_a_transport_file(self, server, cache):
        file = replace(_registry.FILES["nhanes_diabetes"][0], url=f"{server.url}/DEMO_H.XPT")
        server.answers = [b"<html>The file has moved.</html>" * 100]
        with pytest.raises(CorruptFileError, match="cannot be read as the NHANES table DEMO_H"):
            nhanes._read(file, "DEMO_H")
        assert left(cache) == []

    def test_all_batches_of_an_archive(self, server, cache, monkeypatch):
        batch = made_up.contents()["cifar10"][0]
        archive = TestArchive.archive([f"cifar-10-batches-bin/{name}" for name in _registry.CIFAR_BATCHES], batch)
        server.answers = [archive]
        files = tuple(
            replace(file, url=f"{server.url}/all.tar.gz", sha256=digest(batch), archive_sha256=digest(archive))
            for file in _registry.FILES["cifar10"]
        )
        monkeypatch.setitem(_registry.FILES, "cifar10", files)
        found = data.cifar10()
        assert found.X.shape == (120, 3, 32, 32)
        assert (len(found.train), len(found.test)) == (100, 20)
        assert len(server.requests) == 1
