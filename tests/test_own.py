"""Rollouts of one's own in the page, without a browser.

Invariants:

1. Escaped: text of a file is never markup.
2. Window: it starts at the first break, and shows the rows of the real alignment.
3. Example: what the field holds at first shows good and bad.
4. Last: what could be read stays, and is named, until something else can be read.
5. Texts: a tokenizer gives tokens their texts, and only before the editor can one be named.
"""

import json
import re
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import marimo as mo
import pytest
from bench_files import long_rollout
from browser import ROOT
from test_tokenizers import BYTE_LEVEL, split_rollout

from sequence_extension.alignment import alignment_table
from sequence_extension.break_table import break_table_marks
from sequence_extension.diagnosis import diagnose
from sequence_extension.formats.bounded import read_bounded
from sequence_extension.overview import (
    WINDOW,
    overview,
    overview_counts,
    overview_example,
    overview_window_places,
)
from sequence_extension.page.playground import playground_model_field, playground_tokenizer
from sequence_extension.page.upload import (
    Read,
    read_upload,
    upload_chosen_diagnosis,
    upload_datum_rows,
    upload_field_texts,
    upload_rollout_menu,
    upload_rollout_views,
    upload_tokenizer_field,
    upload_view,
    upload_window_fold,
    upload_window_views,
)
from sequence_extension.report import report_row
from sequence_extension.report_text import Paint, report_text_rollout
from sequence_extension.verdicts import verdicts
from sequence_extension.wording import turn_wording

NO_FILE = SimpleNamespace(value=())
EVIL = "<img src=x onerror=alert(1)>"


def shown(*trajectories: Any) -> str:
    reading = read_bounded(json.dumps(list(trajectories)))
    views = [upload_view(Read(reading, overview(reading.rollouts), "rollouts.json"))]
    for rollout in reading.rollouts:
        views += upload_rollout_views(diagnose(rollout))
    return "".join(view.text for view in views)


def test_text_of_a_file_is_never_markup() -> None:
    """Invariant 1: names, groups, token texts, faulty values."""
    turns = [
        {"ob": [1, 2], "ac": [3], "logprobs": [None]},
        {"ob": [1, 4], "ac": [3], "logprobs": [-0.5]},
    ]
    vocab = {str(token): EVIL for token in range(5)}
    text = shown(
        {"name": EVIL, "group": EVIL, "vocab": vocab, "transitions": turns},
        {"name": EVIL, "transitions": [{"ob": [EVIL], "ac": []}]},
    )
    assert "<img" not in text
    assert "&lt;img" in text


def test_window_starts_at_the_first_break() -> None:
    """Invariant 2."""
    reading = read_bounded(json.dumps(long_rollout(12, 1_200, split=4)))
    diagnosis = diagnose(reading.rollouts[0])
    datum, start = next(iter(overview_window_places(diagnosis).values()))
    mark = break_table_marks(diagnosis)[0]
    assert datum == mark[0]
    assert start <= mark[1] < start + WINDOW
    rows = upload_datum_rows(diagnosis, datum)
    table = alignment_table(diagnosis.built, diagnosis.runs)
    assert rows["token"].tolist() == table[table["datum"] == datum]["token"].tolist()
    for place in (0, start, len(rows) - 2):
        assert len(upload_window_views(diagnosis, rows, place)) == 3


def test_example_is_valid_and_holds_a_split() -> None:
    """Invariant 3: what the static page carries."""
    reading = read_bounded(overview_example())
    found = overview(reading.rollouts)
    assert (len(reading.rollouts), len(reading.issues)) == (3, 0)
    assert found.totals.causes
    assert sum(found.table["advantage"]) == pytest.approx(0)


def test_what_could_be_read_stays_while_a_text_is_mended() -> None:
    """Invariant 4."""
    last: dict[str, Read] = {}
    good = read_upload(NO_FILE, overview_example(), last)
    assert (good.source, good.failed) == ("the text", None)
    for text in ("{", "", "[]", "x" * 2_000_000):
        mended = read_upload(NO_FILE, text, last)
        assert mended.overview is good.overview
        told = upload_view(mended).text
        assert "No rollout in the text can be shown. Still shown: the text, read before." in told
        assert "role" in told or text == "[]"
        assert "<b>3 rollouts</b>" in told
    broken = SimpleNamespace(value=(1,), contents=lambda: b"\x80\x02pickle", name=lambda: "a.pt")
    told = upload_view(read_upload(broken, overview_example(), last)).text
    assert "No rollout in the file a.pt can be shown. Still shown: the text" in told
    assert read_upload(NO_FILE, overview_example(), last).failed is None
    nothing = upload_view(read_upload(NO_FILE, "{", {})).text
    assert "No rollout in the text can be shown.</" in nothing
    assert "Still" not in nothing


