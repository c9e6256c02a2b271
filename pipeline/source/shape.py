"""The input of the data source's tasks: the parts to read, and the form of the rows."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition

from ..worker import settle
from .columns import CORRUPT, check_types, corrupt_row, kernel_columns, to_spark
from .part_reader import Damage, Part, Rules, Work, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from .options import Options

_log = logging.getLogger(__name__)


class Parts(InputPartition):
    """The parts that one task reads, one after the other."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        super().__init__(None)
        self.parts = parts


@dataclass(frozen=True, slots=True)
class Shape:
    """The form of the rows: their columns as Spark's Arrow schema, and the rules for reading the
    files.
    """

    arrow: Any
    rules: Rules

    @classmethod
    def of(cls, schema: StructType, options: Options) -> Shape:
        """The shape for a schema of Spark's. Raises ValueError for an unknown or non-null
        column.
        """
        from pyspark.sql.pandas.types import to_arrow_schema

        names = check_types((f.name, f.dataType.simpleString()) for f in schema.fields)
        for field in schema.fields:
            if not field.nullable:
                raise ValueError(f"column {field.name} may be null: read it so")
        rules = Rules(
            kernel_columns(names),
            options.verify_crc,
            options.fail_on_data_loss,
            options.on_corrupt,
            options.raw_bodies,
        )
        return cls(to_arrow_schema(schema, timezone="UTC"), rules)

    def batches(self, parts: Sequence[Part], work: Work | None = None) -> Iterator[Any]:
        """Arrow batches of the parts' rows, exactly in Spark's schema."""
        settle()
        with_row = self.rules.on_corrupt == "row" and CORRUPT in self.arrow.names
        for part in parts:
            for found in read(part, self.rules, work):
                if not isinstance(found, Damage):
                    yield to_spark(found, self.arrow, part.store)
                elif with_row:
                    yield corrupt_row(self.arrow, part.store, found.start, found.why)
                else:
                    _log.warning("skipped damage: %s", found.why)
