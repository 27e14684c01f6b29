"""Renderers against policies, and the view of one cell.

Invariants:
1. Every renderer of the installed cookbook meets every policy: a count of datums, or a reason.
2. A cell says what `diagnose` says of the rollout that its view plays.
3. Claims are the renderers' own; the verdict beside them follows from datums and turns alone.
4. A clean rollout raises no warning.
"""

import asyncio
import io
from collections.abc import Iterator
from typing import Any

import altair as alt
import pandas as pd
import pytest
from rollouts import episode_of
from tinker_cookbook import renderers
from tinker_cookbook.rl.data_processing import trajectory_to_data

from sequence_extension.diagnosis import diagnose
from sequence_extension.env.episodes import EpisodeSpec, run_episodes
from sequence_extension.env.matrix_table import (
    VERDICTS,
    compare_matrix_tables,
    matrix_table,
    matrix_table_facts,
    matrix_table_finding,
    matrix_table_group_name,
    matrix_table_groups,
    matrix_table_verdict,
)
from sequence_extension.env.policies import policy_names
from sequence_extension.env.renderers import build_renderer, renderer_names
from sequence_extension.env.vocabulary import offline_vocabulary
from sequence_extension.figures.figure import Figure
from sequence_extension.figures.matrix_chart import matrix_chart
from sequence_extension.figures.palette import MATRIX_LOOK
from sequence_extension.page.matrix import (
    matrix_member_menu,
    matrix_prose_view,
    matrix_selector,
    matrix_selector_cell,
    matrix_unbuilt_view,
    matrix_view,
    page_matrix,
    page_matrix_drawing,
)
from sequence_extension.page.playground import playground_episode_view
from sequence_extension.text import visible_text


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return matrix_table()


def drawn(table: pd.DataFrame) -> Figure:
    return matrix_chart(table, matrix_table_groups(table))


@pytest.fixture
def counts(table: pd.DataFrame) -> Any:
    """(renderer, policy) -> (datums, turns)."""
    keyed = table.set_index(["renderer", "policy"])

    def look_up(renderer: str, policy: str) -> tuple[int, int]:
        row: Any = keyed.loc[(renderer, policy)]
        return int(row["datums"]), int(row["turns"])

    return look_up


@pytest.fixture
def custom() -> Iterator[str]:
    """A registered renderer with a hostile name that cannot be built."""
    name = "<img src=x onerror=alert(1)>/broken"

    def refuse(tokenizer: Any, image_processor: Any) -> Any:
        raise RuntimeError("needs a <vocabulary> of its own")

    renderers.register_renderer(name, refuse)
    yield name
    renderers.unregister_renderer(name)


# --- 1: completeness --------------------------------------------------------------------------


def test_every_renderer_meets_every_policy(table: pd.DataFrame) -> None:
    pairs = [(name, policy) for name in renderer_names() for policy in policy_names()]
    assert list(zip(table["renderer"], table["policy"], strict=True)) == pairs
    counted = table["datums"].notna()
    assert (table.loc[~counted, "reason"] != "").all()
    assert (table.loc[counted, "reason"] == "").all()
    assert (table.loc[counted, "datums"] >= 1).all()
    assert (table.loc[counted, "datums"] <= table.loc[counted, "turns"]).all()
    assert counted.mean() > 0.95  # the offline vocabulary serves nearly all of them


def test_a_renderer_that_cannot_be_built_is_listed_with_its_reason(custom: str) -> None:
    assert custom in renderer_names()
    broken = matrix_table([custom, "llama3"], ["plain"])
    row = broken.iloc[0]
    assert row["claims"] == "unknown"
    assert row["verdict"] == "none"
    assert "needs a <vocabulary> of its own" in row["reason"]
    assert broken.iloc[1]["datums"] == 1
    page = (
        matrix_unbuilt_view(broken).text + matrix_view(broken).text + matrix_prose_view(broken).text
    )
    assert "needs a &lt;vocabulary&gt; of its own" in page
    assert "<img" not in page
    assert custom in [row["wide"] for row in drawn(broken).tables["names"]]


def test_rollouts_are_the_same_every_time(table: pd.DataFrame) -> None:
    names = ["qwen3", "role_colon", "tml_v0"]
    again = matrix_table(names).set_index(["renderer", "policy"])
    first = table.set_index(["renderer", "policy"]).loc[again.index]
    pd.testing.assert_frame_equal(again, first, check_dtype=False)