@pytest.fixture
def seated(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Who sits before the page: in a mode of marimo, with a reader or without."""

    def sit(mode: str, reader: bool) -> None:
        meta = SimpleNamespace(mode=mode, request=object() if reader else None)
        monkeypatch.setattr(mo, "app_meta", lambda: meta)

    return sit


@pytest.fixture
def tokenizer_folder(tmp_path: Path) -> Path:
    BYTE_LEVEL.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_a_tokenizer_gives_tokens_their_texts(tokenizer_folder: Path) -> None:
    """Invariant 5: `retokenised`, tables and figures; also what was read before it was named."""
    rollout = split_rollout(BYTE_LEVEL)
    turns = rollout["transitions"]
    turns[1]["ob"].append(10**6)  # beyond the vocabulary
    last: dict[str, Read] = {}
    first = read_upload(NO_FILE, json.dumps([rollout]), last)
    assert "retokenised" not in first.overview.totals.causes
    texts, problem = upload_field_texts(f" {tokenizer_folder} ")
    assert problem is None
    kept = read_upload(NO_FILE, "{", last, texts)
    assert kept.failed is not None
    again = read_upload(NO_FILE, "{", last, texts)
    assert again.overview is kept.overview  # not diagnosed once more
    for read in (kept, read_upload(NO_FILE, json.dumps([rollout]), {}, texts)):
        assert read.overview.totals.causes["retokenised"] == 1
        assert "retokenised" in upload_view(read).text
        diagnosis = upload_chosen_diagnosis(read, SimpleNamespace(value={"chosen": 0}))
        assert diagnosis is not None
        rows = upload_datum_rows(diagnosis, 1)
        assert {"hello", "<|end|>", ""} <= set(rows["text"])
        assert upload_rollout_views(diagnosis)
    own = {**rollout, "vocab": {str(turns[0]["ob"][0]): "own"}}
    read = read_upload(NO_FILE, json.dumps([own]), {}, texts)
    diagnosis = upload_chosen_diagnosis(read, SimpleNamespace(value={"chosen": 0}))
    assert diagnosis is not None
    assert upload_datum_rows(diagnosis, 1)["text"].iloc[0] == "own"
    assert read_upload(NO_FILE, json.dumps([rollout]), last).texts is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no such folder", "neither a folder with a tokenizer nor"),
        ("/no/such/folder", "neither a folder with a tokenizer nor"),
        ("{folder}/empty", "holds no tokenizer.json"),
        ("{folder}/broken.json", "No tokenizer could be read from"),
        ("{folder}/nested.json", "No tokenizer could be read from"),
        ("/dev/zero", "neither a folder nor a file"),
        ("a\x00b", "neither a folder with a tokenizer nor"),
        ("\x1b[31m\u202e", "neither a folder with a tokenizer nor"),
        (EVIL, "neither a folder with a tokenizer nor"),
        ("x" * 5_000, "neither a folder with a tokenizer nor"),
        ("~nobody-of-that-name/x", "neither a folder with a tokenizer nor"),
    ],
)
def test_what_is_no_tokenizer_is_said_beside_the_field(
    name: str,
    words: str,
    tokenizer_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    seated: Any,
) -> None:
    """Invariant 5: one sentence and the tokens' ids; nobody is called."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    (tokenizer_folder / "empty").mkdir()
    (tokenizer_folder / "broken.json").write_text("{")
    (tokenizer_folder / "nested.json").write_text("[" * 100_000)
    typed = name.format(folder=tokenizer_folder)
    texts, problem = upload_field_texts(typed)
    assert texts is None
    assert problem is not None
    seated("edit", True)
    for sentence in (problem.text, playground_tokenizer(typed)[1].text):
        assert words in sentence
        assert "<img" not in sentence
        assert not set("\x00\x1b\u202e") & set(sentence)
        assert len(sentence) < 700


def test_an_empty_field_names_no_tokenizer() -> None:
    """Invariant 5."""
    for name in (None, "", "  \t"):
        assert upload_field_texts(name) == (None, None)
        assert playground_tokenizer(name)[1] is None


def test_strangers_read_no_folder(tokenizer_folder: Path, seated: Any) -> None:
    """Invariant 5: a served app has no such field, and takes names of models alone."""
    for mode, reader, live in (("edit", True, True), ("edit", False, False), ("run", True, False)):
        seated(mode, reader)
        assert (upload_tokenizer_field() is not None) is live
        assert ("folder" in playground_model_field().text) is live
        loaded, sentence = playground_tokenizer(str(tokenizer_folder))
        assert ("Type a model as owner/name" in sentence.text) is not live
        assert hasattr(loaded, "vocab_size") is live


def test_missing_logprobs_are_said_once() -> None:
    """As the command says them; another warning of the same rollout stays."""
    turns: list[dict[str, Any]] = [
        {"ob": [1, 2], "ac": [3], "logprobs": None},
        {"append": [], "ac": [], "logprobs": None},
        {"append": [4], "ac": [5], "logprobs": None},
    ]
    told = shown({"transitions": turns})
    assert told.count("logprobs missing in all 3 turns: would be 1 datum once") == 1
    assert "has no logprobs" not in told
    assert "but look" not in told
    told = shown({"transitions": [*turns, {"append": [4], "ac": [7], "logprobs": [None]}]})
    assert "has no logprobs" not in told
    assert "the logprob is nan" in told


def test_advantages_of_a_group_that_was_not_read_whole_say_so() -> None:
    """Beside the column, and beside the strip that shows them; nothing where all is there."""

    def words(*trajectories: Any) -> tuple[bool, bool]:
        read = read_upload(NO_FILE, "\n".join(map(json.dumps, trajectories)), {})
        menu = upload_rollout_menu(read)
        diagnosis = upload_chosen_diagnosis(read, menu)
        assert diagnosis is not None
        place = SimpleNamespace(value=(0, 0))
        told = upload_window_fold(
            read, diagnosis, upload_datum_rows(diagnosis, 0), place, SimpleNamespace(value=0)
        )
        sentence = "centred on the rollouts that could be read"
        return sentence in menu.widget.label, sentence in told

    turn = {"ob": [1, 2], "ac": [3], "logprobs": [-0.5], "reward": 1.0}
    alone = {"transitions": [turn]}
    one, bad = {"group": "g", **alone}, {"group": "g", "transitions": 7}
    lengths = {"total_reward": 1.0, "steps": [{"ob_len": 3, "ac_len": 1}]}
    assert words(one, one) == (False, False)
    assert words(one, one, bad) == (True, True)
    assert words(alone, bad) == (False, False)
    assert read_bounded(json.dumps(lengths)).lengths_only
    assert words(one, lengths) == (True, True)


CASES = (ROOT / "tests" / "cases.jsonl").read_bytes()


@pytest.mark.parametrize("index", range(len(CASES.splitlines())))
def test_every_rollout_can_be_chosen(index: int) -> None:
    """What the app shows of the chosen rollout: also of one that the cookbook refuses."""
    diagnosis = diagnose(read_bounded(CASES).rollouts[index])
    assert upload_rollout_views(diagnosis)
    datums = len(diagnosis.built.data)
    for datum, start in overview_window_places(diagnosis).values():
        rows = upload_datum_rows(diagnosis, datum)
        assert rows.empty is (datums == 0)
        if datums:
            assert upload_window_views(diagnosis, rows, start)


@pytest.mark.parametrize(
    "turns",
    [
        [{"ob": [1], "ac": [], "logprobs": []}],
        [{"ob": [], "ac": [1], "logprobs": [-0.1]}],
        [{"ob": [1], "ac": [2], "logprobs": None}],
        [{"ob": [1], "ac": [2, 3], "logprobs": [-0.1]}, {"ob": [4], "ac": [5], "logprobs": [-0.1]}],
    ],
)
def test_a_refused_rollout_opens_no_datum(turns: list[dict[str, Any]]) -> None:
    (rollout,) = read_bounded(json.dumps({"transitions": turns})).rollouts
    diagnosis = diagnose(rollout)
    assert diagnosis.built.error_code is not None
    assert upload_datum_rows(diagnosis, 0).empty
    said = [sentence for verdict in verdicts(diagnosis) for sentence in verdict.sentences]
    said += [verdict.label for verdict in verdicts(diagnosis)]
    said += [turn_wording(span, refused=True) for span in diagnosis.spans]
    said += report_text_rollout(diagnosis, report_row(diagnosis), (), Paint(False))
    assert any("would open datum 0" in sentence for sentence in said)
    assert not any(re.match("opens|.*opens datum", sentence) for sentence in said)


@pytest.mark.parametrize(
    "value",
    [
        {"role": "user", "content": "Hello"},
        [{"role": "user", "content": "Hello"}],
        {"messages": [{"role": "user", "content": "Hello"}]},
    ],
)
def test_a_conversation_is_sent_to_its_section(value: Any) -> None:
    reading = read_bounded(json.dumps(value))
    assert not reading.rollouts
    assert "these are messages, not tokens; section 10" in reading.issues[0].message


def test_every_refusal_of_the_cases_says_what_helps() -> None:
    reading = read_bounded(CASES)
    table = overview_counts(overview(reading.rollouts).totals)
    refused = table[table["kind"] == "refused"]
    assert len(refused) == 3
    assert refused["what helps"].nunique() == 3
    assert not refused["what helps"].str.contains("See what").any()


def test_the_worst_rollouts_come_first() -> None:
    """Refused ones, then by datums; `#` leads back to the file."""
    rollouts = read_bounded(CASES).rollouts
    table = overview(rollouts).table
    keys = [
        (main.startswith("refused"), datums)
        for main, datums in zip(table["main cause"], table["datums"], strict=True)
    ]
    assert keys == sorted(keys, reverse=True)
    assert sorted(table["#"]) == list(range(len(rollouts)))
    for place, name in zip(table["#"], table["name"], strict=True):
        assert rollouts[place].name.startswith(name[:20])


def test_overview_says_first_what_became_of_a_rollout() -> None:
    table = overview(read_bounded(CASES).rollouts).table
    assert table.columns[:5].tolist() == ["name", "datums", "main cause", "inputs", "if unmerged"]
    refused = table[table["main cause"] == "refused"]
    assert (refused["datums"] == 0).all()
    assert (refused["error"] != "").all()
    assert len(refused) == (table["datums"] == 0).sum()
