"""What the tests share: stacks of real processes, faults, models to compare with, and files that code makes."""
