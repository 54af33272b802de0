"""What the author of a plugin needs for tests: a context for handlers, a PostgreSQL server, and a suite for stores."""

from anabranch.testing.context import FakeContext

__all__ = ["FakeContext"]
