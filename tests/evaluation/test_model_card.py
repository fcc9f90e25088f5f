"""Model cards on disk, and on a hub that runs in this process."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import huggingface_hub
import pytest
from huggingface_hub import ModelCard

import attnfaith as af
from attnfaith.errors import InputError, StorageError
from attnfaith.evaluation.tests.base import tests
from tests.helpers.small_runs import computed, evaluator_of

CARD = "---\r\nlicense: mit  # theirs\r\n---\r\n\r\n# A *model*\r\n\r\nText without end"


@pytest.fixture(scope="module")
def results():
    evaluator, data = evaluator_of("multiclass")
    hostile = "my | <b>best</b> <!-- x --> $r$ ]("
    return computed(
        evaluator, data, "erasure", "single_weight", explanations={hostile: lambda text: range(len(text.ids))}
    )


def test_a_new_card(results, tmp_path):
    folder = tmp_path / "flan"
    folder.mkdir()
    path = results.to_card(folder, dataset_name="reviews", dataset_split="test")
    assert path == folder / "README.md"
    card = ModelCard.load(path)
    assert card.data.model_name == "flan"
    values = {result.metric_type: result for result in card.data.eval_results}
    assert values["attnfaith_verdict"].metric_value == results.verdict.label
    assert values["attnfaith_verdict"].dataset_split == "test"
    summary = results.summary().query("slice == 'all' and erase_level == 'attention' and ranking == 'attention'")
    (removed,) = summary.query("figure == 'mean_fraction'").to_dict("records")
    assert values["attnfaith_removed"].metric_value == pytest.approx(removed["value"], abs=1e-6)
    assert values["attnfaith_removed"].metric_args["low"] == pytest.approx(removed["low"], abs=1e-6)
    assert "## Attention as an explanation: reviews (test)" in card.text
    assert r"my \| \<b\>best\</b\> \<!-- x --\> \$r\$ \](" in card.text
    lines = [line for line in card.text.splitlines() if line.startswith("|")]
    assert len({line.replace(r"\|", "").count("|") for line in lines}) == 1
    assert [line.split("|")[1].strip() for line in lines][:3] == ["ranking", "---", "smallest sets"]
    assert str(tmp_path) not in path.read_text()  # a card is public


def test_nothing_else_changes_and_twice_is_once(results, tmp_path):
    path = tmp_path / "README.md"
    path.write_bytes(b"\xef\xbb\xbf" + CARD.encode())
    path.chmod(0o600)
    results.to_card(path)
    once = path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    assert once.startswith(b"\xef\xbb\xbf---\r\nlicense: mit  # theirs\r\nmodel-index:\r\n")
    assert b"---\r\n\r\n# A *model*\r\n\r\nText without end\r\n\r\n<!-- attnfaith " in once
    assert once.count(b"\n") == once.count(b"\r\n")
    results.to_card(path)
    assert path.read_bytes() == once
    results.to_card(path, dataset_name="news")
    path.write_bytes(path.read_bytes() + b"\r\nMore text.\r\n")
    two = path.read_bytes()
    assert two.count(b"<!-- attnfaith ") == 2
    results.to_card(path)
    assert path.read_bytes() == two
    path.write_bytes(two.replace(b"**Texts.**", b"**Old.**"))
    results.to_card(path)
    results.to_card(path, dataset_name="news")
    assert path.read_bytes() == two


def test_a_card_without_metadata(results, tmp_path):
    path = tmp_path / "card.md"
    path.write_text("# Mine\n\ntext\n")
    results.to_card(path)
    once = path.read_text()
    assert "---\n\n# Mine\n\ntext\n\n<!-- attnfaith" in once
    assert ModelCard(once).data.eval_results
    assert results.to_card(path).read_text() == once


@pytest.mark.parametrize("name", tests)
def test_any_test_alone_has_a_card(name, tmp_path, request):
    evaluator, data = evaluator_of("multiclass")
    if "rationale_column" in tests[name].reads:
        data = [{**row, "marks": [1] + [0] * (len(row["text"].split()) - 1)} for row in data]
    column = {"rationale_column": "marks"} if "rationale_column" in tests[name].reads else {}
    alone = computed(evaluator, data, name, rankings=["attention"], **column)
    path = alone.to_card(tmp_path)
    once = path.read_bytes()
    assert ModelCard(once.decode()).data.eval_results[0].metric_value == alone.verdict.label
    assert alone.to_card(path).read_bytes() == once


def test_refused(results, tmp_path):
    path = tmp_path / "README.md"
    path.write_bytes(b"\xff")
    with pytest.raises(InputError, match="not UTF-8"):
        results.to_card(path)
    path.unlink()
    results.to_card(path)
    path.write_text(path.read_text().replace("<!-- /attnfaith", "<!-- attn"))
    with pytest.raises(InputError, match="expected one of each"):
        results.to_card(path)
    path.write_text("---\nmodel-index: [{results: [{task: {}}], name: a}]\n---\n")
    before = path.read_bytes()
    with pytest.raises(InputError, match="huggingface_hub cannot read"):
        results.to_card(path)
    assert path.read_bytes() == before
    with pytest.raises(StorageError, match="cannot be written"):
        results.to_card(tmp_path / "no folder" / "README.md")
    with pytest.raises(InputError, match="push_to_hub"):
        results.to_card("hf://me/model/README.md")
    with pytest.raises(InputError, match="dataset_name"):
        results.to_card(path, dataset_name="")


# ---- a hub


class Hub(BaseHTTPRequestHandler):
    """The endpoints of a hub that a card needs: what is in a repository, its README, and a commit."""

    files: ClassVar[dict] = {}
    commits: ClassVar[list] = []

    def log_message(self, *arguments):
        pass

    def answer(self, status, content=b"", **headers):
        content = json.dumps(content).encode() if isinstance(content, dict | list) else content
        self.send_response(status)
        for name, value in {"Content-Length": len(content), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_GET(self):
        if self.path.startswith("/api/models/me/flan"):
            self.answer(200, {"id": "me/flan", "sha": "c" * 39 + str(len(self.commits)), "siblings": []})
        elif "/resolve/" in self.path and "README.md" in self.files:
            self.answer(200, self.files["README.md"], ETag='"e"', X_Repo_Commit="c" * 39 + str(len(self.commits)))
        elif "/resolve/" in self.path:
            self.answer(404, X_Error_Code="EntryNotFound")
        else:
            self.answer(404, X_Error_Code="RepoNotFound")

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if "/preupload/" in self.path:
            names = [file["path"] for file in json.loads(body)["files"]]
            self.answer(
                200, {"files": [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]}
            )
            return
        if self.path == "/api/validate-yaml":
            self.answer(200, {"errors": [], "warnings": []})
            return
        assert "/commit/" in self.path, self.path
        header, file = (json.loads(line)["value"] for line in body.splitlines())
        assert self.headers["Authorization"] == "Bearer hf_x"
        self.commits.append({**header, "path": self.path})
        self.files[file["path"]] = base64.b64decode(file["content"])
        address = "https://huggingface.co/me/flan"
        commit = {"commitUrl": f"{address}/commit/{len(self.commits)}", "commitOid": "d" * 40}
        self.answer(200, {**commit, "pullRequestUrl": f"{address}/discussions/1"})


@pytest.fixture
def hub(monkeypatch):
    Hub.files, Hub.commits = {}, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    # The tests run offline; huggingface_hub reads both names once, at import.
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    for module in (huggingface_hub.constants, huggingface_hub.hf_api):
        monkeypatch.setattr(module, "ENDPOINT", address, raising=False)
    monkeypatch.setattr(
        huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}"
    )
    huggingface_hub.close_session()
    yield Hub
    server.shutdown()
    thread.join()
    server.server_close()
    huggingface_hub.close_session()


def test_push_to_hub(results, hub, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert results.push_to_hub("me/flan", token="hf_x").endswith("/me/flan/commit/1")  # a card that is missing
    assert ModelCard(hub.files["README.md"].decode()).data.model_name == "flan"
    assert results.push_to_hub("me/flan", token="hf_x") is None
    hub.files["README.md"] = CARD.encode()
    assert results.push_to_hub("me/flan", token="hf_x", revision="draft", create_pr=True).endswith("/commit/2")
    path = tmp_path / "flan" / "README.md"
    path.parent.mkdir()
    path.write_bytes(CARD.encode())
    assert results.to_card(path).read_bytes() == hub.files["README.md"]
    last = hub.commits[-1]
    assert last["parentCommit"] == "c" * 39 + "1"  # a change made meanwhile is not overwritten
    assert last["path"] == "/api/models/me/flan/commit/draft?create_pr=1"
    with pytest.raises(StorageError, match=r"'hf://me/other' cannot be reached: RepositoryNotFoundError.*Check the id"):
        results.push_to_hub("me/other", token="hf_x")
    assert len(hub.commits) == 2


def test_push_needs_an_id(results):
    with pytest.raises(af.InputError, match="such as 'me/my-model'"):
        results.push_to_hub("")
