"""What goes to PostgreSQL: addresses, arrays, words, and what its errors become."""

from __future__ import annotations

from uuid import UUID

import psycopg
import pytest
from psycopg.types.numeric import Int8
from psycopg_pool import PoolTimeout

from clew.core.errors import (
    InvalidArgument,
    NotMigrated,
    StorageError,
    StorageFull,
    StoreBusy,
    StoreReadOnly,
    StoreUnavailable,
)
from clew.stores.postgres.answers import LONGEST_WORD, index_word
from clew.stores.postgres.arrays import BlobArray, IntegerArray, KeyArray, TextArray, pack_values
from clew.stores.postgres.connections import number_placeholders
from clew.stores.postgres.errors import ConnectionLost, StaleWrite, ThreadGone, TryAgain, translation
from clew.stores.postgres.pool import parse_url
from clew.stores.postgres.row_writes import MOST_WORD_BYTES, _text_vector
from clew.stores.postgres.schema import MIGRATIONS, NEWEST, QUERIES
from clew.stores.queries import parse_queries


class TestAddress:
    def test_our_parameters_are_ours_and_the_rest_is_libpqs(self) -> None:
        address = parse_url("postgresql://me:pass%40@host:1/db?pool_max=3&sslmode=require&pooler=transaction")

        assert address.conninfo == "postgresql://me:pass%40@host:1/db?sslmode=require"
        assert (address.pool_min, address.pool_max, address.prepares) == (1, 3, False)

    def test_without_parameters_statements_are_prepared(self) -> None:
        assert parse_url("postgresql://host/db").prepares

    @pytest.mark.parametrize(
        "parameters",
        [
            "pool_max=0",
            "pool_max=x",
            "pool_min=5&pool_max=2",
            "pooler=session",
            "pool_timeout=soon",
            "answer_timeout=0",
            "answer_timeout=inf",
            "answer_timeout=nan",
        ],
    )
    def test_what_makes_no_sense_is_refused(self, parameters: str) -> None:
        with pytest.raises(InvalidArgument):
            parse_url(f"postgresql://host/db?{parameters}")


class TestArrays:
    def test_an_array_has_a_header_and_a_length_before_each_value(self) -> None:
        header = bytes.fromhex("00000001 00000001 00000011 00000003 00000001")

        assert (
            pack_values([BlobArray([b"ab", None, b""])])[0]
            == header + b"\0\0\0\2ab" + b"\xff\xff\xff\xff" + b"\0\0\0\0"
        )

    @pytest.mark.parametrize("empty", [BlobArray(), TextArray(), IntegerArray(), KeyArray()])
    def test_an_empty_array_has_no_dimension(self, empty: object) -> None:
        assert (pack_values([empty])[0] or b"")[:4] == bytes(4)

    def test_values_are_sent_in_binary(self) -> None:
        key = UUID(int=7)
        values = pack_values([None, "é", b"\0", Int8(-1), True, key])

        assert values == [None, "é".encode(), b"\0", b"\xff" * 8, b"\1", key.bytes]

    def test_a_type_that_is_not_known_is_not_guessed(self) -> None:
        with pytest.raises(KeyError):
            pack_values([1.5])


class TestWords:
    def test_a_vector_has_each_word_once_with_its_places(self) -> None:
        assert _text_vector(["to", "be", "or", "not", "to", "be"]) == "'to':1,5 'be':2,6 'or':3 'not':4"

    def test_a_long_word_is_known_by_its_hash(self) -> None:
        assert index_word("short") == "'short'"
        assert len(index_word("x" * (LONGEST_WORD + 1))) == 66

    def test_a_vector_stays_below_what_the_server_takes(self) -> None:
        words = [f"word{number}" for number in range(200_000)]
        vector = _text_vector(words)

        assert len(vector) < 2 * MOST_WORD_BYTES
        assert vector.startswith("'word0':1 ")


class TestQueries:
    def test_every_query_sends_its_values_in_binary(self) -> None:
        assert [name for name, text in QUERIES.items() if b"%s" in text or b"%t" in text] == []

    def test_places_are_counted_from_one(self) -> None:
        assert number_placeholders(b"SELECT f(%b::text, %b::bytea)") == b"SELECT f($1::text, $2::bytea)"

    def test_migrations_are_numbered_without_a_gap(self) -> None:
        assert list(MIGRATIONS) == list(range(1, NEWEST + 1))

    def test_names_are_there_once(self) -> None:
        assert len(parse_queries("-- name: a\nSELECT 1\n-- name: b\nSELECT 2;")) == 2


def error(state: str, text: str = "the server said no") -> psycopg.Error:
    """What psycopg raises for an SQLSTATE."""
    kind = psycopg.errors.lookup(state)
    return kind(text)


class TestErrors:
    @pytest.mark.parametrize(
        ("state", "becomes"),
        [
            ("40001", TryAgain),
            ("40P01", TryAgain),
            ("57P01", ConnectionLost),
            ("08006", ConnectionLost),
            ("53100", StorageFull),
            ("25006", StoreReadOnly),
            ("57014", StoreBusy),
            ("42883", NotMigrated),
            ("22021", InvalidArgument),
            ("54000", InvalidArgument),
            ("42703", StorageError),
        ],
    )
    def test_each_state_has_a_meaning(self, state: str, becomes: type[Exception]) -> None:
        assert type(translation(error(state))) is becomes

    @pytest.mark.parametrize(("state", "becomes"), [("CW001", StaleWrite), ("CW002", ThreadGone)])
    def test_our_own_states_are_known(self, state: str, becomes: type[Exception]) -> None:
        exception = psycopg.OperationalError("advance")
        exception.sqlstate = state

        assert type(translation(exception)) is becomes

    def test_no_state_means_no_connection(self) -> None:
        assert type(translation(psycopg.OperationalError("server closed the connection"))) is ConnectionLost

    def test_a_full_pool_is_unavailable(self) -> None:
        assert type(translation(PoolTimeout("after 30 sec"))) is StoreUnavailable

    def test_a_row_of_somebody_else_is_refused_in_words(self) -> None:
        refusal = translation(
            error("42501", 'new row violates row-level security policy for table "records"')
        )

        assert isinstance(refusal, InvalidArgument)