# --- known truths of 0.5.8 --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("renderer", "policy", "expected"),
    [
        ("qwen3", "plain", (1, 3)),  # [O1 A1 O2 A2 O3 A3]
        ("qwen3", "reasoning", (3, 3)),  # the think blocks are gone from O2 and O3
        ("qwen3", "empty_reasoning", (3, 3)),
        ("llama3", "plain", (1, 3)),
        ("llama3", "reasoning", (1, 3)),  # to llama3 reasoning is text like any other
        ("role_colon", "plain", (1, 3)),
        ("role_colon", "no_space", (3, 3)),  # A: "It is", O2: " It is"
        ("qwen3_5", "reasoning", (3, 3)),
        ("qwen3_5_preserve_thinking", "reasoning", (1, 3)),
        ("qwen3_5_preserve_thinking", "plain", (3, 3)),
        ("nemotron3_preserve_thinking", "plain", (3, 3)),  # claims extension
        ("kimi_k26_preserve_thinking", "reasoning", (1, 3)),  # does not
        ("gpt_oss_medium_reasoning", "plain", (3, 3)),  # <|return|> becomes <|end|>
        ("tml_v0", "reasoning", (1, 3)),
        ("qwen3", "no_end", (1, 2)),  # ends with a parse error in turn 1
        ("qwen3", "cut", (1, 2)),
    ],
)
def test_known_cells(counts: Any, renderer: str, policy: str, expected: tuple[int, int]) -> None:
    assert counts(renderer, policy) == expected


def test_other_tokens_for_the_same_text_split_everywhere(table: pd.DataFrame) -> None:
    respelled = table[table["policy"] == "respelled"]
    assert (respelled["datums"] == respelled["turns"]).all()
    # where the renderer spoils nothing else, that is the cause that is named
    kept = table[(table["policy"] == "plain") & (table["datums"] == 1)]["renderer"]
    causes = respelled[respelled["renderer"].isin(kept)]["cause"]
    assert len(causes) >= 15
    assert (causes == "retokenised").all()


def test_endings_are_told(table: pd.DataFrame) -> None:
    endings = table.groupby("policy")["ending"].unique()
    assert endings["plain"].tolist() == ["completed"]
    assert endings["no_end"].tolist() == ["parse_error"]
    assert endings["cut"].tolist() == ["max_tokens"]


def test_breaks_are_told_in_words(table: pd.DataFrame) -> None:
    row = table[(table["renderer"] == "qwen3") & (table["policy"] == "reasoning")].iloc[0]
    assert (row["turn"], row["cause"], row["breaks"]) == (1, "removed", 2)
    assert row["before"].endswith("<|im_start|>assistant\n")
    assert row["held"].startswith("<think>\n")
    assert row["came"].startswith("It is")
    row = table[(table["renderer"] == "role_colon") & (table["policy"] == "no_space")].iloc[0]
    assert row["held"].startswith("It is")
    assert row["came"].startswith(" It is")


# --- 2: a cell and its rollout ----------------------------------------------------------------


def test_cells_say_what_diagnose_says_of_their_rollout(table: pd.DataFrame) -> None:
    for row in table.iloc[::7].to_dict("records"):
        episode = episode_of(EpisodeSpec(renderer=row["renderer"], policy=row["policy"]))
        diagnosis = diagnose(episode.rollout)
        assert row["datums"] == len(diagnosis.built.data)
        assert row["turns"] == len(episode.rollout.trajectory.transitions)
        assert row["breaks"] == len(diagnosis.breaks)
        assert row["ending"] == episode.stop_reason
        if not diagnosis.breaks:
            assert pd.isna(row["position"])
            assert (row["cause"], row["held"], row["came"]) == ("", "", "")
            continue
        first = diagnosis.breaks[0]
        assert (row["turn"], row["position"], row["cause"]) == (
            first.turn, first.position, first.cause,
        )  # fmt: skip
        transitions = episode.rollout.trajectory.transitions
        held = [*transitions[first.turn - 1].ob.to_ints(), *transitions[first.turn - 1].ac.tokens]
        new = transitions[first.turn].ob.to_ints()
        decode = episode.renderer.tokenizer.decode
        assert held[: first.position] == new[: first.position]
        assert row["held"] == decode(held[first.position : first.position + 8])
        assert row["came"] == decode(new[first.position : first.position + 8])
        assert decode(held[: first.position]).endswith(row["before"])


