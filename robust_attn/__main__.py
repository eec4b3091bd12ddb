"""`python -m robust_attn`."""

from robust_attn.cli import main

if __name__ == "__main__":
    main()
