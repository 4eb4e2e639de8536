"""``python -m headway``: the command, where its script is not on the path."""

from headway.commands import main

if __name__ == "__main__":
    main()
