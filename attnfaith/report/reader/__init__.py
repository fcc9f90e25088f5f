"""The reader of single texts in the report: their words under two rankings, and what each erasure does."""

from attnfaith.report.reader.section import section

__all__ = ["section"]
