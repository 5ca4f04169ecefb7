"""Two readers of a message: the weights, and the network where they are not sure that it is harmless."""

import itertools
import logging
import sys
import time
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pytest

from clew_companion.crisis import classifier
from clew_companion.crisis.classifier import (
    HARMLESS_SCORE,
    cache_by_hash,
    combine_scores,
    combined_scorer,
    default_scorer,
    features,
    is_for_network,
    load_weights,
    margins_of,
    score_features,
    weights_scorer,
)
from clew_companion.crisis.concepts import Reading, read_message
from clew_companion.crisis.floor import judge_message, judge_message_with
from clew_companion.crisis.lexicon import load_lexicon
from clew_companion.crisis.message import judge_alone
from clew_companion.crisis.network import (
    BEGIN,
    END,
    MOST_PIECES,
    UNKNOWN,
    Network,
    _thread_settings,
    load_network,
)
from tests.companion.training import PACKAGE

NETWORK = "clew_companion.crisis.network"
DOUBTFUL = "I can't see a reason to wake up again"
SURE = "The printer at the office has no paper"
STATEMENT = "I am going to kill myself tonight"


@pytest.fixture
def questions() -> list[str]:
    return []


@pytest.fixture
def fresh_readers() -> Iterator[None]:
    """The readers are chosen anew, and again afterwards."""
    for function in (classifier.default_scorer, classifier._bundled_reader):
        function.cache_clear()
    yield
    for function in (classifier.default_scorer, classifier._bundled_reader):
        function.cache_clear()


def reading_of(text: str) -> Reading:
    return read_message(text, load_lexicon())


def weights_margins(text: str) -> list[float]:
    return margins_of(score_features(features(reading_of(text)), load_weights()), load_weights().begins)


def with_network(questions: list[str], margins: Sequence[float]) -> classifier.MessageScorer:
    def levels(text: str) -> Sequence[float]:
        questions.append(text)
        return margins

    return combined_scorer(load_weights(), levels)


# When it is asked, and what it changes.


def test_the_network_is_asked_where_the_weights_doubt(questions: list[str]) -> None:
    judge_message_with(DOUBTFUL, [], with_network(questions, [0.0, 0.0, 0.0]))

    assert questions == [DOUBTFUL]


@pytest.mark.parametrize("message", [SURE, "Ich weiß nicht, ob sie mich vermissen würden"])
def test_it_is_not_asked_where_they_are_sure_or_in_another_language(
    questions: list[str], message: str
) -> None:
    judge_message_with(message, [], with_network(questions, [9.0, 9.0, 9.0]))

    assert questions == []


def test_it_can_raise_and_lower_what_the_weights_doubt(questions: list[str]) -> None:
    grave = judge_message_with(DOUBTFUL, [], with_network(questions, [12.0, 12.0, 12.0]))
    light = judge_message_with(DOUBTFUL, [], with_network(questions, [-12.0, -12.0, -12.0]))

    assert (grave.level >= 2, light.level) == (True, 0)


@pytest.mark.promise("A-08")
def test_it_takes_nothing_from_what_is_stated(questions: list[str]) -> None:
    low = with_network(questions, [-99.0, -99.0, -99.0])
    unsure = msgspec.structs.replace(load_weights(), tables={group: {} for group in load_weights().tables})
    by = combined_scorer(unsure, lambda _: [-99.0, -99.0, -99.0])

    assert (judge_message_with(STATEMENT, [], low).level, judge_message_with(STATEMENT, [], by).level) == (
        3,
        3,
    )


def test_both_count_alike() -> None:
    assert combine_scores([0.0, 2.0, 0.0, 7.0], [2.0, 2.0, -3.0]) == [1.0, 2.0, -1.5]


def test_a_question_is_decided_by_the_scores_of_level_1_and_of_risk() -> None:
    assert margins_of([10.0, 0.0, 5.0], [1.0, 2.0, 3.0]) == [2.0, -2.0, 2.0]


def test_it_is_asked_unless_the_weights_are_sure_that_there_is_no_danger() -> None:
    reading = reading_of(DOUBTFUL)

    assert [is_for_network(reading, [0, score]) for score in (HARMLESS_SCORE, -2.9, 0, 9)] == [
        False,
        True,
        True,
        True,
    ]


@pytest.mark.usefixtures("fresh_readers")
def test_the_network_is_loaded_with_the_first_message_that_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    count = itertools.count()
    network = load_network()

    def load() -> Network:
        next(count)
        return network

    monkeypatch.setattr(f"{NETWORK}.load_network", load)
    scorer = default_scorer()
    scorer(SURE, reading_of(SURE))
    loads_before = next(count)
    for text in (DOUBTFUL, DOUBTFUL + " and again", DOUBTFUL):
        scorer(text, reading_of(text))

    assert (loads_before, next(count)) == (0, 2)


def test_it_reads_with_one_thread_and_leaves_the_others_their_own() -> None:
    get_count, set_count = _thread_settings()
    counts: list[int] = []
    before = get_count()

    def note(self: Network, ids: Sequence[int]) -> list[float]:
        counts.append(get_count())
        return [0.0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Network, "_levels", note)
        load_network().levels(DOUBTFUL)

    assert (counts, get_count()) == ([1], before)
    set_count(before)


@pytest.mark.promise("A-08")
@pytest.mark.usefixtures("fresh_readers")
def test_without_numpy_the_weights_decide_and_a_warning_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    monkeypatch.delitem(sys.modules, NETWORK)
    with caplog.at_level(logging.WARNING, logger="clew"):
        margins = default_scorer()(DOUBTFUL, reading_of(DOUBTFUL))

    assert margins == weights_margins(DOUBTFUL)
    assert "pip install numpy" in caplog.text


