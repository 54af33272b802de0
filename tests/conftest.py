"""What all tests share."""

import signal

pytest_plugins = ["anabranch.testing.postgres"]

# A shell that runs the tests in the background has SIGINT ignored, and so would the programs that they interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
