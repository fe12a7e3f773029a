"""Claims: what is wrong with one, told in one line; and the order they come in."""

import dataclasses

import pytest

from spec import claims
from spec.claim import CORRECTED, HOLDS, HOLDS_IF, Chapter, Claim, problems, refutes, verifies

pytest_plugins = ["pytester"]

SAYS = "A view copies nothing."
LAW = "a view shares its base's storage"


def told(*stated):
    """Return the problems of one chapter that states claims with these arguments."""
    chapter = Chapter("storage", section="2.2", title="Storage")
    for name, given in stated:
        chapter.claim(name, **{"says": SAYS, "law": LAW} | given)
    return list(problems([chapter]))


def test_a_claim_has_an_id_a_section_and_a_standing():
    """A claim is named after its chapter, takes the chapter's section, and holds, unless it says otherwise."""
    chapter = Chapter("storage", section="2.2", title="Storage")
    plain = chapter.claim("views-share", says=SAYS, law=LAW)
    other = chapter.claim("strides", section="2.2.1", says="x", law="y", standing=HOLDS_IF, condition="z", source="s")
    assert (plain.id, plain.section, plain.standing, plain.condition, plain.source) == (
        "storage.views-share",
        "2.2",
        HOLDS,
        "",
        "",
    )
    assert (other.section, other.standing, other.condition, other.source) == ("2.2.1", HOLDS_IF, "z", "s")
    assert chapter.claims == [plain, other]


def test_a_claim_never_changes():
    """A claim is frozen: a test cannot weaken what it checks."""
    claim = Claim("storage", "strides", "2.2", SAYS, LAW)
    with pytest.raises(dataclasses.FrozenInstanceError):
        claim.law = "anything"


@pytest.mark.parametrize("name", ["views", "views-share", "fp8", "2d", "a-1-b"])
def test_a_good_claim_has_no_problem(name):
    """Lower-case words and digits, joined by hyphens, make an id."""
    assert told((name, {})) == []


@pytest.mark.parametrize("name", ["", "Views", "views_share", "-views", "views-", "a--b", "a.b", "a b", "é", "views\n"])
def test_a_malformed_id_is_told(name):
    """Any other id is malformed."""
    (line,) = told((name, {}))
    assert line.startswith(f"malformed claim id {f'storage.{name}'!r}: ")


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"says": " "}, "claim storage.views has an empty statement"),
        ({"law": ""}, "claim storage.views has an empty law"),
        ({"says": "A view should share."}, 'claim storage.views has a statement that says "should": say what is'),
        ({"says": "Should it share?"}, 'claim storage.views has a statement that says "should": say what is'),
        ({"law": "it SHOULD share"}, 'claim storage.views has a law that says "should": say what is'),
        ({"standing": HOLDS_IF}, "claim storage.views is 'holds if' but gives no condition"),
        ({"standing": CORRECTED}, "claim storage.views is 'corrected' but gives no condition"),
    ],
)
def test_a_faulty_claim_is_told(given, line):
    """A claim says what is, in a statement and a law, and gives the condition that its standing needs."""
    assert told(("views", given)) == [line]


def test_only_the_word_should_is_refused():
    """A longer word that contains "should" says nothing about what ought to be."""
    assert told(("views", {"says": "It shoulders the load."})) == []


def test_a_duplicate_id_is_told_once():
    """Two claims of one id are one problem, also where they are in two chapters of one name."""
    line = "duplicate claim id 'storage.views': ids are unique and never change"
    assert told(("views", {}), ("views", {"says": "Another."})) == [line]
    first, second = Chapter("storage", section="1", title="A"), Chapter("storage", section="2", title="B")
    first.claim("views", says=SAYS, law=LAW)
    second.claim("views", says="Another.", law=LAW)
    assert list(problems([first, second])) == [line]


@pytest.mark.parametrize("says", [SAYS, SAYS.upper(), f" {SAYS} "])
def test_equal_statements_are_told(says):
    """Two claims that say the same, but for case and space around, are told by both ids."""
    (line,) = told(("views", {}), ("slices", {"says": says}))
    assert line.startswith("claims storage.views and storage.slices make the same statement: ")


def test_chapters_come_in_the_order_of_the_notes(project, monkeypatch):
    """Chapters are sorted by section, whatever their modules are called, and by name within one."""
    for name, section in [("zebra", "2.2.1"), ("ant", "2.2.1"), ("bee", "3.1"), ("yak", "2.1")]:
        project.write(
            f"chapters_here/{name}.py",
            f'from spec.claim import Chapter\nchapter = Chapter("{name}", section="{section}", title="x")\n',
        )
    monkeypatch.syspath_prepend(project.path)
    assert [chapter.name for chapter in claims.load("chapters_here")] == ["yak", "ant", "zebra", "bee"]


def test_the_projects_own_claims_have_no_problem():
    """What this project claims is in order, and every id begins with the name of its module."""
    chapters = claims.load()
    assert list(problems(chapters)) == []
    assert {claim.chapter for chapter in chapters for claim in chapter.claims} <= {c.name for c in chapters}


def test_the_decorators_keep_the_test_and_the_order():
    """Both return the test itself, marked with each claim and its role, first claim first."""
    one, two = Claim("storage", "one", "2.2", SAYS, LAW), Claim("storage", "two", "2.2", "x", LAW)

    def check():
        return 3

    assert verifies(one, two)(check) is check
    assert refutes(two)(check) is check
    assert check() == 3
    assert [tuple(mark.kwargs.values()) for mark in check.pytestmark] == [
        ("storage.two", "verifies", "holds"),
        ("storage.one", "verifies", "holds"),
        ("storage.two", "refutes", "holds"),
    ]