@pytest.mark.promise("A-08")
@pytest.mark.usefixtures("fresh_readers")
@pytest.mark.parametrize("failure", [FileNotFoundError("network.npz"), ValueError("no array"), MemoryError()])
def test_a_network_that_cannot_be_read_hides_no_danger(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    def fails() -> Network:
        raise failure

    monkeypatch.setattr(f"{NETWORK}.load_network", fails)

    assert (judge_message(STATEMENT).level, default_scorer()(DOUBTFUL, reading_of(DOUBTFUL))) == (
        3,
        weights_margins(DOUBTFUL),
    )


@pytest.mark.promise("A-08")
def test_where_the_network_fails_the_weights_decide() -> None:
    def fails(text: str) -> Sequence[float]:
        raise FloatingPointError

    assert combined_scorer(load_weights(), fails)(DOUBTFUL, reading_of(DOUBTFUL)) == weights_margins(DOUBTFUL)


@pytest.mark.promise("A-08")
def test_a_message_too_long_for_it_is_left_to_the_weights(questions: list[str]) -> None:
    judge_message_with(f"{DOUBTFUL} {'and so on ' * 20}", [], with_network(questions, [0.0, 0.0, 0.0]))

    assert questions == []


@pytest.mark.promise("R-22")
def test_a_page_of_doubtful_sentences_holds_up_nobody() -> None:
    pages = [f"{' '.join(f'{DOUBTFUL}, number {page} {at}.' for at in range(300))}" for page in range(3)]
    judge_alone(pages[0])
    times = []
    for page in pages[1:]:
        began = time.thread_time()
        judge_alone(page)
        times.append(time.thread_time() - began)

    assert min(times) < 0.5


def test_the_weights_alone_ask_nobody() -> None:
    assert weights_scorer(load_weights())(DOUBTFUL, reading_of(DOUBTFUL)) == weights_margins(DOUBTFUL)


# What is remembered.


def test_a_message_is_read_once_and_no_word_of_it_is_kept() -> None:
    count = itertools.count()
    look_up = cache_by_hash(lambda _: next(count))

    assert [look_up("one"), look_up("two"), look_up("one")] == [0, 1, 0]
    assert not any("one" in repr(cell.cell_contents) for cell in look_up.__closure__ or ())


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifier, "CACHE_SIZE", 2)
    count = itertools.count()
    look_up = cache_by_hash(lambda _: next(count))
    for text in ("one", "two", "three"):
        look_up(text)

    assert (look_up("three"), look_up("one")) == (2, 3)


# The network itself.


def small(*pieces: str) -> Network:
    places = {piece: place for place, piece in enumerate([BEGIN, END, UNKNOWN, *pieces])}
    return Network(places, np.zeros((len(places), 4), np.int8), {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("unhappy", ["un", "##happy"]),
        ("Happy!", ["happy", "!"]),
        ("don't", ["don", "'", "t"]),
        ("héllo", [UNKNOWN]),
        ("", []),
    ],
)
def test_words_are_read_as_the_longest_pieces_that_are_known(text: str, words: list[str]) -> None:
    one = small("un", "##happy", "##hap", "happy", "!", "don", "'", "t")
    pieces = {place: piece for piece, place in one.pieces.items()}

    assert [pieces[place] for place in one.piece_ids(text)] == [BEGIN, *words, END]


def test_of_a_long_message_the_beginning_and_the_end_are_read() -> None:
    one = small("a", "b", "c")
    ids = one.piece_ids(f"a {'b ' * 1000} c")

    assert (len(ids), ids[1], ids[-2]) == (MOST_PIECES + 2, one.pieces["a"], one.pieces["c"])


@pytest.mark.parametrize("text", ["", " ", "\x00", "😢" * 50, "a" * 10_000, "\ud800", "ß ﬁ Ⅷ", "?!" * 200])
def test_the_network_answers_whatever_it_is_given(text: str) -> None:
    assert np.isfinite(load_network().levels(text)).all()


def test_it_always_says_the_same() -> None:
    assert load_network().levels(DOUBTFUL) == load_network().levels(DOUBTFUL)


def test_a_level_is_read_as_no_likelier_than_the_ones_below_it() -> None:
    one, two, three = load_network().levels("I have the pills beside me and nobody is home")

    assert one > two > three > -5


@pytest.mark.parametrize(
    ("graver", "lighter"),
    [
        ("I can't see a reason to wake up again", "I can't see a reason to wake up early again"),
        (
            "It would be kinder to them if I stopped being here",
            "It would be kinder to them if I stopped shouting",
        ),
        (
            "I found a home for the cat and labelled the keys. Everything is in order now",
            "I found a home for the kittens and labelled the jars. Everything is in order now",
        ),
    ],
)
def test_it_hears_what_the_same_words_mean_in_another_sentence(graver: str, lighter: str) -> None:
    assert load_network().levels(graver)[1] > load_network().levels(lighter)[1] + 1


def test_the_network_is_small() -> None:
    assert (PACKAGE / "network.npz").stat().st_size < 18_000_000


def test_the_floor_asks_both() -> None:
    weights = load_weights()
    scores = score_features(features(reading_of(DOUBTFUL)), weights)
    both = combine_scores(scores, load_network().levels(DOUBTFUL))

    assert judge_message(DOUBTFUL).risk == pytest.approx(both[1] - weights.together[1])