def test_the_view_of_a_cell_shows_transcript_break_and_strip() -> None:
    episode = episode_of(EpisodeSpec(renderer="qwen3", policy="reasoning"))
    parts = [part.text for part in playground_episode_view(episode)]
    page = "".join(parts)
    assert "What is" in page
    assert "removed" in page
    assert "&lt;think&gt;↵" in page
    assert page.count("<figure ") == 3  # a break (the other has its cause), the runs, the strip
    plain = episode_of(EpisodeSpec(renderer="qwen3", policy="plain"))
    page = "".join(part.text for part in playground_episode_view(plain))
    assert "nothing splits" in page
    assert page.count("<figure ") == 2


# --- 3: claims and verdicts -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "turns", "datums", "verdict"),
    [
        (True, 3, 1, "kept"),
        (True, 3, 2, "broken"),
        (False, 3, 1, "better"),
        (False, 2, 2, "split"),
        (True, 1, 1, "none"),  # one turn: nothing could split
        (None, 3, 3, "none"),
    ],
)
def test_a_verdict_follows_from_claim_turns_and_datums(
    claims: bool | None, turns: int, datums: int, verdict: str
) -> None:
    assert matrix_table_verdict(claims, turns, datums) == verdict
    assert verdict in VERDICTS
    assert [*MATRIX_LOOK] == [*VERDICTS]


def test_claims_are_the_renderers_own(table: pd.DataFrame) -> None:
    tokenizer = offline_vocabulary()
    for name, claims in table.drop_duplicates("renderer")[["renderer", "claims"]].to_numpy():
        renderer, _ = build_renderer(name, tokenizer)
        assert claims == ("yes" if renderer.has_extension_property else "no")


def test_both_directions_of_disagreement_are_told(table: pd.DataFrame) -> None:
    split = table["datums"] > 1
    claims = table["claims"] == "yes"
    assert matrix_table_finding(table) == (
        f"{(claims & split).sum()} of {claims.sum()} rollouts split although their renderer "
        f"claims extension; {(~claims & ~split).sum()} of {(~claims).sum()} stay one datum "
        "although theirs does not"
    )
    prose = matrix_prose_view(table).text
    never = table.groupby("renderer")["datums"].min() > 1
    assert f"With {never.sum()} renderers no pupil" in prose


def frames_of(figure: Figure) -> dict[str, pd.DataFrame]:
    spec = alt.Chart.from_dict(figure.to_dict()).to_dict()  # Altair checks it against the schema
    return {
        name: pd.read_csv(io.StringIO(text), keep_default_na=False, dtype=str)
        for name, text in spec["datasets"].items()
    }


def joined(text: str) -> str:
    """Wrapped text without its lines: what was broken at a space or inside a word."""
    return text.replace("\n", "").replace(" ", "")


def told_of(frames: dict[str, pd.DataFrame], row: Any, policy: str) -> dict[str, str]:
    """What the figure says of one cell: the two blocks of the wide form, and the narrow one."""
    facts = frames["facts"]
    own = facts[(facts["row"] == str(row)) & (facts["policy"] == policy)]
    assert own["at"].tolist() == ["wide", "wide", "narrow"]
    return dict(zip(("what", "members", "narrow"), own["words"], strict=True))


def test_the_figure_carries_every_cell_with_its_details(table: pd.DataFrame) -> None:
    figure = drawn(table)
    frames = frames_of(figure)
    groups = matrix_table_groups(table)
    known = table.set_index(["renderer", "policy"])
    seen = set()
    for cell in frames["cells"].to_dict("records"):
        members = groups["members"][int(cell["row"])]
        for renderer in members:
            row = known.loc[(renderer, cell["policy"])]
            seen.add((renderer, cell["policy"]))
            assert cell["wide"].split(" ")[0] == f"{row['datums']:.0f}/{row['turns']:.0f}"
            assert cell["narrow"] == f"{row['datums']:.0f}"
            assert cell["kind"] == row["verdict"]
        told = told_of(frames, cell["row"], cell["policy"])
        assert joined(told["members"]) == (",".join(members) if len(members) > 1 else "")
        # of many renderers a narrow figure names the first
        narrow = joined(told["narrow"])
        assert joined(told["what"] + told["members"]).startswith(narrow.removesuffix("…"))
        assert narrow.startswith(joined(told["what"]))
        assert narrow.endswith("…") == (len(members) > 4)
        for block, letters in (("what", 82), ("members", 60), ("narrow", 52)):
            assert max(map(len, told[block].split("\n"))) <= letters
    assert len(seen) == len(table)
    for kind, (_, words) in VERDICTS.items():
        assert f"{(table['verdict'] == kind).sum()} cells: {words}" in figure.description


