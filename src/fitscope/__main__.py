"""`python -m fitscope`, the same as the `fitscope` command."""

from fitscope.cli import main

if __name__ == "__main__":
    main()
