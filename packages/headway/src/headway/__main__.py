"""``python -m headway`` runs the command line where the ``headway`` script is not on the path."""

from headway.commands import main

if __name__ == "__main__":
    main()
