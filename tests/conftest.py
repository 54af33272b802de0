"""What all tests share."""

pytest_plugins = ["anabranch.testing.postgres"]
