"""`python -m omni_host` is `omni`."""

from omni_host.cli import main

if __name__ == "__main__":
    main()