def test_a_merged_row_says_whose_break_it_tells(table: pd.DataFrame) -> None:
    frames = frames_of(drawn(table))
    cells = frames["cells"]
    groups = matrix_table_groups(table)
    known = table.set_index(["renderer", "policy"])
    names = ["turn", "position", "cause", "before", "held", "came"]
    whose = {True: 0, False: 0}
    for cell in cells.to_dict("records"):
        rows = [known.loc[(name, cell["policy"])] for name in groups["members"][int(cell["row"])]]
        broken = [row for row in rows if row["cause"]]
        what = told_of(frames, cell["row"], cell["policy"])["what"]
        told = joined(what)
        assert bool(broken) == ("first break" in what.replace("\n", " "))
        if not broken:
            assert "held:" not in told
            continue
        alike = len({tuple(str(row[name]) for name in names) for row in rows}) == 1
        (own,) = [row for row in rows if alike or f"of{row.name[0]}:turn" in told][:1]
        assert ("firstbreak:turn" in told) == alike
        assert f"position{own['position']:.0f}:{own['cause'].replace('_', '')}" in told
        assert f"held:{joined(visible_text(own['held'], 60))}" in told
        assert told.endswith(joined(visible_text(own["came"], 60)))
        whose[alike] += 1
    assert min(whose.values()) > 5


def test_like_rows_merge_and_the_rest_is_ordered(table: pd.DataFrame) -> None:
    groups = matrix_table_groups(table)
    assert 10 <= len(groups) <= 20
    assert sum(len(members) for members in groups["members"]) == table["renderer"].nunique()
    assert groups["label"].is_unique
    assert groups["label"].str.len().max() <= 27
    # claims first; within each part those that split most
    assert groups["claims"].tolist() == sorted(groups["claims"], reverse=True)
    for _, part in groups.groupby("claims"):
        assert part["split"].is_monotonic_decreasing
    # one remark in each part
    assert groups["note"].str.contains("only|even").sum() == 2
    cells = pd.read_csv(io.StringIO(drawn(table).to_dict()["datasets"]["cells"]))
    order = cells.drop_duplicates("policy")["policy"]
    often = (table["datums"] > 1).groupby(table["policy"]).sum()
    assert often[order].is_monotonic_decreasing


@pytest.mark.parametrize(
    ("names", "label"),
    [
        (["qwen3"], "qwen3"),
        (["nemotron3_a", "nemotron3_b_a"], "2 nemotron3 variants"),
        (["deepseekv3", "deepseekv4_1"], "2 deepseek variants"),
        (["llama3", "tml_v0"], "2 of llama, tml"),
        (["a1", "b1", "c1", "d1", "d2"], "5 renderers of 4 families"),
    ],
)
def test_names_of_groups(names: list[str], label: str) -> None:
    assert matrix_table_group_name(names) == label


def test_one_cell_is_chosen_at_first_and_a_click_chooses_another(table: pd.DataFrame) -> None:
    spec = drawn(table).to_dict()
    form, cell = spec["params"]
    assert form["name"] == "form"
    assert cell["name"] == "cell"
    assert cell["select"]["fields"] == ["policy", "row"]
    (value,) = cell["value"]
    frames = frames_of(drawn(table))
    assert (
        told_of(frames, value["row"], value["policy"])["what"]
        .replace("\n", " ")
        .startswith("qwen3, pupil reasoning: 3 datums of 3 turns; does not claim it, and splits")
    )
    # the menus are of the same parameter: they show what a click has chosen, and choose it too
    assert cell["bind"]["row"]["labels"] == matrix_table_groups(table)["label"].tolist()
    assert cell["bind"]["policy"]["options"] == frames["cells"]["policy"].unique().tolist()


def test_what_is_chosen_in_the_matrix_is_what_is_played() -> None:
    selector = matrix_selector()
    assert matrix_selector_cell(selector) == (("qwen3",), "reasoning")
    groups = matrix_table_groups(page_matrix())
    for row, members in enumerate(groups["members"]):
        clicked = {"cell": {"row": [row], "policy": ["plain"], "vlPoint": [1]}}
        selector._convert_value(clicked)
        assert matrix_selector_cell(selector) == (members, "plain")
        assert tuple(matrix_member_menu(selector).options) == members
    selector._convert_value({"cell": {}})  # a click beside all cells
    assert matrix_selector_cell(selector) == (("qwen3",), "reasoning")


