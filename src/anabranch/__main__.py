"""`python -m anabranch`: the command line."""

from anabranch.cli.main import main

if __name__ == "__main__":
    main()
