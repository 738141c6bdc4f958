"""`python -m dagster_sparkscale`: the command line, where its script is not on the PATH."""

from dagster_sparkscale.cli.main import main

if __name__ == "__main__":
    main()
