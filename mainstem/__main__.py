"""`python -m mainstem`: the same as the `mainstem` command."""

from mainstem.cli import main

if __name__ == "__main__":
    main()