def test_each_reader_has_a_matrix_of_their_own() -> None:
    """The widget is read once for all, yet a click of one reader is nobody else's."""
    one, other = matrix_selector(), matrix_selector()
    assert one._id != other._id
    one._convert_value({"cell": {"row": [0], "policy": ["plain"], "vlPoint": [1]}})
    assert matrix_selector_cell(one)[1] == "plain"
    assert (
        matrix_selector_cell(other)
        == matrix_selector_cell(matrix_selector())
        == (("qwen3",), "reasoning")
    )


def test_marks_tell_what_colours_tell() -> None:
    looks = {kind: look for kind, look in MATRIX_LOOK.items() if kind != "none"}
    assert len({VERDICTS[kind][0] for kind in looks}) == len(looks)
    assert len({look["fill"] for look in looks.values()}) == len(looks)


def test_the_table_holds_every_cell(table: pd.DataFrame) -> None:
    facts = matrix_table_facts(table).set_index("renderer")
    assert facts.index.tolist() == renderer_names()
    assert facts.columns.tolist() == ["claims", *policy_names()]
    assert matrix_view(table).text.count("<tr>") == len(facts) + 1
    for row in table.to_dict("records"):
        counts, *more = str(facts.loc[row["renderer"], row["policy"]]).split()
        assert counts == f"{row['datums']:.0f}/{row['turns']:.0f}"
        assert facts.loc[row["renderer"], "claims"] == row["claims"]
        assert more == [mark for mark in VERDICTS[row["verdict"]][:1] if mark]


def test_keeping_the_tokens_changes_no_rollout_but_its_datums() -> None:
    names = ["qwen3", "gpt_oss_low_reasoning", "llama3"]
    before, after = matrix_table(names), matrix_table(names, keep_tokens=True)
    table = compare_matrix_tables(before, after)
    assert len(table) == len(before)
    assert table["datums_before"].sum() > table["datums_after"].sum()
    assert (table["datums_after"] <= table["datums_before"]).all()
    assert (table["tokens_after"] <= table["tokens_before"]).all()
    # where nothing split and nothing was refused, the two are the same rollout
    same = table[(table["datums_before"] == 1) & (table["refused"] == "")]
    assert (same["tokens_before"] == same["tokens_after"]).all()
    cell = table[(table["renderer"] == "qwen3") & (table["policy"] == "reasoning")].iloc[0]
    spec = EpisodeSpec("qwen3", "reasoning", keep_tokens=True)
    data = trajectory_to_data(episode_of(spec).rollout.trajectory, 1.0)
    assert cell["tokens_after"] == sum(datum.model_input.length for datum in data)


# --- 4: no false alarms -----------------------------------------------------------------------


@pytest.mark.parametrize("turns", [3, 5])
def test_clean_rollouts_raise_no_warning(turns: int) -> None:
    """Whatever extends is clean: the policies sample through the renderers themselves."""
    policies = ("plain", "reasoning", "empty_reasoning", "wrong", "whitespace")
    specs = [
        EpisodeSpec(renderer=name, policy=policy, turns=turns, max_generation_tokens=96)
        for name in renderer_names()
        for policy in policies
    ]
    extending = 0
    for episode in run_episodes(specs):
        if isinstance(episode, str):
            continue
        diagnosis = diagnose(episode.rollout)
        if len(diagnosis.built.data) == 1:
            extending += 1
            assert diagnosis.warnings == (), (episode.spec, diagnosis.warnings)
    assert extending >= 60


def test_rollouts_of_the_matrix_run_where_a_loop_runs_already() -> None:
    async def in_a_notebook() -> pd.DataFrame:
        return matrix_table(["llama3"], ["plain"])

    assert asyncio.run(in_a_notebook())["datums"].tolist() == [1]


def test_what_the_tokenizer_remembers_cannot_be_spoilt() -> None:
    tokenizer = offline_vocabulary()
    tokenizer.encode("What is 2 + 3?").append(-1)
    assert -1 not in tokenizer.encode("What is 2 + 3?")


def test_the_page_keeps_a_place_for_both_forms() -> None:
    figure, _ = page_matrix_drawing()
    assert (
        f"--height:{figure.height}px;--narrow:{figure.narrow}px;" in matrix_view(page_matrix()).text
    )
    assert figure.narrow > figure.height
