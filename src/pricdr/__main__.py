"""``python -m pricdr``: the command line."""

from pricdr.cli import main

if __name__ == "__main__":
    main()
